"""A thousand bridges of 64 tokens: one compiled call against POT in a loop and OTT under vmap.

All to an L1 error of 1e-9, kernel included; the barycentric map too where it is free. Times are of
the processor on one core, the least of several runs; compiled and warm.

    python benchmarks/small.py
"""

from __future__ import annotations

import warnings
from typing import Any

import report  # isort: split

import numpy as np

from attnflow.kernels import squared_distances
from attnflow.transport import self_bridge, self_bridges

PROBLEMS, N, TOL = 1000, 64, 1e-9
TEMPERATURES = (1.0, 0.1)
#: Problems of the loops that are timed; their time is multiplied.
LOOPED = 100


def pots(x: np.ndarray, eps: float) -> float:
    import ot

    w = np.full(N, 1 / N)
    seconds, _ = report.least_time(
        lambda: [
            ot.sinkhorn(w, w, squared_distances(z, z, 2.0), eps, numItermax=20_000,
                        stopThr=TOL / np.sqrt(N), warn=False)
            for z in x[:LOOPED]
        ],
        2,
    )  # fmt: skip
    return seconds * len(x) / LOOPED


def otts(x: np.ndarray, eps: float) -> float:
    import jax
    from ott.geometry import pointcloud
    from ott.problems.linear import linear_problem
    from ott.solvers.linear import acceleration, sinkhorn

    jax.config.update("jax_enable_x64", True)
    best = np.inf
    for log_domain in (True, False):
        solver = sinkhorn.Sinkhorn(
            lse_mode=log_domain, parallel_dual_updates=True, threshold=TOL, inner_iterations=5,
            momentum=acceleration.Momentum(value=0.5), max_iterations=1000,
        )  # fmt: skip

        def one(z: Any, solver: Any = solver) -> Any:
            cloud = pointcloud.PointCloud(z, epsilon=2 * eps)
            out = solver(linear_problem.LinearProblem(cloud))
            return out.f, out.g

        solve = jax.jit(jax.vmap(one))
        z = jax.numpy.asarray(x)
        jax.block_until_ready(solve(z))
        seconds, (f, g) = report.least_time(
            lambda solve=solve, z=z: jax.block_until_ready(solve(z)), 3
        )
        some = np.asarray(f)[0][:, None] + np.asarray(g)[0] - 2 * squared_distances(x[0], x[0], 2.0)
        error = np.abs(np.exp(some / (2 * eps)).sum(axis=1) - 1 / N).sum()
        if error <= 10 * TOL:
            best = min(best, seconds)
    return best


def main() -> None:
    x = np.random.default_rng(0).normal(size=(PROBLEMS, N, 2))
    self_bridges(x[:2], 1.0)
    rows = []
    for eps in TEMPERATURES:
        seconds, found = report.least_time(lambda eps=eps: self_bridges(x, eps, tol=TOL), 5)
        loop, _ = report.least_time(
            lambda eps=eps: [self_bridge(z, eps, tol=TOL).barycentric() for z in x[:LOOPED]], 3
        )
        row: dict[str, Any] = {
            "problems": PROBLEMS, "n": N, "eps": eps, "seconds": seconds,
            "sweeps": float(found.iterations.mean()), "error": found.residual,
            "loop": loop * PROBLEMS / LOOPED, "POT": pots(x, eps),
        }  # fmt: skip
        try:
            row["OTT"] = otts(x, eps)
        except ImportError:
            row["OTT"] = None
        for peer in ("loop", "POT", "OTT"):
            if row[peer] is not None and np.isfinite(row[peer]):
                row[f"ratio {peer}"] = row[peer] / seconds
        rows.append(row)
    number, ratio = "{:.3f}".format, "{:.0f}x".format
    report.show(
        rows,
        {"eps": "{:g}".format, "seconds": number, "loop": number, "POT": number, "OTT": number,
         "ratio loop": ratio, "ratio POT": ratio, "ratio OTT": ratio},
    )  # fmt: skip
    report.store("small", {"small": rows})


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
