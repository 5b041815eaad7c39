// Drawing: canvases that are sharp on every screen, colours of the page's theme, axes with ticks.
(() => {
  "use strict";
  const live = window.attnflow;

  live.element = (tag, settings = {}, children = []) => {
    const made = document.createElement(tag);
    Object.keys(settings).forEach((name) => {
      if (name === "text") made.textContent = settings.text;
      else made.setAttribute(name, settings[name]);
    });
    made.append(...children);
    return made;
  };

  // The colours of attnflow.figures, with the text and the ground of the page.
  live.colours = () => {
    const style = getComputedStyle(document.documentElement);
    const of = (name, otherwise) => style.getPropertyValue(name).trim() || otherwise;
    return {
      ink: of("--pst-color-text-base", "#222"), muted: of("--pst-color-text-muted", "#777"), ground: of("--pst-color-background", "#fff"),
      blue: "#3a86c8", orange: "#e0862e", green: "#2a9d74", purple: "#a874c8", red: "#d6504f", grey: "#8b919a",
    };
  };
  // Colours for shares between 0 and 1: dark blue to yellow.
  const stops = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
  live.ramp = (share) => {
    const at = Math.max(0, Math.min(0.9999, share)) * (stops.length - 1), k = Math.floor(at), part = at - k;
    return stops[k].map((c, i) => Math.round(c + part * (stops[k + 1][i] - c)));
  };
  live.rampColour = (share) => `rgb(${live.ramp(share).join(",")})`;

  // A number as a reader wants it: three digits, powers of ten where they are needed.
  live.shown = (value, digits = 3) => {
    if (!Number.isFinite(value)) return value > 0 ? "∞" : value < 0 ? "-∞" : "?";
    if (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e5)) {
      const [m, e] = value.toExponential(Math.max(0, digits - 2)).split("e");
      const small = String(Number(e)).replace("-", "⁻").replace(/\d/g, (d) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[d]);
      return (Number(m) === 1 ? "" : Number(m) === -1 ? "-" : `${Number(m)}·`) + `10${small}`;
    }
    return String(Number(value.toPrecision(digits)));
  };

  // The canvas made as large as its place, and cleared.
  live.view = (canvas, ratio) => {
    const width = Math.max(canvas.clientWidth, 60), height = Math.round(width * (typeof ratio === "function" ? ratio(width) : ratio)), sharp = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * sharp) || canvas.height !== Math.round(height * sharp)) {
      canvas.width = Math.round(width * sharp);
      canvas.height = Math.round(height * sharp);
      canvas.style.height = height + "px";
    }
    const c = canvas.getContext("2d");
    c.setTransform(sharp, 0, 0, sharp, 0, 0);
    c.globalAlpha = 1;
    c.setLineDash([]);
    c.clearRect(0, 0, width, height);
    c.font = "12px " + (getComputedStyle(canvas).fontFamily || "sans-serif");
    return { c, width, height, colours: live.colours() };
  };

  const linearTicks = (low, high, most) => {
    const raw = (high - low) / most, ten = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 5, 10].find((m) => m * ten >= raw) * ten;
    const out = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) out.push(Number((k * step).toPrecision(12)));
    return out;
  };
  const decades = (low, high, most) => {
    const a = Math.ceil(Math.log10(low) - 1e-9), b = Math.floor(Math.log10(high) + 1e-9), step = Math.max(1, Math.ceil((b - a + 1) / most)), out = [];
    for (let k = a; k <= b; k += step) out.push(10 ** k);
    return out.length > 1 ? out : [low, high];
  };

  // Axes over a view: {px, py, ux, uy, line, dots, text, clip}. space: x, y (ranges), xlog, ylog, equal, bare, xlabel, ylabel.
  live.plot = (view, space) => {
    const { c, colours } = view, left = space.bare ? 4 : space.left || 46, bottom = space.bare ? 4 : 34, top = space.top || (space.bare ? 4 : 8), right = space.bare ? 4 : 12;
    let [x0, x1] = space.x, [y0, y1] = space.y;
    const w = view.width - left - right, h = view.height - top - bottom;
    if (space.equal) {
      const unit = Math.max((x1 - x0) / w, (y1 - y0) / h), mx = (x0 + x1) / 2, my = (y0 + y1) / 2;
      [x0, x1, y0, y1] = [mx - unit * w / 2, mx + unit * w / 2, my - unit * h / 2, my + unit * h / 2];
    }
    const scale = (a, b, log) => (log ? { to: (v) => Math.log(v / a) / Math.log(b / a), from: (s) => a * (b / a) ** s } : { to: (v) => (v - a) / (b - a), from: (s) => a + s * (b - a) });
    const sx = scale(x0, x1, space.xlog), sy = scale(y0, y1, space.ylog);
    const plot = {
      view, x: [x0, x1], y: [y0, y1],
      px: (v) => left + w * sx.to(v), py: (v) => top + h * (1 - sy.to(v)),
      ux: (p) => sx.from((p - left) / w), uy: (p) => sy.from(1 - (p - top) / h),
      box: { left, top, width: w, height: h },
    };
    plot.clipped = (draw) => { c.save(); c.beginPath(); c.rect(left, top, w, h); c.clip(); draw(); c.restore(); };
    plot.line = (points, style = {}) => plot.clipped(() => {
      c.strokeStyle = style.colour || colours.ink; c.lineWidth = style.width || 1.8; c.globalAlpha = style.alpha || 1;
      c.setLineDash(style.dash || []);
      c.beginPath();
      let pen = false;
      for (const [x, y] of points) {
        const a = plot.px(x), b = Math.max(-1e4, Math.min(1e4, plot.py(y)));
        if (!Number.isFinite(a) || Number.isNaN(b)) { pen = false; continue; }
        if (pen) c.lineTo(a, b); else c.moveTo(a, b);
        pen = true;
      }
      if (style.closed) c.closePath();
      if (style.fill) { c.fillStyle = style.fill; c.globalAlpha = style.fillAlpha || 0.15; c.fill(); c.globalAlpha = style.alpha || 1; }
      if (style.width !== 0) c.stroke();
    });
    plot.dots = (points, style = {}) => plot.clipped(() => {
      c.globalAlpha = style.alpha || 1;
      points.forEach(([x, y], i) => {
        c.fillStyle = style.colours ? style.colours[i] : style.colour || colours.blue;
        c.beginPath(); c.arc(plot.px(x), plot.py(y), style.size || 4, 0, 2 * Math.PI); c.fill();
        if (style.rim) { c.strokeStyle = style.rim; c.lineWidth = style.rimWidth || 1.5; c.stroke(); }
      });
    });
    plot.arrow = (from, to, style = {}) => plot.clipped(() => {
      const a = plot.px(from[0]), b = plot.py(from[1]), p = plot.px(to[0]), q = plot.py(to[1]), length = Math.hypot(p - a, q - b);
      if (length < 1) return;
      const ux = (p - a) / length, uy = (q - b) / length, head = Math.min(7, length * 0.6);
      c.strokeStyle = c.fillStyle = style.colour || colours.ink; c.lineWidth = style.width || 1.6; c.globalAlpha = style.alpha || 1;
      c.beginPath(); c.moveTo(a, b); c.lineTo(p - ux * head, q - uy * head); c.stroke();
      c.beginPath(); c.moveTo(p, q); c.lineTo(p - ux * head - uy * head / 2, q - uy * head + ux * head / 2); c.lineTo(p - ux * head + uy * head / 2, q - uy * head - ux * head / 2); c.fill();
    });
    plot.text = (x, y, words, style = {}) => {
      c.fillStyle = style.colour || colours.ink; c.globalAlpha = 1; c.textAlign = style.align || "left"; c.textBaseline = style.base || "alphabetic";
      c.fillText(words, plot.px(x) + (style.dx || 0), plot.py(y) + (style.dy || 0));
      c.textAlign = "left"; c.textBaseline = "alphabetic";
    };
    plot.note = (words, row = 0, side = "left") => {
      c.fillStyle = colours.ink; c.globalAlpha = 1; c.textAlign = side;
      c.fillText(words, side === "left" ? left + 6 : left + w - 6, top + 16 + 16 * row);
      c.textAlign = "left";
    };
    c.strokeStyle = colours.muted; c.lineWidth = 1;
    if (space.bare) { c.globalAlpha = 0.35; c.strokeRect(left - 0.5, top - 0.5, w, h); c.globalAlpha = 1; return plot; }
    c.fillStyle = colours.ink;
    const xs = space.xlog ? decades(x0, x1, w / 55) : linearTicks(x0, x1, Math.max(3, w / 60)), ys = space.ylog ? decades(y0, y1, h / 26) : linearTicks(y0, y1, Math.max(2, h / 38));
    c.textAlign = "center";
    for (const v of xs) {
      const p = Math.round(plot.px(v)) + 0.5;
      c.globalAlpha = 0.18; c.beginPath(); c.moveTo(p, top); c.lineTo(p, top + h); c.stroke(); c.globalAlpha = 1;
      c.fillText(live.shown(v), p, top + h + 14);
    }
    c.textAlign = "right"; c.textBaseline = "middle";
    for (const v of ys) {
      const p = Math.round(plot.py(v)) + 0.5;
      c.globalAlpha = 0.18; c.beginPath(); c.moveTo(left, p); c.lineTo(left + w, p); c.stroke(); c.globalAlpha = 1;
      c.fillText(live.shown(v), left - 5, p);
    }
    c.textBaseline = "alphabetic";
    c.globalAlpha = 0.6; c.beginPath(); c.moveTo(left, top); c.lineTo(left, top + h); c.lineTo(left + w, top + h); c.stroke(); c.globalAlpha = 1;
    c.textAlign = "center";
    if (space.xlabel) c.fillText(space.xlabel, left + w / 2, view.height - 4);
    if (space.ylabel) { c.save(); c.translate(11, top + h / 2); c.rotate(-Math.PI / 2); c.fillText(space.ylabel, 0, 0); c.restore(); }
    c.textAlign = "left";
    return plot;
  };

  // A matrix of entries in [0, 1] as squares whose colour is as strong as the entry.
  live.squares = (plot, matrix, colour) => {
    const { c } = plot.view, { left, top, width, height } = plot.box, rows = matrix.length, columns = matrix[0].length;
    c.fillStyle = colour;
    matrix.forEach((row, i) => row.forEach((value, j) => {
      c.globalAlpha = Math.max(0, Math.min(1, value));
      c.fillRect(left + width * j / columns, top + height * i / rows, width / columns - 0.5, height / rows - 0.5);
    }));
    c.globalAlpha = 1;
  };
  // An image of shares, rows from below, in the colours of the ramp; drawn once and kept.
  live.image = (rows, columns, share) => {
    const canvas = live.element("canvas", { width: columns, height: rows }), c = canvas.getContext("2d"), data = c.createImageData(columns, rows);
    for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) data.data.set([...live.ramp(share(i, j)), 255], 4 * ((rows - 1 - i) * columns + j));
    c.putImageData(data, 0, 0);
    return canvas;
  };
  // The ellipse x^T S^{-1} x = r^2 as points.
  live.ellipse = (S, r, centre = [0, 0]) => {
    const half = live.root(S);
    return Array.from({ length: 73 }, (_, k) => {
      const a = k * Math.PI / 36, u = [r * Math.cos(a), r * Math.sin(a)];
      return [centre[0] + live.dot(half[0], u), centre[1] + live.dot(half[1], u)];
    });
  };
})();
