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
    const drawSphere = (view, v, s) => {
      const { c, colours } = view, r = Math.min(view.width, view.height) * 0.46, cx = view.width / 2, cy = view.height / 2;
      const cosY = Math.cos(s.turn.yaw), sinY = Math.sin(s.turn.yaw), cosT = Math.cos(s.turn.tilt), sinT = Math.sin(s.turn.tilt);
      const project = (a) => {
        const u = cosY * a[0] - sinY * a[1], w = sinY * a[0] + cosY * a[1];
        return { u: cx + r * u, w: cy - r * (cosT * a[2] - sinT * w), depth: cosT * w + sinT * a[2] };
      };
      c.strokeStyle = colours.muted;
      c.globalAlpha = 0.5; c.beginPath(); c.arc(cx, cy, r, 0, 2 * Math.PI); c.stroke();
      c.globalAlpha = 0.18;
      const circle = (at) => { c.beginPath(); for (let k = 0; k <= 60; k++) { const p = project(at(k * Math.PI / 30)); c.lineTo(p.u, p.w); } c.stroke(); };
      for (let ring = -2; ring <= 2; ring++) { const h = ring / 3, q = Math.sqrt(1 - h * h); circle((a) => [q * Math.cos(a), q * Math.sin(a), h]); }
      for (let k = 0; k < 4; k++) { const a = k * Math.PI / 4; circle((b) => [Math.cos(b) * Math.cos(a), Math.cos(b) * Math.sin(a), Math.sin(b)]); }
      const seen = s.x.map((a, i) => ({ ...project(a), i })).sort((a, b) => b.depth - a.depth);
      for (const p of seen) {
        const first = v.mask === "decoder" && p.i === 0;
        c.globalAlpha = p.depth > 0 ? 0.3 : 0.95;
        c.fillStyle = first ? colours.red : v.mask === "decoder" ? live.rampColour(0.15 + 0.75 * p.i / s.x.length) : colours.blue;
        c.beginPath(); c.arc(p.u, p.w, (p.depth > 0 ? 4 : 5.5) + (first ? 2 : 0), 0, 2 * Math.PI); c.fill();
        c.strokeStyle = colours.ground; c.lineWidth = 1; c.stroke();
      }
      c.globalAlpha = 1;
    };
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
        beta: { label: "β, inverse temperature", min: 0.1, max: 20, step: 0.1, value: 4 },
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
