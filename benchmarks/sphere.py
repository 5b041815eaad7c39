"""Tokens on the sphere: a column of the phase diagram against vectorised numpy, and its scaling.

A column is one (d, beta): n = 32 tokens, many draws, the share of clustered pairs at 61 times up
to 30. The peer moves the particles themselves, all draws of a block at once, with the same
Runge-Kutta pair, the same error bound for a step and the same stop when all pairs are clustered;
of several block sizes the fastest counts. Both run on one core, by the time of the processor. The full-scale Figure 3 is a
program of its own, figure3.py.

    python benchmarks/sphere.py
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import report  # isort: split

import numpy as np
from scipy.integrate import RK45

from attnflow import sphere
from attnflow.attention import SoftmaxAttention
from attnflow.geometry import rescaled_flow
from attnflow.sphere.phase import BLOCK, STEP_ERROR

N, BETA, DELTA = 32, 4.0, 1e-3
TIMES = np.linspace(0.0, 30.0, 61)
BLOCKS = (4, 16, 64)


def draw(draws: int, d: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.stack([sphere.uniform(N, d, rng) for _ in range(draws)])


def velocity(x: np.ndarray) -> np.ndarray:
    """(draws, n, d) -> (draws, n, d), plain numpy."""
    a = np.exp(BETA * (x @ x.transpose(0, 2, 1) - 1.0))
    a /= a.sum(axis=2, keepdims=True)
    v = a @ x
    v -= np.einsum("rnd,rnd->rn", x, v)[:, :, None] * x
    return v


def shares(x: np.ndarray) -> np.ndarray:
    g = x @ x.transpose(0, 2, 1)
    rows, columns = np.tril_indices(N, -1)
    return (g[:, rows, columns] >= 1 - DELTA).mean(axis=1)


def particles(x: np.ndarray) -> np.ndarray:
    """Shares of clustered pairs (draws, times), by scipy's Dormand-Prince stepper on the particles."""
    shape, tol = x.shape, STEP_ERROR * DELTA
    # the stepper takes a root mean square over all coordinates: a token then errs by tol / 2,
    # an inner product of two tokens by tol
    solver = RK45(
        lambda _, y: velocity(y.reshape(shape)).ravel(), 0.0, x.ravel(), TIMES[-1],
        first_step=0.05, rtol=1e-13, atol=tol / (2 * np.sqrt(shape[2])),
    )  # fmt: skip
    out, at = np.ones((len(x), len(TIMES))), 0
    while at < len(TIMES):
        solver.step()
        dense = solver.dense_output()
        while at < len(TIMES) and TIMES[at] <= solver.t:
            out[:, at] = shares(dense(TIMES[at]).reshape(shape))
            at += 1
        if shares(solver.y.reshape(shape)).min() == 1.0:
            break
    return out


def timed(call: Any) -> tuple[float, Any]:
    start = time.process_time()
    answer = call()
    return time.process_time() - start, answer


def column(d: int, draws: int) -> dict[str, Any]:
    x = draw(draws, d)

    def ours() -> np.ndarray:
        return sphere.phase_diagram(N, d, [BETA], TIMES, DELTA, draws, threads=1).probability[0]

    def first() -> np.ndarray:
        rng = np.random.default_rng(0)
        sizes = [min(BLOCK, draws - k) for k in range(0, draws, BLOCK)]
        return np.concatenate([sphere.grams(size, N, d, rng) for size in sizes])

    def peer(block: int) -> np.ndarray:
        return np.concatenate([particles(x[k : k + block]) for k in range(0, draws, block)])

    ours()
    seconds, probability = min((timed(ours) for _ in range(7)), key=lambda pair: pair[0])
    gram = min(timed(first)[0] for _ in range(7))
    tries = [block for block in BLOCKS for _ in range(3 if d < 512 else 1)]
    slow, found = min((timed(lambda b=b: peer(b)) for b in tries), key=lambda pair: pair[0])
    return {
        "d": d,
        "draws": draws,
        "seconds": seconds,
        "first Gram matrix": gram,
        "flow": seconds - gram,
        "numpy": slow,
        "ratio": slow / seconds,
        "difference": float(np.abs(found.mean(axis=0) - probability).max()),
        "standard error": float((found.std(axis=0) / np.sqrt(draws)).max()),
    }


def rescaled() -> dict[str, Any]:
    z = np.random.default_rng(0).uniform(-1.0, 1.0, size=(40, 2))
    I = np.eye(2)  # noqa: E741
    layer = SoftmaxAttention(I, I, I)
    seconds, flow = min(
        (timed(lambda: rescaled_flow(layer, z, [0.0, 100.0])) for _ in range(5)),
        key=lambda pair: pair[0],
    )
    return {"tokens": 40, "time": 100.0, "seconds": seconds, "evaluations": flow.iterations}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=128)
    options = parser.parse_args()
    rows = [column(d, options.draws) for d in (32, 128, 512, 1024)]
    flows = [row["flow"] for row in rows]
    spread = max(flows) / min(flows) - 1
    text = {
        "d": str, "seconds": "{:.3f}".format, "flow": "{:.3f}".format, "numpy": "{:.2f}".format,
        "ratio": "{:.1f}".format, "difference": "{:.4f}".format,
        "standard error": "{:.4f}".format,
    }  # fmt: skip
    report.show(rows, text)
    print(f"time of the flow over d: within {spread:.0%}")
    moved = rescaled()
    print(f"rescaled flow to t = 100: {moved['seconds']:.2f} s")
    full = sphere.figure3().made
    figure3 = {
        "dimensions": len(full["seconds"]), "draws": full["realisations"], "betas": 64,
        "cores": full["cores"], "minutes": sum(full["seconds"].values()) / 60,
    }  # fmt: skip
    report.store(
        "sphere",
        {"columns": rows, "spread": {"over d": spread}, "rescaled": moved, "figure3": figure3},
    )


if __name__ == "__main__":
    main()
