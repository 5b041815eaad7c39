// Laboratory: a Gaussian cloud under three kinds of attention, V given by its entries, with the time of blow-up.
(() => {
  "use strict";
  const live = window.attnflow;
  const KINDS = [["softmax", "blue"], ["L2", "orange"], ["sinkhorn", "green"]], END = 2;

  live.labs.ellipse = (root) => {
    const layer = (v) => {
      const size = Math.sqrt(Math.abs(v.a)), K = live.scaled(live.identity(2), size);
      return { Q: live.scaled(K, v.a < 0 ? -1 : 1), K, V: [[v.v11, v.v12], [v.v21, v.v22]], eps: v.eps };
    };
    const start = (v, s) => {
      s.spokes = v.spokes && v.spokes.length === 2 ? v.spokes : [[1, 0.3], [0, 0.64]];
      const F = live.transpose(s.spokes);
      s.S = live.plus(live.times(F, live.transpose(F)), live.identity(2), 1e-6);
      s.paths = {};
      KINDS.forEach(([kind]) => {
        const path = live.covarianceFlow(kind, s.S, layer(v), END, 1e-7, END / 40);
        path.spread = path.covs.map((S) => live.symmetricEigen(S).values);
        s.paths[kind] = path;
      });
    };
    const at = (path, t) => {
      const k = path.times.findIndex((u) => u >= t);
      if (k < 0) return null;
      if (k === 0) return path.covs[0];
      const part = (t - path.times[k - 1]) / (path.times[k] - path.times[k - 1]);
      return live.plus(live.scaled(path.covs[k - 1], 1 - part), path.covs[k], part);
    };
    live.lab(root, "ellipse", {
      loop: true,
      controls: {
        v11: { label: "V₁₁", min: -1.5, max: 1.5, step: 0.1, value: 1 },
        v12: { label: "V₁₂", min: -1.5, max: 1.5, step: 0.1, value: -0.8 },
        v21: { label: "V₂₁", min: -1.5, max: 1.5, step: 0.1, value: 0.8 },
        v22: { label: "V₂₂", min: -1.5, max: 1.5, step: 0.1, value: 0.6 },
        a: { label: "a, with scores A = a I", min: -1.5, max: 1.5, step: 0.1, value: 0.8 },
        eps: { label: "ε of Sinkhorn", min: 0.2, max: 4, value: 0.5, log: true },
        t: { label: "time t", min: 0, max: END, step: 0.01, value: 0.5 },
        spokes: { points: true },
      },
      panels: [
        {
          title: "the cloud at time t: drag its two spokes", ratio: 0.92, label: "Ellipses of the Gaussian cloud at the start and at time t under softmax, L2 and Sinkhorn attention.",
          handles: (v, s) => s.spokes,
          moved: (i, point, v, s) => { v.spokes = s.spokes.slice(); v.spokes[i] = point; start(v, s); },
          legend: [["at the start", "ink", "dash"], ["softmax", "blue"], ["L2", "orange"], ["Sinkhorn", "green"]],
          draw: (view, v, s) => {
            const reach = 3.2, plot = live.plot(view, { x: [-reach, reach], y: [-reach, reach], equal: true });
            KINDS.forEach(([kind, colour]) => {
              const S = at(s.paths[kind], v.t);
              if (S) plot.line(live.ellipse(S, 1), { colour: view.colours[colour], width: 2.2, fill: view.colours[colour], fillAlpha: 0.08 });
            });
            plot.line(live.ellipse(s.S, 1), { dash: [5, 4], width: 1.4 });
            s.spokes.forEach((p) => plot.line([[0, 0], p], { width: 1, alpha: 0.6 }));
            plot.dots(s.spokes, { colour: view.colours.ground, size: 6, rim: view.colours.ink, rimWidth: 2 });
            return plot;
          },
        },
        {
          title: "largest and smallest variance", ratio: 0.8, label: "The largest and smallest eigenvalue of the covariance over time, logarithmic, for three kinds of attention.",
          legend: [["softmax", "blue"], ["L2", "orange"], ["Sinkhorn", "green"], ["blow-up of softmax", "red", "dash"]],
          draw: (view, v, s) => {
            const plot = live.plot(view, { x: [0, END], y: [1e-2, 1e3], ylog: true, xlabel: "time t" });
            KINDS.forEach(([kind, colour]) => [0, 1].forEach((k) => plot.line(s.paths[kind].times.map((t, i) => [t, Math.max(s.paths[kind].spread[i][k], 1e-9)]), { colour: view.colours[colour], width: 2, alpha: k ? 1 : 0.6 })));
            const T = s.paths.softmax.blowUp;
            if (T <= END) { plot.line([[T, 1e-2], [T, 1e3]], { colour: view.colours.red, dash: [5, 4] }); plot.text(T, 600, `T* = ${live.shown(T)}`, { colour: view.colours.red, dx: T > 0.7 * END ? -6 : 6, align: T > 0.7 * END ? "right" : "left" }); }
            plot.line([[v.t, 1e-2], [v.t, 1e3]], { width: 1, alpha: 0.7 });
            return plot;
          },
        },
      ],
      start,
      rewind: (v) => { v.t = 0; },
      atEnd: (v) => v.t >= END,
      changed: (key, v, s) => { if (key !== "t") start(v, s); },
      frame: (seconds, v, s) => { v.t = Math.min(END, v.t + 0.35 * seconds); s.show(); return v.t < END; },
      say: (v, s) => {
        const T = s.paths.softmax.blowUp, words = KINDS.map(([kind]) => { const S = at(s.paths[kind], v.t); return S ? live.shown(live.symmetricEigen(S).values[1]) : "gone"; });
        return `t = ${v.t.toFixed(2)}: largest variance ${words[0]} under softmax, ${words[1]} under L2, ${words[2]} under Sinkhorn. ` + (T < Infinity ? `Softmax blows up at T* = ${live.shown(T, 5)}.` : `No blow-up before t = ${END}.`);
      },
    });
  };
})();
