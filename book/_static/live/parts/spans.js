// Words of a text coloured by a number, with a choice of what the number is and a slider over layers.
(() => {
  "use strict";
  const live = window.attnflow;

  // {tokens: [words], values: {name: [[a value a token] a layer]}, layers: [names], about: {name: sentence}, low, high}
  live.spans = (root) => {
    const kept = live.data(root), names = Object.keys(kept.values), layers = kept.layers, name = root.dataset.name;
    const text = live.element("p", { class: "af-spans-text" }), says = live.element("p", { class: "af-lab-says", role: "status" }), panel = live.element("div", { class: "af-lab-controls" });
    const bar = live.element("div", { class: "af-spans-scale" }), low = live.element("span"), high = live.element("span");
    const colour = (share) => { const [r, g, b] = live.ramp(0.15 + 0.85 * share); return `rgba(${r},${g},${b},${(0.25 + 0.6 * share).toFixed(3)})`; };
    const stripe = live.element("i");
    stripe.style.background = `linear-gradient(to right, ${[0, 0.25, 0.5, 0.75, 1].map(colour).join(",")})`;
    bar.append(low, stripe, high);
    const controls = { value: { label: "coloured by", choices: names, value: names[0] } };
    if (layers.length > 1) controls.layer = { label: kept.clock, min: 0, max: layers.length - 1, step: 1, value: kept.start, words: (k) => layers[k] };
    root.replaceChildren(text, bar, says, panel);
    const board = live.controls(panel, name, controls, paint), v = board.values;
    let chosen = -1;
    const words = kept.tokens.map((token, i) => {
      const word = live.element("span", { tabindex: "0", text: token.trim() ? token : "␣" });
      const point = () => { chosen = i; tell(); };
      word.addEventListener("pointerenter", point);
      word.addEventListener("focus", point);
      return word;
    });
    text.append(...words);
    function row() { return kept.values[v.value][Math.min(v.layer || 0, kept.values[v.value].length - 1)]; }
    // one scale for all layers of a quantity, so that layers can be compared
    function range() { const all = kept.values[v.value].flat(); return [Math.min(...all), Math.max(...all)]; }
    function tell() {
      says.textContent = chosen < 0 ? (kept.about[v.value] || "") + " Point at a word for its number." : `“${kept.tokens[chosen].trim()}”: ${v.value} ${live.shown(row()[chosen])}`;
    }
    function paint() {
      const [a, b] = range();
      row().forEach((value, i) => {
        const share = b > a ? (value - a) / (b - a) : 0;
        words[i].style.background = colour(share);
        words[i].style.color = share > 0.55 ? "#111" : ""; // the ramp ends bright, in either theme
        words[i].title = live.shown(value);
      });
      low.textContent = live.shown(a);
      high.textContent = live.shown(b);
      tell();
    }
    root.live = { frames: 0, state: v };
    window.addEventListener("hashchange", () => { if ([...live.asked(name)].length) { board.recall(); paint(); } });
    paint();
  };
})();
