// Laboratory: how the local constant of a trained layer grows with the length of a text, layer by layer, from the stored run.
(() => {
  "use strict";
  const live = window.attnflow;
  const NAMES = { "MiniLM, an encoder": "minilm", "SmolLM2, a decoder": "smollm2", "SmolLM2, a null key in place of the first token": "sinkless" };

  live.labs.layers = (root) => {
    const kept = live.data(root), first = Object.keys(NAMES)[1];
    const depth = (v) => kept.constants[NAMES[v.model]].length;
    const layer = (v) => Math.min(v.layer, depth(v)) - 1;
    const middle = (rows) => kept.lengths.map((_, k) => Math.exp(rows.reduce((sum, row) => sum + Math.log(row[k]), 0) / rows.length));
    const start = (v, s) => {
      s.rows = kept.constants[NAMES[v.model]][layer(v)];
      s.law = live.powerLaw(kept.lengths, middle(s.rows));
      s.slopes = kept.constants[NAMES[v.model]].map((rows) => rows.map((row) => live.powerLaw(kept.lengths, row).slope));
    };
    const guess = (v, s, n) => s.law.constant * kept.lengths[1] ** s.law.slope * (n / kept.lengths[1]) ** v.p;
    live.lab(root, "layers", {
      controls: {
        model: { label: "network", choices: Object.keys(NAMES), value: first },
        layer: { label: "layer", min: 1, max: kept.constants.smollm2.length, step: 1, value: 15, words: (k) => String(k) },
        p: { label: "your exponent", min: -0.5, max: 1.5, step: 0.05, value: 0.5 },
      },
      panels: [
        {
          title: "the constant against the length", ratio: 0.9, label: "The local constant of one layer at three passages of 16, 45 and 128 tokens, with the line of least squares and the reader's.",
          legend: [["passages of Alice", "blue", "dot"], ["least squares", "blue"], ["your exponent", "orange", "dash"]],
          draw: (view, v, s) => {
            const ends = [12, 170], all = s.rows.flat(), low = Math.min(...all) / 3, high = Math.max(...all) * 3;
            const plot = live.plot(view, { x: ends, xlog: true, y: [low, high], ylog: true, xlabel: "tokens n", left: 52 });
            plot.line(ends.map((n) => [n, guess(v, s, n)]), { colour: view.colours.orange, dash: [6, 4], width: 2 });
            plot.line(ends.map((n) => [n, s.law.constant * n ** s.law.slope]), { colour: view.colours.blue, width: 2 });
            s.rows.forEach((row) => plot.dots(row.map((y, k) => [kept.lengths[k], y]), { colour: view.colours.blue, size: 4.5, rim: view.colours.ground }));
            return plot;
          },
        },
        {
          title: "exponents of all layers", ratio: 0.9, label: "The exponents of three passages in every layer, the chosen layer ringed, and the square root of the worst case.",
          legend: [["a passage", "blue", "dot"], ["½, what tokens can reach", "grey", "dash"], ["your exponent", "orange", "dash"]],
          draw: (view, v, s) => {
            const all = s.slopes.flat(), plot = live.plot(view, { x: [0.3, depth(v) + 0.7], y: [Math.min(-0.2, ...all) - 0.1, Math.max(1, ...all) + 0.1], xlabel: "layer", left: 40 });
            plot.line([[0, 0.5], [99, 0.5]], { colour: view.colours.grey, dash: [4, 4] });
            plot.line([[0, v.p], [99, v.p]], { colour: view.colours.orange, dash: [6, 4], width: 1.6 });
            s.slopes.forEach((values, k) => plot.dots(values.map((y) => [k + 1, y]), { colour: view.colours.blue, size: k === layer(v) ? 6 : 3.5, rim: k === layer(v) ? view.colours.ink : "" }));
            return plot;
          },
        },
      ],
      start,
      changed: (key, v, s) => { if (key !== "p") start(v, s); },
      say: (v, s) => `Layer ${layer(v) + 1} of ${depth(v)}: from ${kept.lengths[0]} to ${kept.lengths[kept.lengths.length - 1]} tokens its constant grows with exponent ${live.shown(s.law.slope)} in n; the three passages alone give ${s.slopes[layer(v)].map((y) => live.shown(y)).join(", ")}.`,
    });
  };
})();
