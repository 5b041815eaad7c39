// Equiangular tokens under post, pre, peri and nGPT: one orbit, four clocks; and their layers.
(() => {
  "use strict";
  const live = window.attnflow;
  const sphere = (norm) => norm === "post" || norm === "nGPT", unitMean = (norm) => norm === "peri" || norm === "nGPT";

  // What a layer reads from n unit tokens with cosines 1 - u: a, lambda, s, q.
  live.normReading = (u, beta, n) => {
    const much = Math.exp(beta * u), a = 1 / (much + n - 1), own = much * a;
    return { a, lambda: own - a, s: 1 - (n - 1) * a * u, q: Math.sqrt(1 - u * (n - 1) * a * (1 + own - a)) };
  };

  // [cosine, logarithm of the time] from orthonormal tokens to 1 - delta, by Simpson's rule in l = log((1 + (n-1) c) / (1 - c)).
  live.normPath = (norm, beta, n, delta, panels = 400) => {
    const h = Math.log((n - (n - 1) * delta) / delta) / panels, out = [];
    const gap = (l) => { const e = Math.exp(-l); return n * e / (1 + (n - 1) * e); };
    const rate = (l) => (Math.exp(beta * gap(l)) + n - 1) / (2 * n); // d tau / d l
    const pace = (l, tau) => {
      const u = gap(l);
      return Math.log(rate(l)) + (unitMean(norm) ? Math.log(live.normReading(u, beta, n).q) : 0) + (sphere(norm) ? 0 : tau - Math.log(n - (n - 1) * u) / 2);
    };
    let tau = 0, total = -Infinity;
    for (let k = 0; k < panels; k++) {
      const l = k * h, half = tau + h / 12 * (rate(l) + 4 * rate(l + h / 4) + rate(l + h / 2));
      const next = half + h / 12 * (rate(l + h / 2) + 4 * rate(l + 3 * h / 4) + rate(l + h));
      const terms = [total, Math.log(h / 6) + pace(l, tau), Math.log(4 * h / 6) + pace(l + h / 2, half), Math.log(h / 6) + pace(l + h, next)];
      const top = Math.max(...terms);
      total = top + Math.log(terms.reduce((sum, t) => sum + Math.exp(t - top), 0));
      tau = next;
      out.push([1 - gap(l + h), total]);
    }
    return out;
  };
  // The logarithm of the time at which the cosine is 1 - delta.
  live.normMeeting = (norm, beta, n, delta) => live.normPath(norm, beta, n, delta)[399][1];

  // Gap and norm after one layer of step h.
  live.normLayer = ([u, r], norm, beta, n, h) => {
    const { lambda, s, q } = live.normReading(u, beta, n), A = norm === "nGPT" ? 1 - h : r, B = unitMean(norm) ? h / q : h;
    const squared = A * A + 2 * A * B * s + B * B * q * q;
    return [u * (A + B * lambda) ** 2 / squared, sphere(norm) ? 1 : Math.sqrt(squared)];
  };
  // How many layers until the gap is at most delta; Infinity beyond `most`.
  live.normDepth = (norm, beta, n, delta, h, most) => {
    let state = [1, 1];
    for (let k = 1; k <= most; k++) {
      state = live.normLayer(state, norm, beta, n, h);
      if (state[0] <= delta) return k;
    }
    return Infinity;
  };
})();
