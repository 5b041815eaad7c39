// The book's mathematics in the browser: the same formulas as the package attnflow, which tests compare.
// Tokens are arrays of rows. One namespace and no modules: pages opened as plain files work, too.
(function () {
  "use strict";
  var live = (window.attnflow = window.attnflow || {});

  live.dot = function (a, b) {
    var sum = 0;
    for (var k = 0; k < a.length; k++) sum += a[k] * b[k];
    return sum;
  };

  // Rows of e^{scores} divided by their sums; with a causal mask row i ends at i.
  live.softmaxRows = function (scores, causal) {
    return scores.map(function (row, i) {
      var length = causal ? i + 1 : row.length, top = -Infinity, sum = 0, out = new Array(row.length).fill(0);
      for (var j = 0; j < length; j++) top = Math.max(top, row[j]);
      for (j = 0; j < length; j++) sum += out[j] = Math.exp(row[j] - top);
      for (j = 0; j < length; j++) out[j] /= sum;
      return out;
    });
  };

  // dx_i/dt = P_{x_i} sum_j A_ij x_j on the sphere; A with (SA) or without (USA) a denominator.
  live.sphereVelocity = function (x, beta, settings) {
    var causal = !!(settings && settings.causal), usa = !!(settings && settings.usa);
    var scores = x.map(function (a) { return x.map(function (b) { return beta * live.dot(a, b); }); });
    var weights = usa
      ? scores.map(function (row, i) {
          var seen = causal ? i + 1 : row.length;
          return row.map(function (s, j) { return j < seen ? Math.exp(s) / seen : 0; });
        })
      : live.softmaxRows(scores, causal);
    return x.map(function (a, i) {
      var mean = new Array(a.length).fill(0);
      for (var j = 0; j < x.length; j++)
        if (weights[i][j]) for (var k = 0; k < a.length; k++) mean[k] += weights[i][j] * x[j][k];
      var along = live.dot(mean, a);
      return mean.map(function (m, k) { return m - along * a[k]; });
    });
  };

  // E_beta = (1 / 2 beta n^2) sum_ij e^{beta <x_i, x_j>}, which never falls without a mask.
  live.sphereEnergy = function (x, beta) {
    var sum = 0;
    x.forEach(function (a) { x.forEach(function (b) { sum += Math.exp(beta * live.dot(a, b)); }); });
    return sum / (2 * beta * x.length * x.length);
  };

  function unit(a) {
    var norm = Math.sqrt(live.dot(a, a));
    return a.map(function (v) { return v / norm; });
  }
  live.unit = unit;

  // One step of Heun's method, back on the sphere.
  live.sphereStep = function (x, beta, h, settings) {
    var first = live.sphereVelocity(x, beta, settings);
    var ahead = x.map(function (a, i) { return unit(a.map(function (v, k) { return v + h * first[i][k]; })); });
    var second = live.sphereVelocity(ahead, beta, settings);
    return x.map(function (a, i) {
      return unit(a.map(function (v, k) { return v + (h / 2) * (first[i][k] + second[i][k]); }));
    });
  };

  // Uniform points on the sphere from a seed: a small generator, so that a link gives the same picture.
  live.random = function (seed) {
    var state = (seed >>> 0) + 0x6d2b79f5;
    return function () {
      state = (state + 0x6d2b79f5) | 0;
      var t = Math.imul(state ^ (state >>> 15), 1 | state);
      t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
  };
  live.gaussian = function (uniform) {
    return Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
  };
  live.spherePoints = function (n, d, seed) {
    var uniform = live.random(seed), out = [];
    for (var i = 0; i < n; i++) {
      var a = [];
      for (var k = 0; k < d; k++) a.push(live.gaussian(uniform));
      out.push(unit(a));
    }
    return out;
  };
})();
