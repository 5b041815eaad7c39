"""Flows of 10^5 tokens in the plane, 100 layers, for softmax, L2 and Sinkhorn attention.

A Gaussian cloud contracts under V = -I (softmax), V = I (L2, Sinkhorn). Its covariance is compared
with the covariance flow at the same time step, and velocities at 200 tokens with direct sums. Times are
of the processor, on one core.

    python benchmarks/meanfield.py
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import report  # isort: split

import numpy as np

from attnflow.attention import Attention, L2Attention, SinkhornAttention, SoftmaxAttention
from attnflow.gaussian import affine_velocity

N, LAYERS, STEP = 100_000, 100, 0.01
I = np.eye(2)  # noqa: E741
COV = np.array([[1.0, 0.3], [0.3, 0.5]])
KINDS: dict[str, Attention] = {
    "softmax": SoftmaxAttention(I, I, -I),
    "L2": L2Attention(I, I, I),
    "Sinkhorn": SinkhornAttention(I, I, I, eps=0.5),
}


def flow(kind: str, n: int, layers: int) -> dict[str, Any]:
    attention = KINDS[kind]
    x = np.random.default_rng(0).multivariate_normal(np.zeros(2), COV, size=n)
    fast, cov, mean = attention.using("fast", 1e-8), np.cov(x.T), x.mean(axis=0)
    seconds = []
    for k in range(layers):
        start = time.process_time()
        v = fast.velocity(x)
        seconds.append(time.process_time() - start)
        if k == 0:
            some = slice(0, min(n, 200))
            exact = attention.field(x[some], x) if kind != "Sinkhorn" else None
            error = None if exact is None else float(np.abs(v[some] - exact).max())
        B, c = affine_velocity(attention, cov, mean)
        move = np.eye(2) + STEP * B
        cov, mean = move @ cov @ move.T, mean + STEP * c
        x = x + STEP * v
    return {
        "kind": kind,
        "n": n,
        "layers": layers,
        "seconds a layer": float(np.median(seconds)),
        "seconds": float(np.sum(seconds)),
        "error": error,
        "covariance": float(np.abs(np.cov(x.T) - cov).max() / np.abs(cov).max()),
        "peak GB": report.peak_memory() / 1e9,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=N)
    parser.add_argument("--layers", type=int, default=LAYERS)
    parser.add_argument("--alone", choices=list(KINDS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        print(json.dumps(flow(options.alone, options.n, options.layers)))
        return
    rows = [
        report.apart(__file__, "--alone", kind, "--n", options.n, "--layers", options.layers)
        for kind in KINDS
    ]
    text = {
        "kind": str, "seconds a layer": "{:.3f}".format, "seconds": "{:.1f}".format,
        "error": "{:.1e}".format, "covariance": "{:.1e}".format,
        "peak GB": "{:.2f}".format,
    }  # fmt: skip
    report.show(rows, text)
    report.store("meanfield", {"flows": rows})


if __name__ == "__main__":
    main()
