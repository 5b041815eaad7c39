// Laboratory: tokens in the plane that are dragged, under three normalisations, with their attention matrices.
(() => {
  "use strict";
  const live = window.attnflow;
  const KINDS = [["softmax", "blue"], ["L2", "orange"], ["sinkhorn", "green"]], END = 3, BARS = 30;
  const TITLES = { softmax: "softmax: rows sum to 1", L2: "L2: nearness counts", sinkhorn: "Sinkhorn: columns, too" };

  live.labs.tokens = (root) => {
    const layer = (v) => { const B = live.scaled(live.identity(2), Math.sqrt(v.beta)); return { Q: B, K: B, V: live.identity(2), eps: v.eps, causal: v.mask === "decoder" }; };
    const look = (v, s) => KINDS.forEach(([kind]) => { s.P[kind] = live.attentionMatrix(kind, live.scaled(s.z[kind], Math.exp(s.t)), layer(v)); });
    // random tokens, no two of them close
    const scattered = (n, seed) => {
      const uniform = live.random(seed), out = [];
      for (let tries = 0; out.length < n; tries++) {
        const p = [1.05 * live.gaussian(uniform), 1.05 * live.gaussian(uniform)];
        if (Math.hypot(...p) < 2.3 && out.every((q) => live.squaredDistance(p, q) > 0.35 - tries / 1000)) out.push(p);
      }
      return out;
    };
    const start = (v, s) => {
      s.start = v.tokens && v.tokens.length === v.n ? v.tokens : scattered(v.n, v.seed);
      Object.assign(s, { t: 0, z: {}, tails: {}, P: {}, token: Math.min(s.token || 0, v.n - 1) });
      KINDS.forEach(([kind]) => { s.z[kind] = s.start; s.tails[kind] = s.start.map((p) => [p]); });
      look(v, s);
    };
    const stage = ([kind, colour]) => ({
      title: TITLES[kind], ratio: 0.95,
      label: `Tokens in the plane under ${kind} attention; lines show whom the chosen token attends to.`,
      handles: (v, s) => s.start,
      moved: (i, point, v, s) => { v.tokens = s.start.slice(); v.tokens[i] = point; s.token = i; start(v, s); },
      draw: (view, v, s) => {
        const reach = 2.5, plot = live.plot(view, { x: [-reach, reach], y: [-reach, reach], equal: true, bare: true }), z = s.z[kind], P = s.P[kind], i = s.token, most = Math.max(...P[i].filter((_, j) => j !== i), 1e-9);
        s.tails[kind].forEach((tail) => plot.line(tail, { colour: view.colours.grey, width: 1, alpha: 0.6 }));
        if (s.t > 0) plot.dots(s.start, { colour: view.colours.ground, size: 3, rim: view.colours.grey });
        P[i].forEach((p, j) => { if (j !== i && p > 0) plot.line([z[i], z[j]], { colour: view.colours[colour], width: 0.6 + 5 * p / most, alpha: 0.12 + 0.5 * p / most }); });
        if (s.t === 0) z.forEach((p, j) => plot.arrow(p, [0, 1].map((e) => P[j].reduce((sum, share, k) => sum + share * z[k][e], 0)), { alpha: 0.7, width: 1.4, colour: view.colours.ink }));
        plot.dots(z, { colour: view.colours[colour], size: 5, rim: view.colours.ground });
        plot.dots([z[i]], { colour: view.colours[colour], size: 7, rim: view.colours.ink, rimWidth: 2 });
        plot.note(`t = ${s.t.toFixed(2)}`);
        return plot;
      },
    });
    const table = ([kind, colour]) => ({
      ratio: (width) => (width + BARS) / width, label: `The attention matrix of ${kind}: how strongly a row's token looks at a column's token. Below it, what every token receives.`,
      draw: (view, v, s) => {
        const P = s.P[kind], most = Math.max(...P.flat()), plot = live.plot({ ...view, height: view.width }, { x: [0, 1], y: [0, 1], bare: true });
        live.squares(plot, P.map((row) => row.map((p) => p / most)), view.colours[colour]);
        const { c } = view, cell = plot.box.width / P.length, floor = view.width, received = P[0].map((_, j) => P.reduce((sum, row) => sum + row[j], 0)), top = Math.max(...received, 1.2), unit = (BARS - 3) / top;
        c.strokeStyle = view.colours.ink; c.lineWidth = 1.6; c.strokeRect(4, 4 + s.token * cell, plot.box.width, cell);
        c.fillStyle = view.colours[colour]; c.globalAlpha = 0.75;
        received.forEach((r, j) => c.fillRect(5 + j * cell, floor, cell - 2, unit * r));
        c.globalAlpha = 0.9; c.lineWidth = 1.2; c.setLineDash([3, 3]); c.beginPath(); c.moveTo(4, floor + unit); c.lineTo(4 + plot.box.width, floor + unit); c.stroke(); c.setLineDash([]);
      },
      legend: kind === "softmax" ? [["bars: what a token receives", "blue", "dot"], ["1", "ink", "dash"]] : undefined,
    });
    live.lab(root, "tokens", {
      columns: "pairs",
      controls: {
        beta: { label: "β, scale of the scores", min: 0.1, max: 10, value: 2, log: true },
        eps: { label: "ε of Sinkhorn", min: 0.05, max: 5, value: 0.5, log: true },
        n: { label: "tokens n", min: 2, max: 16, step: 1, value: 8 },
        mask: { label: "mask", choices: ["encoder", "decoder"], value: "encoder" },
        seed: { label: "start", min: 0, max: 99, step: 1, value: 42 },
        tokens: { points: true },
      },
      panels: KINDS.flatMap((kind) => [stage(kind), table(kind)]),
      start,
      changed: (key, v, s) => { if (key === "seed" || key === "n") v.tokens = null; if (key !== "beta" && key !== "eps") start(v, s); else look(v, s); },
      frame: (seconds, v, s) => {
        const h = 0.5 * seconds;
        KINDS.forEach(([kind]) => {
          s.z[kind] = live.rescaledStep(kind, s.z[kind], s.t, layer(v), h);
          s.z[kind].forEach((p, i) => { const tail = s.tails[kind][i]; tail.push(p); if (tail.length > 300) tail.splice(1, 1); });
        });
        s.t += h;
        look(v, s);
        return s.t < END;
      },
      say: (v, s) => {
        const [a, b] = KINDS.map(([kind]) => live.shown(Math.max(...s.P[kind][0].map((_, j) => s.P[kind].reduce((sum, row) => sum + row[j], 0)))));
        return `The most popular token receives ${a} of ${v.n} shares of attention under softmax and ${b} under L2. Under Sinkhorn ${v.mask === "decoder" ? "every prefix is balanced by itself." : "everyone receives 1."}`
          + (s.t > 0 ? " Tokens are drawn in coordinates that grow with them." : " Arrows lead to the mean that a token sees. Drag a token, or press play.");
      },
    });
  };
})();
