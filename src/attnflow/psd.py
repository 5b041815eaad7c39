"""Symmetric positive definite matrices: what counts as one, and functions of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from attnflow import validate
from attnflow.validate import Array

#: Eigenvalues this small beside the largest entry are rounding.
ROUNDING = 4e-16


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
    """f of a symmetric matrix, through its eigenvalues."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * f(values)) @ vectors.T
