"""The full-scale Figure 3: six dimensions, 2^10 draws, 64 values of beta, times up to 30.

    python benchmarks/figure3.py                       writes src/attnflow/sphere/data/figure3.npz
    python benchmarks/figure3.py --realisations 64 --out figure3.npz
    python benchmarks/figure3.py --realisations 16384 --scheduler tcp://HOST:PORT

The last sends blocks of 16 draws to a Dask cluster whose workers have attnflow[fast] installed
(`--workers N` starts a local one); the numbers are the same wherever they are computed.
Every dimension is saved as soon as it is done, and a rerun of the same command goes on from
there. Below n dimensions tokens are drawn, from n on their inner products. The chapter `phase_diagram` shows the stored result beside its own, smaller run.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from tqdm import tqdm

from attnflow import sphere

DIMENSIONS = (2, 8, 32, 128, 512, 1024)
BETAS = np.linspace(0.0, 9.0, 64)
TIMES = np.linspace(0.0, 30.0, 121)
DELTA, N = 1e-3, 32
TARGET = Path(__file__).parents[1] / "src" / "attnflow" / "sphere" / "data" / "figure3.npz"


@contextmanager
def spread(scheduler: str | None, workers: int | None) -> Iterator[tuple[Executor | None, int]]:
    """Where blocks of draws go, and how many cores there are; without either option, here."""
    if scheduler is None and workers is None:
        yield None, sphere.cores()
        return
    from attnflow.book.runs.cluster import connected

    with connected(scheduler, workers) as client:
        client.wait_for_workers(1)
        yield client.get_executor(pure=False), sum(client.nthreads().values())


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--realisations", type=int, default=2**10)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--out", type=Path, default=TARGET)
    where = arguments.add_mutually_exclusive_group()
    where.add_argument("--scheduler", metavar="ADDRESS", help="a Dask cluster, as tcp://HOST:PORT")
    where.add_argument("--workers", type=int, help="a local Dask cluster of so many")
    given = arguments.parse_args()
    with spread(given.scheduler, given.workers) as (executor, cores):
        draw(given, executor, cores)


def draw(given: argparse.Namespace, executor: Executor | None, cores: int) -> None:
    """All dimensions, one after another."""
    command = (
        f"python benchmarks/figure3.py --realisations {given.realisations} --seed {given.seed}"
    )
    part = given.out.with_suffix(".partial.npz")
    diagrams: dict[int, sphere.PhaseDiagram] = {}
    seconds: dict[str, float] = {}
    if part.exists():
        before = sphere.figure3(part)
        if before.made["command"] == command:
            diagrams, seconds = before.diagrams, before.made["seconds"]
            print(f"going on after d = {', '.join(map(str, diagrams))}")
    if executor is None:
        sphere.phase_diagram(4, 3, [1.0], [0.0, 1.0], realisations=2)  # compile
        sphere.phase_diagram(4, 8, [1.0], [0.0, 1.0], realisations=2)
    for d in DIMENSIONS:
        if d in diagrams:
            continue
        start = time.perf_counter()
        with tqdm(
            total=given.realisations * len(BETAS), desc=f"d = {d}", leave=False, disable=None
        ) as bar:
            diagrams[d] = sphere.phase_diagram(
                N, d, BETAS, TIMES, DELTA, given.realisations, given.seed,
                executor=executor, done=bar.update,
            )  # fmt: skip
        seconds[str(d)] = round(time.perf_counter() - start, 1)
        made = {
            "command": command, "seed": given.seed, "seconds": seconds,
            "cores": cores, "numpy": np.__version__, "python": platform.python_version(),
            "drawn": "tokens where d < n, else their inner products by Bartlett's factor",
        }  # fmt: skip
        sphere.save_figure3(part, diagrams, made)
        print(f"d = {d:4}: {seconds[str(d)]:6.1f} s, {diagrams[d].iterations} steps", flush=True)
    part.replace(given.out)
    print(f"{sum(seconds.values()):.0f} s in all; wrote {given.out.name}")


if __name__ == "__main__":
    main()
