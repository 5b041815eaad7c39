// A link to a row opens the folds that it is in.
(function () {
  function unfold() {
    var found = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!found) return;
    for (var at = found.parentElement; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    found.scrollIntoView();
  }
  window.addEventListener("hashchange", unfold);
  window.addEventListener("load", unfold);
})();

// The ledger: one row a claim; the form hides what is not asked for, and the address remembers it.
(function () {
  function start() {
    var form = document.querySelector(".af-filters");
    if (!form) return;
    var fields = Array.from(form.querySelectorAll("[data-filter]")), rows = Array.from(document.querySelectorAll("details.af-claim"));
    var asked = new URLSearchParams(location.search);
    fields.forEach(function (field) { field.value = asked.get(field.dataset.filter) || ""; });
    function apply() {
      var seen = 0, kept = new URLSearchParams();
      fields.forEach(function (field) { if (field.value) kept.set(field.dataset.filter, field.value); });
      rows.forEach(function (row) {
        var fits = fields.every(function (field) {
          var name = field.dataset.filter, value = field.value.toLowerCase();
          return !value || (name === "text" ? row.dataset.text.includes(value) : row.dataset[name] === field.value);
        });
        row.hidden = !fits;
        seen += fits;
      });
      document.querySelectorAll(".af-ledger section").forEach(function (part) {
        part.hidden = !part.querySelector("details.af-claim:not([hidden])") && !!part.querySelector("details.af-claim");
      });
      form.querySelector("output").textContent = seen + " of " + rows.length + " claims";
      var query = kept.toString();
      try { history.replaceState(null, "", location.pathname + (query ? "?" + query : "") + location.hash); } catch (e) { /* opened as a file */ }
    }
    form.hidden = false;
    form.addEventListener("input", apply);
    apply();
  }
  window.addEventListener("DOMContentLoaded", start);
})();

// On a phone a tap enlarges a drawing, so far that its smallest letters can be read.
(function () {
  var LEAST = 12, WIDTH = 820;
  function smallest(drawing) {
    var least = Infinity;
    drawing.querySelectorAll("g[transform*='scale(']").forEach(function (word) {
      var at = word.querySelector(":scope > use") && word.getScreenCTM();
      if (at) least = Math.min(least, 100 * Math.hypot(at.a, at.b)); // letters have 100 units to the em
    });
    return least;
  }
  document.addEventListener("click", function (event) {
    var drawing = event.target.closest("figure.af-figure svg, figure.af-figure img");
    if (!drawing || window.innerWidth > 600 || drawing.closest(".af-lab")) return;
    var figure = drawing.closest("figure.af-figure"), now = drawing.getBoundingClientRect().width;
    var wanted = drawing.tagName === "IMG" ? WIDTH : Math.max(WIDTH, Math.ceil((now * LEAST) / smallest(drawing)));
    if (figure.classList.toggle("af-large")) figure.style.setProperty("--af-large", wanted + "px");
  });
})();
