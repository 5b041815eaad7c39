"""The bridge of a measure to itself: attnflow against POT, in one run.

Both solve the same problem (cost |x-y|^2/2, temperature eps) from the same cost-free start to the
same L1 error of the marginal, 1e-9, kernel or cost matrix included. Times are the median of
several runs for attnflow; POT is timed once and its sweeps are capped. Ratios are what counts:
machines differ, and are noisy.

    python benchmarks/transport.py [--n 1000]
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings

import numpy as np
import ot

from attnflow.kernels import squared_distances
from attnflow.transport import self_bridge

TOL, POT_SWEEPS = 1e-9, 60_000


def ours(x: np.ndarray, eps: float) -> tuple[float, int, float]:
    """Seconds, sweeps, L1 error of the marginal."""
    times = []
    for _ in range(7):
        start = time.perf_counter()
        bridge = self_bridge(x, eps, tol=TOL)
        times.append(time.perf_counter() - start)
    error = np.abs(bridge.plan().sum(axis=1) - 1 / len(x)).sum()
    return statistics.median(times), bridge.n_iter, float(error)


def pots(x: np.ndarray, eps: float) -> tuple[float, int, float]:
    """The same for ot.sinkhorn; its stopping rule is the L2 error, asked every tenth sweep."""
    n = len(x)
    w = np.full(n, 1 / n)
    start = time.perf_counter()
    cost = squared_distances(x, x, 2.0)
    plan, log = ot.sinkhorn(
        w, w, cost, eps, numItermax=POT_SWEEPS, stopThr=TOL / np.sqrt(n), log=True, warn=False
    )
    seconds = time.perf_counter() - start
    return seconds, int(log["niter"]), float(np.abs(plan.sum(axis=0) - w).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=1000, help="tokens in the plane")
    parser.add_argument("--eps", type=float, nargs="+", default=[1.0, 0.1, 0.01])
    options = parser.parse_args()
    x = np.random.default_rng(0).normal(size=(options.n, 2))
    self_bridge(x, 1.0)  # warm up BLAS
    print(f"same-marginal bridge, n = {options.n}, d = 2, marginal error {TOL:g}, one process")
    print(
        f"{'eps':>6} {'attnflow':>10} {'sweeps':>7} {'error':>9} {'POT':>10} {'sweeps':>7} {'error':>9} {'ratio':>8}"
    )
    for eps in options.eps:
        mine, theirs = ours(x, eps), pots(x, eps)
        capped = " (capped)" if theirs[1] >= POT_SWEEPS - 10 and theirs[2] > TOL else ""
        print(
            f"{eps:>6g} {1e3 * mine[0]:>8.1f}ms {mine[1]:>7} {mine[2]:>9.1e} "
            f"{theirs[0]:>9.2f}s {theirs[1]:>7} {theirs[2]:>9.1e} {theirs[0] / mine[0]:>7.0f}x{capped}",
            flush=True,
        )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
