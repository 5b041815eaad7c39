// A sphere that is turned: a net, and tokens that are paler behind it.
(() => {
  "use strict";
  const live = window.attnflow;

  // points: [x, y, z]; style: turn {yaw, tilt}, colour(i), size(i), tails [[points], ...].
  live.globe = (view, points, style) => {
    const { c, colours } = view, r = Math.min(view.width, view.height) * 0.46, cx = view.width / 2, cy = view.height / 2, { yaw, tilt } = style.turn;
    const cosY = Math.cos(yaw), sinY = Math.sin(yaw), cosT = Math.cos(tilt), sinT = Math.sin(tilt);
    const project = (a) => {
      const u = cosY * a[0] - sinY * a[1], w = sinY * a[0] + cosY * a[1];
      return { x: cx + r * u, y: cy - r * (cosT * a[2] - sinT * w), depth: cosT * w + sinT * a[2] };
    };
    const path = (line) => { c.beginPath(); line.forEach((a) => { const p = project(a); c.lineTo(p.x, p.y); }); c.stroke(); };
    const circle = (at) => path(Array.from({ length: 61 }, (_, k) => at(k * Math.PI / 30)));
    c.strokeStyle = colours.muted;
    c.globalAlpha = 0.5; c.beginPath(); c.arc(cx, cy, r, 0, 2 * Math.PI); c.stroke();
    c.globalAlpha = 0.18;
    for (let ring = -2; ring <= 2; ring++) { const h = ring / 3, q = Math.sqrt(1 - h * h); circle((a) => [q * Math.cos(a), q * Math.sin(a), h]); }
    for (let k = 0; k < 4; k++) { const a = k * Math.PI / 4; circle((b) => [Math.cos(b) * Math.cos(a), Math.cos(b) * Math.sin(a), Math.sin(b)]); }
    c.globalAlpha = 0.45; c.strokeStyle = colours.grey;
    (style.tails || []).forEach(path);
    const seen = points.map((a, i) => ({ ...project(a), i })).sort((a, b) => b.depth - a.depth);
    for (const p of seen) {
      c.globalAlpha = p.depth > 0 ? 0.3 : 0.95;
      c.fillStyle = style.colour(p.i);
      c.beginPath(); c.arc(p.x, p.y, (style.size ? style.size(p.i) : 5.5) - (p.depth > 0 ? 1.5 : 0), 0, 2 * Math.PI); c.fill();
      c.strokeStyle = style.rim || colours.ground; c.lineWidth = 1; c.stroke();
    }
    c.globalAlpha = 1;
  };
})();
