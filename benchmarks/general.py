"""Two different measures: attnflow against POT, OTT and GeomLoss, and how it scales.

`dense`: a matrix of scores between two normal samples in the plane, to an L1 error of 1e-9 of both
marginals, exponentials included. POT and OTT are stopped at a number of sweeps; where that is
reached before the error, or where a part of the sweeps was timed, the ratio is a lower bound.

`scale`: the same two measures without a matrix, each size in a process of its own; `peers` are
GeomLoss and OTT without a matrix, at the error that they reach. `layer` is a Sinkhorn layer with Q other
than K.

Times are of the processor, not of the clock, on one core; the least of several runs.

    python benchmarks/general.py
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from typing import Any

import report  # isort: split

import numpy as np

from attnflow.attention import SinkhornAttention
from attnflow.kernels import squared_distances
from attnflow.transport import pair_bridge, self_bridge, sinkhorn
from attnflow.transport.bridge import ROUGH

TOL, POT_SWEEPS, OTT_SWEEPS = 1e-9, 60_000, 4_000
DENSE = [(1000, 1.0), (1000, 0.1), (1000, 0.01), (4000, 1.0), (4000, 0.1), (4000, 0.01)]
#: Sweeps of which only so many are timed, and the time multiplied.
TIMED = {(1000, 0.01): 6000, (4000, 0.01): 200}
SIZES, TEMPERATURES = (10_000, 100_000, 1_000_000), (1.0, 0.1)
#: GeomLoss and OTT without a matrix take n^2 time: they are asked for this many tokens.
PEER_SIZE, PEER_EPS = 10_000, 0.1


def measures(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 2)), 0.5 + rng.normal(size=(n, 2)) * [0.7, 1.3]


def ours(cost: np.ndarray, eps: float) -> dict[str, Any]:
    n = len(cost)
    sinkhorn(cost[:50, :50])
    seconds, found = report.least_time(lambda: sinkhorn(cost / -eps, tol=TOL), 5 if n < 2000 else 3)
    plan = found.plan()
    error = max(np.abs(plan.sum(axis=k) - 1 / n).sum() for k in (0, 1))
    return {"seconds": seconds, "products": found.iterations, "error": float(error)}


def pots(cost: np.ndarray, eps: float) -> dict[str, Any]:
    """ot.sinkhorn; its stopping rule is the L2 error, asked every tenth sweep."""
    import ot

    n = len(cost)
    w = np.full(n, 1 / n)
    timed = TIMED.get((n, eps), POT_SWEEPS)
    seconds, (plan, log) = report.least_time(
        lambda: ot.sinkhorn(
            w, w, cost, eps, numItermax=timed, stopThr=TOL / np.sqrt(n), log=True, warn=False
        ),
        3 if eps >= 0.1 and n < 2000 else 1,
    )
    error = float(np.abs(plan.sum(axis=0) - w).sum())
    capped = error > 3 * TOL
    return {
        "POT": seconds * (POT_SWEEPS / timed if capped else 1.0),
        "POT sweeps": POT_SWEEPS if capped else int(log["niter"]),
        "POT capped": capped,
    }


def otts(x: np.ndarray, y: np.ndarray, eps: float) -> dict[str, Any]:
    """OTT, jitted and warm: of the kernel and the log domain, plain and over-relaxed, the fastest."""
    import jax
    from ott.geometry import geometry
    from ott.problems.linear import linear_problem
    from ott.solvers.linear import acceleration
    from ott.solvers.linear import sinkhorn as solvers

    jax.config.update("jax_enable_x64", True)
    cost, n = jax.numpy.asarray(squared_distances(x, y, 2.0)), len(x)
    log_only = eps < 0.1  # exp(-cost / eps) is zero in whole rows
    most = 40 if n > 2000 and log_only else OTT_SWEEPS
    best: dict[str, Any] = {}
    for log_domain in (True,) if log_only else (False,):
        for momentum in (1.0, 1.5):
            solver = solvers.Sinkhorn(
                lse_mode=log_domain,
                momentum=acceleration.Momentum(value=momentum),
                threshold=TOL,
                inner_iterations=10,
                max_iterations=most,
            )

            @jax.jit
            def solve(c: Any, solver: Any = solver) -> Any:
                out = solver(linear_problem.LinearProblem(geometry.Geometry(c, epsilon=eps)))
                return out.f, out.g, out.n_iters

            jax.block_until_ready(solve(cost))
            seconds, (f, g, sweeps) = report.least_time(
                lambda solve=solve: jax.block_until_ready(solve(cost)), 2 if not log_only else 1
            )
            logits = (np.asarray(f)[:, None] + np.asarray(g) - np.asarray(cost)) / eps
            plan = np.exp(logits)  # the half sweep that came last is exact: the other tells
            error = max(float(np.abs(plan.sum(axis=k) - 1 / n).sum()) for k in (0, 1))
            capped = not error <= 3 * TOL
            scale = OTT_SWEEPS / most if capped else 1.0
            row = {
                "OTT": seconds * scale,
                "OTT sweeps": OTT_SWEEPS if capped else int(sweeps),
                "OTT capped": capped,
            }
            if not best or (capped, row["OTT"]) < (best["OTT capped"], best["OTT"]):
                best = row
            if log_only:
                break
    return best


def dense() -> list[dict[str, Any]]:
    rows = []
    for n, eps in DENSE:
        x, y = measures(n)
        cost = squared_distances(x, y, 2.0)
        row: dict[str, Any] = {"n": n, "eps": eps} | ours(cost, eps) | pots(cost, eps)
        row["ratio POT"] = row["POT"] / row["seconds"]
        try:
            row |= otts(x, y, eps)
            row["ratio OTT"] = row["OTT"] / row["seconds"]
        except ImportError:
            row["OTT capped"] = None
        rows.append(row)
    return rows


def at_scale(n: int, eps: float) -> dict[str, Any]:
    """One row, and the row marginal at a sample of tokens by direct summation."""
    x, y = measures(n)
    seconds, found = report.least_time(lambda: pair_bridge(x, y, eps, tol=TOL), 1)
    peak = report.peak_memory()
    some = np.random.default_rng(1).choice(n, 100, replace=False)
    rows = [
        np.exp(found.f[i] + found.g - squared_distances(x[i : i + 1], y, 2 * eps)[0]).mean()
        for i in some
    ]
    return {
        "n": n,
        "eps": eps,
        "method": found.method,
        "seconds": seconds,
        "products": found.iterations,
        "residual": found.residual,
        "sampled error": float(np.abs(np.array(rows) - 1).mean()),
        "peak GB": peak / 1e9,
        "dense GB": 8 * n**2 / 1e9,
    }


def one_layer(n: int) -> dict[str, Any]:
    """A Sinkhorn layer with Q = I, K = -I, and one with Q = K, on n tokens."""
    x = np.random.default_rng(0).normal(size=(n, 2))
    I = np.eye(2)  # noqa: E741
    out: dict[str, Any] = {"n": n}
    for name, K in (("Q = K", I), ("Q = -K", -I)):
        layer = SinkhornAttention(I, K, I, eps=1.0, tol=1e-8)
        out[f"seconds {name}"], _ = report.least_time(lambda layer=layer: layer.velocity(x), 1)
    return out | {"peak GB": report.peak_memory() / 1e9, "dense GB": 8 * n**2 / 1e9}


def without_a_matrix(name: str) -> dict[str, Any]:
    """A peer on PEER_SIZE tokens: its time, and the larger L1 error of the two marginals that it reaches."""
    n, eps = PEER_SIZE, PEER_EPS
    x, y = measures(n)
    if name.startswith("attnflow"):
        tol = float(name.split()[1])
        seconds, found = report.least_time(lambda: pair_bridge(x, y, eps, tol=tol), 5)
        f, g = found.f * eps, found.g * eps
    elif name.startswith("GeomLoss"):
        import torch
        from geomloss import SamplesLoss

        torch.set_num_threads(1)
        backend, scaling = name.split()[1:]
        loss = SamplesLoss(
            "sinkhorn", p=2, blur=float(np.sqrt(eps)), scaling=float(scaling), debias=False,
            potentials=True, backend=backend,
        )  # fmt: skip
        a, b = torch.as_tensor(x), torch.as_tensor(y)
        loss(a[:50], b[:50])
        seconds, (f, g) = report.least_time(lambda: loss(a, b), 1)
        f, g = f.numpy().ravel(), g.numpy().ravel()
    else:
        import jax
        from ott.geometry import pointcloud
        from ott.problems.linear import linear_problem
        from ott.solvers.linear import sinkhorn as solvers

        jax.config.update("jax_enable_x64", True)
        solver = solvers.Sinkhorn(threshold=1e-2, inner_iterations=5, max_iterations=50)

        @jax.jit
        def solve(u: Any, v: Any) -> Any:
            cloud = pointcloud.PointCloud(u, v, epsilon=2 * eps, batch_size=500)
            out = solver(linear_problem.LinearProblem(cloud))
            return out.f, out.g

        u, v = jax.numpy.asarray(x), jax.numpy.asarray(y)
        jax.block_until_ready(solve(u, v))
        seconds, (f, g) = report.least_time(lambda: jax.block_until_ready(solve(u, v)), 1)
        shift = eps * np.log(n)  # its potentials hold the masses
        f, g = np.asarray(f) / 2 + shift, np.asarray(g) / 2 + shift
    rows, columns = np.empty(n), np.zeros(n)  # a sweep that ends with one of them leaves the other
    for k in range(0, n, 500):
        logits = (f[k : k + 500, None] + g - squared_distances(x[k : k + 500], y, 2.0)) / eps
        plan = np.exp(logits)
        rows[k : k + 500] = plan.mean(axis=1)
        columns += plan.sum(axis=0) / n
    error = max(float(np.abs(sums - 1).mean()) for sums in (rows, columns))
    return {"solver": name, "n": n, "eps": eps, "seconds": seconds, "error": error}


def scale() -> tuple[list[dict[str, Any]], dict[str, float]]:
    rows = [report.apart(__file__, "--one", n, eps) for eps in TEMPERATURES for n in SIZES]
    exponents = {}
    for eps in TEMPERATURES:
        total = {r["n"]: r["seconds"] for r in rows if r["eps"] == eps}
        exponents[str(eps)] = float(np.log10(total[SIZES[2]] / total[SIZES[1]]))
    return rows, exponents


def peers() -> list[dict[str, Any]]:
    rows = []
    names = (
        "attnflow 1e-9", "attnflow 1e-2", "GeomLoss online 0.5", "GeomLoss multiscale 0.5",
        "OTT point cloud",
    )  # fmt: skip
    for name in names:
        try:
            rows.append(report.apart(__file__, "--peer", name))
        except Exception as error:  # a peer that is not installed, or cannot compile here
            print(f"{name}: not measured, {type(error).__name__}")
    for row in rows:  # to ours at no larger an error
        as_good = [r["seconds"] for r in rows[:2] if r["error"] <= row["error"]]
        row["ratio"] = row["seconds"] / min(as_good)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "tables", nargs="*", help="dense, limits, scale, layer, peers; all unless given"
    )
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    parser.add_argument("--layer", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(at_scale(int(options.one[0]), float(options.one[1]))))
    elif options.peer:
        print(json.dumps(without_a_matrix(options.peer)))
    elif options.layer:
        print(json.dumps(one_layer(options.layer)))
    else:
        for name in options.tables or TABLES:
            report.store("general", TABLES[name](), among=True)


def shown_scale() -> dict[str, Any]:
    rows, exponents = scale()
    text = {"n": str, "eps": "{:g}".format, "seconds": "{:.3f}".format, "products": str}
    errors = {"residual": "{:.1e}".format, "sampled error": "{:.1e}".format}
    report.show(rows, text | errors | {"peak GB": "{:.2f}".format})
    print("exponent in n from 1e5 to 1e6:", exponents)
    return {"scale": rows, "exponents": exponents}


def shown_layer() -> dict[str, Any]:
    rows = [report.apart(__file__, "--layer", n) for n in (100_000, 1_000_000)]
    text = {"n": str, "seconds Q = K": "{:.2f}".format, "seconds Q = -K": "{:.2f}".format}
    report.show(rows, text | {"peak GB": "{:.2f}".format})
    return {"layer": rows}


def shown_peers() -> dict[str, Any]:
    rows = peers()
    text = {"solver": str, "seconds": "{:.2f}".format, "error": "{:.1e}".format}
    report.show(rows, text | {"ratio": "{:.1f}x".format})
    return {"peers": rows}


def shown_dense() -> dict[str, Any]:
    rows = dense()
    text = {"n": str, "eps": "{:g}".format, "seconds": "{:.3f}".format, "products": str}
    ratio = {"POT": "{:.2f}".format, "ratio POT": "{:.1f}x".format}
    ratio |= {"OTT": "{:.2f}".format, "ratio OTT": "{:.1f}x".format}
    report.show(rows, text | {"error": "{:.1e}".format} | ratio)
    return {"dense": rows}


def shown_limits() -> dict[str, Any]:
    """Solvers beside the time of their products alone."""
    rows = []
    for n, eps in ((1000, 0.1), (4000, 0.1)):
        x, y = measures(n)
        scores = squared_distances(x, y, -2.0 * eps)
        seconds, found = report.least_time(lambda scores=scores: sinkhorn(scores, tol=TOL), 3)
        kernel, v = np.exp(scores), np.ones(n)
        one, _ = report.least_time(lambda kernel=kernel, v=v: (kernel @ v, v @ kernel), 20)
        rows.append(limited(f"sinkhorn, {n} tokens, a matrix", seconds, found.iterations, one))
    n, eps = 200_000, 0.1
    x = measures(n)[0]
    seconds, bridge = report.least_time(lambda: self_bridge(x, eps, tol=TOL), 3)
    rough, v = bridge.kernel.rough(ROUGH), np.full(n, 1 / n)
    one, _ = report.least_time(lambda: rough(v), 5)
    rows.append(limited(f"self_bridge, {n} tokens, fast", seconds, bridge.iterations, one))
    text = {"job": str, "seconds": "{:.3f}".format, "products": str, "limit": "{:.3f}".format}
    report.show(rows, text | {"share": "{:.0%}".format})
    return {"limits": rows}


def limited(job: str, seconds: float, products: int, one: float) -> dict[str, Any]:
    limit = products * one
    return {
        "job": job, "seconds": seconds, "products": products, "of one": one, "limit": limit,
        "share": limit / seconds,
    }  # fmt: skip


TABLES: dict[str, Callable[[], dict[str, Any]]] = {
    "dense": shown_dense, "limits": shown_limits, "scale": shown_scale, "layer": shown_layer, "peers": shown_peers,
}  # fmt: skip


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
