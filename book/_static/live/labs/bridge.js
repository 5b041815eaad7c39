// Laboratory: where a particle is a time eps later, by the Schrödinger bridge and by the Langevin diffusion.
(() => {
  "use strict";
  const live = window.attnflow;

  live.labs.bridge = (root) => {
    const start = (v, s) => {
      const mix = { weights: [0.5, 0.5], means: [-v.apart, v.apart], vars: [v.variance, v.variance] }, deviation = Math.sqrt(v.variance);
      const bend = v.variance / Math.max(v.apart, deviation), h = Math.min(Math.sqrt(v.eps), bend) / 3;
      s.mix = mix;
      s.grid = live.evenGrid(mix, h, 6);
      s.langevin = live.langevinPair(mix, v.eps, s.grid);
      s.bridge = live.bridgePair(v.eps, s.grid);
      s.J = live.pairDivergence(s.langevin, s.bridge, v.eps, s.grid);
      const U = live.mixturePotential(mix, s.grid.x), curved = live.gridDerivative(live.gridDerivative(U, h), h);
      s.theory = v.eps ** 4 / 72 * curved.reduce((sum, c, i) => sum + c * c * s.grid.rho[i] * h, 0);
      const n = s.grid.x.length, top = Math.max(...s.bridge);
      s.edge = v.apart + 3 * deviation;
      s.shown = s.grid.x.map((x, i) => i).filter((i) => Math.abs(s.grid.x[i]) <= s.edge);
      s.image = live.image(s.shown.length, s.shown.length, (i, j) => Math.sqrt(s.bridge[s.shown[i] * n + s.shown[j]] / top));
    };
    const row = (s, v) => s.grid.x.reduce((best, x, i) => (Math.abs(x - v.x) < Math.abs(s.grid.x[best] - v.x) ? i : best), 0);
    const law = (s, pair, i) => { const n = s.grid.x.length; return s.grid.x.map((y, j) => [y, pair[i * n + j] / s.grid.rho[i]]); };
    live.lab(root, "bridge", {
      columns: 3,
      controls: {
        eps: { label: "ε, the time between", min: 0.1, max: 3, value: 0.6, log: true },
        apart: { label: "modes at ±", min: 0, max: 2.5, step: 0.05, value: 1.5 },
        variance: { label: "variance of a mode", min: 0.4, max: 2, step: 0.05, value: 0.7 },
        x: { label: "x, the place now", min: -4, max: 4, step: 0.05, value: 0.8 },
      },
      panels: [
        {
          title: "the bridge's joint law", ratio: 1, label: "The joint law of now and later under the bridge, with a line at the particle's place.", anywhere: true,
          handles: (v) => [[v.x, v.x]],
          moved: (_, [x], v, s) => { v.x = Number(Math.max(-4, Math.min(4, x)).toFixed(2)); s.show(); },
          draw: (view, v, s) => {
            const plot = live.plot(view, { x: [-s.edge, s.edge], y: [-s.edge, s.edge], xlabel: "now x", ylabel: "later y", left: 36 }), { c } = view, box = plot.box;
            c.imageSmoothingEnabled = true;
            c.drawImage(s.image, box.left, box.top, box.width, box.height);
            plot.line([[v.x, -s.edge], [v.x, s.edge]], { colour: "#fff", width: 1.6 });
            plot.dots([[v.x, v.x]], { colour: view.colours.red, size: 6, rim: "#fff" });
            return plot;
          },
        },
        {
          title: "where it is later", ratio: 1, label: "The law of the place later, given now, by the bridge and by the Langevin diffusion.",
          legend: [["bridge", "blue"], ["Langevin", "orange", "dash"]],
          draw: (view, v, s) => {
            const i = row(s, v), one = law(s, s.bridge, i), two = law(s, s.langevin, i), plot = live.plot(view, { x: [-s.edge, s.edge], y: [0, 1.12 * Math.max(...one.map((p) => p[1]))], xlabel: "later y", left: 36 });
            plot.line(one, { colour: view.colours.blue, width: 2.4 });
            plot.line(two, { colour: view.colours.orange, width: 2.4, dash: [7, 5] });
            plot.line([[s.grid.x[i], 0], [s.grid.x[i], 99]], { colour: view.colours.red, width: 1 });
            return plot;
          },
        },
        {
          title: "their difference, magnified", ratio: 1, label: "Langevin's law minus the bridge's law, magnified to fill the panel.",
          draw: (view, v, s) => {
            const i = row(s, v), two = law(s, s.langevin, i), gap = law(s, s.bridge, i).map((p, j) => [p[0], two[j][1] - p[1]]), most = Math.max(...gap.map((p) => Math.abs(p[1])), 1e-15);
            const plot = live.plot(view, { x: [-s.edge, s.edge], y: [-1.15 * most, 1.15 * most], xlabel: "later y", left: 62 });
            plot.line([[-s.edge, 0], [s.edge, 0]], { width: 1, colour: view.colours.grey });
            plot.line(gap, { colour: view.colours.purple, width: 2.4 });
            return plot;
          },
        },
      ],
      start,
      changed: (key, v, s) => { if (key !== "x") start(v, s); },
      say: (v, s) => `ε = ${live.shown(v.eps)}: the two laws differ by J = ${live.shown(s.J)} (symmetrised relative entropy); the small-ε formula gives ${live.shown(s.theory)}. Halve ε, and J falls by ${v.eps < 0.3 ? "nearly " : "up to "}16.`,
    });
  };
})();
