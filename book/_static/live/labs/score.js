// Laboratory: draw a density by its modes, and see the score that one layer of attention estimates from samples.
(() => {
  "use strict";
  const live = window.attnflow;

  live.labs.score = (root) => {
    const MODES = [[-2.2, 0.35], [0.6, 0.35], [2.8, 0.3]], REACH = 5.5;
    const start = (v, s) => {
      s.modes = v.modes && v.modes.length === 3 ? v.modes : MODES;
      const total = s.modes.reduce((sum, m) => sum + Math.max(m[1], 0.02), 0);
      s.mix = { weights: s.modes.map((m) => Math.max(m[1], 0.02) / total), means: s.modes.map((m) => m[0]), vars: s.modes.map(() => v.width * v.width) };
      s.total = total;
      s.grid = live.lineGrid(s.mix, Math.min(Math.sqrt(v.eps), v.width) / 3, 7);
      s.clean = live.scoreEstimate(s.grid.x, v.eps, s.grid.weights);
      s.sample = live.mixtureSample(s.mix, v.n, v.seed + 1);
      s.noisy = live.scoreEstimate(s.sample, v.eps);
      const half = (x) => live.mixtureScore(s.mix, x).map((b) => b / 2), exact = half(s.grid.x), at = half(s.sample);
      s.bias = Math.sqrt(s.clean.reduce((sum, b, i) => sum + s.grid.weights[i] * (b - exact[i]) ** 2, 0));
      s.error = Math.sqrt(s.noisy.reduce((sum, b, i) => sum + (b - at[i]) ** 2, 0) / v.n);
      s.size = Math.sqrt(exact.reduce((sum, b, i) => sum + s.grid.weights[i] * b * b, 0));
      s.exact = s.grid.x.map((x, i) => [x, exact[i]]);
    };
    const peak = (s, m) => live.mixtureDensity(s.mix, [m])[0];
    live.lab(root, "score", {
      controls: {
        eps: { label: "temperature ε", min: 0.01, max: 1, value: 0.1, log: true },
        n: { label: "samples n", min: 30, max: 1000, value: 400, log: true },
        width: { label: "width of a mode", min: 0.3, max: 1.2, step: 0.05, value: 0.7 },
        seed: { label: "sample", min: 0, max: 99, step: 1, value: 0 },
        modes: { points: true },
      },
      panels: [
        {
          title: "the density: drag its modes", ratio: 0.72, label: "A density with three modes, whose places and heights can be dragged, and the samples from it.",
          handles: (v, s) => s.modes.map((m) => [m[0], peak(s, m[0])]),
          moved: (i, [x, y], v, s) => {
            v.modes = s.modes.map((m) => m.slice());
            const now = peak(s, s.modes[i][0]);
            v.modes[i] = [Math.max(-4, Math.min(4, x)), Math.max(0.03, Math.min(1, s.modes[i][1] + 1.2 * (y - now)))];
            start(v, s);
          },
          legend: [["density", "blue"], ["samples", "grey"]],
          draw: (view, v, s) => {
            const plot = live.plot(view, { x: [-REACH, REACH], y: [-0.04, 0.5], left: 36 });
            const xs = Array.from({ length: 221 }, (_, k) => -REACH + k * REACH / 110), rho = live.mixtureDensity(s.mix, xs);
            plot.line(xs.map((x, i) => [x, rho[i]]), { colour: view.colours.blue, width: 2.2, fill: view.colours.blue, fillAlpha: 0.1 });
            s.sample.forEach((x) => plot.line([[x, -0.035], [x, -0.008]], { colour: view.colours.grey, width: 1, alpha: 0.6 }));
            plot.dots(s.modes.map((m) => [m[0], peak(s, m[0])]), { colour: view.colours.ground, size: 7, rim: view.colours.blue, rimWidth: 2.5 });
            return plot;
          },
        },
        {
          title: "what attention knows: (B(x) - x) / ε", ratio: 0.72, label: "Half the score of the density, attention's estimate without noise, and its estimate from samples as dots.",
          legend: [["half the score", "ink"], ["attention, without noise", "orange", "dash"], ["attention, from the samples", "blue", "dot"]],
          draw: (view, v, s) => {
            const most = 1.25 * Math.max(1.5, ...s.exact.filter(([x], i) => s.grid.rho[i] > 2e-3).map((p) => Math.abs(p[1])));
            const plot = live.plot(view, { x: [-REACH, REACH], y: [-most, most], xlabel: "x", left: 36 });
            plot.dots(s.sample.map((x, i) => [x, s.noisy[i]]), { colour: view.colours.blue, size: 2.6, alpha: 0.55 });
            plot.line(s.exact, { width: 2.4 });
            plot.line(s.grid.x.map((x, i) => [x, s.clean[i]]), { colour: view.colours.orange, width: 2.2, dash: [7, 5] });
            return plot;
          },
        },
      ],
      start: (v, s) => { v.n = Math.round(v.n); start(v, s); },
      changed: (key, v, s) => { v.n = Math.round(v.n); start(v, s); },
      say: (v, s) => {
        const crowd = Math.sqrt(v.eps) * v.n * Math.max(...live.mixtureDensity(s.mix, s.mix.means));
        return `Root mean square error: ${live.shown(s.error, 2)} from ${v.n} samples, ${live.shown(s.bias, 2)} without noise; the score itself is ${live.shown(s.size, 2)}. `
          + (crowd < 3 ? "The samples are too few for this ε: each sees little but itself." : s.error > 2 * s.bias ? "Noise dominates: raise ε or n." : "Bias dominates: a smaller ε helps.");
      },
    });
  };
})();
