r"""Maxima over the unit ball that are also minima of a convex function of one number.

The pairs :math:`(|Bx|^2, \langle Bx, x\rangle)` of all x in the unit ball form a convex set. So for a
concave function of these pairs that is a minimum over :math:`\mu` of linear ones, maximum and minimum
may change places, and the inner maximum is the largest eigenvalue of a symmetric matrix. Every
:math:`\mu` bounds the maximum from above and every x from below: a result vouches for itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar

from attnflow.errors import NotConverged
from attnflow.lipschitz.ball import norm, square
from attnflow.validate import Array

#: The best number is found by halving an interval of length 7 down to rounding.
HALVINGS = 56
#: Eigenvectors this far on either side of it span the plane of the maximiser, to the square of this.
APART = 1e-6
#: A gap between the two bounds beyond this fraction is more than rounding and the plane explain.
CLOSED = 1e-9
#: Directions of the plane that are tried before the best is refined.
DIRECTIONS = 721


class Attained(NamedTuple):
    """A maximum over the unit ball, and where followers stand to reach it."""

    value: float  #: attained at x
    x: Array  #: (d,), in the unit ball
    residual: float  #: by how much the maximum may at most be larger
    iterations: int  #: halvings of the interval of the number
    converged: bool  #: whether the residual is no more than rounding


class Scaled(NamedTuple):
    """A square matrix over its norm, and what its pairs are made of."""

    size: float  #: the norm; where it is zero, so is B
    B: Array
    gram: Array  #: its product with x twice is ``|Bx|^2``
    symmetric: Array  #: and this one's ``<Bx, x>``

    def highest(self, a: float, b: float) -> tuple[float, Array]:
        r"""The largest :math:`a|Bx|^2 + b\langle Bx, x\rangle` over unit vectors, and its x."""
        return largest(a * self.gram + b * self.symmetric)


def scaled(A: ArrayLike) -> Scaled:
    r"""A over its norm, with :math:`B^\top B` and :math:`(B + B^\top)/2`.

    >>> scaled([[0.0, 4.0], [0.0, 0.0]]).symmetric
    array([[0. , 0.5],
           [0.5, 0. ]])
    """
    A = square(A)
    size = norm(A, "A")
    B = A / size if size else A
    return Scaled(size, B, B.T @ B, (B + B.T) / 2)


def largest(M: Array) -> tuple[float, Array]:
    """The largest eigenvalue of a symmetric matrix, and its eigenvector.

    >>> largest(np.diag([1.0, 3.0]))[0]
    3.0
    """
    values, vectors = np.linalg.eigh(M)
    return float(values[-1]), vectors[:, -1]


def halved(falls: Callable[[float], bool], low: float, high: float) -> tuple[float, float, float]:
    """The ends of an interval about the minimum of a convex function, and the last middle of it.

    `falls` says whether the function still falls at a number.

    >>> low, high, mu = halved(lambda mu: mu < 0.3, 0.0, 1.0)
    >>> round(mu, 12)
    0.3
    """
    for _ in range(HALVINGS):
        mu = (low + high) / 2
        low, high = (mu, high) if falls(mu) else (low, mu)
    return low, high, mu


def attained(
    who: str, size: float, x: Array, value: float, above: float, *, advice: str
) -> Attained:
    """The result for a matrix of norm `size`, given those of the matrix over its norm; warns if they gape.

    >>> attained("demo", 2.0, np.ones(1), 0.5, 0.5, advice="").value
    1.0
    """
    gap = max(above - value, 0.0)
    found = Attained(size * value, x, size * gap, HALVINGS, gap <= CLOSED * value)
    if not found.converged:
        said = NotConverged.after(who, found.iterations, gap / value, CLOSED, advice)
        warnings.warn(said, stacklevel=3)
    return found


def best_in_plane(
    B: Array, sides: list[Array], along: Callable[[Array, Array], tuple[Array, Array]]
) -> Array:
    """The x in the unit ball of the plane that two vectors span, with the largest value.

    Of x and -x it is the one whose largest entry is positive. `along` has, for unit vectors v with given ``|Bv|`` and ``<Bv, v>``, the largest value at s v with
    0 <= s <= 1, and that s.

    >>> longest = lambda size, score: (size, np.ones_like(size))
    >>> best_in_plane(np.diag([1.0, 2.0]), [*np.eye(2)], longest).round(9)
    array([0., 1.])
    """
    plane = np.linalg.qr(np.stack(sides, axis=1))[0]

    def turned(turns: Array) -> tuple[Array, Array]:
        """The value in each direction of the plane, and the x of that value, (d, turns)."""
        v = plane @ np.stack([np.cos(turns), np.sin(turns)])[: plane.shape[1]]
        v = v / np.maximum(np.linalg.norm(v, axis=0), np.finfo(float).tiny)
        values, s = along(np.linalg.norm(B @ v, axis=0), np.einsum("it,it->t", v, B @ v))
        return values, s * v

    turns = np.linspace(0, np.pi, DIRECTIONS)
    first = turns[int(turned(turns)[0].argmax())]
    near = minimize_scalar(
        lambda turn: -turned(np.array([turn]))[0][0],
        bounds=(first - turns[1], first + turns[1]),
        method="bounded",
        options={"xatol": np.sqrt(np.finfo(float).eps)},
    )
    values, places = turned(np.array([first, near.x]))
    x = places[:, int(values.argmax())]
    return np.asarray(x * np.sign(x[np.abs(x).argmax()]))
