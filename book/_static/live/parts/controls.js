// Labelled controls whose values a link remembers: #lab-NAME?beta=4&n=32.
(() => {
  "use strict";
  const live = window.attnflow;
  const STEPS = 1000;

  // Values that the address asks of a laboratory.
  live.asked = (name) => {
    const start = "#lab-" + name + "?", hash = decodeURI(location.hash);
    return new URLSearchParams(hash.startsWith(start) ? hash.slice(start.length) : "");
  };
  const readPoints = (words) => {
    const points = (words || "").split(";").map((pair) => pair.split(",").map(Number));
    return points.length && points.every((p) => p.length === 2 && p.every((v) => Number.isFinite(v) && Math.abs(v) <= 100)) ? points : null;
  };

  // controls: {label, min, max, step, value} or with log: true; {label, choices, value}; {points: true}. One with
  // when: {other: value} has a say only then, and is disabled otherwise; words(value) is how its value is shown.
  live.controls = (panel, name, controls, changed) => {
    const values = {}, parts = {}, inputs = {};
    const means = (control) => Object.entries(control.when || {}).every(([other, value]) => values[other] === value);
    const enable = () => Object.keys(inputs).forEach((key) => { inputs[key].disabled = !means(controls[key]); });
    const read = (key, given) => {
      const control = controls[key];
      if (control.points) return readPoints(given);
      if (control.choices) return control.choices.includes(given) ? given : control.value;
      const number = given === null || given === "" ? NaN : Number(given);
      return number >= control.min && number <= control.max ? number : control.value;
    };
    Object.keys(controls).forEach((key) => {
      const control = controls[key];
      values[key] = read(key, live.asked(name).get(key));
      if (control.points) { parts[key] = () => {}; return; }
      const to = (v) => (control.log ? Math.round(STEPS * Math.log(v / control.min) / Math.log(control.max / control.min)) : v);
      const from = (p) => (control.log ? Number((control.min * (control.max / control.min) ** (p / STEPS)).toPrecision(3)) : Number(p));
      const words = control.words || ((value) => live.shown(value));
      const shown = live.element("output"), input = control.choices
        ? live.element("select", { name: key }, control.choices.map((c) => live.element("option", { text: c })))
        : live.element("input", { type: "range", name: key, min: control.log ? 0 : control.min, max: control.log ? STEPS : control.max, step: control.log ? 5 : control.step });
      inputs[key] = input;
      if (control.when) input.dataset.when = Object.entries(control.when).map((pair) => pair.join("=")).join();
      parts[key] = () => {
        input.value = control.choices ? values[key] : to(values[key]);
        if (control.choices) return;
        shown.textContent = words(values[key]);
        input.setAttribute("aria-valuetext", shown.textContent);
      };
      parts[key]();
      input.addEventListener("input", () => {
        values[key] = control.choices ? input.value : from(input.value);
        if (!control.choices) { shown.textContent = words(values[key]); input.setAttribute("aria-valuetext", shown.textContent); }
        enable();
        changed(key);
      });
      (control.place || panel).append(live.element("label", {}, [live.element("span", { text: control.label }), input, shown]));
    });
    const show = () => { Object.values(parts).forEach((part) => part()); enable(); };
    enable();
    return {
      values,
      show,
      reset: () => { Object.keys(controls).forEach((key) => { values[key] = controls[key].points ? null : controls[key].value; }); show(); },
      recall: () => { const asked = live.asked(name); Object.keys(controls).forEach((key) => { values[key] = read(key, asked.get(key)); }); show(); },
      link: () => {
        const query = Object.keys(controls).filter((key) => values[key] !== null).map((key) => {
          const value = controls[key].points ? values[key].map((p) => p.map((v) => Number(v.toFixed(3))).join(",")).join(";") : values[key];
          return key + "=" + encodeURIComponent(value).replace(/%2C/g, ",").replace(/%3B/g, ";");
        });
        return location.href.split("#")[0] + "#lab-" + name + "?" + query.join("&");
      },
    };
  };
})();
