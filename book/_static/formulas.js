// Formulas are typeset where the reader is, then the others a few at a time, so that the page answers meanwhile.
// MathJax.startup.promise is kept once all are there.
(function () {
  var SPAN = 60; // milliseconds in which a page may not listen
  var settings = (window.MathJax = window.MathJax || {});
  var moved = false;
  ["wheel", "touchstart", "keydown", "pointerdown"].forEach(function (name) {
    window.addEventListener(name, function () { moved = true; }, { passive: true, once: true });
  });

  function pending() {
    var found = document.querySelectorAll(".math, .mathjax_process, .tex2jax_process, .output_area");
    return Array.from(found).filter(function (part) {
      return /\\[([]|\\begin|\$/.test(part.textContent) && !part.parentElement.closest(".math, .mathjax_process, .tex2jax_process, .output_area");
    });
  }
  function inView(part) {
    var box = part.getBoundingClientRect();
    return box.bottom > -200 && box.top < window.innerHeight + 200;
  }
  function rest() { return new Promise(function (go) { setTimeout(go); }); }

  async function all() {
    var waiting = pending(), near = waiting.filter(inView), seen = new Set();
    if (near.length) await typeset(near);
    waiting = new Set(waiting.filter(function (part) { return !near.includes(part); }));
    var watch = new IntersectionObserver(function (found) {
      found.forEach(function (entry) { if (entry.isIntersecting) seen.add(entry.target); else seen.delete(entry.target); });
    }, { rootMargin: "100% 0px" });
    waiting.forEach(function (part) { watch.observe(part); });
    for (var many = 8; waiting.size; ) {
      await rest();
      var next = [];
      for (var part of seen) if (waiting.has(part) && next.length < many) next.push(part);
      for (part of waiting) { if (next.length >= many) break; if (!next.includes(part)) next.push(part); }
      var begun = performance.now();
      await typeset(next);
      var took = performance.now() - begun;
      next.forEach(function (part) { waiting.delete(part); watch.unobserve(part); });
      many = Math.max(4, Math.min(120, Math.round(many * Math.min(2, SPAN / took))));
    }
    watch.disconnect();
    await window.MathJax.typesetPromise(); // what is outside of the marked parts
    var target = !moved && location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target) target.scrollIntoView();
  }
  async function typeset(parts) {
    await window.MathJax.typesetPromise(parts);
    fit(parts);
  }

  // A formula in a sentence that is wider than its column scrolls in itself.
  function fit(parts) {
    var formulas = [];
    parts.forEach(function (part) { formulas.push.apply(formulas, part.querySelectorAll("mjx-container:not([display])")); });
    var wide = formulas.map(function (formula) {
      var drawing = formula.firstElementChild, column = formula.closest("p, li, dd, td, th, figcaption, summary > *, div");
      return drawing && column && drawing.getBoundingClientRect().width > column.clientWidth;
    });
    formulas.forEach(function (formula, k) { formula.classList.toggle("af-wide", !!wide[k]); });
  }
  function fitAll() { fit([document.body]); }

  settings.svg = { fontCache: "global" };
  settings.startup = {
    typeset: false,
    ready: function () {
      window.MathJax.startup.defaultReady();
      window.MathJax.startup.promise = window.MathJax.startup.promise.then(all);
      document.addEventListener("toggle", fitAll, true);
      window.addEventListener("resize", fitAll);
    },
  };
})();
