// Plotly figures follow the page's theme: their text takes the colour of the page's text.
(function () {
  function paint() {
    if (!window.Plotly) return;
    var ink = getComputedStyle(document.documentElement).getPropertyValue("--pst-color-text-base").trim();
    document.querySelectorAll(".js-plotly-plot").forEach(function (plot) {
      window.Plotly.relayout(plot, { "font.color": ink });
    });
  }
  window.addEventListener("load", paint);
  new MutationObserver(paint).observe(document.documentElement, { attributeFilter: ["data-theme"] });
})();

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
