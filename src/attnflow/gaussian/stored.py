"""What random layers do to the cloud :math:`N(0, I)`, by dimension: counts that come with the package.

``benchmarks/third_case.py`` writes them; the chapter reads them here and draws a smaller run of its
own beside them. That limits have low rank is observed by :cite:t:`castin2025`; the counts are the
book's own.
"""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from attnflow.validate import Array

_FILE = "third_case.json"
#: The numbers of a layer whose cloud grows: measured rate, residuals of the cone, its exponent, size.
NUMBERS = ("rate", "first", "second", "exponent", "size")


class Outcomes(NamedTuple):
    """The fates of random layers of one dimension.

    >>> sum(stored_fates()[0][2].count(word) for word in ("blow-up", "growth", "limit", "undecided"))
    200
    """

    words: tuple[str, ...]  #: "blow-up", "growth", "limit" or "undecided", a layer each
    ranks: tuple[int, ...]  #: of the limit, -1 where there is none
    numbers: Array  #: (growing layers with an exponent, 5), columns as in NUMBERS

    def count(self, word: str) -> int:
        """How many layers ended so."""
        return self.words.count(word)


def stored_fates(path: str | Path = "") -> tuple[dict[int, Outcomes], dict[str, Any]]:
    """The stored run by dimension, or another file of the same form, and how it was made.

    >>> stored, made = stored_fates()
    >>> list(stored), made["command"]
    ([2, 3, 4, 5], 'python benchmarks/third_case.py --draws 200 --seed 0')
    """
    source = Path(path) if path else files("attnflow.gaussian") / "data" / _FILE
    kept = json.loads(source.read_text(encoding="utf-8"))
    out = {}
    for d, rows in kept["layers"].items():
        grown = [[row[name] for name in NUMBERS] for row in rows if "rate" in row]
        out[int(d)] = Outcomes(
            tuple(row["outcome"] for row in rows), tuple(row["rank"] for row in rows),
            np.reshape(np.array(grown, np.float64), (-1, len(NUMBERS))),
        )  # fmt: skip
    return out, kept["made"]
