// Differential equations y' = f(t, y) for flat lists y: Dormand and Prince's pair of orders 5 and 4.
(() => {
  "use strict";
  const live = window.attnflow;
  const nodes = [0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1];
  const stages = [
    [],
    [1 / 5],
    [3 / 40, 9 / 40],
    [44 / 45, -56 / 15, 32 / 9],
    [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
    [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
  ];
  const fifth = [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84];
  const error = [71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40];

  const combined = (y, h, weights, k) => {
    const out = y.slice();
    weights.forEach((w, j) => { if (w) for (let i = 0; i < out.length; i++) out[i] += h * w * k[j][i]; });
    return out;
  };

  // settings: rtol; longest step; step(t, y) after every step, which stops by answering true. {t, y, stopped}.
  live.integrate = (f, start, t0, t1, settings = {}) => {
    const rtol = settings.rtol || 1e-9, longest = settings.longest || Infinity, scale = Math.max(...start.map(Math.abs), 1e-12);
    let t = t0, y = start.slice(), first = f(t, y);
    let h = Math.min(t1 - t0, 0.01 * scale / Math.max(...first.map(Math.abs), 1e-12));
    for (let tries = 0; tries < (settings.most || 20000) && t < t1; tries++) {
      h = Math.min(h, t1 - t, longest);
      const k = [first];
      for (let s = 1; s < 6; s++) k.push(f(t + nodes[s] * h, combined(y, h, stages[s], k)));
      const next = combined(y, h, fifth, k);
      k.push(f(t + h, next));
      let wrong = 0;
      for (let i = 0; i < y.length; i++) {
        let gap = 0;
        for (let s = 0; s < 7; s++) gap += error[s] * k[s][i];
        const size = rtol * Math.max(Math.abs(y[i]), Math.abs(next[i]), 1e-3 * scale);
        wrong = Math.max(wrong, Math.abs(h * gap) / size);
      }
      if (!(wrong < 1e300)) { h /= 10; if (h < 1e-14 * Math.max(t, 1e-3)) break; continue; }
      if (wrong <= 1) {
        t = t + h >= t1 - 1e-15 * Math.abs(t1) ? t1 : t + h;
        y = next;
        first = k[6];
        if (settings.step && settings.step(t, y)) return { t, y, stopped: true };
      }
      h *= Math.min(5, Math.max(0.2, 0.9 * (wrong + 1e-12) ** -0.2));
    }
    return { t, y, stopped: t < t1 };
  };
})();
