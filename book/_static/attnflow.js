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
