// Formulas: the page is drawn first, then MathJax typesets where the reader is, then the rest a few at a time, so that
// the page answers meanwhile. window.formulas is a promise, kept once all are there.
(function () {
  var SPAN = 50; // milliseconds in which the page may not listen
  var MARKED = ".math, .mathjax_process, .tex2jax_process, .output_area";
  var settings = (window.MathJax = window.MathJax || {}), moved = false;
  ["wheel", "touchstart", "keydown", "pointerdown"].forEach(function (name) {
    window.addEventListener(name, function () { moved = true; }, { passive: true, once: true });
  });

  function pending() {
    return Array.from(document.querySelectorAll(MARKED)).filter(function (part) {
      return /\\[([]|\\begin|\$/.test(part.textContent) && !part.parentElement.closest(MARKED);
    });
  }
  function inView(part) {
    var box = part.getBoundingClientRect();
    return box.bottom > 0 && box.top < window.innerHeight;
  }
  function rest() { return new Promise(function (go) { setTimeout(go); }); }

  async function all() {
    var waiting = new Set(pending()), near = Array.from(waiting).filter(inView), seen = new Set();
    if (near.length) await typeset(near, waiting);
    var watch = new IntersectionObserver(function (found) {
      found.forEach(function (entry) { if (entry.isIntersecting) seen.add(entry.target); else seen.delete(entry.target); });
    }, { rootMargin: "100% 0px" });
    waiting.forEach(function (part) { watch.observe(part); });
    for (var many = 8; waiting.size; ) {
      await rest();
      var next = new Set(), part;
      for (part of seen) if (waiting.has(part) && next.size < many) next.add(part);
      for (part of waiting) { if (next.size >= many) break; next.add(part); }
      var begun = performance.now();
      await typeset(Array.from(next), waiting);
      many = Math.max(4, Math.min(120, Math.round(many * Math.min(2, SPAN / (performance.now() - begun)))));
    }
    watch.disconnect();
    await window.MathJax.typesetPromise(); // what is outside of the marked parts
    var target = !moved && location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target) target.scrollIntoView();
  }
  async function typeset(parts, waiting) {
    await window.MathJax.typesetPromise(parts);
    parts.forEach(function (part) { waiting.delete(part); });
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
    formulas.forEach(function (formula, k) {
      formula.classList.toggle("af-wide", !!wide[k]);
      var around = formula.closest(".af-together");
      if (around) around.classList.toggle("af-loose", !!wide[k]);
    });
  }

  window.formulas = new Promise(function (kept) {
    settings.svg = { fontCache: "global" };
    settings.startup = {
      typeset: false,
      ready: function () {
        window.MathJax.startup.defaultReady();
        window.MathJax.startup.promise.then(all).then(kept);
        var fitAll = function () { fit([document.body]); };
        document.addEventListener("toggle", fitAll, true);
        window.addEventListener("resize", fitAll);
      },
    };
    window.addEventListener("DOMContentLoaded", function () {
      var source = document.querySelector("script[type='text/x-formulas']");
      if (!source) return kept();
      requestAnimationFrame(function () {
        var script = document.createElement("script");
        script.src = source.src;
        document.head.append(script);
      });
    });
  });
})();
