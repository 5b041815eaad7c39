// Laboratory: layers of attention against the heat flow, with the error in view.
(() => {
  "use strict";
  const live = window.attnflow;
  const T = 1;

  live.labs.heat = (root) => {
    const start = (v, s) => {
      const eps = Number(v.eps), mix = { weights: [0.5, 0.5], means: [-v.apart, v.apart], vars: [v.variance, v.variance] };
      const bend = v.variance / Math.max(v.apart, Math.sqrt(v.variance));
      s.mix = mix;
      s.depth = Math.round(T / eps);
      s.runs = { bridge: live.lineGrid(mix, Math.min(Math.sqrt(eps), bend) / 3.75, 8) };
      // explicit Euler is stable and resolved on a coarser grid, for small eps only
      if (eps <= 0.05 * v.variance + 1e-12) s.runs.euler = live.lineGrid(mix, 2 * Math.sqrt(eps), 8);
      Object.values(s.runs).forEach((run) => { run.states = [run.x]; run.exact = [run.x]; run.errors = [[0, 0]]; run.log = live.mixtureLog(mix, run.x); });
    };
    const layer = (s, v) => {
      const eps = Number(v.eps);
      Object.entries(s.runs).forEach(([name, run]) => {
        const k = run.states.length, x = run.states[k - 1];
        const next = name === "bridge" ? live.bridgeStep(x.map((p) => [p]), eps, run.weights, 1e-11).map((p) => p[0]) : live.eulerStep(x, eps, run.log, run.h);
        const exact = live.heatMap(s.mix, run.exact[k - 1], (k - 1) * eps, k * eps, Math.ceil(eps / 0.025));
        run.states.push(next);
        run.exact.push(exact);
        run.errors.push([k * eps, Math.sqrt(run.weights.reduce((sum, w, i) => sum + w * (next[i] - exact[i]) ** 2, 0))]);
      });
    };
    const at = (v, s) => Math.min(Math.round(v.t / Number(v.eps)), s.runs.bridge.states.length - 1);
    const carried = (run, k) => { const stretch = live.gridDerivative(run.states[k], run.h); return run.states[k].map((x, i) => [x, run.rho[i] / stretch[i]]); };
    const STYLE = { bridge: { colour: "blue" }, euler: { colour: "orange" } };
    live.lab(root, "heat", {
      columns: 3, loop: true,
      controls: {
        eps: { label: "ε, the time of a layer", choices: ["0.2", "0.1", "0.05", "0.025", "0.02", "0.01"], value: "0.05" },
        t: { label: "time t", min: 0, max: T, step: 0.01, value: 0.5 },
        apart: { label: "modes at ±", min: 0, max: 3, step: 0.1, value: 2 },
        variance: { label: "variance of a mode", min: 0.6, max: 2, step: 0.1, value: 1 },
      },
      panels: [
        {
          title: "densities", ratio: 0.95, label: "The heat flow's density and the densities of the layers at time t.",
          legend: [["start", "ink", "dash"], ["heat flow", "grey"], ["layers of attention", "blue"], ["explicit Euler", "orange"]],
          draw: (view, v, s) => {
            const edge = v.apart + 4, k = at(v, s), xs = Array.from({ length: 161 }, (_, i) => -edge + i * edge / 80), top = 1.15 * Math.max(...live.mixtureDensity(s.mix, [...s.mix.means, 0]));
            const plot = live.plot(view, { x: [-edge, edge], y: [0, top], xlabel: "x", left: 36 }), curve = (mix) => { const rho = live.mixtureDensity(mix, xs); return xs.map((x, i) => [x, rho[i]]); };
            plot.line(curve(s.mix), { width: 1, dash: [4, 4] });
            plot.line(curve(live.heated(s.mix, k * Number(v.eps))), { colour: view.colours.grey, width: 6, alpha: 0.55 });
            Object.entries(s.runs).forEach(([name, run]) => plot.line(carried(run, k), { colour: view.colours[STYLE[name].colour], width: 2 }));
            return plot;
          },
        },
        {
          title: "particles: how far off", ratio: 0.95, label: "The displacement of the layers' particles from the heat flow's, against where they started.",
          legend: [["attention", "blue"], ["Euler", "orange"]],
          draw: (view, v, s) => {
            const edge = v.apart + 3.5, k = at(v, s), gaps = Object.entries(s.runs).map(([name, run]) => [name, run.x.map((x, i) => [x, run.states[k][i] - run.exact[k][i]])]);
            const size = gaps.map(([, gap]) => Math.max(1e-9, ...gap.filter((p) => Math.abs(p[0]) <= edge).map((p) => Math.abs(p[1])))), most = 1.15 * Math.max(...size);
            const larger = gaps.length > 1 && k > 0 ? 10 ** Math.max(0, Math.floor(Math.log10(size[1] / size[0]))) : 1;
            const plot = live.plot(view, { x: [-edge, edge], y: [-most, most], xlabel: "start x", left: 60 });
            plot.line([[-edge, 0], [edge, 0]], { colour: view.colours.grey, width: 1 });
            if (larger > 1) plot.note(`attention’s × ${larger}`);
            gaps.forEach(([name, gap]) => plot.line(name === "bridge" ? gap.map((p) => [p[0], larger * p[1]]) : gap, { colour: view.colours[STYLE[name].colour], width: 2.2 }));
            return plot;
          },
        },
        {
          title: "error W₂(t)", ratio: 0.95, label: "The Wasserstein error of the layers over time, logarithmic.",
          legend: [["attention", "blue"], ["Euler", "orange"]],
          draw: (view, v, s) => {
            const plot = live.plot(view, { x: [0, T], y: [1e-7, 1e-1], ylog: true, xlabel: "time t", left: 46 });
            Object.entries(s.runs).forEach(([name, run]) => plot.line(run.errors.slice(1), { colour: view.colours[STYLE[name].colour], width: 2.2 }));
            plot.line([[v.t, 1e-7], [v.t, 1e-1]], { width: 1, alpha: 0.7 });
            return plot;
          },
        },
      ],
      start,
      rewind: (v) => { v.t = 0; },
      atEnd: (v) => v.t >= T,
      changed: (key, v, s) => { if (key !== "t") start(v, s); },
      work: (v, s) => {
        const begun = performance.now();
        while (s.runs.bridge.states.length <= s.depth && performance.now() - begun < 14) layer(s, v);
        return s.runs.bridge.states.length <= s.depth;
      },
      frame: (seconds, v, s) => { v.t = Math.min(T, v.t + 0.2 * seconds); s.show(); return v.t < T; },
      say: (v, s) => {
        const worst = (run) => live.shown(Math.max(...run.errors.map((e) => e[1])), 3), k = at(v, s);
        return `ε = ${v.eps}, layer ${k} of ${s.depth}: the largest error so far is ${worst(s.runs.bridge)} for attention`
          + (s.runs.euler ? ` and ${worst(s.runs.euler)} for explicit Euler.` : "; explicit Euler is unstable at this ε.") + " Halve ε: attention's error falls by 4, Euler's by 2.";
      },
    });
  };
})();
