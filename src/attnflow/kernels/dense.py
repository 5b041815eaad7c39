r"""Products with the Gaussian kernel :math:`K_{ij} = \exp(-|x_i - x_j|^2 / 2\varepsilon)`.

Every sum over tokens in this package is a product with this kernel, so it is one object with
two operations: ``apply`` (K v) and ``displacement``, the sum of :math:`K_{ij} v_j (x_j - x_i)`.
The second is not two applications: subtracting ``x_i * (K v)_i`` from ``(K v x)_i`` would
cancel the leading digits exactly where :math:`\varepsilon` is small and the answer is too.

A kernel is any object with these two methods; :class:`DenseKernel` stores the matrix.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy.spatial.distance import cdist

from attnflow.validate import Array

#: Rows per block when a temporary of shape (rows, n, d) would otherwise be n times too large.
BLOCK_ENTRIES = 2**22
#: Above this dimension distances come from one matrix product, if that loses no digits.
PRODUCT_DIMENSION = 16
#: Above this many operations (n^2 d) displacements in many dimensions come from a product too.
PRODUCT_WORK = 5e8
#: The matrix product loses about |x|^2/eps ulps; beyond this many it is not used.
PRODUCT_RANGE = 1e4


class Kernel(Protocol):
    """What the solvers need of a kernel on n tokens.

    >>> kernel: Kernel = DenseKernel(np.zeros((3, 1)), eps=1.0)
    >>> kernel.apply(np.ones(3))
    array([3., 3., 3.])
    """

    def apply(self, v: Array) -> Array:
        """K v, for v of shape (n,)."""

    def displacement(self, v: Array) -> Array:
        """sum_j K_ij v_j (x_j - x_i), shape (n, d)."""


def squared_distances(x: Array, y: Array, scale: float = 1.0) -> Array:
    r""":math:`|x_i - y_j|^2` over `scale`, shape (n, m); overflow is infinity, never NaN.

    >>> squared_distances(np.array([[0.0], [3.0]]), np.array([[1.0]]), scale=2.0)
    array([[0.5],
           [2. ]])
    """
    with np.errstate(over="ignore"):
        if x.shape[1] > PRODUCT_DIMENSION:
            middle = x.mean(axis=0)
            u, v = (x - middle) / np.sqrt(scale), (y - middle) / np.sqrt(scale)
            u2, v2 = (u * u).sum(axis=1), (v * v).sum(axis=1)
            if max(u2.max(), v2.max()) < PRODUCT_RANGE:
                out = u2[:, None] + v2 - 2.0 * (u @ v.T)  # (n, m)
                return np.maximum(out, 0.0, out=out)
        out = cdist(x, y, "sqeuclidean")
        out /= scale
        return out


class DenseKernel:
    """The kernel as an (n, n) matrix: exact, and the fastest choice up to a few thousand tokens.

    >>> k = DenseKernel(np.array([[0.0], [1.0]]), eps=0.5)
    >>> k.apply(np.array([1.0, 0.0])).round(6)
    array([1.      , 0.367879])
    """

    def __init__(self, x: Array, eps: float) -> None:
        self.x = x
        self.matrix = squared_distances(self.x, self.x, 2.0 * eps)  # (n, n)
        np.negative(self.matrix, out=self.matrix)
        np.exp(self.matrix, out=self.matrix)
        np.fill_diagonal(self.matrix, 1.0)

    def apply(self, v: Array) -> Array:
        return self.matrix @ v

    def displacement(self, v: Array) -> Array:
        x, n = self.x, len(self.x)
        if x.shape[1] > PRODUCT_DIMENSION and x.shape[1] * n * n > PRODUCT_WORK:
            return self._displacement_by_products(v)
        out = np.empty_like(x)
        step = max(1, BLOCK_ENTRIES // n)
        for start in range(0, n, step):
            rows = slice(start, start + step)
            mass = self.matrix[rows] * v  # (b, n)
            for k in range(x.shape[1]):
                out[rows, k] = (mass * (x[None, :, k] - x[rows, None, k])).sum(axis=1)
        return out

    def _displacement_by_products(self, v: Array) -> Array:
        """In many dimensions, by a matrix product; without the diagonal little is left to cancel."""
        mass = self.matrix * v  # (n, n)
        np.fill_diagonal(mass, 0.0)
        x = self.x - self.x.mean(axis=0)
        return mass @ x - mass.sum(axis=1)[:, None] * x
