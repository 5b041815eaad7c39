// What every laboratory shares: labelled controls, play and pause, a link that remembers, themes.
(function () {
  "use strict";
  var live = (window.attnflow = window.attnflow || {});
  live.labs = live.labs || {};
  var calm = window.matchMedia && matchMedia("(prefers-reduced-motion: reduce)").matches;

  function element(tag, settings, children) {
    var made = document.createElement(tag);
    Object.keys(settings || {}).forEach(function (name) {
      if (name === "text") made.textContent = settings.text;
      else made.setAttribute(name, settings[name]);
    });
    (children || []).forEach(function (child) { made.append(child); });
    return made;
  }
  live.element = element;

  live.colours = function () {
    var style = getComputedStyle(document.documentElement);
    var ink = style.getPropertyValue("--pst-color-text-base").trim() || "#222";
    return { ink: ink, muted: style.getPropertyValue("--pst-color-text-muted").trim() || "#888",
      ground: style.getPropertyValue("--pst-color-background").trim() || "#fff",
      series: ["#3a86c8", "#e0862e", "#2a9d74", "#a874c8", "#d6504f", "#8b919a"] };
  };

  // A canvas as wide as its column, sharp on every screen; draw(context, width, height).
  live.canvas = function (ratio, label) {
    var canvas = element("canvas", { role: "img", "aria-label": label, tabindex: "0" });
    canvas.prepare = function () {
      var width = Math.max(canvas.clientWidth, 50), height = Math.round(width * ratio), sharp = window.devicePixelRatio || 1;
      if (canvas.width !== Math.round(width * sharp) || canvas.height !== Math.round(height * sharp)) {
        canvas.width = Math.round(width * sharp);
        canvas.height = Math.round(height * sharp);
        canvas.style.height = height + "px";
      }
      var context = canvas.getContext("2d");
      context.setTransform(sharp, 0, 0, sharp, 0, 0);
      context.clearRect(0, 0, width, height);
      return { context: context, width: width, height: height };
    };
    return canvas;
  };

  // controls: {name: {label, min, max, step, value} or {label, choices, value}}; changed() after each.
  live.controls = function (root, name, controls, changed) {
    var asked = new URLSearchParams(location.hash.startsWith("#" + name + "?") ? location.hash.split("?")[1] : "");
    var values = {}, inputs = {}, panel = element("div", { class: "af-lab-controls" });
    Object.keys(controls).forEach(function (key) {
      var control = controls[key], given = asked.get(key), shown = element("output"), input;
      if (control.choices) {
        input = element("select", { name: key }, control.choices.map(function (c) { return element("option", { text: c }); }));
        values[key] = control.choices.includes(given) ? given : control.value;
      } else {
        input = element("input", { type: "range", name: key, min: control.min, max: control.max, step: control.step });
        var number = given === null ? NaN : Number(given);
        values[key] = number >= control.min && number <= control.max ? number : control.value;
      }
      input.value = values[key];
      inputs[key] = input;
      function tell() { shown.textContent = control.choices ? "" : String(Number(values[key].toPrecision(4))); }
      tell();
      input.addEventListener("input", function () {
        values[key] = control.choices ? input.value : Number(input.value);
        tell();
        changed(key);
      });
      input.reset = function () { input.value = values[key] = control.value; tell(); };
      panel.append(element("label", {}, [element("span", { text: control.label }), input, shown]));
    });
    root.append(panel);
    return {
      values: values,
      reset: function () { Object.keys(inputs).forEach(function (key) { inputs[key].reset(); }); changed(""); },
      link: function () {
        var query = new URLSearchParams();
        Object.keys(values).forEach(function (key) { query.set(key, values[key]); });
        return location.href.split("#")[0] + "#" + name + "?" + query;
      },
    };
  };

  // Play, pause, reset, link; frame(seconds) is called while playing and in view.
  live.player = function (root, controls, settings) {
    var playing = !calm, before = 0, inView = true;
    var play = element("button", { type: "button" }), bar = element("div", { class: "af-lab-bar" });
    function tell() { play.textContent = playing ? "pause" : "play"; play.setAttribute("aria-pressed", String(playing)); }
    play.addEventListener("click", function () { playing = !playing; tell(); });
    var again = element("button", { type: "button", text: "start again" });
    again.addEventListener("click", function () { settings.restart(); settings.draw(); });
    var defaults = element("button", { type: "button", text: "defaults" });
    defaults.addEventListener("click", controls.reset);
    var link = element("button", { type: "button", text: "link" });
    link.addEventListener("click", function () {
      var address = controls.link();
      try { history.replaceState(null, "", address); } catch (e) { location.hash = address.split("#")[1]; }
      if (navigator.clipboard) navigator.clipboard.writeText(address).catch(function () {});
      link.textContent = "link is in the address";
      setTimeout(function () { link.textContent = "link"; }, 1500);
    });
    bar.append(play, again, defaults, link);
    root.append(bar);
    tell();
    if (window.IntersectionObserver) new IntersectionObserver(function (seen) { inView = seen[0].isIntersecting; }).observe(root);
    new MutationObserver(settings.draw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
    window.addEventListener("resize", settings.draw);
    function tick(now) {
      var passed = Math.min((now - before) / 1000, 0.1);
      before = now;
      if (playing && inView && passed > 0) { settings.frame(passed); settings.draw(); }
      requestAnimationFrame(tick);
    }
    settings.draw();
    requestAnimationFrame(tick);
  };

  window.addEventListener("DOMContentLoaded", function () {
    document.querySelectorAll(".af-lab[data-lab]").forEach(function (root) {
      var make = live.labs[root.dataset.lab];
      if (make) { root.replaceChildren(); make(root); }
    });
  });
})();
