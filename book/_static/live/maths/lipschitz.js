// How much softmax attention stretches a change of its tokens. A = K^T Q, so scores are <A x_i, x_j>.
(() => {
  "use strict";
  const live = window.attnflow;
  const GRID = 49, ZOOMS = 3, COARSE = 17; // the first as in attnflow.lipschitz.leaders

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

  // The directions of followers that attnflow.lipschitz.leaders looks at, in the plane and for V = I.
  const unit = (t) => [Math.cos(t), Math.sin(t)];
  const directions = (A) => {
    const gram = live.symmetricEigen(live.times(live.transpose(A), A)).vectors, length = Math.hypot(...A[1]);
    const height = (t) => { // of attnflow.lipschitz.sharp_constant, on the ray of angle t
      const x = unit(t), y = live.mapped(A, [x])[0], size = live.dot(y, y), score = Math.max(live.dot(x, y), 0);
      return size < 2 * score * score ? size * size / (4 * score * score) : size - score * score;
    };
    let middle = 0, step = Math.PI / 180;
    for (let k = 1; k < 180; k++) if (height(k * step) > height(middle)) middle = k * step;
    for (; step > 1e-10; step /= 4) for (let k = -4; k <= 4; k++) if (height(middle + (k * step) / 4) > height(middle)) middle += (k * step) / 4;
    return [...gram, ...live.symmetricEigen(A).vectors, ...(length > 0 ? [A[1].map((c) => c / length)] : []), unit(middle)];
  };
  const NEAR = 0.95; // directions that a coarse look finds this much worse are not looked at again

  // Two leaders ay + bw and ay - bw, y = Ax / |Ax| and w orthogonal to it, all others at rx, for V = I in the plane:
  // the best angle of the leaders and the best r, on grids that zoom in.
  const onRay = (A, R, n, x, grid, zooms) => {
    const Ax = live.mapped(A, [x])[0], size = Math.hypot(...Ax), score = live.dot(x, Ax);
    let turn = [0, Math.PI / 2], along = [0, 1], top = { answer: -1, t: 0, r: 0 };
    for (let zoom = 0; zoom < zooms; zoom++) {
      const cell = [(turn[1] - turn[0]) / (grid - 1), (along[1] - along[0]) / (grid - 1)];
      top = { answer: -1, t: 0, r: 0 };
      for (let p = 0; p < grid; p++) {
        const t = turn[0] + p * cell[0], cos = Math.cos(t), sin = Math.sin(t);
        for (let q = 0; q < grid; q++) {
          const r = along[0] + q * cell[1], answer = sin * r / (1 + (n - 2) / 2 * Math.exp(-R * R * r * (cos * size - r * score)));
          if (answer > top.answer) top = { answer, t, r };
        }
      }
      turn = [Math.max(top.t - cell[0], 0), Math.min(top.t + cell[0], Math.PI / 2)];
      along = [Math.max(top.r - cell[1], 0), Math.min(top.r + cell[1], 1)];
    }
    return { ...top, x, y: size > 0 ? Ax.map((c) => c / size) : [1, 0], bound: Math.sqrt((n - 2) / 2) * top.answer * R * R * size };
  };
  const best = (A, R, n) => {
    const rays = directions(A).map((x) => onRay(A, R, n, x, COARSE, 1)), most = Math.max(...rays.map((ray) => ray.bound));
    return rays.filter((ray) => ray.bound >= NEAR * most).map((ray) => onRay(A, R, n, ray.x, GRID, ZOOMS)).reduce((a, b) => (b.bound > a.bound * (1 + 1e-12) ? b : a));
  };
  live.twoLeadersBound = (A, R, n) => best(A, R, n).bound;
  live.twoLeaders = (A, R, n) => {
    const { t, r, x, y } = best(A, R, n), a = R * Math.cos(t), b = R * Math.sin(t), place = (side) => [a * y[0] - side * b * y[1], a * y[1] + side * b * y[0]];
    return Array.from({ length: n }, (_, i) => (i === 0 ? place(1) : i === 1 ? place(-1) : x.map((c) => R * r * c)));
  };
})();
