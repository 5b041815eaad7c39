// How much softmax attention stretches a change of its tokens. A = K^T Q, so scores are <A x_i, x_j>.
(() => {
  "use strict";
  const live = window.attnflow;
  const HALVINGS = 56;

  const scoresOf = (A, x) => { const q = live.mapped(A, x); return q.map((a) => x.map((b) => live.dot(a, b))); };

  // The derivative of x -> sum_j P_ij V x_j in the direction e.
  live.jvp = (A, V, x, e, P = live.softmaxRows(scoresOf(A, x))) => {
    const Ax = live.mapped(A, x), Ae = live.mapped(A, e), out = live.scaled(x, 0);
    for (let i = 0; i < x.length; i++) {
      let mean = 0;
      const change = P[i].map((p, j) => { const s = p * (live.dot(Ae[i], x[j]) + live.dot(Ax[i], e[j])); mean += s; return s; });
      for (let j = 0; j < x.length; j++)
        for (let k = 0; k < x[0].length; k++) out[i][k] += (change[j] - P[i][j] * mean) * x[j][k] + P[i][j] * e[j][k];
    }
    return live.mapped(V, out);
  };
  // Its transpose.
  live.vjp = (A, V, x, u, P = live.softmaxRows(scoresOf(A, x))) => {
    const W = live.mapped(live.transpose(V), u), Ax = live.mapped(A, x), back = live.transpose(A), out = live.scaled(x, 0);
    for (let i = 0; i < x.length; i++) {
      const pull = new Array(x[0].length).fill(0);
      let mean = 0;
      const sent = P[i].map((p, j) => { const s = p * live.dot(W[i], x[j]); mean += s; return s; });
      for (let j = 0; j < x.length; j++) {
        const g = sent[j] - P[i][j] * mean;
        for (let k = 0; k < pull.length; k++) { out[j][k] += P[i][j] * W[i][k] + g * Ax[i][k]; pull[k] += g * x[j][k]; }
      }
      live.mapped(back, [pull])[0].forEach((v, k) => { out[i][k] += v; });
    }
    return out;
  };

  // The norm of the derivative by power iteration: {value, change, iterations}; `change` is the worst change.
  live.localConstant = (A, V, x, start, most = 3000, tol = 1e-13) => {
    const P = live.softmaxRows(scoresOf(A, x)), size = (e) => Math.sqrt(e.reduce((sum, row) => sum + live.dot(row, row), 0));
    let e = start && start.length === x.length ? start : live.gaussians(x.length, x[0].length, 1), value = 0, k = 0, still = 0;
    e = live.scaled(e, 1 / size(e));
    for (; k < most && still < 3; k++) {
      const image = live.vjp(A, V, x, live.jvp(A, V, x, e, P), P), norm = size(image), next = Math.sqrt(norm);
      if (norm === 0) break;
      still = Math.abs(next - value) <= tol * next ? still + 1 : 0;
      value = next;
      e = live.scaled(image, 1 / norm);
    }
    return { value: size(live.jvp(A, V, x, e, P)), change: e, iterations: k };
  };

  const share = (m, g) => 1 / (1 + m * Math.exp(-2 * g));
  // Bounds on the ball of radius R for n tokens, from the norms of A and V.
  live.upperBound = (A, V, R, n) => Math.sqrt(3) * live.norm(V) * Math.sqrt(live.norm(A) ** 2 * R ** 4 * (4 * n + 1) + n);
  live.tightUpperBound = (A, V, R, n) => live.norm(V) * (Math.sqrt(n) + live.norm(A) * R * R * (1 + Math.sqrt(n / 2)));
  live.meanFieldUpper = (A, V, R) => { const g = live.norm(A) * R * R; return live.norm(V) * (1 + 3 * g) * Math.exp(2 * g); };
  live.lipschitzGamma = (A) => { const v = live.symmetricEigen(A).values; return Math.max(-v[0], v[v.length - 1] / 8); };
  live.lowerBound = (A, R, n) => Math.sqrt(n - 1) * share(n - 1, live.lipschitzGamma(A) * R * R);

  // One leader that all others follow: (Ru, -Ru, ...), or (Ru, Ru/2, ...) where scores along u are positive.
  live.oneLeader = (A, R, n) => {
    const { values, vectors } = live.symmetricEigen(A), d = values.length, negative = -values[0] >= values[d - 1] / 8;
    const u = vectors[negative ? 0 : d - 1];
    return Array.from({ length: n }, (_, i) => u.map((v) => (i === 0 ? R : negative ? -R : R / 2) * v));
  };

  // The zero of a function that is positive at `low` and negative at `high`.
  const between = (low, high, f) => {
    for (let k = 0; k < HALVINGS; k++) { const middle = (low + high) / 2; if (f(middle) > 0) low = middle; else high = middle; }
    return (low + high) / 2;
  };
  // Two leaders ay + bw and ay - bw, y = Ax / |Ax| and w orthogonal to it, all others at rx, as in attnflow.lipschitz.leaders: the
  // best cosine of the leaders with r = 1, then the best of both. g is R^2 |Ax|, h is R^2 <Ax, x>, m the followers per leader.
  const onRim = (g, h, m) => ({ cos: between(0, 1, (c) => (1 - c * c) * g / (1 + Math.exp(g * c - h) / m) - c), r: 1 });
  const onRay = (g, h, m) => {
    if (g > 0 && g < 2 * h) {
      const u = g / (2 * h), ahead = Math.log(m) - u * g / 2;
      const tau = between(1, 2 + 2 * Math.max(-ahead, 0), (t) => 1 + Math.exp(-ahead - t / 2) - t), r = Math.sqrt(u * u + tau / (2 * h));
      if (r < 1) return { cos: u / r, r };
    }
    return onRim(g, h, m);
  };
  // The followers' best direction for V = I: a top eigenvector of A^T A - 2 mu S, where mu is |Ax| times the leaders' cosine.
  const direction = (A, R, m) => {
    const size = live.norm(A) || 1, B = live.scaled(A, 1 / size), gram = live.times(live.transpose(B), B), far = R * R * size;
    const top = (mu) => {
      const { values, vectors } = live.symmetricEigen(gram.map((row, i) => row.map((v, j) => v - mu * (B[i][j] + B[j][i])))), d = values.length;
      return { value: values[d - 1], x: vectors[d - 1] };
    };
    const height = (x, placed) => {
      const y = live.mapped(B, [x])[0], length = Math.hypot(...y), { cos, r } = placed(far * length, far * live.dot(x, y), m);
      return cos * r * length;
    };
    let near = top(0).x, away = top(1).x;
    const mu = between(0, 1, (at) => {
      const { value, x } = top(at), falls = value > 0 && height(x, onRim) > at;
      if (falls) near = x; else away = x;
      return falls ? 1 : -1;
    });
    if (live.dot(near, away) < 0) away = away.map((c) => -c);
    while (Math.hypot(...near.map((c, k) => c - away[k])) > 1e-9) { // two eigenvalues cross: the best is on the arc between
      const sum = near.map((c, k) => c + away[k]), x = sum.map((c) => c / Math.hypot(...sum));
      if (height(x, onRay) > mu) near = x; else away = x;
    }
    return near;
  };
  const best = (A, R, n) => {
    const m = (n - 2) / 2, x = direction(A, R, m), Ax = live.mapped(A, [x])[0], size = Math.hypot(...Ax), score = live.dot(x, Ax);
    const { cos, r } = onRay(R * R * size, R * R * score, m), sin = Math.sqrt(1 - cos * cos);
    const bound = Math.sqrt(m) * sin * r * R * R * size / (1 + m * Math.exp(-R * R * r * (cos * size - r * score)));
    return { cos, sin, r, x, y: size > 0 ? Ax.map((c) => c / size) : [1, 0], bound };
  };
  live.twoLeadersBound = (A, R, n) => best(A, R, n).bound;
  live.twoLeaders = (A, R, n) => {
    const { cos, sin, r, x, y } = best(A, R, n), a = R * cos, b = R * sin, place = (side) => [a * y[0] - side * b * y[1], a * y[1] + side * b * y[0]];
    return Array.from({ length: n }, (_, i) => (i === 0 ? place(1) : i === 1 ? place(-1) : x.map((c) => R * r * c)));
  };
})();
