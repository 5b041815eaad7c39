"""What a case of a live function is: a call in the browser beside what the package says.

`CASES` maps a name to a function that draws random inputs and gives pairs to compare. `NAMES` holds
which functions of _static/live/maths a case compares, so that none is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from tolerances import ROUNDING

from attnflow import (
    attention,
)

#: Sums of a few dozen terms in another order than numpy's.
CLOSE = 1e5 * ROUNDING
#: Two solvers that each stop at a residual of about 1e-10.
SOLVED = 1e-8
KINDS = {
    "softmax": attention.SoftmaxAttention,
    "L2": attention.L2Attention,
    "sinkhorn": attention.SinkhornAttention,
    "unnormalised": attention.UnnormalisedAttention,
}


class Pair(NamedTuple):
    """A function of the arguments a in JavaScript, its arguments, the package's answer."""

    call: str
    args: list[Any]
    ours: Any
    tol: float = CLOSE


Case = Callable[[np.random.Generator], Iterator[Pair]]
CASES: dict[str, Callable[[np.random.Generator], Iterator[Pair]]] = {}
NAMES: set[str] = set()


def compares(*names: str) -> Callable[[Case], Case]:
    def register(case: Case) -> Case:
        CASES[case.__name__] = case
        NAMES.update(names)
        return case

    return register


def covariance(rng: np.random.Generator, d: int = 2) -> np.ndarray:
    F = rng.normal(size=(d, d))
    return F @ F.T + 0.3 * np.eye(d)
