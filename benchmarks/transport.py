"""The bridge of a measure to itself: attnflow against POT and OTT, and how it scales.

`peers`: all solve the same problem (cost |x-y|^2/2, temperature eps) from the same start to the
same L1 error of the marginal, 1e-9, kernel or cost matrix included. Times are medians for attnflow
and OTT (compiled and warmed up, its better mode); POT is timed once and its sweeps are capped.
Ratios are what counts: machines differ, and are noisy.

`scale`: up to 10^6 tokens in the plane, each size in a process of its own; times are the processor's.

    python benchmarks/transport.py
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import report  # isort: split

import numpy as np

from attnflow.kernels import squared_distances
from attnflow.transport import self_bridge

TOL, POT_SWEEPS = 1e-9, 60_000
PEERS = [(1000, 1.0), (1000, 0.1), (1000, 0.01), (4000, 0.1), (4000, 0.01)]
#: 60,000 sweeps of POT with 4000 tokens are too long to wait for.
WITHOUT_POT = {(4000, 0.01)}
SIZES, TEMPERATURES = (10_000, 100_000, 1_000_000), (0.1, 0.01, 0.001)


def tokens(n: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, 2))


def median_time(solve: Callable[[], Any], times: int) -> tuple[float, Any]:
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        out = solve()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds), out


def ours(x: np.ndarray, eps: float) -> dict[str, Any]:
    self_bridge(x, eps, tol=TOL)
    seconds, bridge = median_time(lambda: self_bridge(x, eps, tol=TOL), 9)
    error = np.abs(bridge.plan().sum(axis=1) - 1 / len(x)).sum()
    return {
        "kernel": type(bridge.kernel).__name__,
        "seconds": seconds,
        "sweeps": bridge.iterations,
        "error": float(error),
    }


def pots(x: np.ndarray, eps: float) -> dict[str, Any]:
    """ot.sinkhorn; its stopping rule is the L2 error, asked every tenth sweep."""
    import ot

    n = len(x)
    w = np.full(n, 1 / n)
    start = time.perf_counter()
    cost = squared_distances(x, x, 2.0)
    plan, log = ot.sinkhorn(
        w, w, cost, eps, numItermax=POT_SWEEPS, stopThr=TOL / np.sqrt(n), log=True, warn=False
    )
    return {
        "POT": time.perf_counter() - start,
        "POT sweeps": int(log["niter"]),
        "POT error": float(np.abs(plan.sum(axis=0) - w).sum()),
    }


def otts(x: np.ndarray, eps: float) -> dict[str, Any]:
    """OTT at its best for equal marginals: parallel updates, averaged, in the faster mode."""
    import jax
    from ott.geometry import pointcloud
    from ott.problems.linear import linear_problem
    from ott.solvers.linear import acceleration, sinkhorn

    jax.config.update("jax_enable_x64", True)
    best: dict[str, Any] = {}
    for log_domain in (True, False):
        solver = sinkhorn.Sinkhorn(
            lse_mode=log_domain,
            parallel_dual_updates=True,
            momentum=acceleration.Momentum(value=0.5),
            threshold=TOL,
            inner_iterations=5,
            max_iterations=10_000,
        )

        @jax.jit
        def solve(z: Any, solver: Any = solver) -> Any:
            geometry = pointcloud.PointCloud(z, epsilon=2 * eps)  # its cost is |x-y|^2
            out = solver(linear_problem.LinearProblem(geometry))
            return out.f, out.g, out.n_iters

        z = jax.numpy.asarray(x)
        jax.block_until_ready(solve(z))
        seconds, (f, g, sweeps) = median_time(
            lambda solve=solve, z=z: jax.block_until_ready(solve(z)), 3
        )
        logits = (np.asarray(f)[:, None] + np.asarray(g) - 2 * squared_distances(x, x, 2.0)) / (
            2 * eps
        )
        error = float(np.abs(np.exp(logits).sum(axis=1) - 1 / len(x)).sum())
        if np.isfinite(error) and error <= 3 * TOL and seconds < best.get("OTT", np.inf):
            mode = "log" if log_domain else "kernel"
            best = {"OTT": seconds, "OTT sweeps": int(sweeps), "OTT error": error, "OTT mode": mode}
    return best


def peers() -> list[dict[str, Any]]:
    rows = []
    for n, eps in PEERS:
        x = tokens(n)
        row: dict[str, Any] = {"n": n, "eps": eps} | ours(x, eps)
        if (n, eps) in WITHOUT_POT:
            row["note"] = "POT skipped: takes too long"
        else:
            row |= pots(x, eps)
            row["ratio POT"] = row["POT"] / row["seconds"]
            if row["POT error"] > 3 * TOL:
                row["note"] = f"POT stopped at {POT_SWEEPS} sweeps"
        try:
            row |= otts(x, eps)
        except ImportError:
            row["note"] = "OTT is not installed"
        if "OTT" in row:
            row["ratio OTT"] = row["OTT"] / row["seconds"]
        rows.append(row)
    return rows


def at_scale(n: int, eps: float) -> dict[str, Any]:
    """One row, and the marginal on a sample of tokens by direct summation."""
    x = tokens(n)
    start = time.process_time()
    bridge = self_bridge(x, eps, tol=TOL)
    middle = time.process_time()
    bridge.barycentric()
    end = time.process_time()
    peak = report.peak_memory()
    some = np.random.default_rng(1).choice(n, 100, replace=False)
    mass = bridge.scaling / n
    product = np.array(
        [np.exp(-squared_distances(x[i : i + 1], x, 2 * eps))[0] @ mass for i in some]
    )
    return {
        "n": n,
        "eps": eps,
        "kernel": type(bridge.kernel).__name__,
        "balance": middle - start,
        "barycentric": end - middle,
        "sweeps": bridge.iterations,
        "residual": bridge.residual,
        "sampled error": float(np.abs(bridge.scaling[some] * product - 1).mean()),
        "peak GB": peak / 1e9,
        "dense GB": 8 * n**2 / 1e9,
    }


def scale() -> tuple[list[dict[str, Any]], dict[str, float]]:
    rows = [report.apart(__file__, "--one", n, eps) for eps in TEMPERATURES for n in SIZES]
    exponents = {}
    for eps in TEMPERATURES:
        total = {r["n"]: r["balance"] + r["barycentric"] for r in rows if r["eps"] == eps}
        exponents[str(eps)] = float(np.log10(total[SIZES[2]] / total[SIZES[1]]))
    return rows, exponents


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", help="scale, peers; both unless given")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(at_scale(int(options.one[0]), float(options.one[1]))))
        return
    for name in options.tables or TABLES:
        report.store("transport", TABLES[name](), among=True)


SIZE = {"n": str, "eps": "{:g}".format, "kernel": str}
SECONDS, GIGABYTES, ERROR = "{:.3f}s".format, "{:.2f}".format, "{:.1e}".format


def shown_scale() -> dict[str, Any]:
    many, exponents = scale()
    print(f"scale: marginal error {TOL:g}, plane; sampled error is by direct summation")
    show = {"balance": SECONDS, "barycentric": SECONDS, "sweeps": str, "sampled error": ERROR}
    report.show(many, SIZE | show | {"peak GB": GIGABYTES, "dense GB": GIGABYTES})
    print("exponent in n from 1e5 to 1e6:", {k: round(v, 2) for k, v in exponents.items()})
    return {"scale": many, "exponents": exponents}


def shown_peers() -> dict[str, Any]:
    few = peers()
    print(f"\npeers: marginal error {TOL:g}, plane")
    show = {"seconds": SECONDS, "sweeps": str, "error": ERROR}
    show |= {"POT": SECONDS, "POT sweeps": str, "ratio POT": "{:.0f}x".format}
    show |= {"OTT": SECONDS, "OTT sweeps": str, "OTT mode": str, "ratio OTT": "{:.1f}x".format}
    report.show(few, SIZE | show | {"note": str})
    return {"peers": few}


TABLES: dict[str, Callable[[], dict[str, Any]]] = {"scale": shown_scale, "peers": shown_peers}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
