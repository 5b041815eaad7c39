// Laboratory: how much a layer stretches at tokens in a ball, against the bounds for all tokens in it.
(() => {
  "use strict";
  const live = window.attnflow;
  const I = [[1, 0], [0, 1]], MOST = 4, SWEEPS = 120, ROUNDS = 12;

  live.labs.leaders = (root) => {
    const A = (v) => [[v.a11, v.a12], [v.a21, v.a22]];
    const place = (v) => {
      if (v.tokens && v.tokens.length === v.n) return v.tokens.map((p) => { const r = Math.hypot(...p); return r > v.R ? p.map((c) => c * v.R / r) : p; });
      if (v.shape === "two leaders") return live.twoLeaders(A(v), v.R, v.n);
      if (v.shape === "one leader") return live.oneLeader(A(v), v.R, v.n);
      const uniform = live.random(v.seed + 1);
      return Array.from({ length: v.n }, () => { const r = v.R * Math.sqrt(uniform()), a = 2 * Math.PI * uniform(); return [r * Math.cos(a), r * Math.sin(a)]; });
    };
    // the power iteration starts from the worst change so far, and goes on from frame to frame
    const iterate = (v, s) => {
      const again = s.guess && s.guess.length === v.n; // with some of everything, or another direction could never win
      s.found = live.localConstant(A(v), I, s.x, s.found ? s.found.change : again ? live.plus(s.guess, live.gaussians(v.n, 2, 1), 0.05) : undefined, SWEEPS, 1e-9);
      s.rounds++;
      s.guess = s.found.change;
      s.answer = live.jvp(A(v), I, s.x, s.found.change);
    };
    const start = (v, s) => {
      s.x = place(v);
      s.found = null;
      s.rounds = 0;
      iterate(v, s);
      const key = [...A(v).flat(), v.n].join();
      if (s.key === key) return;
      s.key = key;
      s.radii = Array.from({ length: 17 }, (_, k) => 0.25 * (MOST / 0.25) ** (k / 16));
      s.curves = {
        upper: s.radii.map((R) => [R, live.upperBound(A(v), I, R, v.n)]),
        tight: s.radii.map((R) => [R, live.tightUpperBound(A(v), I, R, v.n)]),
        two: s.radii.map((R) => [R, live.twoLeadersBound(A(v), R, v.n)]),
        lower: s.radii.map((R) => [R, live.lowerBound(A(v), R, v.n)]),
      };
    };
    live.lab(root, "leaders", {
      controls: {
        shape: { label: "tokens", choices: ["two leaders", "one leader", "random"], value: "two leaders" },
        n: { label: "tokens n", min: 3, max: 40, step: 1, value: 12 },
        R: { label: "radius R", min: 0.5, max: MOST, step: 0.1, value: 2.5 },
        a11: { label: "A₁₁ of the scores", min: -2, max: 2, step: 0.1, value: -1 },
        a12: { label: "A₁₂", min: -2, max: 2, step: 0.1, value: 0 },
        a21: { label: "A₂₁", min: -2, max: 2, step: 0.1, value: 0 },
        a22: { label: "A₂₂", min: -2, max: 2, step: 0.1, value: -1 },
        seed: { label: "start", min: 0, max: 99, step: 1, value: 0, when: { shape: "random" } },
        tokens: { points: true },
      },
      panels: [
        {
          title: "tokens in the ball: drag them", ratio: 0.95, label: "Tokens in a ball, with the change that is stretched most and the answer of the layer.",
          handles: (v, s) => s.x,
          moved: (i, point, v, s) => { v.tokens = s.x.slice(); v.tokens[i] = point; start(v, s); },
          legend: [["tokens", "blue", "dot"], ["the worst change of the tokens", "orange"], ["how the layer answers", "purple"]],
          draw: (view, v, s) => {
            const reach = 1.15 * v.R, plot = live.plot(view, { x: [-reach, reach], y: [-reach, reach], equal: true, bare: true });
            plot.line(live.ellipse(I, v.R), { colour: view.colours.grey, width: 1.2, dash: [5, 4] });
            const unit = 0.75 * v.R, largest = Math.max(...s.answer.map((p) => Math.hypot(...p)), 1e-9), most = Math.max(...s.found.change.map((p) => Math.hypot(...p)), 1e-9);
            s.x.forEach((p, i) => plot.arrow(p, [0, 1].map((e) => p[e] + 0.6 * unit * s.answer[i][e] / largest), { colour: view.colours.purple, alpha: 0.65 }));
            s.x.forEach((p, i) => plot.arrow(p, [0, 1].map((e) => p[e] + unit * s.found.change[i][e] / most), { colour: view.colours.orange, width: 2 }));
            plot.dots(s.x, { colour: view.colours.blue, size: 6, rim: view.colours.ground });
            const places = new Map();
            s.x.forEach((p) => { const key = p.map((c) => c.toFixed(6)).join(); places.set(key, [p, (places.get(key) || [p, 0])[1] + 1]); });
            places.forEach(([p, count]) => { if (count > 1) plot.text(p[0], p[1], `${count} tokens`, p[0] > 0 ? { dx: -10, dy: -8, align: "right" } : { dx: 10, dy: -8 }); });
            return plot;
          },
        },
        {
          title: "the constant on balls of radius R", ratio: 0.86, label: "Bounds for all tokens in a ball against its radius, and the constant at these tokens as a dot.",
          legend: [["at these tokens", "blue", "dot"], ["upper bound (Castin et al.)", "red"], ["upper bound of this book", "orange"], ["what two leaders reach", "green"], ["lower bound (Castin et al.)", "purple"]],
          draw: (view, v, s) => {
            const top = s.curves.upper[16][1] * 1.5, low = Math.max(1e-2, Math.min(0.5, s.found.value / 2));
            const plot = live.plot(view, { x: [0.25, MOST], y: [low, Math.max(top, 2)], xlog: false, ylog: true, xlabel: "radius R", left: 46 });
            [["upper", "red"], ["tight", "orange"], ["two", "green"], ["lower", "purple"]].forEach(([name, colour]) => plot.line(s.curves[name].map(([R, b]) => [R, Math.max(b, 1e-6)]), { colour: view.colours[colour], width: 2 }));
            plot.line([[v.R, low], [v.R, s.found.value]], { colour: view.colours.blue, width: 1, dash: [3, 3] });
            plot.dots([[v.R, s.found.value]], { colour: view.colours.blue, size: 7, rim: view.colours.ink });
            return plot;
          },
        },
      ],
      start,
      work: (v, s) => { const more = s.found.iterations === SWEEPS && s.rounds < ROUNDS; if (more) iterate(v, s); return more; },
      changed: (key, v, s) => { if (key !== "R" && key[0] !== "a") v.tokens = null; start(v, s); },
      say: (v, s) => `A small change of these tokens is stretched by up to ${live.shown(s.found.value, 4)}. No tokens in the ball do more than ${live.shown(live.tightUpperBound(A(v), I, v.R, v.n), 4)}; two leaders reach at least ${live.shown(live.twoLeadersBound(A(v), v.R, v.n), 4)}.`,
    });
  };
})();
