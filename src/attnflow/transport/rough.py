r"""Products with a plan that need no more digits than a direction does.

Newton's steps are corrected by residuals in double precision, so what conjugate gradients multiply with
may be rough: single precision moves half the bytes, and where most of a plan is nothing, as it
is at low temperature, a sparse matrix moves fewer still.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from attnflow.validate import Array

#: Entries below this share of their column, divided by its length, are nothing.
NOTHING = 1e-9
#: Plans with fewer entries than this share are sparse; so many rows are looked at.
SPARSE, SAMPLE = 0.04, 64
#: Numbers of single precision that are smaller still would be slow.
FAINT = 1e-37
#: A sparse plan is made anew once it has been scaled by more than e to this.
STALE = 3.0
#: Entries that a processor keeps near it.
NEAR = 2**16


class Rough:
    """A kernel to six digits or more; the plan is u kernel v, with column sums b.

    >>> kernel = np.array([[0.4, 0.1], [0.1, 0.4]])
    >>> one = np.ones(2)
    >>> Rough(kernel, one, one, kernel.sum(axis=0)).times(np.array([1.0, 0.0])).round(6)
    array([0.4, 0.1])
    """

    def __init__(self, kernel: Array, u: Array, v: Array, b: Array) -> None:
        self._log_u, self._log_v = np.log(u), np.log(v)
        floor = NOTHING / len(u) * b / v  # (m,), of u kernel
        some = slice(None, None, -(-len(u) // SAMPLE))
        self.sparse = bool((kernel[some] * u[some, None] > floor).mean() < SPARSE)
        self._matrix: Any = _sparse(kernel, u, floor) if self.sparse else _single(kernel)

    def stale(self, u: Array, v: Array) -> bool:
        """Whether the scales have moved too far from those it was made with."""
        moved = max(np.abs(np.log(u) - self._log_u).max(), np.abs(np.log(v) - self._log_v).max())
        return self.sparse and bool(moved > STALE)

    def times(self, x: Array) -> Array:
        """The kernel times x."""
        return np.asarray(self._matrix @ x.astype(self._matrix.dtype), np.float64)

    def transposed(self, x: Array) -> Array:
        """Its transpose times x."""
        return np.asarray(self._matrix.T @ x.astype(self._matrix.dtype), np.float64)


def squares_times(kernel: Array, x: Array) -> Array:
    """The kernel with its entries squared, times x: a few rows at a time.

    >>> squares_times(np.array([[1.0, 2.0]]), np.ones(2))
    array([5.])
    """
    return np.concatenate([(kernel[rows] ** 2) @ x for rows in _few(kernel)])


def _few(kernel: Array) -> list[slice]:
    step = max(1, NEAR // kernel.shape[1])
    return [slice(start, start + step) for start in range(0, len(kernel), step)]


def _single(kernel: Array) -> Any:
    out = np.empty(kernel.shape, np.float32)
    for rows in _few(kernel):
        out[rows] = np.where(kernel[rows] > FAINT, kernel[rows], 0.0)
    return out


def _sparse(kernel: Array, u: Array, floor: Array) -> Any:
    columns, values, counts = [], [], [np.zeros(1, np.int64)]
    for rows in _few(kernel):
        kept = kernel[rows] * u[rows, None] > floor
        columns.append(np.nonzero(kept)[1].astype(np.int32))
        values.append(kernel[rows][kept])
        counts.append(np.count_nonzero(kept, axis=1))
    ends = np.cumsum(np.concatenate(counts))
    return sparse.csr_array((np.concatenate(values), np.concatenate(columns), ends), kernel.shape)
