// Rescaled tokens z = e^{-tV} x, which stay where one can see them: z' = V (P z - z), P at e^{tV} z.
(() => {
  "use strict";
  const live = window.attnflow;

  live.rescaledVelocity = (kind, z, t, layer) => {
    const x = live.mapped(live.expm(live.scaled(layer.V, t)), z);
    const P = live.attentionMatrix(kind, x, layer);
    return live.mapped(layer.V, live.plus(live.times(P, z), z, -1));
  };
  live.rescaledStep = (kind, z, t, layer, h) => {
    const k1 = live.rescaledVelocity(kind, z, t, layer);
    const k2 = live.rescaledVelocity(kind, live.plus(z, k1, h / 2), t + h / 2, layer);
    const k3 = live.rescaledVelocity(kind, live.plus(z, k2, h / 2), t + h / 2, layer);
    const k4 = live.rescaledVelocity(kind, live.plus(z, k3, h), t + h, layer);
    return z.map((a, i) => a.map((v, e) => v + (h / 6) * (k1[i][e] + 2 * k2[i][e] + 2 * k3[i][e] + k4[i][e])));
  };

  // The corners of the convex hull of points in the plane, in order.
  live.convexHull = (points) => {
    const sorted = points.map((p, i) => [p[0], p[1], i]).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    const half = (order) => {
      const out = [];
      for (const p of order) {
        while (out.length > 1) {
          const [a, b] = out.slice(-2);
          if ((b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0]) > 1e-14) break;
          out.pop();
        }
        out.push(p);
      }
      return out.slice(0, -1);
    };
    return [...half(sorted), ...half(sorted.reverse())].map((p) => p[2]);
  };

  // The left eigenvector of a 2 by 2 matrix for its real eigenvalue `value`: rows of tokens project on it.
  live.leftEigenvector = (V, value) => {
    const rows = [[V[1][0], value - V[0][0]], [value - V[1][1], V[0][1]]];
    const row = live.dot(rows[0], rows[0]) >= live.dot(rows[1], rows[1]) ? rows[0] : rows[1];
    return live.dot(row, row) > 0 ? live.unit(row) : [1, 0]; // every vector is one, if V is a multiple of the identity
  };
})();
