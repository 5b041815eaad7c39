r"""Softmax rows and the causal mask, written once.

:math:`\mathrm{softmax}(s)_j = e^{s_j}/\sum_k e^{s_k}` over the last axis. Arrays may be stacked, and
keep the precision they come in.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]


def hide_future(scores: Floats) -> Floats:
    """The causal mask, in place: row i keeps its scores of columns 0..i, the others are -inf.

    >>> hide_future(np.zeros((2, 2)))
    array([[  0., -inf],
           [  0.,   0.]])
    """
    later = np.triu(np.ones(scores.shape[-2:], dtype=bool), 1)
    np.copyto(scores, -np.inf, where=later)  # several times faster than indexing by the mask
    return scores


def exponentials(scores: Floats) -> tuple[Floats, Floats]:
    """exp of the scores less the largest of their row, in place, and the sums of its rows.

    >>> exponentials(np.log([[1.0, 3.0]]))[1].round(4)
    array([[1.3333]])
    """
    top = scores.max(axis=-1, keepdims=True)
    if not np.isfinite(top).all():
        raise ValueError("every row must have a finite largest score, got one without")
    scores -= top
    np.exp(scores, out=scores)
    return scores, scores.sum(axis=-1, keepdims=True)


def softmax_rows(scores: Floats) -> Floats:
    """exp of the scores, every row divided by its sum, in place.

    >>> softmax_rows(np.log([[1.0, 3.0]]))
    array([[0.25, 0.75]])
    """
    out, total = exponentials(scores)
    out /= total
    return out
