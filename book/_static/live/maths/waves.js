// What one layer does to waves, and what many layers leave of a jump in the m-th derivative of a density.
(() => {
  "use strict";
  const live = window.attnflow;
  const LOW = 2e-2, HIGH = 1e3, COUNT = 3000;

  // A wave with eps k^2 = s is multiplied by this; heat multiplies it by e^{-s/2}.
  live.bridgeAmplification = (s) => 1 - s * Math.exp(-s / 2) / (1 + Math.exp(-s / 2));
  live.eulerAmplification = (s) => 1 - s / 2;

  // Wave numbers in units of 1/sqrt(eps), evenly in their logarithms, with what n layers leave of a wave beyond heat.
  const left = (n) => Array.from({ length: COUNT }, (_, i) => {
    const k = LOW * (HIGH / LOW) ** (i / (COUNT - 1));
    return [k, live.bridgeAmplification(k * k) ** n - Math.exp(-n * k * k / 2)];
  });
  const STEP = Math.log(HIGH / LOW) / (COUNT - 1);
  // c_m(n), the square root of the integral of k^{-2m-4} left(k)^2: the error is J c / sqrt(pi rho) eps^{3/4 + m/2}.
  live.jumpConstant = (m, n) => Math.sqrt(left(n).reduce((sum, [k, gap]) => sum + k ** (-2 * m - 3) * gap * gap * STEP, 0));
  // The error of the distribution function at x sqrt(eps), in units of J eps^{(m+1)/2}.
  live.jumpProfile = (m, n, xs) => {
    const waves = left(n), phase = (m + 2) * Math.PI / 2, ks = Float64Array.from(waves, (wave) => wave[0]);
    const parts = Float64Array.from(waves, ([k, gap]) => k ** (-m - 1) * gap * STEP / Math.PI);
    return xs.map((x) => {
      let sum = 0;
      for (let i = 0; i < COUNT; i++) sum += parts[i] * Math.cos(ks[i] * x - phase);
      return sum;
    });
  };
})();
