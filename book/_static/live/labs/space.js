// Laboratory: a Gaussian cloud in space under a random layer of softmax attention. It blows up, rests, or grows for ever.
(() => {
  "use strict";
  const live = window.attnflow;
  const CHUNK = 0.04, LARGEST = 1e5, MOST = 64, END = 40, SEEN = 1e-5;

  live.labs.space = (root) => {
    const start = (v, s) => {
      const draw = live.scaled(live.gaussians(9, 3, 100 + v.seed), 1 / Math.sqrt(3));
      s.layer = { Q: draw.slice(0, 3), K: draw.slice(3, 6), V: live.scaled(draw.slice(6, 9), v.size) };
      s.A = live.times(live.transpose(s.layer.K), s.layer.Q);
      const S = live.identity(3);
      s.path = [{ t: 0, S, values: [1, 1, 1], axis: null }];
      s.fate = "";
      s.turn = s.turn || { yaw: 0.5, tilt: 0.35 };
      // the cone <u, Au> = 0 on the sphere, as points where the form changes sign
      s.cone = [];
      for (let i = 1; i < 90; i++) for (let j = 0; j < 180; j++) {
        const at = (a, b) => [Math.sin(a * Math.PI / 90) * Math.cos(b * Math.PI / 90), Math.sin(a * Math.PI / 90) * Math.sin(b * Math.PI / 90), Math.cos(a * Math.PI / 90)];
        const form = (u) => live.dot(u, live.mapped(s.A, [u])[0]), u = at(i, j);
        if (form(u) * form(at(i + 1, j)) < 0 || form(u) * form(at(i, j + 1)) < 0) s.cone.push(u);
      }
    };
    const last = (s) => s.path[s.path.length - 1];
    // of the long axis, over the last tenth of the time
    const rate = (s) => { const b = last(s), a = s.path.find((p) => p.t >= 0.9 * b.t); return b.t > a.t ? Math.log(b.values[2] / a.values[2]) / (2 * (b.t - a.t)) : NaN; };
    live.lab(root, "space", {
      controls: {
        seed: { label: "random layer", min: 0, max: 99, step: 1, value: 3 },
        size: { label: "scale of V", min: 0.5, max: 2, step: 0.05, value: 1 },
      },
      panels: [
        {
          title: "the three variances", ratio: 0.86, label: "The three eigenvalues of the covariance over time, logarithmic.",
          legend: [["largest", "orange"], ["middle", "blue"], ["smallest, while it can be told from rounding", "green"]],
          draw: (view, v, s) => {
            const end = s.fate === "blow-up" ? Math.max(1, 1.15 * last(s).t) : END, plot = live.plot(view, { x: [0, end], y: [1e-4, 1e5], ylog: true, xlabel: "time t" });
            ["green", "blue", "orange"].forEach((colour, k) => plot.line(s.path.map((p) => [p.t, p.values[k] > SEEN * p.values[2] ? p.values[k] : NaN]), { colour: view.colours[colour], width: 2.2 }));
            return plot;
          },
        },
        {
          title: "where the long axis points", ratio: 0.86, label: "The sphere of directions, with the path of the long axis and the cone on which the quadratic push vanishes.",
          turned: (dx, dy, v, s) => { s.turn.yaw += dx; s.turn.tilt += dy; },
          legend: [["the long axis, and where it came from", "orange", "dot"], ["the cone ⟨u, Au⟩ = 0", "purple", "dot"]],
          draw: (view, v, s) => {
            const way = s.path.filter((p) => p.axis).map((p) => p.axis), ends = way.length ? [way[way.length - 1], way[way.length - 1].map((c) => -c)] : [];
            live.globe(view, [...s.cone, ...ends], {
              turn: s.turn, tails: [way, way.map((u) => u.map((c) => -c))],
              colour: (i) => (i < s.cone.length ? view.colours.purple : view.colours.orange), size: (i) => (i < s.cone.length ? 2.6 : 7.5),
            });
          },
        },
      ],
      start,
      work: (v, s) => {
        const begun = performance.now();
        while (!s.fate && performance.now() - begun < 14) {
          const from = last(s), flow = live.covarianceFlow("softmax", from.S, s.layer, CHUNK, 1e-6, Infinity, MOST), reached = flow.times[flow.times.length - 1];
          flow.covs.slice(1).filter((_, k, all) => k === all.length - 1).forEach((S) => {
            const k = flow.covs.indexOf(S), found = live.symmetricEigen(S), before = last(s).axis, u = found.vectors[2];
            if (found.values[2] <= 10 * LARGEST) s.path.push({ t: from.t + flow.times[k], S, values: found.values, axis: before && live.dot(before, u) < 0 ? u.map((c) => -c) : u });
          });
          if (flow.blowUp < Infinity) { s.fate = "blow-up"; s.when = from.t + flow.blowUp; }
          else if (reached < CHUNK) s.fate = "stiff";
          else if (last(s).values[2] > LARGEST) s.fate = "grown";
          else if (last(s).t >= END - 1e-9) s.fate = "end";
        }
        return !s.fate;
      },
      say: (v, s) => {
        const now = last(s), r = rate(s), cone = now.values[2] > 50 ? live.coneOf(s.A, s.layer.V, now.S) : null;
        if (s.fate === "blow-up") return `This layer blows up, at t = ${live.shown(s.when, 4)}. Try other layers: some never blow up and never rest.`;
        const words = `t = ${now.t.toFixed(1)}: largest variance ${live.shown(now.values[2])}`;
        if (!s.fate) return words + " …";
        if (cone && r > 0.01) return `${words}. No blow-up: the long axis grows at the rate ${live.shown(r)}, lies ${live.shown(Math.abs(cone.first), 2)} from the cone, and the formula gives the rate ${live.shown(cone.exponent)}.`;
        return `${words}, changing at the rate ${live.shown(r, 2)}: this cloud ${Math.abs(r) < 0.01 ? "comes to rest" : "has not decided yet"}. Try other layers.`;
      },
    });
  };
})();
