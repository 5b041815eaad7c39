r"""Symmetric positive matrices: what counts as one, their functions and roots.

With :math:`S = U\,\mathrm{diag}(\lambda)\,U^\top` a function of S is :math:`U\,\mathrm{diag}(f(\lambda))\,U^\top`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from attnflow import validate
from attnflow.validate import Array

#: Eigenvalues this small beside the largest entry are rounding.
ROUNDING = 4e-16
#: Relative asymmetry or negativity of a product of matrices that rounding explains.
SYMMETRY_SLACK = 1e-12


def covariance(value: ArrayLike, name: str = "cov") -> Array:
    """A symmetric positive definite matrix; a number is read as a variance.

    >>> covariance(4.0)
    array([[4.]])
    """
    out = validate.array(np.atleast_2d(validate.real(value, name)), name, 2)
    if out.shape[0] != out.shape[1] or not out.size:
        raise ValueError(f"{name} must be square, got shape {out.shape}")
    if np.abs(out - out.T).max() > 1e-10 * np.abs(out).max():
        raise ValueError(f"{name} must be symmetric, got a difference {np.abs(out - out.T).max()}")
    lowest = float(np.linalg.eigvalsh(out)[0])
    if lowest <= max(ROUNDING * float(np.abs(out).max()), np.finfo(float).tiny):
        raise ValueError(f"{name} must be positive definite, got an eigenvalue {lowest:.3g}")
    return out / 2 + out.T / 2


def spectral(f: Callable[[Array], Array], matrix: Array) -> Array:
    """f of a symmetric matrix, through its eigenvalues.

    >>> spectral(np.exp, np.zeros((2, 2)))
    array([[1., 0.],
           [0., 1.]])
    """
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * f(values)) @ vectors.T


def root(matrix: Array) -> Array:
    """The symmetric square root of a symmetric positive semi-definite matrix.

    >>> root(np.diag([4.0, 9.0]))
    array([[2., 0.],
           [0., 3.]])
    """
    return spectral(lambda s: np.sqrt(np.maximum(s, 0.0)), matrix)


def inverse_root(matrix: Array) -> Array:
    """The inverse of the square root of a symmetric positive definite matrix.

    >>> inverse_root(np.diag([4.0, 16.0]))
    array([[0.5 , 0.  ],
           [0.  , 0.25]])
    """
    return spectral(lambda s: s**-0.5, matrix)


def semidefinite_root(A: Array) -> Array | None:
    """The symmetric square root of A, or None where A is not symmetric positive semi-definite.

    >>> semidefinite_root(np.array([[0.0, 1.0], [1.0, 0.0]])) is None
    True
    """
    size = np.abs(A).max()
    if np.abs(A - A.T).max() > SYMMETRY_SLACK * size:
        return None
    values, vectors = np.linalg.eigh((A + A.T) / 2)
    if values.min() < -SYMMETRY_SLACK * size:
        return None
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def split(A: Array) -> tuple[Array, Array]:
    """L and R with A = R^T L and singular values shared evenly; L is R where A is semi-definite.

    Where A has a rank below d, rows of both are zero: those coordinates do not matter.

    >>> L, R = split(np.array([[0.0, 4.0], [1.0, 0.0]]))
    >>> (R.T @ L).round(12)
    array([[0., 4.],
           [1., 0.]])
    """
    if semidefinite_root(A) is not None:
        values, vectors = np.linalg.eigh((A + A.T) / 2)
        both = _rounded_root(values)[:, None] * vectors.T
        return both, both
    left, sizes, right = np.linalg.svd(A)
    shared = _rounded_root(sizes)
    return shared[:, None] * right, (left * shared).T


def _rounded_root(sizes: Array) -> Array:
    """Square roots, with those of rounding zero: they would be 1e-8 of the largest."""
    floor = ROUNDING * len(sizes) * max(float(sizes.max()), 0.0)
    return np.sqrt(np.where(sizes > floor, sizes, 0.0))
