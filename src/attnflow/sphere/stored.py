r"""The full-scale phase diagrams, which take too long for a chapter and come with the package.

The share of pairs with :math:`\langle x_i, x_j\rangle\ge1-\delta` over :math:`\beta` and time.

``benchmarks/figure3.py`` writes them, Figure 3 of :cite:t:`geshkovski2025`; the chapter reads them
here, and draws a smaller run of its own beside them.
"""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from attnflow.files import draft
from attnflow.sphere.phase import PhaseDiagram

_FIGURE3 = "figure3.npz"


class Figure3(NamedTuple):
    """The phase diagrams of several dimensions, and what the run recorded of itself.

    >>> figure3().made["command"]
    'python benchmarks/figure3.py --realisations 1024 --seed 0'
    """

    diagrams: dict[int, PhaseDiagram]  #: by dimension
    made: dict[str, Any]  #: command, seed, seconds, cores, versions, what was drawn


def figure3(path: str | Path = "") -> Figure3:
    """The stored run, or another file of the same form.

    >>> list(figure3().diagrams)
    [2, 8, 32, 128, 512, 1024]
    """
    source = Path(path) if path else files("attnflow.sphere") / "data" / _FIGURE3
    with source.open("rb") as file, np.load(file) as data:
        made = json.loads(str(data["made"]))
        draws, n, delta = made["realisations"], made["n"], made["delta"]
        diagrams = {
            int(d): PhaseDiagram(
                data["betas"], data["times"], data["pairs"][k] / (draws * n * (n - 1) / 2),
                data["stderr"][k].astype(np.float64), n, int(d), delta, draws,
                int(data["steps"][k]),
            )
            for k, d in enumerate(data["dimensions"])
        }  # fmt: skip
    return Figure3(diagrams, made)


def save_figure3(path: str | Path, diagrams: dict[int, PhaseDiagram], made: dict[str, Any]) -> None:
    """Write diagrams on one grid to `path`, whole or not at all.

    >>> from tempfile import TemporaryDirectory
    >>> kept = figure3()
    >>> with TemporaryDirectory() as folder:
    ...     save_figure3(f"{folder}/copy.npz", kept.diagrams, kept.made)
    ...     again = figure3(f"{folder}/copy.npz")
    >>> again.made == kept.made
    True
    """
    path = Path(path)
    if not diagrams:
        raise ValueError("diagrams must hold at least one dimension, got none")
    first = next(iter(diagrams.values()))
    for d, diagram in diagrams.items():
        same = (diagram.n, diagram.delta, diagram.realisations) == (
            first.n, first.delta, first.realisations,
        )  # fmt: skip
        grids = zip((diagram.betas, diagram.times), (first.betas, first.times), strict=True)
        if d != diagram.d or not same or not all(np.array_equal(a, b) for a, b in grids):
            raise ValueError(
                f"diagrams must be keyed by dimension and share betas, times, n, delta and "
                f"realisations, got another at d = {d}"
            )
    pairs = first.realisations * first.n * (first.n - 1) / 2
    made = {**made, "realisations": first.realisations, "n": first.n, "delta": first.delta}
    with draft(path) as name, name.open("wb") as file:
        np.savez_compressed(
            file, made=json.dumps(made), dimensions=list(diagrams),
            betas=first.betas, times=first.times, steps=[p.iterations for p in diagrams.values()],
            pairs=np.array([np.rint(p.probability * pairs) for p in diagrams.values()], np.uint32),
            stderr=np.array([p.stderr for p in diagrams.values()], np.float32),
        )  # fmt: skip
