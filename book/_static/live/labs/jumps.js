// Laboratory: what layers leave of a jump in the m-th derivative of a density, by the waves that it is made of.
(() => {
  "use strict";
  const live = window.attnflow;
  const REACH = 12, COLD = [1e-4, 1e-3, 1e-2, 1e-1];

  live.labs.jumps = (root) => {
    const start = (v, s) => {
      const m = Number(v.m), n = v.n;
      const xs = Array.from({ length: 121 }, (_, i) => REACH * (i - 60) / 60), profile = live.jumpProfile(m, n, xs);
      s.profile = xs.map((x, i) => [x, profile[i]]);
      s.c = live.jumpConstant(m, n);
      s.order = 0.75 + m / 2;
      s.error = s.c * v.eps ** s.order / Math.sqrt(Math.PI);
    };
    const heat = (k, n) => Math.exp(-n * k * k / 2), layers = (k, n) => live.bridgeAmplification(k * k) ** n;
    live.lab(root, "jumps", {
      columns: 3,
      controls: {
        m: { label: "derivative that jumps", choices: ["0", "1", "2", "3"], value: "0" },
        n: { label: "layers n", min: 1, max: 60, step: 1, value: 1 },
        eps: { label: "temperature ε", min: 0.001, max: 0.1, value: 0.02, log: true },
      },
      panels: [
        {
          title: "what is left of a wave", ratio: 0.95, label: "The factor of a wave after n layers and under heat, against its wave number.",
          legend: [["n layers", "blue"], ["heat", "grey"], ["explicit Euler", "orange"]],
          draw: (view, v) => {
            const ks = Array.from({ length: 161 }, (_, i) => 0.05 * 400 ** (i / 160)), plot = live.plot(view, { x: [0.05, 20], xlog: true, y: [-1.3, 1.3], xlabel: "wave number k√ε", left: 36 });
            plot.line(ks.map((k) => [k, heat(k, v.n)]), { colour: view.colours.grey, width: 5, alpha: 0.6 });
            plot.line(ks.map((k) => [k, Math.max(-9, Math.min(9, live.eulerAmplification(k * k) ** v.n))]), { colour: view.colours.orange, width: 1.6 });
            plot.line(ks.map((k) => [k, layers(k, v.n)]), { colour: view.colours.blue, width: 2.2 });
            return plot;
          },
        },
        {
          title: "where the layers are wrong", ratio: 0.95, label: "The error of the distribution function near the jump, in units of the square root of epsilon.",
          legend: [["error, per jump and ε^((m+1)/2)", "purple"]],
          draw: (view, v, s) => {
            const most = 1.2 * Math.max(...s.profile.map((p) => Math.abs(p[1])), 1e-9), plot = live.plot(view, { x: [-REACH, REACH], y: [-most, most], xlabel: "x / √ε", left: 58 });
            plot.line([[-REACH, 0], [REACH, 0]], { colour: view.colours.grey, width: 1 });
            plot.line(s.profile, { colour: view.colours.purple, width: 2.2 });
            return plot;
          },
        },
        {
          title: "error against ε", ratio: 0.95, label: "The error for a jump of one against the temperature, with the second order of a smooth density.",
          legend: [["with the jump", "purple"], ["order 2, as smooth densities have", "grey", "dash"]],
          draw: (view, v, s) => {
            const plot = live.plot(view, { x: [1e-3, 1e-1], xlog: true, y: [1e-8, 1], ylog: true, xlabel: "temperature ε" });
            plot.line(COLD.map((e) => [e, s.error * (e / v.eps) ** 2]), { colour: view.colours.grey, dash: [5, 4] });
            plot.line(COLD.map((e) => [e, s.error * (e / v.eps) ** s.order]), { colour: view.colours.purple, width: 2.2 });
            plot.dots([[v.eps, s.error]], { colour: view.colours.red, size: 6 });
            return plot;
          },
        },
      ],
      start,
      changed: (key, v, s) => { if (key === "eps") s.error = s.c * v.eps ** s.order / Math.sqrt(Math.PI); else start(v, s); },
      say: (v, s) => `The ${["density itself", "first derivative", "second derivative", "third derivative"][v.m]} jumps. After ${v.n} layer${v.n > 1 ? "s" : ""} a jump of one leaves an error W₂ of ${live.shown(s.error)}/√ρ: order ${live.shown(s.order)} in ε${s.order < 2 ? ", below the second order of smooth densities." : ", so the second order of the smooth part is what one sees."}`,
    });
  };
})();
