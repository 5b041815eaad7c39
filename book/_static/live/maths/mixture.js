// Mixtures of Gaussians on the line: {weights, means, vars}. The heat flow adds t to every variance.
(() => {
  "use strict";
  const live = window.attnflow;

  const parts = (mix, x) => {
    let rho = 0, slope = 0, curve = 0;
    for (let k = 0; k < mix.weights.length; k++) {
      const off = x - mix.means[k], s = mix.vars[k], p = mix.weights[k] * Math.exp(-off * off / (2 * s)) / Math.sqrt(2 * Math.PI * s);
      rho += p;
      slope -= p * off / s;
      curve += p * (off * off / (s * s) - 1 / s);
    }
    return [rho, slope, curve];
  };
  const shares = (mix, x) => {
    const logs = mix.weights.map((w, k) => Math.log(w) - (x - mix.means[k]) ** 2 / (2 * mix.vars[k]) - Math.log(2 * Math.PI * mix.vars[k]) / 2);
    const top = Math.max(...logs), sum = logs.reduce((a, l) => a + Math.exp(l - top), 0);
    return { share: logs.map((l) => Math.exp(l - top) / sum), log: top + Math.log(sum) };
  };
  live.mixtureDensity = (mix, x) => x.map((v) => parts(mix, v)[0]);
  // rho'/rho, by the shares of the components: right in the tails, too.
  live.mixtureScore = (mix, x) => x.map((v) => shares(mix, v).share.reduce((sum, p, k) => sum - p * (v - mix.means[k]) / mix.vars[k], 0));
  // U = |score|^2 / 8 + score' / 4.
  live.mixturePotential = (mix, x) => x.map((v) => {
    let score = 0, square = 0;
    shares(mix, v).share.forEach((p, k) => {
      const pull = -(v - mix.means[k]) / mix.vars[k];
      score += p * pull;
      square += p * (pull * pull - 1 / mix.vars[k]);
    });
    return score * score / 8 + (square - score * score) / 4;
  });
  live.heated = (mix, t) => ({ weights: mix.weights, means: mix.means, vars: mix.vars.map((v) => v + t) });

  // Where the heat flow carries x between times t0 and t1: x' = -score_t / 2, by the method of order four.
  live.heatMap = (mix, x, t0, t1, steps) => {
    const h = (t1 - t0) / steps, speed = (y, t) => live.mixtureScore(live.heated(mix, t), y).map((s) => -s / 2);
    for (let k = 0; k < steps; k++) {
      const t = t0 + k * h, ahead = (v, by) => x.map((a, i) => a + by * v[i]);
      const k1 = speed(x, t), k2 = speed(ahead(k1, h / 2), t + h / 2), k3 = speed(ahead(k2, h / 2), t + h / 2), k4 = speed(ahead(k3, h), t + h);
      x = x.map((a, i) => a + (h / 6) * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]));
    }
    return x;
  };

  // A uniform grid with masses on which sums are as good as integrals: {x, h, weights}.
  live.lineGrid = (mix, h, reach = 8) => {
    const far = Math.max(...mix.means.map((m, k) => Math.abs(m) + reach * Math.sqrt(mix.vars[k]))), n = Math.ceil(far / h);
    const x = Array.from({ length: 2 * n + 1 }, (_, i) => h * (i - n)), rho = live.mixtureDensity(mix, x), sum = rho.reduce((a, b) => a + b, 0);
    return { x, h, rho, weights: rho.map((r) => r / sum) };
  };
  live.mixtureSample = (mix, n, seed) => {
    const uniform = live.random(seed), out = [];
    for (let i = 0; i < n; i++) {
      let u = uniform() * mix.weights.reduce((a, b) => a + b, 0), k = 0;
      while (k < mix.weights.length - 1 && u > mix.weights[k]) u -= mix.weights[k++];
      out.push(mix.means[k] + Math.sqrt(mix.vars[k]) * live.gaussian(uniform));
    }
    return out.sort((a, b) => a - b);
  };

  // (B(x) - x) / eps, what one layer of attention takes for half the score, at sorted points.
  live.scoreEstimate = (x, eps, weights) => {
    const mean = live.barycentric(live.selfBridge(x.map((v) => [v]), eps, weights));
    return x.map((v, i) => (mean[i][0] - v) / eps);
  };

  // The derivative of values at nodes a distance h apart; order eight, parabolas beyond the ends.
  live.gridDerivative = (f, h) => {
    const stencil = [4 / 5, -1 / 5, 4 / 105, -1 / 280], n = f.length;
    const beyond = (a, b, c, at) => a + (b - a) * at + (c - 2 * b + a) * at * (at - 1) / 2;
    const value = (i) => (i < 0 ? beyond(f[0], f[1], f[2], i) : i >= n ? beyond(f[n - 1], f[n - 2], f[n - 3], n - 1 - i) : f[i]);
    return f.map((_, i) => stencil.reduce((sum, c, k) => sum + c * (value(i + k + 1) - value(i - k - 1)), 0) / h);
  };
  // One explicit Euler step x - (eps / 2) score for nodes that carry the density rho_0 from a uniform grid.
  live.eulerStep = (x, eps, logRho0, h) => {
    const stretch = live.gridDerivative(x, h), slope = live.gridDerivative(logRho0.map((l, i) => l - Math.log(stretch[i])), h);
    return x.map((v, i) => v - eps / 2 * slope[i] / stretch[i]);
  };
  live.mixtureLog = (mix, x) => x.map((v) => shares(mix, v).log);
})();
