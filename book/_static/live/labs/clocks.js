// Laboratory: four normalisations, one orbit: when tokens meet, by the clock of each, and in layers.
(() => {
  "use strict";
  const live = window.attnflow;
  const NORMS = { post: "post-LN", pre: "pre-LN", peri: "peri-LN", nGPT: "nGPT" }, COLOURS = { post: "blue", pre: "orange", peri: "purple", nGPT: "green" };
  const FIRST = 0.05, LAST = 1e4, BETAS = 37, MOST = 2000, TOP = 16;

  live.labs.clocks = (root) => {
    const names = Object.keys(NORMS);
    const start = (v, s) => {
      const n = Number(v.n), key = [n, v.delta].join();
      s.paths = Object.fromEntries(names.map((norm) => [norm, live.normPath(norm, v.beta, n, 1e-5, 300)]));
      s.times = Object.fromEntries(names.map((norm) => [norm, live.normMeeting(norm, v.beta, n, v.delta)]));
      s.layers = Object.fromEntries(names.map((norm) => [norm, live.normDepth(norm, v.beta, n, v.delta, 1, MOST)]));
      s.steps = names.map((norm) => {
        const out = [];
        for (let k = 1, state = [1, 1]; k <= 200 && state[0] > 1e-4; k++) {
          state = live.normLayer(state, norm, v.beta, n, 1);
          out.push([k, 1 - state[0]]);
        }
        return out;
      });
      if (s.key === key) return;
      s.key = key;
      s.curves = names.map((norm) => Array.from({ length: BETAS }, (_, k) => {
        const beta = TOP * k / (BETAS - 1);
        return [beta, Math.min(live.normPath(norm, beta, n, v.delta, 80)[79][1], 40)];
      }));
    };
    const said = (log) => (log < 11 ? live.shown(Math.exp(log)) : log < 1e4 ? `10^${Math.round(log / Math.LN10)}` : "beyond writing");
    live.lab(root, "clocks", {
      controls: {
        beta: { label: "β, 1 / temperature", min: 0, max: TOP, step: 0.1, value: 4 },
        n: { label: "tokens n", choices: ["4", "32", "256", "4096", "1000000"], value: "256" },
        delta: { label: "δ: met above the cosine 1 - δ", min: 0.01, max: 0.5, value: 0.1, log: true },
      },
      panels: [
        {
          title: "the common cosine, over time", ratio: 0.82,
          label: "The common cosine of tokens over time, on a logarithmic axis, for four schemes; dots are layers of step one.",
          legend: [...names.map((norm) => [NORMS[norm], COLOURS[norm]]), ["layers of step one", "ink", "dot"]],
          draw: (view, v, s) => {
            const plot = live.plot(view, { x: [FIRST, LAST], y: [0, 1.02], xlog: true, xlabel: "time, or layers", left: 36 });
            plot.line([[FIRST, 1 - v.delta], [LAST, 1 - v.delta]], { colour: view.colours.grey, dash: [5, 4] });
            names.forEach((norm, k) => {
              const colour = view.colours[COLOURS[norm]], line = s.paths[norm].filter((p) => p[1] < 30 && p[1] > -6).map(([c, log]) => [Math.exp(log), c]);
              plot.line(line, { colour, width: 2.4 });
              plot.dots(s.steps[k], { colour, size: 3, rim: view.colours.ground, rimWidth: 0.7 });
            });
            return plot;
          },
        },
        {
          title: "when they have met: move the line", ratio: 0.82, anywhere: true,
          label: "The meeting time against beta on a logarithmic axis for four schemes, with a vertical line at log n and a cursor at the chosen beta.",
          handles: (v, s) => [[v.beta, Math.min(Math.exp(s.times.post), LAST)]],
          moved: (_, [beta], v, s) => { v.beta = Number(Math.max(0, Math.min(TOP, beta)).toFixed(1)); start(v, s); s.show(); },
          legend: [...names.map((norm) => [NORMS[norm], COLOURS[norm]]), ["β = log n", "grey", "dash"]],
          draw: (view, v, s) => {
            const plot = live.plot(view, { x: [0, TOP], y: [0.3, LAST], ylog: true, xlabel: "β", ylabel: "time", left: 52 });
            const line = Math.log(Number(v.n));
            plot.line([[line, 0.3], [line, LAST]], { colour: view.colours.grey, dash: [5, 4] });
            names.forEach((norm, k) => plot.line(s.curves[k].map(([beta, log]) => [beta, Math.exp(log)]), { colour: view.colours[COLOURS[norm]], width: 2.2, dash: norm === "peri" ? [7, 4] : [] }));
            plot.line([[v.beta, 0.3], [v.beta, LAST]], { colour: view.colours.red, width: 1.5 });
            plot.dots([[v.beta, Math.min(Math.exp(s.times.post), LAST)]], { colour: view.colours.red, size: 7, rim: view.colours.ground, rimWidth: 2 });
            return plot;
          },
        },
      ],
      start,
      changed: (_, v, s) => start(v, s),
      say: (v, s) => {
        const n = Number(v.n), c = v.beta / Math.log(n);
        return `β = ${live.shown(v.beta)} is ${live.shown(c, 2)} log n. Tokens meet after the time `
          + names.map((norm) => `${said(s.times[norm])} (${NORMS[norm]}, ${s.layers[norm] < Infinity ? `${s.layers[norm]} layers` : `more than ${MOST} layers`})`).join(", ") + ".";
      },
    });
  };
})();
