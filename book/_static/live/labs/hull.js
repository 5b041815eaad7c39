// Laboratory: V by its eigenvalues and eigenvectors, and the shape that rescaled tokens reach.
(() => {
  "use strict";
  const live = window.attnflow;
  const STEPS = 240, NEAR = 0.06;

  live.labs.hull = (root) => {
    const value = (v) => {
      const a = v.angle * Math.PI / 180, U = [[1, Math.cos(a)], [0, Math.sin(a)]];
      return live.times(live.times(U, live.diagonal([v.first, v.second])), live.inverse(U));
    };
    const layer = (v) => ({ Q: live.identity(2), K: live.identity(2), V: value(v), eps: v.eps });
    const kind = (v) => (v.kind === "softmax" ? "softmax" : "sinkhorn");
    const end = (v) => 5.5 / Math.max(v.first, v.second, 0.5);
    const start = (v, s) => {
      s.start = v.tokens && v.tokens.length === v.n ? v.tokens : live.scaled(live.gaussians(v.n, 2, v.seed), 1.1);
      s.path = [s.start];
      s.h = end(v) / STEPS;
    };
    const now = (v, s) => s.path[Math.min(Math.round(v.part / 100 * STEPS), s.path.length - 1)];
    const groups = (points) => {
      let count = 0;
      const left = points.slice();
      while (left.length) {
        const grown = [left.pop()];
        count++;
        while (grown.length) {
          const here = grown.pop();
          for (let k = left.length - 1; k >= 0; k--) if (live.squaredDistance(here, left[k]) < NEAR * NEAR) grown.push(...left.splice(k, 1));
        }
      }
      return count;
    };
    const along = (v) => live.leftEigenvector(value(v), Math.max(v.first, v.second));
    const dominated = (v) => v.first !== v.second && Math.max(v.first, v.second) > 0;
    live.lab(root, "hull", {
      auto: true, loop: true,
      controls: {
        first: { label: "λ₁, eigenvalue of V", min: -1, max: 1.5, step: 0.05, value: 1 },
        second: { label: "λ₂, eigenvalue of V", min: -1, max: 1.5, step: 0.05, value: 1 },
        angle: { label: "angle of vectors, °", min: 20, max: 160, step: 5, value: 90 },
        kind: { label: "attention", choices: ["softmax", "Sinkhorn"], value: "softmax" },
        eps: { label: "ε of Sinkhorn", min: 0.05, max: 1, value: 0.2, log: true, when: { kind: "Sinkhorn" } },
        n: { label: "tokens n", min: 4, max: 32, step: 1, value: 20 },
        seed: { label: "start", min: 0, max: 99, step: 1, value: 2 },
        part: { label: "time, % of the way", min: 0, max: 100, step: 1, value: 100, words: (p) => String(Math.round(p)) },
        tokens: { points: true },
      },
      panels: [
        {
          title: "rescaled tokens: drag a start", ratio: 0.92,
          label: "Rescaled tokens in the plane, where they started, and the convex hulls of both.",
          handles: (v, s) => s.start,
          moved: (i, point, v, s) => { v.tokens = s.start.slice(); v.tokens[i] = point; start(v, s); },
          legend: [["tokens at time t", "blue", "dot"], ["where they started", "grey", "dot"], ["hull at the start", "grey", "dash"], ["hull at time t", "orange"]],
          draw: (view, v, s) => {
            const z = now(v, s), reach = 1.1 * Math.max(...s.start.flat().map(Math.abs), 2), plot = live.plot(view, { x: [-reach, reach], y: [-reach, reach], equal: true });
            if (dominated(v) && v.kind === "softmax") {
              const u = along(v), across = [-u[1], u[0]], levels = [];
              z.map((p) => live.dot(p, u)).sort((a, b) => a - b).forEach((l) => { if (!levels.length || l - levels[levels.length - 1] > NEAR) levels.push(l); });
              if (levels.length <= 3) levels.forEach((l) => plot.line([-9, 9].map((r) => [l * u[0] + r * across[0], l * u[1] + r * across[1]]), { colour: view.colours.green, width: 6, alpha: 0.25 }));
            }
            plot.line(live.convexHull(s.start).map((i) => s.start[i]), { colour: view.colours.grey, dash: [5, 4], closed: true, width: 1.2 });
            plot.line(live.convexHull(z).map((i) => z[i]), { colour: view.colours.orange, closed: true, fill: view.colours.orange, fillAlpha: 0.12, width: 2 });
            s.start.forEach((p, i) => plot.line([...s.path.filter((_, k) => k % 6 === 0 && k <= v.part / 100 * STEPS).map((step) => step[i]), z[i]], { colour: view.colours.grey, width: 1, alpha: 0.55 }));
            plot.dots(s.start, { colour: view.colours.ground, size: 3.5, rim: view.colours.grey });
            plot.dots(z, { colour: view.colours.blue, size: 5.5, rim: view.colours.ground });
            return plot;
          },
        },
        {
          title: "along the dominant left eigenvector of V", ratio: 0.82,
          label: "The projection of every token on the dominant left eigenvector of V over time.",
          legend: [["a token: if one eigenvalue dominates, at most three levels remain", "blue"]],
          draw: (view, v, s) => {
            const u = along(v), reach = 1.1 * Math.max(...s.start.map((p) => Math.abs(live.dot(p, u))), 0.5), plot = live.plot(view, { x: [0, end(v)], y: [-reach, reach], xlabel: "time t", left: 36 });
            s.start.forEach((_, i) => plot.line(s.path.filter((_, k) => k % 2 === 0).map((step, k) => [2 * k * s.h, live.dot(step[i], u)]), { colour: view.colours.blue, width: 1.3, alpha: 0.75 }));
            const t = v.part / 100 * end(v);
            plot.line([[t, -reach], [t, reach]], { width: 1, alpha: 0.7 });
            return plot;
          },
        },
      ],
      start,
      rewind: (v) => { v.part = 0; },
      atEnd: (v) => v.part >= 100,
      changed: (key, v, s) => { if (key === "seed" || key === "n") v.tokens = null; if (key !== "part") start(v, s); },
      work: (v, s) => {
        const begun = performance.now();
        while (s.path.length <= STEPS && performance.now() - begun < 15) {
          const k = s.path.length - 1;
          s.path.push(live.rescaledStep(kind(v), s.path[k], k * s.h, layer(v), s.h));
        }
        return s.path.length <= STEPS;
      },
      frame: (seconds, v, s) => { v.part = Math.min(100, v.part + 16 * seconds); s.show(); return v.part < 100; },
      say: (v, s) => {
        const z = now(v, s), u = along(v), places = groups(z), levels = groups(z.map((p) => [live.dot(p, u)]));
        const shape = v.kind !== "softmax" ? "Sinkhorn: tokens separate and freeze, there is no polytope."
          : v.first === v.second && v.first > 0 ? "V is a multiple of the identity: tokens go to the corners of a polytope."
          : dominated(v) ? "One eigenvalue dominates: tokens end on at most three parallel lines (green)."
          : "No eigenvalue is positive: rescaled tokens may run away.";
        return `t = ${(v.part / 100 * end(v)).toFixed(2)}: ${places} places, ${levels} levels. ${shape}`;
      },
    });
  };
})();
