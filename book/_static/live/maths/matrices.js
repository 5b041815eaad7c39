// Small matrices: eigenvalues of symmetric ones, functions of them, inverses, exponentials, norms.
(() => {
  "use strict";
  const live = window.attnflow;

  // Jacobi's rotations: {values, ascending; vectors, as rows}.
  live.symmetricEigen = (S) => {
    const d = S.length, A = S.map((row, i) => row.map((v, j) => (v + S[j][i]) / 2)), U = live.identity(d);
    for (let sweep = 0; sweep < 60; sweep++) {
      let off = 0, size = 0;
      for (let i = 0; i < d; i++) for (let j = 0; j < d; j++) {
        if (i === j) size += A[i][j] * A[i][j];
        else off += A[i][j] * A[i][j];
      }
      if (off <= 1e-34 * size || off === 0) break;
      for (let p = 0; p < d; p++) for (let q = p + 1; q < d; q++) {
        if (A[p][q] === 0) continue;
        const theta = (A[q][q] - A[p][p]) / (2 * A[p][q]);
        const t = (theta >= 0 ? 1 : -1) / (Math.abs(theta) + Math.sqrt(theta * theta + 1));
        const c = 1 / Math.sqrt(t * t + 1), s = t * c;
        for (let k = 0; k < d; k++) {
          const a = A[k][p], b = A[k][q];
          A[k][p] = c * a - s * b; A[k][q] = s * a + c * b;
        }
        for (let k = 0; k < d; k++) {
          const a = A[p][k], b = A[q][k], u = U[p][k], v = U[q][k];
          A[p][k] = c * a - s * b; A[q][k] = s * a + c * b;
          U[p][k] = c * u - s * v; U[q][k] = s * u + c * v;
        }
      }
    }
    const order = A.map((_, i) => i).sort((i, j) => A[i][i] - A[j][j]);
    return { values: order.map((i) => A[i][i]), vectors: order.map((i) => U[i]) };
  };

  // f(S) for a symmetric S.
  live.spectral = (S, f) => {
    const { values, vectors } = live.symmetricEigen(S), d = S.length;
    const out = live.scaled(live.identity(d), 0);
    values.forEach((value, k) => {
      const y = f(value), u = vectors[k];
      for (let i = 0; i < d; i++) for (let j = 0; j < d; j++) out[i][j] += y * u[i] * u[j];
    });
    return out;
  };
  live.root = (S) => live.spectral(S, (s) => Math.sqrt(Math.max(s, 0)));

  // X with A X = B, by elimination with pivots.
  live.solve = (A, B) => {
    const n = A.length, M = A.map((row, i) => [...row, ...B[i]]);
    for (let k = 0; k < n; k++) {
      let pivot = k;
      for (let i = k + 1; i < n; i++) if (Math.abs(M[i][k]) > Math.abs(M[pivot][k])) pivot = i;
      [M[k], M[pivot]] = [M[pivot], M[k]];
      for (let i = 0; i < n; i++) {
        if (i === k) continue;
        const factor = M[i][k] / M[k][k];
        if (factor !== 0) for (let j = k; j < M[k].length; j++) M[i][j] -= factor * M[k][j];
      }
    }
    return M.map((row, i) => row.slice(n).map((v) => v / row[i]));
  };
  live.inverse = (A) => live.solve(A, live.identity(A.length));

  // e^A by a Taylor series of A / 2^k, squared k times.
  live.expm = (A) => {
    const size = Math.max(...A.map((row) => row.reduce((sum, v) => sum + Math.abs(v), 0)), 1e-300);
    const k = Math.max(0, Math.ceil(Math.log2(size)) + 2), small = live.scaled(A, 2 ** -k);
    let out = live.identity(A.length), term = out;
    for (let j = 1; j <= 16; j++) {
      term = live.scaled(live.times(term, small), 1 / j);
      out = live.plus(out, term);
    }
    for (let j = 0; j < k; j++) out = live.times(out, out);
    return out;
  };

  // The largest singular value.
  live.norm = (A) => Math.sqrt(Math.max(...live.symmetricEigen(live.times(live.transpose(A), A)).values, 0));
})();
