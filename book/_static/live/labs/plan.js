// Laboratory: two clouds and the plan between them as the temperature moves.
(() => {
  "use strict";
  const live = window.attnflow;

  live.labs.plan = (root) => {
    const clouds = (v) => {
      const uniform = live.random(v.seed), x = [], y = [];
      for (let i = 0; i < v.n; i++) {
        x.push([0.55 * live.gaussian(uniform), 0.55 * live.gaussian(uniform)]);
        const a = 2 * Math.PI * (i + 0.6 * uniform()) / v.n, r = 1.9 + 0.2 * live.gaussian(uniform);
        y.push([r * Math.cos(a), r * Math.sin(a)]);
      }
      return [...x, ...y];
    };
    const start = (v, s) => {
      const points = v.points && v.points.length === 2 * v.n ? v.points : clouds(v), cost = points.slice(0, v.n).map((p) => points.slice(v.n).map((q) => live.squaredDistance(p, q)));
      s.points = points;
      s.x = points.slice(0, v.n);
      s.y = points.slice(v.n);
      s.match = live.assignment(cost);
      s.best = s.match.reduce((sum, j, i) => sum + cost[i][j], 0) / v.n;
      s.found = live.transportPlan(s.x, s.y, v.eps);
      s.way = s.found.plan.reduce((sum, row, i) => sum + live.dot(row, cost[i]), 0);
      s.partners = s.found.plan.reduce((sum, row) => sum + Math.exp(-row.reduce((e, p) => { const q = Math.max(p * v.n, 1e-300); return e + q * Math.log(q); }, 0)), 0) / v.n;
    };
    live.lab(root, "plan", {
      loop: true,
      controls: {
        eps: { label: "temperature ε", min: 0.005, max: 5, value: 0.1, log: true },
        n: { label: "points in a cloud n", min: 3, max: 14, step: 1, value: 9 },
        seed: { label: "start", min: 0, max: 99, step: 1, value: 5 },
        points: { points: true },
      },
      panels: [
        {
          title: "who goes where: drag the points", ratio: 0.95, label: "Two clouds of points with lines as strong as the mass that goes from one point to the other.",
          handles: (v, s) => s.points,
          moved: (i, point, v, s) => { v.points = s.points.slice(); v.points[i] = point; start(v, s); },
          legend: [["from", "blue", "dot"], ["to", "orange", "dot"], ["the plan", "green"], ["the best matching (ε → 0)", "ink", "dash"]],
          draw: (view, v, s) => {
            const plot = live.plot(view, { x: [-2.9, 2.9], y: [-2.7, 2.7], equal: true, bare: true });
            s.found.plan.forEach((row, i) => row.forEach((p, j) => { const share = p * v.n; if (share > 0.004) plot.line([s.x[i], s.y[j]], { colour: view.colours.green, width: 0.5 + 3.5 * share, alpha: Math.min(1, 0.1 + share) }); }));
            s.match.forEach((j, i) => plot.line([s.x[i], s.y[j]], { dash: [3, 4], width: 1.2 }));
            plot.dots(s.x, { colour: view.colours.blue, size: 6, rim: view.colours.ground });
            plot.dots(s.y, { colour: view.colours.orange, size: 6, rim: view.colours.ground });
            return plot;
          },
        },
        {
          title: "the plan; columns in the order of the best matching", ratio: 0.95, label: "The plan as a matrix. On the diagonal are the pairs of the best matching.",
          draw: (view, v, s) => {
            const size = Math.min(view.width, view.height), plot = live.plot({ ...view, width: size, height: size }, { x: [0, 1], y: [0, 1], bare: true });
            const most = Math.max(...s.found.plan.flat());
            live.squares(plot, s.found.plan.map((row) => s.match.map((j) => row[j] / most)), view.colours.green);
          },
        },
      ],
      start,
      rewind: (v) => { v.eps = 5; },
      atEnd: (v) => v.eps <= 0.005,
      changed: (key, v, s) => { if (key === "n" || key === "seed") v.points = null; start(v, s); },
      frame: (seconds, v, s) => { v.eps = Math.max(0.005, v.eps * Math.exp(-seconds)); s.show(); start(v, s); return v.eps > 0.005; },
      say: (v, s) => `ε = ${live.shown(v.eps)}: the mean squared way is ${live.shown(s.way, 4)} under the plan and ${live.shown(s.best, 4)} at best (W₂ = ${live.shown(Math.sqrt(s.best), 4)}). A point is sent to ${live.shown(s.partners, 2)} partners on average.`,
    });
  };
})();
