// Hands on a drawing: handles that are dragged or moved by arrow keys, and scenes that are turned.
// A finger that meets no handle scrolls the page as everywhere else.
(() => {
  "use strict";
  const live = window.attnflow;
  const REACH = 26;

  // panel: handles() -> [[x, y], ...] in the plot's coordinates; moved(i, [x, y]); anywhere; turned(dx, dy).
  live.hands = (canvas, panel, redraw) => {
    let held = -1, last = null;
    const place = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    const nearest = ([x, y]) => {
      if (!panel.handles || !panel.plot) return -1;
      let best = -1, least = panel.anywhere ? Infinity : REACH;
      panel.handles().forEach((point, i) => {
        const gap = Math.hypot(panel.plot.px(point[0]) - x, panel.plot.py(point[1]) - y);
        if (gap < least) { least = gap; best = i; }
      });
      return best;
    };
    const put = ([x, y]) => {
      const inside = (v, [a, b]) => Math.max(Math.min(a, b), Math.min(Math.max(a, b), v));
      panel.moved(held, [inside(panel.plot.ux(x), panel.plot.x), inside(panel.plot.uy(y), panel.plot.y)]);
      redraw();
    };
    // where the chosen point is, in pixels
    canvas.place = () => { const [x, y] = panel.handles()[panel.chosen]; return [panel.plot.px(x), panel.plot.py(y)]; };
    canvas.addEventListener("touchstart", (event) => {
      if (panel.turned || nearest(place(event.touches[0])) >= 0) event.preventDefault();
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      const at = place(event);
      held = nearest(at);
      if (held < 0 && !panel.turned) return;
      last = at;
      canvas.setPointerCapture(event.pointerId);
      if (held >= 0) { panel.chosen = held; put(at); }
    });
    canvas.addEventListener("pointermove", (event) => {
      const at = place(event);
      if (!last) { canvas.style.cursor = panel.turned ? "grab" : nearest(at) >= 0 ? "move" : ""; return; }
      if (held >= 0) put(at);
      else { panel.turned((at[0] - last[0]) / 120, (at[1] - last[1]) / 120); redraw(); }
      last = at;
    });
    const release = () => { last = null; held = -1; };
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", release);
    canvas.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
      if (by && panel.turned) panel.turned(0.1 * by[0], -0.1 * by[1]);
      else if (panel.handles && panel.plot) {
        const points = panel.handles(), count = points.length, chosen = Math.min(panel.chosen || 0, count - 1);
        if (event.key === "n" || event.key === "p") panel.chosen = (chosen + (event.key === "n" ? 1 : count - 1)) % count;
        else if (by) {
          held = panel.chosen = chosen;
          put([panel.plot.px(points[chosen][0]) + 6 * by[0], panel.plot.py(points[chosen][1]) - 6 * by[1]]);
          held = -1;
        } else return;
      } else return;
      event.preventDefault();
      redraw();
    });
  };
})();
