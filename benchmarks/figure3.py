"""The full-scale Figure 3: six dimensions, 2^10 draws, 64 values of beta, times up to 30.

    python benchmarks/figure3.py                       writes src/attnflow/data/figure3.npz
    python benchmarks/figure3.py --realisations 64 --out figure3.npz

Every dimension is saved as soon as it is done, and a rerun of the same command goes on from
there. The chapter `phase_diagram` shows the stored result beside its own, smaller run.
"""

from __future__ import annotations

import argparse
import platform
import time
from pathlib import Path

import numpy as np
from tqdm import tqdm

from attnflow import phase, stored

DIMENSIONS = (2, 8, 32, 128, 512, 1024)
BETAS = np.linspace(0.0, 9.0, 64)
TIMES = np.linspace(0.0, 30.0, 121)
DELTA, N = 1e-3, 32
TARGET = Path(__file__).parents[1] / "src" / "attnflow" / "data" / "figure3.npz"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--realisations", type=int, default=2**10)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--out", type=Path, default=TARGET)
    given = arguments.parse_args()
    command = (
        f"python benchmarks/figure3.py --realisations {given.realisations} --seed {given.seed}"
    )
    part = given.out.with_suffix(".partial.npz")
    diagrams: dict[int, phase.PhaseDiagram] = {}
    seconds: dict[str, float] = {}
    if part.exists():
        before = stored.figure3(part)
        if before.made["command"] == command:
            diagrams, seconds = before.diagrams, before.made["seconds"]
            print(f"going on after d = {', '.join(map(str, diagrams))}")
    phase.phase_diagram(4, 3, [1.0], [0.0, 1.0], realisations=2)  # compile
    phase.phase_diagram(4, 8, [1.0], [0.0, 1.0], realisations=2)
    for d in DIMENSIONS:
        if d in diagrams:
            continue
        start = time.perf_counter()
        with tqdm(
            total=given.realisations * len(BETAS), desc=f"d = {d}", leave=False, disable=None
        ) as bar:
            diagrams[d] = phase.phase_diagram(
                N, d, BETAS, TIMES, DELTA, given.realisations, given.seed, done=bar.update
            )
        seconds[str(d)] = round(time.perf_counter() - start, 1)
        made = {
            "command": command, "seed": given.seed, "seconds": seconds,
            "cores": phase.cores(), "numpy": np.__version__, "python": platform.python_version(),
        }  # fmt: skip
        stored.save_figure3(part, diagrams, made)
        print(f"d = {d:4}: {seconds[str(d)]:6.1f} s, {diagrams[d].steps} steps", flush=True)
    part.replace(given.out)
    print(f"{sum(seconds.values()):.0f} s in all; wrote {given.out.name}")


if __name__ == "__main__":
    main()
