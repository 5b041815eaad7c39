// Laboratory: tokens on the sphere. Move beta, the number of tokens and the mask; see them gather.
(() => {
  "use strict";
  const live = window.attnflow;

  live.labs.sphere = (root) => {
    const how = (v) => ({ causal: v.mask === "decoder", usa: v.norm.startsWith("un") });
    const start = (v, s) => {
      s.x = live.spherePoints(v.n, 3, v.seed);
      s.t = 0;
      s.turn = s.turn || { yaw: 0.5, tilt: 0.35 };
      s.energies = [[0, live.sphereEnergy(s.x, v.beta)]];
    };
    const drawSphere = (view, v, s) => live.globe(view, s.x, {
      turn: s.turn, size: (i) => (v.mask === "decoder" && i === 0 ? 7.5 : 5.5),
      colour: (i) => (v.mask === "encoder" ? view.colours.blue : i === 0 ? view.colours.red : live.rampColour(0.15 + 0.75 * i / s.x.length)),
    });
    const drawCurve = (view, v, s) => {
      const best = Math.exp(v.beta) / (2 * v.beta), least = Math.min(...s.energies.map((e) => e[1]), best * 0.999), end = Math.max(s.t, 2);
      const plot = live.plot(view, { x: [0, end], y: [least * 0.97, best * 1.06], ylog: best / least > 8, left: 56, xlabel: "time t" });
      plot.line([[0, best], [end, best]], { dash: [5, 4], colour: view.colours.grey });
      plot.line(s.energies, { colour: view.colours.orange, width: 2 });
      return plot;
    };
    live.lab(root, "sphere", {
      auto: true, loop: true,
      controls: {
        beta: { label: "β, 1 / temperature", min: 0.1, max: 20, step: 0.1, value: 4 },
        n: { label: "tokens n", min: 2, max: 64, step: 1, value: 32 },
        mask: { label: "mask", choices: ["encoder", "decoder"], value: "encoder" },
        norm: { label: "weights", choices: ["softmax (SA)", "unnormalised (USA)"], value: "softmax (SA)" },
        seed: { label: "start", min: 0, max: 99, step: 1, value: 7 },
      },
      panels: [
        { title: "tokens on the sphere", label: "Tokens on a sphere that move under attention.", ratio: 0.92, draw: drawSphere, turned: (dx, dy, v, s) => { s.turn.yaw += dx; s.turn.tilt += dy; } },
        { title: "energy E(t)", label: "The energy over time.", ratio: 0.8, draw: drawCurve, legend: [["energy", "orange"], ["all in one place", "grey", "dash"]] },
      ],
      start,
      changed: (key, v, s) => { if (key !== "beta") start(v, s); else s.energies = [[s.t, live.sphereEnergy(s.x, v.beta)]]; },
      frame: (seconds, v, s) => {
        // without a denominator the field is up to e^beta / n large: steps follow it
        const left = 1.5 * seconds, most = 0.05 / (how(v).usa ? Math.max(1, Math.exp(v.beta) / s.x.length) : 1), steps = Math.min(40, Math.ceil(left / most));
        for (let k = 0; k < steps; k++) s.x = live.sphereStep(s.x, v.beta, Math.min(left / steps, most), how(v));
        s.t += Math.min(left, steps * most);
        s.energies.push([s.t, live.sphereEnergy(s.x, v.beta)]);
        if (s.energies.length > 1500) s.energies = s.energies.filter((_, i) => i % 2 === 0);
        s.still = live.clusters(s.x, 0.999999) === 1 ? (s.still || 0) + left : 0;
        return s.still < 3 && s.t < 400;
      },
      say: (v, s) => {
        const groups = live.clusters(s.x, 0.99), fastest = Math.max(...live.sphereVelocity(s.x, v.beta, how(v)).map((a) => Math.hypot(...a)));
        return `t = ${s.t.toFixed(1)}: ${groups} group${groups > 1 ? "s" : ""} of ${v.n} tokens; the fastest has speed ${live.shown(fastest, 2)}.` + (groups === 1 ? " Everyone has met." : v.mask === "decoder" ? " All follow the first token (red)." : "");
      },
    });
  };
})();
