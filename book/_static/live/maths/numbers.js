// Vectors, matrices as arrays of rows, and random numbers from a seed.
// One namespace and no modules: pages that are opened as plain files work, too.
(() => {
  "use strict";
  const live = (window.attnflow = window.attnflow || {});

  live.dot = (a, b) => {
    let sum = 0;
    for (let k = 0; k < a.length; k++) sum += a[k] * b[k];
    return sum;
  };
  live.transpose = (A) => A[0].map((_, j) => A.map((row) => row[j]));
  live.times = (A, B) => {
    const columns = live.transpose(B);
    return A.map((row) => columns.map((column) => live.dot(row, column)));
  };
  live.plus = (A, B, factor = 1) => A.map((row, i) => row.map((v, j) => v + factor * B[i][j]));
  live.scaled = (A, factor) => A.map((row) => row.map((v) => factor * v));
  live.diagonal = (entries) => entries.map((v, i) => entries.map((_, j) => (i === j ? v : 0)));
  live.identity = (d) => live.diagonal(new Array(d).fill(1));
  // A x_i for tokens that are rows.
  live.mapped = (A, x) => x.map((token) => A.map((row) => live.dot(row, token)));
  live.squaredDistance = (a, b) => {
    let sum = 0;
    for (let k = 0; k < a.length; k++) sum += (a[k] - b[k]) * (a[k] - b[k]);
    return sum;
  };

  // The line of least squares through (log x, log y): y is about constant * x^slope.
  live.powerLaw = (xs, ys) => {
    const mean = (values) => values.reduce((sum, v) => sum + v, 0) / values.length, a = xs.map(Math.log), b = ys.map(Math.log), ma = mean(a), mb = mean(b);
    const slope = a.reduce((sum, v, k) => sum + (v - ma) * (b[k] - mb), 0) / a.reduce((sum, v) => sum + (v - ma) * (v - ma), 0);
    return { slope, constant: Math.exp(mb - slope * ma) };
  };

  // Numbers in [0, 1) from a seed: a small generator, so that a link gives the same picture.
  live.random = (seed) => {
    let state = (seed >>> 0) + 0x6d2b79f5;
    return () => {
      state = (state + 0x6d2b79f5) | 0;
      let t = Math.imul(state ^ (state >>> 15), 1 | state);
      t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
  };
  live.gaussian = (uniform) => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
  live.gaussians = (n, d, seed) => {
    const uniform = live.random(seed);
    return Array.from({ length: n }, () => Array.from({ length: d }, () => live.gaussian(uniform)));
  };
})();
