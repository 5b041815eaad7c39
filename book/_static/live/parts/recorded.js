// Recorded players: frames that were computed while the chapter ran, under the same controls as the laboratories.
(() => {
  "use strict";
  const live = window.attnflow;
  const RATE = 16, TRAIL = 40;

  // The way of a token: on a circle it is an arc, however few frames there are.
  const arc = (from, to) => {
    const a = Math.atan2(from[1], from[0]), turn = Math.atan2(to[1], to[0]) - a, short = turn - 2 * Math.PI * Math.round(turn / (2 * Math.PI));
    const parts = Math.ceil(Math.abs(short) / 0.05);
    return Array.from({ length: parts }, (_, k) => [Math.cos(a + (short * (k + 1)) / parts), Math.sin(a + (short * (k + 1)) / parts)]);
  };
  const way = (points, round) => (round ? points.flatMap((p, k) => (k ? arc(points[k - 1], p) : [p])) : points);

  const tokens = (kept) => kept.panels.map(({ title, states, reach, round = states.every((now) => now.every((p) => Math.abs(Math.hypot(...p) - 1) < 2e-3)) }) => ({
    title, ratio: 1, label: title,
    draw: (view, v) => {
      const plot = live.plot(view, { x: [-reach, reach], y: [-reach, reach], equal: true, left: 34 }), k = v.frame, now = states[k], few = now.length <= 120;
      if (few) now.forEach((_, i) => plot.line(way(states.slice(Math.max(0, k - TRAIL), k + 1).map((step) => step[i]), round), { colour: view.colours.grey, width: 1, alpha: 0.6 }));
      plot.dots(now, { colours: kept.colour.map(live.rampColour), size: few ? 4.5 : 2.6, rim: few ? view.colours.grey : "", rimWidth: 1 });
      return plot;
    },
  }));
  const sphere = (kept) => [{
    label: "Tokens on a sphere.", ratio: (width) => Math.min(0.9, 430 / width),
    turned: (dx, dy, v, s) => { s.turn.yaw += dx; s.turn.tilt += dy; },
    draw: (view, v, s) => live.globe(view, kept.states[v.frame], {
      turn: s.turn, rim: view.colours.grey, colour: (i) => live.rampColour(kept.colour[i]),
      tails: kept.states[0].map((_, i) => kept.states.slice(Math.max(0, v.frame - 6), v.frame + 1).map((step) => step[i])),
    }),
  }];
  const STYLES = [["grey", 5], ["blue", 2], ["orange", 2], ["green", 2], ["purple", 2]];
  const curves = (kept) => [{
    label: "Curves that change in time.", ratio: (width) => (width < 500 ? 0.75 : 0.46),
    legend: kept.frames[0].map((curve, k) => [curve.label, STYLES[k % 5][0]]),
    draw: (view, v) => {
      const plot = live.plot(view, { x: kept.x, y: kept.y });
      kept.frames[v.frame].forEach((curve, k) => plot.line(curve.x.map((x, i) => [x, curve.y[i]]), { colour: view.colours[STYLES[k % 5][0]], width: STYLES[k % 5][1] }));
      return plot;
    },
  }];
  const KINDS = { tokens, sphere, curves };

  live.recorded = (root) => {
    const kept = live.data(root), panels = KINDS[root.dataset.recorded](kept), last = kept.times.length - 1;
    live.lab(root, root.dataset.name, {
      panels, columns: panels.length === 4 ? 2 : Math.min(panels.length, 3),
      controls: { frame: { label: kept.clock, min: 0, max: last, step: 1, value: kept.start, words: (k) => kept.times[k] } },
      start: (v, s) => { s.at = v.frame; s.turn = s.turn || { yaw: 0.5, tilt: 0.35 }; },
      rewind: (v) => { v.frame = 0; },
      atEnd: (v) => v.frame >= last,
      changed: (key, v, s) => { s.at = v.frame; },
      frame: (seconds, v, s) => { s.at = Math.min(last, s.at + RATE * seconds); v.frame = Math.floor(s.at); s.show(); return v.frame < last; },
    });
  };
})();
