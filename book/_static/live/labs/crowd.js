// Laboratory: finitely many tokens against their mean-field limit, which for Gaussian data is one ellipse.
(() => {
  "use strict";
  const live = window.attnflow;

  live.labs.crowd = (root) => {
    const kind = (v) => ({ softmax: "softmax", L2: "L2", Sinkhorn: "sinkhorn" })[v.kind];
    const layer = (v) => {
      const a = v.angle * Math.PI / 180, K = live.scaled(live.identity(2), Math.sqrt(v.beta));
      return { Q: K, K, V: [[Math.cos(a), -Math.sin(a)], [Math.sin(a), Math.cos(a)]], eps: 1 };
    };
    const S0 = [[1, 0.3], [0.3, 0.5]];
    const sample = (x) => {
      const mean = [0, 1].map((e) => x.reduce((sum, p) => sum + p[e], 0) / x.length);
      return { mean, cov: [0, 1].map((e) => [0, 1].map((f) => x.reduce((sum, p) => sum + (p[e] - mean[e]) * (p[f] - mean[f]), 0) / x.length)) };
    };
    const far = (S, T) => Math.hypot(...live.plus(S, T, -1).flat()) / Math.hypot(...T.flat());
    const exact = (s, t) => {
      const { times, covs } = s.limit, k = times.findIndex((u) => u >= t - 1e-12);
      if (k <= 0) return k < 0 ? covs[covs.length - 1] : covs[0];
      const part = (t - times[k - 1]) / (times[k] - times[k - 1]);
      return live.plus(live.scaled(covs[k - 1], 1 - part), covs[k], part);
    };
    const start = (v, s) => {
      const old = s.errors && s.errors.length > 4 ? [{ n: s.n, errors: s.errors }] : [], same = [v.kind, v.beta, v.angle].join();
      s.before = s.same === same ? [...(s.before || []), ...old].slice(-8) : [];
      Object.assign(s, { same, n: v.n, t: 0 });
      const half = live.root(S0);
      s.x = live.mapped(half, live.gaussians(v.n, 2, v.seed));
      s.T = v.kind === "softmax" ? Math.min(1.5, 0.75 * live.blowUpTime(S0, layer(v), 3)) : 1.5;
      s.limit = live.covarianceFlow(kind(v), S0, layer(v), s.T, 1e-8, s.T / 60);
      s.errors = [[0, far(sample(s.x).cov, S0)]];
    };
    live.lab(root, "crowd", {
      auto: true,
      controls: {
        n: { label: "tokens n", min: 8, max: 256, value: 64, log: true },
        kind: { label: "attention", choices: ["softmax", "L2", "Sinkhorn"], value: "L2" },
        beta: { label: "scale of the scores β", min: 0.1, max: 2, step: 0.05, value: 0.6 },
        angle: { label: "V turns by, °", min: 0, max: 180, step: 5, value: 30 },
        seed: { label: "start", min: 0, max: 99, step: 1, value: 1 },
      },
      panels: [
        {
          title: "tokens, and the limit of infinitely many", ratio: 0.92, label: "Tokens in the plane with the ellipse of their covariance and that of the mean-field limit.",
          legend: [["tokens", "blue", "dot"], ["their covariance", "blue"], ["mean-field limit", "orange", "dash"]],
          draw: (view, v, s) => {
            const S = exact(s, s.t), reach = 2.6 * Math.sqrt(Math.max(...s.limit.covs.map((C) => live.symmetricEigen(C).values[1]), 1)), plot = live.plot(view, { x: [-reach, reach], y: [-reach, reach], equal: true });
            plot.dots(s.x, { colour: view.colours.blue, size: 3.5, alpha: 0.65 });
            const now = sample(s.x);
            plot.line(live.ellipse(now.cov, 2, now.mean), { colour: view.colours.blue, width: 2 });
            plot.line(live.ellipse(S, 2), { colour: view.colours.orange, width: 2.6, dash: [7, 5] });
            return plot;
          },
        },
        {
          title: "relative error of the covariance", ratio: 0.8, label: "The error of the tokens' covariance over time, for this run and earlier ones.",
          legend: [["this run", "blue"], ["earlier runs, with their n", "grey"]],
          draw: (view, v, s) => {
            const plot = live.plot(view, { x: [0, s.T], y: [3e-3, 3], ylog: true, xlabel: "time t" });
            s.before.forEach((run) => {
              plot.line(run.errors, { colour: view.colours.grey, width: 1.2, alpha: 0.8 });
              plot.text(...run.errors[run.errors.length - 1], `${run.n}`, { align: "right", colour: view.colours.muted, dy: -3 });
            });
            plot.line(s.errors, { colour: view.colours.blue, width: 2.4 });
            return plot;
          },
        },
      ],
      start: (v, s) => { v.n = Math.round(v.n); start(v, s); },
      changed: (key, v, s) => { v.n = Math.round(v.n); start(v, s); },
      frame: (seconds, v, s) => {
        const h = Math.min(s.T * seconds / 4, s.T - s.t);
        s.x = live.attentionStep(kind(v), s.x, layer(v), h);
        s.t += h;
        s.errors.push([s.t, Math.max(far(sample(s.x).cov, exact(s, s.t)), 1e-6)]);
        return s.t < s.T - 1e-9;
      },
      say: (v, s) => {
        const error = s.errors[s.errors.length - 1][1];
        return `t = ${s.t.toFixed(2)}: the covariance of ${v.n} tokens is off by ${(100 * error).toFixed(1)} %, which is ${live.shown(error * Math.sqrt(v.n), 2)}/√n. Move n and compare.`;
      },
    });
  };
})();
