"""A heat flow of 10^5 tokens: 100 layers x -> 2x - B(x), B the bridge's barycentric map.

One layer at temperature eps is a step eps/2 of the heat equation, up to O(eps^2). The exact second
moment about the mean grows by d eps per layer, because the heat equation with time t adds 2 t to
the variance of every coordinate.

    python benchmarks/heat.py
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import report  # isort: split

import numpy as np

from attnflow.schemes import reflected
from attnflow.transport import self_bridge

N, LAYERS, EPS = 100_000, 100, 0.01
MEANS = np.array([[-2.0, 0.0], [1.0, 1.5], [1.5, -1.0]])
DEVIATIONS = np.array([0.5, 0.7, 0.4])


def mixture(n: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    which = rng.integers(len(MEANS), size=n)
    return MEANS[which] + DEVIATIONS[which, None] * rng.normal(size=(n, 2))


def second_moment(x: np.ndarray) -> float:
    return float(((x - x.mean(axis=0)) ** 2).sum(axis=1).mean())


def flow(n: int, depth: int, eps: float) -> dict[str, Any]:
    x = mixture(n)
    first = second_moment(x)
    sweeps, seconds = 0, []
    for _ in range(depth):
        start = time.perf_counter()
        bridge = self_bridge(x, eps)
        x = reflected(bridge)
        seconds.append(time.perf_counter() - start)
        sweeps += bridge.iterations
    exact = first + x.shape[1] * eps * depth
    return {
        "n": n,
        "layers": depth,
        "eps": eps,
        "kernel": type(bridge.kernel).__name__,
        "seconds a layer": float(np.median(seconds)),
        "sweeps a layer": sweeps / depth,
        "second moment": second_moment(x),
        "exact": exact,
        "relative error": second_moment(x) / exact - 1,
        "peak GB": report.peak_memory() / 1e9,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=N)
    parser.add_argument("--layers", type=int, default=LAYERS)
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        print(json.dumps(flow(options.n, options.layers, EPS)))
        return
    row = report.apart(__file__, "--alone", "--n", options.n, "--layers", options.layers)
    for name, value in row.items():
        print(f"{name:>16}  {value:.6g}" if isinstance(value, float) else f"{name:>16}  {value}")
    report.store("heat", {"heat": row})


if __name__ == "__main__":
    main()
