"""The dense kernel a block of rows at a time: as exact, for more tokens than its matrix has room for.

Every product computes all entries anew, so it costs some ten times a dense one, and no more memory
than the tokens.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attnflow.kernels.dense import BLOCK_ENTRIES, squared_distances
from attnflow.validate import Array


class BlockedKernel:
    """The kernel as rows that are made when they are needed.

    >>> k = BlockedKernel(np.array([[0.0], [1.0]]), eps=0.5)
    >>> k.apply(np.array([1.0, 0.0])).round(6)
    array([1.      , 0.367879])
    """

    def __init__(self, x: Array, eps: float) -> None:
        self.x, self.eps = x, eps

    def apply(self, v: Array) -> Array:
        return np.concatenate([near @ v for _, near in self._rows()])

    def displacement(self, v: Array) -> Array:
        out = np.empty_like(self.x)
        for rows, near in self._rows():
            mass = near * v  # (b, n)
            for k in range(self.x.shape[1]):
                step = self.x[None, :, k] - self.x[rows, None, k]
                out[rows, k] = np.einsum("ij,ij->i", mass, step)
        return out

    def _rows(self) -> Iterator[tuple[slice, Array]]:
        n = len(self.x)
        step = max(1, BLOCK_ENTRIES // n)
        for start in range(0, n, step):
            rows = slice(start, min(start + step, n))
            near = squared_distances(self.x[rows], self.x, 2.0 * self.eps)  # (b, n)
            np.exp(np.negative(near, out=near), out=near)
            near[np.arange(rows.stop - start), np.arange(start, rows.stop)] = 1.0
            yield rows, near
