// Laboratory: where in the phase diagram am I? The stored diagram under the cursor, a live run beside it.
(() => {
  "use strict";
  const live = window.attnflow;
  const STEP = 0.125;

  live.labs.phase = (root) => {
    const kept = live.data(root), end = kept.times[kept.times.length - 1], n = kept.n;
    const bytes = Object.fromEntries(Object.entries(kept.shares).map(([d, words]) => [d, Uint8Array.from(atob(words), (ch) => ch.charCodeAt(0))]));
    const images = {}, width = kept.times.length;
    const share = (d, beta, t) => {
      const i = Math.round(beta / kept.betas[kept.betas.length - 1] * (kept.betas.length - 1)), j = Math.round(t / end * (width - 1));
      return bytes[d][i * width + j] / 255;
    };
    const curve = kept.betas.map((beta) => [live.hittingTime(beta, n, kept.delta), beta]);
    // Inner products of random unit vectors of R^d.
    const begin = (v, s) => {
      const x = live.spherePoints(n, Number(v.d), v.seed);
      s.G = new Float64Array(n * n);
      for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) s.G[i * n + j] = i === j ? 1 : live.dot(x[i], x[j]);
      s.done = 0;
      s.kept = [];
      s.line = live.orthogonalGamma(v.beta, n, end, 600).map((g, k) => [k * end / 600, Math.max(1 - g, 1e-9)]);
      note(s);
    };
    const note = (s) => {
      const pairs = [];
      let met = 0;
      for (let i = 0; i < n; i++) for (let j = 0; j < i; j++) {
        const gap = Math.max(1 - s.G[i * n + j], 1e-12);
        met += gap <= kept.delta;
        if ((7 * i + 13 * j) % 9 === 0) pairs.push(gap);
      }
      s.kept.push({ t: s.done, pairs, met: met / (n * (n - 1) / 2) });
    };
    const met = (v, s) => { const at = s.kept.find((k) => k.t >= v.t - 1e-9); return at && at.met; };
    live.lab(root, "phase", {
      controls: {
        d: { label: "dimension d", choices: Object.keys(bytes), value: "128" },
        beta: { label: "β, 1 / temperature", min: 0, max: 9, step: 0.1, value: 4 },
        t: { label: "time t", min: 0, max: 30, step: 0.25, value: 7 },
        seed: { label: "start of the live run", min: 0, max: 99, step: 1, value: 3 },
      },
      panels: [
        {
          title: `stored: pairs that have met, ${kept.draws} starts`, ratio: 0.82, anywhere: true,
          label: "The stored phase diagram, with a cursor at the chosen time and temperature.",
          handles: (v) => [[v.t, v.beta]],
          moved: (_, [t, beta], v, s) => {
            const old = v.beta;
            v.t = Number((Math.round(t * 4) / 4).toFixed(2));
            v.beta = Number(beta.toFixed(1));
            s.show();
            if (v.beta !== old) begin(v, s);
          },
          legend: [["yellow: all pairs have met; dark: none", "red", "dot"], ["γ(t) = 1 - δ, the limit d → ∞", "ink", "dash"]],
          draw: (view, v) => {
            const plot = live.plot(view, { x: [0, end], y: [0, 9], xlabel: "time t", ylabel: "β", left: 40 }), { c } = view, box = plot.box;
            images[v.d] = images[v.d] || live.image(kept.betas.length, width, (i, j) => bytes[v.d][i * width + j] / 255);
            c.imageSmoothingEnabled = false;
            c.drawImage(images[v.d], box.left, box.top, box.width, box.height);
            plot.line(curve, { colour: "#fff", width: 3, alpha: 0.8 });
            plot.line(curve, { colour: "#111", width: 1.5, dash: [6, 4] });
            plot.line([[v.t, 0], [v.t, 9]], { colour: "#fff", width: 1, alpha: 0.8 });
            plot.line([[0, v.beta], [end, v.beta]], { colour: "#fff", width: 1, alpha: 0.8 });
            plot.dots([[v.t, v.beta]], { colour: view.colours.red, size: 7, rim: "#fff", rimWidth: 2 });
            return plot;
          },
        },
        {
          title: "live: how far pairs of one start are", ratio: 0.82,
          label: "One minus the inner products of pairs of tokens over time, logarithmic, with the limit curve.",
          legend: [["pairs of this run", "blue"], ["all of them, if d were infinite", "orange"], ["met: below δ = 10⁻³", "grey", "dash"]],
          draw: (view, v, s) => {
            const plot = live.plot(view, { x: [0, end], y: [1e-6, 3], ylog: true, xlabel: "time t", ylabel: "1 - ⟨x,y⟩", left: 52 });
            for (let p = 0; p < s.kept[0].pairs.length; p++) plot.line(s.kept.map((k) => [k.t, k.pairs[p]]), { colour: view.colours.blue, width: 1, alpha: 0.35 });
            plot.line(s.line, { colour: view.colours.orange, width: 2.6 });
            plot.line([[0, kept.delta], [end, kept.delta]], { colour: view.colours.grey, dash: [5, 4] });
            plot.line([[v.t, 1e-6], [v.t, 3]], { colour: view.colours.red, width: 1.5 });
            return plot;
          },
        },
      ],
      start: begin,
      rewind: (v) => { v.t = 0; },
      atEnd: (v) => v.t >= end,
      changed: (key, v, s) => { if (key !== "t") begin(v, s); },
      // a run is computed a few milliseconds at a time
      work: (v, s) => {
        const begun = performance.now();
        while (s.done < end - 1e-9 && performance.now() - begun < 12) {
          for (let k = 0; k < 2; k++) s.G = live.gramStep(s.G, n, v.beta, STEP);
          s.done = Number((s.done + 2 * STEP).toFixed(6));
          note(s);
        }
        return s.done < end - 1e-9;
      },
      frame: (seconds, v, s) => { v.t = Math.min(end, v.t + 4 * seconds); s.show(); return v.t < end; },
      say: (v, s) => {
        const here = met(v, s), side = v.t < live.hittingTime(v.beta, n, kept.delta);
        return `β = ${live.shown(v.beta)}, t = ${live.shown(v.t)}: ${(100 * share(v.d, v.beta, v.t)).toFixed(0)} % of pairs have met in the stored run, `
          + (here === undefined ? "the live run is on its way" : `${(100 * here).toFixed(0)} % in the live one`) + `; the limit curve says ${side ? "apart" : "together"}.`;
      },
    });
  };
})();
