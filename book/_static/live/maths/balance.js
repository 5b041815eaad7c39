// Balancing scores: the plan a_i exp(f_i + s_ij + g_j) b_j with row sums a and column sums b.
// Sweeps from higher temperatures down, then Newton's method for f with the columns kept exact.
(() => {
  "use strict";
  const live = window.attnflow;
  const logSum = (values) => {
    let top = -Infinity, sum = 0;
    for (const v of values) top = Math.max(top, v);
    for (const v of values) sum += Math.exp(v - top);
    return top + Math.log(sum);
  };

  live.sinkhorn = (scores, a, b, tol = 1e-11) => {
    const n = scores.length, m = scores[0].length;
    a = a || new Array(n).fill(1 / n);
    b = b || new Array(m).fill(1 / m);
    let s = scores, f = new Array(n).fill(0), g = new Array(m).fill(0);
    const columns = (f) => b.map((_, j) => -logSum(s.map((row, i) => Math.log(a[i]) + f[i] + row[j])));
    const rows = (g) => a.map((_, i) => -logSum(s[i].map((v, j) => Math.log(b[j]) + g[j] + v)));
    const planOf = (f, g) => s.map((row, i) => row.map((v, j) => a[i] * Math.exp(f[i] + v + g[j]) * b[j]));
    // F(f) is convex, and its gradient is what the row sums are too large by
    const objective = (f, g) => -live.dot(b, g) - live.dot(a, f);
    let spread = 0, iterations = 0;
    scores.forEach((row) => row.forEach((v) => { spread = Math.max(spread, Math.abs(v)); }));
    const coarse = Math.max(0, Math.ceil(Math.log(Math.max(spread, 1) / 30) / Math.log(4)));
    for (let level = coarse; level >= 0; level--) {
      s = scores.map((row) => row.map((v) => v / 4 ** level));
      if (level < coarse) f = f.map((v) => 4 * v);
      for (let k = 0; k < 12; k++, iterations++) { g = columns(f); f = rows(g); }
      g = columns(f);
      let damping = 1e-3;
      for (let k = 0; k < 60; k++, iterations++) {
        const P = planOf(f, g), sums = P.map((row) => row.reduce((x, y) => x + y, 0));
        const residual = sums.reduce((x, v, i) => x + Math.abs(v - a[i]), 0);
        if (residual <= (level ? 1e-2 : tol)) break;
        const H = P.map((row, i) => P.map((other, l) => {
          let sum = i === l ? sums[i] * (1 + damping) : 0;
          for (let j = 0; j < m; j++) sum -= row[j] * other[j] / b[j];
          return sum;
        }));
        const step = live.solve(H, sums.map((v, i) => [a[i] - v])).map((row) => row[0]);
        const longest = Math.max(...step.map(Math.abs)), share = Math.min(1, 4 / longest);
        const next = f.map((v, i) => v + share * step[i]), after = columns(next);
        const better = planOf(next, after).reduce((x, row, i) => x + Math.abs(row.reduce((p, q) => p + q, 0) - a[i]), 0);
        if (better < residual || objective(next, after) < objective(f, g)) {
          f = next;
          g = after;
          damping = Math.max(damping / 10, 1e-13);
        } else damping *= 10;
        if (damping > 1e9) break;
      }
    }
    const P = planOf(f, g);
    const residual = P.reduce((x, row, i) => x + Math.abs(row.reduce((p, q) => p + q, 0) - a[i]), 0);
    return { f, g, plan: P, iterations, residual };
  };

  // The plan between clouds x and y at temperature eps, for the cost |x - y|^2 / 2.
  live.transportPlan = (x, y, eps) => live.sinkhorn(x.map((p) => y.map((q) => -live.squaredDistance(p, q) / (2 * eps))));

  // Who goes to whom at the least total cost (the Hungarian method): column of every row.
  live.assignment = (cost) => {
    const n = cost.length, u = new Array(n + 1).fill(0), v = new Array(n + 1).fill(0), row = new Array(n + 1).fill(0);
    for (let i = 1; i <= n; i++) {
      const least = new Array(n + 1).fill(Infinity), from = new Array(n + 1).fill(0), used = new Array(n + 1).fill(false);
      let at = 0;
      row[0] = i;
      do {
        used[at] = true;
        let delta = Infinity, next = 0;
        for (let j = 1; j <= n; j++) {
          if (used[j]) continue;
          const gap = cost[row[at] - 1][j - 1] - u[row[at]] - v[j];
          if (gap < least[j]) { least[j] = gap; from[j] = at; }
          if (least[j] < delta) { delta = least[j]; next = j; }
        }
        for (let j = 0; j <= n; j++) {
          if (used[j]) { u[row[j]] += delta; v[j] -= delta; } else least[j] -= delta;
        }
        at = next;
      } while (row[at] !== 0);
      while (at) { row[at] = row[from[at]]; at = from[at]; }
    }
    const out = new Array(n);
    for (let j = 1; j <= n; j++) out[row[j] - 1] = j - 1;
    return out;
  };
})();
