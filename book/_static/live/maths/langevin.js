// The Langevin pair (X_0, X_eps) of a symmetric density against the bridge, on the line, without noise.
// l = sqrt(rho) e^{-eps H} sqrt(rho), H = -(1/2) d^2/dx^2 + U in a sinc basis. A symmetric density lets
// even and odd functions be treated apart, which takes a quarter of the time.
(() => {
  "use strict";
  const live = window.attnflow;

  // Nodes +- h/2, +- 3h/2, ... far into the tails.
  live.evenGrid = (mix, h, reach = 6.5) => {
    const far = Math.max(...mix.means.map((m, k) => Math.abs(m) + reach * Math.sqrt(mix.vars[k]))), n = Math.ceil(far / h);
    const x = Array.from({ length: 2 * n }, (_, i) => h * (i - n + 0.5));
    return { x, h, rho: live.mixtureDensity(mix, x) };
  };

  const product = (A, B, n) => {
    const out = new Float64Array(n * n);
    for (let i = 0; i < n; i++) for (let k = 0; k < n; k++) {
      const a = A[i * n + k];
      for (let j = 0, at = i * n, from = k * n; j < n; j++) out[at + j] += a * B[from + j];
    }
    return out;
  };
  // e^{-A} for a symmetric A whose norm is at most `size`: a Taylor series of A / 2^k, squared k times.
  const decay = (A, n, size) => {
    const k = Math.max(0, Math.ceil(Math.log2(size)) + 1), small = A.map((v) => -v * 2 ** -k);
    const identity = new Float64Array(n * n);
    for (let i = 0; i < n; i++) identity[i * n + i] = 1;
    let out = identity.slice();
    for (let j = 10; j >= 1; j--) {
      out = product(small, out, n).map((v) => v / j);
      for (let i = 0; i < n; i++) out[i * n + i] += 1;
    }
    for (let j = 0; j < k; j++) out = product(out, out, n);
    return out;
  };

  // The joint density of (X_0, X_eps) at the nodes of an even grid, a flat n by n array.
  live.langevinPair = (mix, eps, grid) => {
    const n = grid.x.length, m = n / 2, h = grid.h, U = live.mixturePotential(mix, grid.x), low = Math.min(...U);
    const second = (k) => (k === 0 ? Math.PI ** 2 / 3 : 2 * (k % 2 ? -1 : 1) / (k * k)) / (2 * h * h);
    const halves = [1, -1].map((sign) => {
      const A = new Float64Array(m * m);
      let size = 0;
      for (let i = 0; i < m; i++) {
        let sum = 0;
        for (let j = 0; j < m; j++) {
          const value = second(Math.abs(i - j)) + sign * second(i + j + 1) + (i === j ? U[m + i] - low : 0);
          A[i * m + j] = eps * value;
          sum += Math.abs(A[i * m + j]);
        }
        size = Math.max(size, sum);
      }
      return decay(A, m, size);
    });
    const out = new Float64Array(n * n), factor = Math.exp(-eps * low) / (2 * h);
    for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) {
      const a = i < m ? m - 1 - i : i - m, b = j < m ? m - 1 - j : j - m, same = i < m === j < m ? 1 : -1;
      out[i * n + j] = factor * (halves[0][a * m + b] + same * halves[1][a * m + b]) * Math.sqrt(grid.rho[i] * grid.rho[j]);
    }
    return out;
  };
  // The joint density of the bridge at the nodes.
  live.bridgePair = (eps, grid) => {
    const n = grid.x.length, sum = grid.rho.reduce((a, b) => a + b, 0), out = new Float64Array(n * n);
    const bridge = live.selfBridge(grid.x.map((v) => [v]), eps, grid.rho.map((r) => r / sum), 1e-13);
    const mass = bridge.scaling.map((a, i) => a * bridge.weights[i] / grid.h);
    for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) out[i * n + j] = mass[i] * bridge.kernel.entry(i, j) * mass[j];
    return out;
  };
  // H(p|q) + H(q|p) over |x - y| <= 6 sqrt(eps).
  live.pairDivergence = (p, q, eps, grid) => {
    const n = grid.x.length, width = 6 * Math.sqrt(eps);
    let sum = 0;
    for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) {
      const a = p[i * n + j], b = q[i * n + j];
      if (Math.abs(grid.x[i] - grid.x[j]) <= width && a > 0 && b > 0) sum += (a - b) * (Math.log(a) - Math.log(b));
    }
    return sum * grid.h * grid.h;
  };
})();
