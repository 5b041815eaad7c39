// What every laboratory is: panels, controls, a bar to play it, a sentence that says what is seen.
// Nothing runs while the laboratory is out of view, and nothing moves by itself for who asked for less motion.
(() => {
  "use strict";
  const live = window.attnflow;
  live.labs = live.labs || {};
  const SPEEDS = ["¼×", "½×", "1×", "2×", "4×"], FACTORS = [0.25, 0.5, 1, 2, 4];

  /* spec: controls; panels [{title, label, ratio, legend, draw(view, v, s) -> plot, handles, moved, turned}]; columns;
     start(v, s); changed(key, v, s), which is start unless given; frame(seconds, v, s) -> false at the end; atEnd(v, s);
     rewind(v, s) before a new start; work(v, s) -> whether more is to be computed; say(v, s); auto: plays by itself. v are the values, s the state. */
  live.lab = (root, name, spec) => {
    const s = {}, calm = window.matchMedia && matchMedia("(prefers-reduced-motion: reduce)").matches;
    const plays = !!spec.frame, stats = (root.live = { frames: 0, last: 0, worst: 0, state: s });
    let playing = plays && !!spec.auto && !calm, inView = true, asked = false, before = 0, rest = 0, told = 0, spent = 0;

    const grid = live.element("div", { class: "af-lab-panels af-lab-columns-" + (spec.columns || spec.panels.length) });
    const says = live.element("p", { class: "af-lab-says", role: "status" });
    const bar = live.element("div", { class: "af-lab-bar" }), panel = live.element("div", { class: "af-lab-controls" });
    root.replaceChildren(grid, ...(spec.say ? [says] : []), panel, bar);

    const controls = { ...spec.controls };
    if (plays) {
      controls.speed = { label: "speed", choices: SPEEDS, value: "1×", place: bar };
      controls.loop = { label: "loop", choices: ["off", "on"], value: spec.loop ? "on" : "off", place: bar };
    }
    const button = (text, act) => { const made = live.element("button", { type: "button", text }); made.addEventListener("click", act); return made; };
    const play = button("", () => { playing = !playing; if (playing && (s.ended || (spec.atEnd && spec.atEnd(v, s)))) restart(); tell(); want(); });
    const tell = () => {
      play.textContent = playing ? "❚❚ pause" : "▶ play";
      play.setAttribute("aria-pressed", String(playing));
      says.setAttribute("aria-live", playing ? "off" : "polite");
    };
    if (plays) bar.append(play, button("start again", () => { restart(); want(); }));
    const board = live.controls(panel, name, controls, (key) => {
      if (key !== "speed" && key !== "loop") change(key);
      want();
    });
    const v = board.values;
    s.show = board.show;
    bar.append(button("defaults", () => { board.reset(); s.ended = false; spec.start(v, s); want(); }));
    const link = button("link", () => {
      const address = board.link();
      try { history.replaceState(null, "", address); } catch (e) { location.hash = address.split("#")[1]; }
      if (navigator.clipboard) navigator.clipboard.writeText(address).catch(() => {});
      link.textContent = "link is in the address bar";
      setTimeout(() => { link.textContent = "link"; }, 1800);
    });
    bar.append(link);

    const panels = spec.panels.map((part) => {
      const handy = part.handles || part.turned;
      const hint = part.turned ? " Arrow keys turn it." : handy ? " Arrow keys move a point, n and p choose the next and previous one." : "";
      const canvas = live.element("canvas", handy || plays ? { role: "application", tabindex: "0", "aria-label": part.label + hint } : { role: "img", "aria-label": part.label });
      const drawn = { canvas, chosen: 0, draw: part.draw, ratio: part.ratio || 0.8, anywhere: part.anywhere };
      if (part.handles) { drawn.handles = () => part.handles(v, s); drawn.moved = (i, point) => { timed(() => part.moved(i, point, v, s, drawn)); s.ended = false; }; }
      if (part.turned) drawn.turned = (dx, dy) => part.turned(dx, dy, v, s);
      if (handy) live.hands(canvas, drawn, want);
      canvas.addEventListener("keydown", (event) => { if (event.key === " " && plays) { event.preventDefault(); play.click(); } });
      const box = live.element("div", { class: "af-lab-panel" });
      if (part.title) box.append(live.element("p", { class: "af-lab-title", text: part.title }));
      box.append(canvas);
      if (part.legend) box.append(live.element("ul", { class: "af-lab-legend" }, part.legend.map(([text, colour, kind]) => {
        const mark = live.element("i", { class: "af-mark-" + (kind || "line") });
        mark.style.color = live.colours()[colour] && colour !== "ink" ? live.colours()[colour] : "currentColor";
        return live.element("li", {}, [mark, text]);
      })));
      grid.append(box);
      return drawn;
    });

    function restart() { s.ended = false; rest = 0; if (spec.rewind) { spec.rewind(v, s); board.show(); } spec.start(v, s); }
    function change(key) { s.ended = false; timed(() => (spec.changed || ((_, v, s) => spec.start(v, s)))(key, v, s)); }
    // what a change costs before it can be drawn belongs to its frame
    function timed(act) { const begun = performance.now(); act(); spent += performance.now() - begun; }
    function draw(now) {
      for (const part of panels) {
        s.chosen = part.chosen;
        part.plot = part.draw(live.view(part.canvas, part.ratio), v, s) || part.plot;
      }
      if (spec.say && (!playing || now - told > 200)) { says.textContent = spec.say(v, s); told = now; }
    }
    function want() { if (!asked) { asked = true; requestAnimationFrame(tick); } }
    function tick(now) {
      asked = false;
      const passed = Math.min((now - before) / 1000, 0.05), begun = performance.now();
      before = now;
      let more = false;
      if (playing && inView) {
        if (s.ended) {
          rest += passed;
          if (v.loop === "off") { playing = false; tell(); } else if (rest > 1.2) restart();
        } else if (spec.frame(passed * FACTORS[SPEEDS.indexOf(v.speed)], v, s) === false) { s.ended = true; rest = 0; }
        more = playing;
      }
      stats.busy = Boolean(spec.work && spec.work(v, s));
      more = more || stats.busy;
      draw(now);
      stats.frames++;
      stats.last = performance.now() - begun + spent;
      spent = 0;
      stats.worst = Math.max(stats.worst, stats.last);
      if (more && inView) want();
    }

    if (window.IntersectionObserver) new IntersectionObserver((seen) => { inView = seen[0].isIntersecting; if (inView) want(); }).observe(root);
    new MutationObserver(want).observe(document.documentElement, { attributeFilter: ["data-theme"] });
    if (window.ResizeObserver) new ResizeObserver(want).observe(grid); else window.addEventListener("resize", want);
    window.addEventListener("hashchange", () => { if ([...live.asked(name)].length) { board.recall(); s.ended = false; spec.start(v, s); want(); reveal(); } });
    const reveal = () => (root.closest("figure") || root).scrollIntoView({ block: "start" });
    tell();
    spec.start(v, s);
    draw(0);
    want();
    if ([...live.asked(name)].length) { reveal(); window.addEventListener("load", reveal); }
  };

  // Data that the build put into the page for a laboratory.
  live.data = (root) => { const found = (root.closest("figure") || root).querySelector("script[type='application/json']"); return found && JSON.parse(found.textContent); };

  const begin = () => document.querySelectorAll(".af-lab").forEach((root) => {
    const make = root.dataset.lab ? live.labs[root.dataset.lab] : root.dataset.recorded ? live.recorded : live.spans;
    if (make && !root.live) make(root);
  });
  if (document.readyState === "complete") setTimeout(begin); else window.addEventListener("DOMContentLoaded", begin);
})();
