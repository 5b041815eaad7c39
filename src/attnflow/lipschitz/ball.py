"""What every bound is given: a square score matrix A, values V, the radius R of a ball, n tokens."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from attnflow import validate
from attnflow.validate import Array

#: The fourth power of the radius is formed.
SMALLEST_RADIUS, LARGEST_RADIUS = 1e-75, 1e75


def square(A: ArrayLike) -> Array:
    """A square score matrix.

    >>> square([[2]])
    array([[2.]])
    """
    out = validate.array(A, "A", 2)
    if out.shape[0] != out.shape[1] or not out.size:
        raise ValueError(f"A must be square, got shape {out.shape}")
    return out


def pair(A: ArrayLike, V: ArrayLike) -> tuple[Array, Array]:
    """A score matrix, and values of the same tokens.

    >>> pair([[2]], [[1], [0]])[1].shape
    (2, 1)
    """
    A, V = validate.array(A, "A", 2), validate.array(V, "V", 2)
    if A.shape[0] != A.shape[1] or V.shape[1] != len(A):
        raise ValueError(f"A must be square with as many columns as V, got {A.shape} and {V.shape}")
    if not (A.size and V.size):
        raise ValueError(f"A and V must have entries, got shapes {A.shape} and {V.shape}")
    return A, V


def norm(M: ArrayLike, name: str) -> float:
    """The largest singular value.

    >>> norm([[0, 2], [0, 0]], "A")
    2.0
    """
    with np.errstate(over="ignore"):
        found = np.linalg.norm(validate.array(M, name, 2), 2)
    return float(validate.finite(found, f"norms of {name}"))


def length(y: Array) -> float:
    """The norm of a vector, none of whose entries is too large to be squared.

    >>> round(length(np.array([3e200, 4e200])) / 1e200, 9)
    5.0
    """
    largest = float(np.abs(y).max()) or 1.0
    return largest * float(np.linalg.norm(y / largest))


def product_norm(W: ArrayLike, V: ArrayLike) -> float:
    r"""The largest singular value of :math:`WV`, by triangular factors as small as what lies between.

    With :math:`W = Q_1R_1` and :math:`V^\top = Q_2R_2` it is that of :math:`R_1R_2^\top`.

    >>> product_norm([[3.0], [4.0]], [[0.0, 2.0]])
    10.0
    """
    first, second = np.linalg.qr(np.asarray(W, float))[1], np.linalg.qr(np.asarray(V, float).T)[1]
    return float(np.linalg.norm(first @ second.T, 2))


def radius(R: float) -> float:
    """The radius of a ball.

    >>> radius(2)
    2.0
    """
    out = validate.positive(R, "R")
    if not SMALLEST_RADIUS <= out <= LARGEST_RADIUS:
        raise ValueError(f"R must lie in [{SMALLEST_RADIUS:g}, {LARGEST_RADIUS:g}], got {out:g}")
    return out


def several(n: int, least: int = 2) -> int:
    """A number of tokens.

    >>> several(3.0)
    3
    """
    return validate.count(n, "n", least)


def sizes(A: ArrayLike, V: ArrayLike) -> tuple[float, float]:
    """The norms of a score matrix and of its values.

    >>> sizes([[0, 2], [0, 0]], [[3, 0]])
    (2.0, 3.0)
    """
    A, V = pair(A, V)
    return norm(A, "A"), norm(V, "V")
