// Laboratory: tokens on the circle in the clock (log t) / beta. Nearest clusters merge; in a decoder the later one falls.
(() => {
  "use strict";
  const live = window.attnflow;
  const TURN = 2 * Math.PI, BETA = 100;

  live.labs.stairs = (root) => {
    const on = (a) => [Math.cos(a), Math.sin(a)], angle = ([x, y]) => (Math.atan2(y, x) + TURN) % TURN;
    const start = (v, s) => {
      const points = v.tokens && v.tokens.length === v.n ? v.tokens : live.spherePoints(v.n, 2, v.seed);
      s.angles = points.map(angle);
      if (v.rule !== "decoder") s.events = live.coalesce(s.angles, v.rule === "encoder (SA)");
      else {
        const rule = live.captures(s.angles);
        s.events = rule.radii.map((r, j) => ({ level: 2 * Math.sin(Math.min(r, Math.PI) / 2) ** 2, kept: rule.by[j], lost: j })).slice(1).sort((a, b) => a.level - b.level);
        s.events.forEach((e) => { e.place = s.angles[e.kept]; });
      }
    };
    // clusters at a clock, and the lines that led there
    const until = (clock, s) => {
      const now = s.angles.map((at) => ({ at, mass: 1, since: 0 })), lines = [];
      for (const e of s.events) {
        if (e.level > clock) break;
        [e.kept, e.lost].forEach((k) => lines.push({ from: now[k].since, to: e.level, at: now[k].at, mass: now[k].mass }));
        now[e.kept] = { at: e.place, mass: now[e.kept].mass + now[e.lost].mass, since: e.level };
        now[e.lost] = null;
      }
      const left = now.map((c, i) => c && { ...c, first: i }).filter(Boolean);
      left.forEach((c) => lines.push({ from: c.since, to: clock, at: c.at, mass: c.mass }));
      return { left, lines };
    };
    const colour = (view, v, i) => (v.rule === "decoder" && i === 0 ? view.colours.red : view.colours.blue);
    live.lab(root, "stairs", {
      auto: true, loop: true,
      controls: {
        clock: { label: "clock (log t) / β", min: 0, max: 2, step: 0.01, value: 0.5 },
        rule: { label: "attention", choices: ["encoder (SA)", "encoder (USA)", "decoder"], value: "encoder (SA)" },
        n: { label: "tokens n", min: 3, max: 24, step: 1, value: 9 },
        seed: { label: "start", min: 0, max: 99, step: 1, value: 4 },
        tokens: { points: true },
      },
      panels: [
        {
          title: "drag a token", ratio: 0.92, label: "Tokens on a circle where they started, and the clusters at the chosen clock.",
          handles: (v, s) => s.angles.map(on),
          moved: (i, point, v, s) => { v.tokens = s.angles.map(on); v.tokens[i] = on(Math.atan2(point[1], point[0])); start(v, s); },
          legend: [["clusters, larger with more tokens", "blue", "dot"], ["where tokens started", "grey", "dot"]],
          draw: (view, v, s) => {
            const plot = live.plot(view, { x: [-1.25, 1.25], y: [-1.25, 1.25], equal: true, bare: true });
            plot.line(Array.from({ length: 121 }, (_, k) => on(TURN * k / 120)), { colour: view.colours.grey, width: 1, alpha: 0.6 });
            until(v.clock, s).left.forEach((c) => plot.dots([on(c.at)], { colour: colour(view, v, c.first), size: 5 + 3 * Math.sqrt(c.mass), alpha: 0.85 }));
            plot.dots(s.angles.map(on), { colour: view.colours.ground, size: 3.5, rim: view.colours.grey });
            return plot;
          },
        },
        {
          title: "the merges", ratio: 0.86, label: "The angle of every cluster over the clock; lines join where clusters merge.",
          legend: [["clusters", "blue"], ["now", "red", "dash"]],
          draw: (view, v, s) => {
            const plot = live.plot(view, { x: [0, 2], y: [0, TURN], xlabel: "clock (log t) / β", ylabel: "angle", left: 40 }), faint = until(2, s).lines;
            faint.forEach((l) => plot.line([[l.from, l.at], [l.to, l.at]], { colour: view.colours.grey, width: 1, alpha: 0.5 }));
            until(v.clock, s).lines.forEach((l) => plot.line([[l.from, l.at], [l.to, l.at]], { colour: view.colours.blue, width: 1 + 0.6 * l.mass }));
            plot.line([[v.clock, 0], [v.clock, TURN]], { colour: view.colours.red, width: 1.4, dash: [5, 4] });
            return plot;
          },
        },
      ],
      start,
      rewind: (v) => { v.clock = 0; },
      atEnd: (v) => v.clock >= 2,
      changed: (key, v, s) => { if (key === "seed" || key === "n") v.tokens = null; if (key !== "clock") start(v, s); },
      frame: (seconds, v, s) => { v.clock = Math.min(2, v.clock + 0.2 * seconds); s.show(); return v.clock < 2; },
      say: (v, s) => {
        const count = until(v.clock, s).left.length, next = s.events.find((e) => e.level > v.clock);
        const words = `Clock ${v.clock.toFixed(2)}: ${count} cluster${count > 1 ? "s" : ""} of ${v.n} tokens.`;
        if (!next) return `${words} All have met${v.rule === "decoder" ? " at the first token (red)" : ""}.`;
        return `${words} The next merge is at ${next.level.toFixed(3)}: at β = ${BETA} this is the time ${live.shown(10 ** Math.round(BETA * next.level / Math.LN10))}, up to powers of β.`;
      },
    });
  };
})();
