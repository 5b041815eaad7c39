// Gaussian tokens stay Gaussian: the affine velocity B (x - mean) + c, covariances along time, blow-up.
(() => {
  "use strict";
  const live = window.attnflow;

  // layer: {Q, K, V, eps}
  live.affineVelocity = (kind, S, mean, layer) => {
    const { Q, K, V } = layer, A = live.times(live.transpose(K), Q), I = live.identity(S.length), SA = live.times(S, A);
    const vector = (M) => live.mapped(M, [mean])[0];
    if (kind === "softmax") return { B: live.times(V, SA), c: vector(live.times(V, live.plus(I, SA))) };
    if (kind === "L2") {
      const seen = live.inverse(live.plus(I, live.times(S, live.times(live.transpose(K), K)), 2)); // T S^{-1}
      return {
        B: live.scaled(live.times(V, live.times(seen, SA)), 2),
        c: vector(live.times(V, live.times(seen, live.plus(I, SA, 2)))),
      };
    }
    const kappa = 1 / (layer.eps || 1), half = live.root(S), M = live.times(half, live.times(A, half)); // S^{1/2} A S^{1/2}
    const shrink = live.spectral(live.times(M, live.transpose(M)), (m) => 2 / (1 + Math.sqrt(1 + 4 * kappa * kappa * Math.max(m, 0))));
    const B = live.times(live.times(V, half), live.times(shrink, live.times(half, A)));
    return { B: live.scaled(B, kappa), c: vector(V) };
  };

  // The covariance up to time `end`: {times, covs, blowUp}. Softmax may blow up before.
  live.covarianceFlow = (kind, S0, layer, end, rtol = 1e-10, longest = Infinity, most = 20000) => {
    const d = S0.length, square = (y) => Array.from({ length: d }, (_, i) => y.slice(i * d, i * d + d));
    const slope = (_, y) => {
      const S = square(y), BS = live.times(live.affineVelocity(kind, S, new Array(d).fill(0), layer).B, S);
      return live.plus(BS, live.transpose(BS)).flat();
    };
    const times = [0], covs = [S0], size = (y) => Math.sqrt(live.dot(y, y)), first = size(S0.flat());
    const found = live.integrate(slope, S0.flat(), 0, end, {
      rtol, longest, most,
      step: (t, y) => { times.push(t); covs.push(square(y)); return size(y) > 1e9 * first; },
    });
    let blowUp = Infinity;
    if (found.stopped) {
      // S grows like 1 / (T - t): what is left is |S| / |S'|
      const left = size(found.y) / size(slope(found.t, found.y));
      if (left < 1e-5 * Math.max(found.t, 1e-12)) blowUp = found.t + left;
    }
    return { times, covs, blowUp };
  };
  // The long axis u of a covariance: how far it is from the cone <u, Au> = 0, and the exponent that the cone allows.
  live.coneOf = (A, V, S) => {
    const { values, vectors } = live.symmetricEigen(S), d = values.length, u = vectors[d - 1];
    const sent = live.mapped(A, [u])[0], w = live.solve(V, u.map((c) => [c])).map((row) => row[0]);
    let pull = 0;
    for (let k = 0; k < d - 1; k++) pull += values[k] * live.dot(vectors[k], sent) ** 2;
    return { axis: u, first: live.dot(u, sent) / Math.sqrt(live.dot(sent, sent)), exponent: pull / live.dot(sent, w) };
  };
  live.blowUpTime = (S0, layer, end) => live.covarianceFlow("softmax", S0, layer, end).blowUp;

  // On the line: the bridge of N(0, var) has E[Y | x] = C x with C = e^{-asinh u}, u = eps / 2 var; Langevin has e^{-u}.
  live.bridgeGain = (variance, eps) => Math.exp(-Math.asinh(eps / (2 * variance)));
  live.gaussianGap = (variance, eps) => {
    const u = eps / (2 * variance);
    if (u < 0.1) {
      const gap = u ** 3 / 6 - 3 * u ** 5 / 40 + 5 * u ** 7 / 112 - 35 * u ** 9 / 1152 + 63 * u ** 11 / 2816;
      const rest = u / 6 * (1 + u * u / 20 * (1 + u * u / 42 * (1 + u * u / 72)));
      return 0.5 * Math.exp(-u) * Math.expm1(gap) * rest / (1 + u * u / 6 * (1 + u * u / 20 * (1 + u * u / 42)));
    }
    return 0.5 * (Math.exp(-Math.asinh(u)) - Math.exp(-u)) * (1 / u - 1 / Math.sinh(u));
  };
})();
