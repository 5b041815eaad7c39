// Clusters on the circle in the clock (log t) / beta: the coalescing model, and who takes whom in a decoder.
(() => {
  "use strict";
  const live = window.attnflow;
  const TURN = 2 * Math.PI, turned = (a) => ((a % TURN) + TURN) % TURN;

  // The nearest pair first, at its mean by squared masses, or by masses: [{level, kept, lost, place, mass}], tokens by their smallest number.
  live.coalesce = (angles, squared = true) => {
    const ring = angles.map((a, i) => ({ at: turned(a), mass: 1, first: i })).sort((p, q) => p.at - q.at), out = [];
    while (ring.length > 1) {
      const gaps = ring.map((p, k) => turned(ring[(k + 1) % ring.length].at - p.at));
      const k = gaps.indexOf(Math.min(...gaps)), p = ring[k], q = ring[(k + 1) % ring.length], power = squared ? 2 : 1;
      const share = q.mass ** power / (p.mass ** power + q.mass ** power), [kept, lost] = [Math.min(p.first, q.first), Math.max(p.first, q.first)];
      p.at = turned(p.at + share * gaps[k]);
      p.mass += q.mass;
      p.first = kept;
      ring.splice((k + 1) % ring.length, 1);
      out.push({ level: 2 * Math.sin(gaps[k] / 2) ** 2, kept, lost, place: p.at, mass: p.mass });
    }
    return out;
  };

  // R_j = min{|x_j - x_i| : i < j, |x_j - x_i| <= R_i}, and the i at which it is attained.
  live.captures = (points, length = TURN) => {
    const radii = [Infinity], by = [-1];
    for (let j = 1; j < points.length; j++) {
      let least = Infinity, taker = -1;
      for (let i = 0; i < j; i++) {
        const one = Math.abs(points[j] - points[i]) % length, far = Math.min(one, length - one);
        if (far <= radii[i] && far < least) { least = far; taker = i; }
      }
      radii.push(least);
      by.push(taker);
    }
    return { radii, by };
  };
})();
