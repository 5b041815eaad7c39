r"""The exponent at which the constant of a ball grows when tokens are exponentially many.

.. math:: \Gamma = \tfrac12\max_{|x|\le1}\left(|Ax| - \langle Ax, x\rangle\right)

The constant of the ball of radius R, for the worst number of tokens, is :math:`e^{\Gamma R^2}` up to
factors that are polynomial in R. Followers at :math:`Rx` and a leader at :math:`R\,Ax/|Ax|` reach it:
they score :math:`2\Gamma R^2` more with the leader than with each other. This is the book's own; the
eigenvectors of :cite:t:`castin2024`, and their :func:`attnflow.lipschitz.gamma`, are the best choice
among eigenvectors, which need not be the best of all.

Finding :math:`\Gamma` looks hard, for the function is not concave. But
:math:`|Ax| = \min_{\mu>0}\frac12(\mu|Ax|^2 + 1/\mu)`, and maximum
and minimum may change places: with the symmetric part S of A

.. math:: 2\Gamma = \min_{\mu>0}\; \frac1{2\mu}
          + \max\left(0, \lambda_{\max}\left(\tfrac\mu2A^\top A - S\right)\right),

a convex function of one number (:mod:`attnflow.lipschitz.dual`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from attnflow import validate
from attnflow.lipschitz.ball import radius, several, sizes, square
from attnflow.lipschitz.bounds import followed
from attnflow.lipschitz.dual import APART, Attained, attained, best_in_plane, halved, scaled
from attnflow.validate import Array

#: For a matrix of norm one :math:`2\Gamma\ge1/4`, so that :math:`|Ax|=1/\mu` lies in [1/8, 1].
SMALLEST, LARGEST = 1.0, 8.0


def exponent(A: ArrayLike) -> Attained:
    r""":math:`\Gamma = \frac12\max_{|x|\le1}(|Ax| - \langle Ax, x\rangle)`, and a maximiser.

    It is at least :func:`attnflow.lipschitz.gamma`. A rotation by a right angle has no real
    eigenvector at all:

    >>> from attnflow.lipschitz import gamma
    >>> quarter = [[0.0, 1.0], [-1.0, 0.0]]
    >>> round(exponent(quarter).value, 6), gamma(quarter)
    (0.5, 0.0)
    >>> exponent(8 * np.eye(2)).value, gamma(8 * np.eye(2))
    (1.0, 1.0)
    """
    parts = scaled(A)
    size, B = parts.size, parts.B
    if size == 0:
        return Attained(0.0, np.zeros(len(B)), 0.0, 0, True)

    def highest(mu: float) -> tuple[float, Array]:
        return parts.highest(mu / 2, -1.0)

    def falls(mu: float) -> bool:
        top, v = highest(mu)
        return bool(top <= 0 or v @ parts.gram @ v < 1 / mu**2)

    low, high, mu = halved(falls, SMALLEST, LARGEST)
    above = min(1 / (2 * mu) + max(highest(mu)[0], 0.0) for mu in (low, high))
    x = best_in_plane(B, [highest(side * mu)[1] for side in (1 - APART, 1 + APART)], _along)
    value = float(np.linalg.norm(B @ x) - x @ B @ x) / 2
    advice = "the exponent may be larger by that share; the maximiser is not unique"
    return attained("exponent", size, x, value, above / 2, advice=advice)


def one_leader(A: ArrayLike, R: float, n: int) -> Array:
    r"""A leader at :math:`R\,Ax/|Ax|` and n - 1 followers at :math:`Rx`, for the best x of :func:`exponent`.

    >>> one_leader(-np.eye(1), 2.0, 3).ravel()
    array([-2.,  2.,  2.])
    """
    n, R = validate.count(n, "n", 2, validate.MOST_STORED), radius(R)
    x = exponent(A).x
    leader = square(A) @ x
    leader = leader / (np.abs(leader).max() or 1.0)  # no entry is too large to be squared
    size = np.linalg.norm(leader)
    leader = leader / size if size else np.eye(len(x))[0]
    return R * np.vstack([leader, np.tile(x, (n - 1, 1))])


def exponent_lower_bound(A: ArrayLike, R: float, n: int) -> float:
    r"""What :func:`one_leader` tokens answer when the leader moves along itself, for V = I.

    .. math:: \sqrt{n-1}\,p\,\big(1 + 2\Gamma R^2(1-p)\big), \qquad
              p = \frac{1}{1 + (n-1)e^{-2\Gamma R^2}}

    It is never below :func:`attnflow.lipschitz.sharper_lower_bound` while more attention to the
    leader means a larger answer.

    >>> round(exponent_lower_bound(-2 * np.eye(2), 1.0, 8), 5)
    3.41107
    """
    return followed(several(n) - 1, exponent(A).value * radius(R) ** 2)


def exponent_upper_bound(A: ArrayLike, V: ArrayLike, R: float, n: int | None = None) -> float:
    r"""What the constant of the ball is at most, for n tokens or for any number; not with a mask.

    .. math:: |V|\left(g + (1+g)\sqrt c\right), \qquad
              c = \min\left(n, (1+4g)^de^{1+2\Gamma R^2}\right), \qquad g = |A|R^2

    c bounds the sums of the columns of the attention matrix.

    >>> round(exponent_upper_bound(-np.eye(1), np.eye(1), 1.0), 3)
    21.043
    >>> exponent_upper_bound(-np.eye(1), np.eye(1), 1.0, 4)
    5.0
    """
    (a, v), R = sizes(A, V), radius(R)
    if v == 0:
        return 0.0
    found, g = exponent(A), a * R**2
    log_c = len(found.x) * np.log1p(4 * g) + 1 + 2 * (found.value + found.residual) * R**2
    if n is not None:
        log_c = min(log_c, np.log(validate.count(n, "n")))
    with np.errstate(over="ignore"):  # a bound beyond 1e308 is inf
        return float(v * (g + (1 + g) * np.exp(log_c / 2)))


def _along(size: Array, score: Array) -> tuple[Array, Array]:
    """The largest value on the ray through a unit vector, and the length at which it is attained."""
    s = np.where(2 * score > size, size / np.where(score > 0, 2 * score, 1.0), 1.0)
    return s * size - s**2 * score, s
