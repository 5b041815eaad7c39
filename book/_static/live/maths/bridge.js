// The Schrödinger bridge of a measure to itself: one scaling a with plan w_i a_i K_ij a_j w_j,
// K_ij = exp(-|x_i - x_j|^2 / 2 eps). Errors shrink by 0.17 a sweep at every eps, as in attnflow.transport.
(() => {
  "use strict";
  const live = window.attnflow;
  // On the line pairs further apart than this many sqrt(eps) have kernels below 1e-16.
  const BAND = 8.6, THETA = 2 / 3, RADIUS = 1 / 3;

  // Products with the kernel: apply(v) = K v, displacement(v) = sum_j K_ij v_j (x_j - x_i).
  const kernelOf = (x, eps) => {
    const n = x.length, d = x[0].length, K = new Float64Array(n * n);
    for (let i = 0; i < n; i++) for (let j = 0; j <= i; j++)
      K[i * n + j] = K[j * n + i] = Math.exp(-live.squaredDistance(x[i], x[j]) / (2 * eps));
    return {
      entry: (i, j) => K[i * n + j],
      apply: (v) => {
        const out = new Float64Array(n);
        for (let i = 0; i < n; i++) { let sum = 0; for (let j = 0, at = i * n; j < n; j++) sum += K[at + j] * v[j]; out[i] = sum; }
        return out;
      },
      displacement: (v) => x.map((a, i) => {
        const out = new Array(d).fill(0);
        for (let j = 0; j < n; j++) { const k = K[i * n + j] * v[j]; for (let e = 0; e < d; e++) out[e] += k * (x[j][e] - a[e]); }
        return out;
      }),
    };
  };
  // The same for sorted points of the line, where only neighbours count.
  const lineKernel = (x, eps) => {
    const n = x.length, far = BAND * Math.sqrt(eps), from = new Int32Array(n), start = new Int32Array(n + 1);
    for (let i = 0, low = 0; i < n; i++) {
      while (x[i][0] - x[low][0] > far) low++;
      from[i] = low; // pairs (i, low..i) are stored
      start[i + 1] = start[i] + i - low + 1;
    }
    const K = new Float64Array(start[n]);
    for (let i = 0; i < n; i++) for (let j = from[i]; j <= i; j++) {
      const gap = x[i][0] - x[j][0];
      K[start[i] + j - from[i]] = Math.exp(-gap * gap / (2 * eps));
    }
    return {
      entry: (i, j) => { const a = Math.max(i, j), b = Math.min(i, j); return b < from[a] ? 0 : K[start[a] + b - from[a]]; },
      apply: (v) => {
        const out = new Float64Array(n);
        for (let i = 0; i < n; i++) {
          let sum = v[i];
          for (let j = from[i], at = start[i]; j < i; j++, at++) { sum += K[at] * v[j]; out[j] += K[at] * v[i]; }
          out[i] += sum;
        }
        return out;
      },
      displacement: (v) => {
        const out = new Float64Array(n);
        for (let i = 0; i < n; i++) for (let j = from[i], at = start[i]; j < i; j++, at++) {
          const gap = K[at] * (x[j][0] - x[i][0]);
          out[i] += gap * v[j]; out[j] -= gap * v[i];
        }
        return Array.from(out, (value) => [value]);
      },
    };
  };

  // {x, eps, weights, scaling, kernel, iterations, residual}; points of the line must be sorted.
  live.selfBridge = (x, eps, weights, tol = 1e-10) => {
    const n = x.length, w = weights || new Array(n).fill(1 / n);
    const kernel = x[0].length === 1 ? lineKernel(x, eps) : kernelOf(x, eps);
    let u = new Float64Array(n), before = u, omega = 2, residual = Infinity, iterations = 0;
    const mass = new Float64Array(n);
    while (iterations < 300) {
      iterations++;
      for (let i = 0; i < n; i++) mass[i] = Math.exp(u[i]) * w[i];
      const product = kernel.apply(mass), last = residual, step = new Float64Array(n);
      residual = 0;
      for (let i = 0; i < n; i++) {
        const r = w[i] > 0 ? Math.exp(u[i]) * product[i] : 1;
        residual += w[i] * Math.abs(r - 1);
        step[i] = -(iterations === 1 ? 0.5 : THETA) * Math.log(r);
      }
      if (residual <= tol) break;
      const plain = iterations <= 2 || residual >= last;
      omega = plain ? 2 : 1 / (1 - omega * RADIUS * RADIUS / 4);
      const next = new Float64Array(n);
      for (let i = 0; i < n; i++) next[i] = plain ? u[i] + step[i] : before[i] + omega * (u[i] + step[i] - before[i]);
      before = u;
      u = next;
    }
    return { x, eps, weights: w, scaling: Array.from(u, Math.exp), kernel, iterations, residual };
  };
  live.bridgePlan = (bridge) => {
    const mass = bridge.scaling.map((a, i) => a * bridge.weights[i]);
    return mass.map((m, i) => mass.map((l, j) => m * bridge.kernel.entry(i, j) * l));
  };
  // B(x_i) = E[Y | X = x_i].
  live.barycentric = (bridge) => {
    const moved = bridge.kernel.displacement(bridge.scaling.map((a, i) => a * bridge.weights[i]));
    return bridge.x.map((a, i) => a.map((v, e) => v + bridge.scaling[i] * moved[i][e]));
  };
  // One layer x -> 2x - B(x), a step of the heat flow.
  live.bridgeStep = (x, eps, weights, tol) => {
    const mean = live.barycentric(live.selfBridge(x, eps, weights, tol));
    return x.map((a, i) => a.map((v, e) => 2 * v - mean[i][e]));
  };
})();
