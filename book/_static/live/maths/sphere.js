// Tokens on the sphere: dx_i/dt = P_{x_i} sum_j A_ij x_j, A by softmax (SA) or without denominator (USA).
(() => {
  "use strict";
  const live = window.attnflow;
  live.unit = (a) => { const norm = Math.sqrt(live.dot(a, a)); return a.map((v) => v / norm); };

  // how: {causal, usa}
  live.sphereVelocity = (x, beta, how = {}) => {
    const scores = x.map((a) => x.map((b) => beta * live.dot(a, b)));
    const weights = how.usa
      ? scores.map((row, i) => {
          const seen = how.causal ? i + 1 : row.length;
          return row.map((s, j) => (j < seen ? Math.exp(s) / seen : 0));
        })
      : live.softmaxRows(scores, how.causal);
    return x.map((a, i) => {
      const mean = new Array(a.length).fill(0);
      for (let j = 0; j < x.length; j++)
        if (weights[i][j]) for (let k = 0; k < a.length; k++) mean[k] += weights[i][j] * x[j][k];
      const along = live.dot(mean, a);
      return mean.map((m, k) => m - along * a[k]);
    });
  };
  // E_beta = (1 / 2 beta n^2) sum_ij e^{beta <x_i, x_j>}, which never falls without a mask.
  live.sphereEnergy = (x, beta) => {
    let sum = 0;
    for (const a of x) for (const b of x) sum += Math.exp(beta * live.dot(a, b));
    return sum / (2 * beta * x.length * x.length);
  };
  // One step of Heun's method, back on the sphere.
  live.sphereStep = (x, beta, h, how) => {
    const first = live.sphereVelocity(x, beta, how);
    const ahead = x.map((a, i) => live.unit(a.map((v, k) => v + h * first[i][k])));
    const second = live.sphereVelocity(ahead, beta, how);
    return x.map((a, i) => live.unit(a.map((v, k) => v + (h / 2) * (first[i][k] + second[i][k]))));
  };
  live.spherePoints = (n, d, seed) => live.gaussians(n, d, seed).map(live.unit);

  // How many groups there are: chains of tokens with inner products of at least `near`.
  live.clusters = (x, near) => {
    let left = x.map((_, i) => i), count = 0;
    while (left.length) {
      const grown = [left.pop()];
      count++;
      while (grown.length) {
        const here = grown.pop(), stay = [];
        for (const j of left) (live.dot(x[here], x[j]) >= near ? grown : stay).push(j);
        left = stay;
      }
    }
    return count;
  };

  // The inner products close under SA: G' = AG + GA^T - (s_i + s_k) G, s = diag(AG). G is flat, n by n.
  live.gramVelocity = (G, n, beta) => {
    const A = new Float64Array(n * n), AG = new Float64Array(n * n), out = new Float64Array(n * n);
    for (let i = 0; i < n; i++) {
      let sum = 0;
      for (let j = 0; j < n; j++) sum += A[i * n + j] = Math.exp(beta * (G[i * n + j] - 1));
      for (let j = 0; j < n; j++) {
        const a = A[i * n + j] / sum;
        for (let k = 0; k < n; k++) AG[i * n + k] += a * G[j * n + k];
      }
    }
    for (let i = 0; i < n; i++) for (let k = 0; k < n; k++)
      out[i * n + k] = AG[i * n + k] + AG[k * n + i] - (AG[i * n + i] + AG[k * n + k]) * G[i * n + k];
    return out;
  };
  // One step of the classical method of order four.
  live.gramStep = (G, n, beta, h) => {
    const ahead = (k, by) => G.map((g, i) => g + by * k[i]);
    const k1 = live.gramVelocity(G, n, beta), k2 = live.gramVelocity(ahead(k1, h / 2), n, beta);
    const k3 = live.gramVelocity(ahead(k2, h / 2), n, beta), k4 = live.gramVelocity(ahead(k3, h), n, beta);
    return G.map((g, i) => (i % (n + 1) === 0 ? 1 : g + (h / 6) * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i])));
  };

  // dt/ds for s = -log(1 - gamma), gamma the common inner product of tokens that start orthogonal.
  const slowness = (s, beta, n) => (Math.exp(beta * Math.exp(-s)) + n - 1) / (2 * ((n - 1) * (1 - Math.exp(-s)) + 1));
  // When gamma reaches 1 - delta, by Simpson's rule on a grid that is fine where the integrand falls.
  live.hittingTime = (beta, n, delta) => {
    const end = -Math.log(delta), pieces = 600;
    const at = (k) => end * (k / pieces) ** 3;
    let sum = 0;
    for (let k = 0; k < pieces; k++) {
      const a = at(k), b = at(k + 1);
      sum += (b - a) / 6 * (slowness(a, beta, n) + 4 * slowness((a + b) / 2, beta, n) + slowness(b, beta, n));
    }
    return sum;
  };
  // gamma at `steps` equal times up to `end`.
  live.orthogonalGamma = (beta, n, end, steps) => {
    const h = end / steps, out = [0], speed = (s) => 1 / slowness(s, beta, n);
    let s = 0;
    for (let k = 0; k < steps; k++) {
      const a = speed(s), b = speed(s + h * a / 2), c = speed(s + h * b / 2), e = speed(s + h * c);
      s += h / 6 * (a + 2 * b + 2 * c + e);
      out.push(-Math.expm1(-s));
    }
    return out;
  };
})();
