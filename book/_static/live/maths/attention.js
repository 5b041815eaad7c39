// One layer: softmax, L2, Sinkhorn and unnormalised attention, with or without a causal mask.
// Scores are <Q x_i, K x_j>; weights w are the masses of the tokens, 1/n unless given.
(() => {
  "use strict";
  const live = window.attnflow;
  live.kinds = ["softmax", "L2", "sinkhorn", "unnormalised"];

  // Rows of e^{scores} divided by their sums; with a causal mask row i ends at i.
  live.softmaxRows = (scores, causal) => scores.map((row, i) => {
    const length = causal ? i + 1 : row.length, out = new Array(row.length).fill(0);
    let top = -Infinity, sum = 0;
    for (let j = 0; j < length; j++) top = Math.max(top, row[j]);
    for (let j = 0; j < length; j++) sum += out[j] = Math.exp(row[j] - top);
    for (let j = 0; j < length; j++) out[j] /= sum;
    return out;
  });

  const sinkhornRows = (q, k, eps, w) => {
    const same = q.every((a, i) => a.every((v, e) => v === k[i][e]));
    const plan = same && q[0].length > 1
      ? live.bridgePlan(live.selfBridge(q, eps, w))
      : live.sinkhorn(q.map((a) => k.map((b) => live.dot(a, b) / eps)), w, w).plan;
    return plan.map((row) => { const sum = row.reduce((a, b) => a + b, 0); return row.map((v) => v / sum); });
  };
  const rowsOf = (kind, q, k, eps, w, causal) => {
    if (kind === "sinkhorn") return sinkhornRows(q, k, eps, w);
    if (kind === "unnormalised")
      return q.map((a, i) => {
        const seen = causal ? w.slice(0, i + 1).reduce((x, y) => x + y, 0) : 1;
        return k.map((b, j) => (causal && j > i ? 0 : Math.exp(live.dot(a, b)) * w[j] / seen));
      });
    const score = kind === "L2" ? (a, b) => -live.squaredDistance(a, b) : live.dot;
    return live.softmaxRows(q.map((a) => k.map((b, j) => score(a, b) + Math.log(w[j]))), causal);
  };

  // P, how every token averages the others. layer: {Q, K, eps, causal, weights}.
  live.attentionMatrix = (kind, x, layer) => {
    const n = x.length, w = layer.weights || new Array(n).fill(1 / n), eps = layer.eps || 1;
    const q = live.mapped(layer.Q, x), k = live.mapped(layer.K, x);
    if (!layer.causal || kind !== "sinkhorn") return rowsOf(kind, q, k, eps, w, layer.causal);
    // a balanced matrix cannot be masked: every prefix is balanced anew
    return x.map((_, i) => {
      const sum = w.slice(0, i + 1).reduce((a, b) => a + b, 0);
      const rows = rowsOf(kind, q.slice(0, i + 1), k.slice(0, i + 1), eps, w.slice(0, i + 1).map((v) => v / sum), false);
      return [...rows[i], ...new Array(n - i - 1).fill(0)];
    });
  };
  // The velocity sum_j P_ij V x_j of every token.
  live.attentionVelocity = (kind, x, layer) => live.times(live.attentionMatrix(kind, x, layer), live.mapped(layer.V, x));

  // One step of Heun's method for x' = Gamma(x).
  live.attentionStep = (kind, x, layer, h) => {
    const first = live.attentionVelocity(kind, x, layer);
    const second = live.attentionVelocity(kind, live.plus(x, first, h), layer);
    return x.map((a, i) => a.map((v, e) => v + (h / 2) * (first[i][e] + second[i][e])));
  };
})();
