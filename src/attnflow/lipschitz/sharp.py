r"""The constant in front of :math:`R^2\sqrt{n/2}`, for every score matrix.

.. math:: c(A) = \max_{|x|\le1}\sqrt{|Ax|^2 - \langle Ax, x\rangle_+^2}

In two dimensions and more, for V = I, the constant of the ball of radius R is
:math:`c(A)R^2\sqrt{n/2}\,(1+o(1))` as n and :math:`R^2/\log n` grow: :func:`sharp_upper_bound` is above it, and
:func:`attnflow.lipschitz.two_leaders` reach it. This is the book's own.

The function is not concave. But :math:`s_+^2 = \max_{\mu\ge0}(2\mu s - \mu^2)`, and maximum and minimum may
change places: with the symmetric part S of A

.. math:: c(A)^2 = \min_{\mu\ge0}\; \mu^2 + \max\left(0, \lambda_{\max}\left(A^\top A - 2\mu S\right)\right),

a convex function of one number (:mod:`attnflow.lipschitz.dual`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from attnflow import validate
from attnflow.lipschitz.ball import radius, sizes
from attnflow.lipschitz.dual import APART, Attained, attained, best_in_plane, halved, scaled
from attnflow.validate import Array


def sharp_constant(A: ArrayLike) -> Attained:
    r""":math:`c(A) = \max_{|x|\le1}\sqrt{|Ax|^2 - \langle Ax, x\rangle_+^2}`, and a maximiser.

    It lies between half the norm of A and all of it.

    >>> round(sharp_constant(-3 * np.eye(2)).value, 6), round(sharp_constant(3 * np.eye(2)).value, 6)
    (3.0, 1.5)
    >>> round(sharp_constant(np.diag([-1.0, 8.0])).value, 6)  # more than half of 8
    4.5
    """
    parts = scaled(A)
    size, B = parts.size, parts.B
    if size == 0:
        return Attained(0.0, np.zeros(len(B)), 0.0, 0, True)

    def highest(mu: float) -> tuple[float, Array]:
        return parts.highest(1.0, -2 * mu)

    def falls(mu: float) -> bool:
        top, v = highest(mu)
        return bool(top > 0 and v @ parts.symmetric @ v > mu)

    low, high, mu = halved(falls, 0.0, 1.0)
    above = min(mu**2 + max(highest(mu)[0], 0.0) for mu in (0.0, low, high))
    x = best_in_plane(B, [highest(side)[1] for side in (mu - APART, mu + APART)], _along)
    value = float(np.sqrt(_height(np.asarray((B @ x) @ (B @ x)), np.asarray(x @ B @ x))))
    advice = "the constant may be larger by that share; the maximiser is not unique"
    return attained("sharp_constant", size, x, value, float(np.sqrt(above)), advice=advice)


def sharp_upper_bound(A: ArrayLike, V: ArrayLike, R: float, n: int) -> float:
    r"""What the constant of the ball is at most, with the right constant; with a mask or without.

    .. math:: |V|\Big(\sqrt n + |A|R^2 + R^2\sqrt{\tfrac n2}\;\min\Big(|A|,\,
              \sqrt{c(A)^2 + 6|A|\tfrac{\log n}{R^2}} + \tfrac{2|A|}n\Big)\Big)

    But for the share :math:`n^{-2}`, the attention of a token x goes to tokens that score at most
    :math:`3\log n` less than x itself. They lie in a cap of the ball, and a cap is small where
    :math:`\langle Ax, x\rangle` is large. It is never above :func:`attnflow.lipschitz.tight_upper_bound`.

    >>> I = np.eye(2)
    >>> round(sharp_upper_bound(I, I, 1e4, 10**8) / (1e8 * 5e7**0.5), 3)  # c(I) is one half
    0.5
    """
    (a, v), R, n = sizes(A, V), radius(R), validate.count(n, "n")
    if v == 0:
        return 0.0
    found = sharp_constant(A)
    unit = a if a > 1e100 else 1.0  # squares of what is over it are numbers
    c = ((found.value + found.residual) / unit) ** 2 + 6 * (a / unit) * np.log(n) / R**2 / unit
    slope = min(a, unit * np.sqrt(c) + 2 * a / n)
    with np.errstate(over="ignore"):  # a bound beyond 1e308 is inf
        return float(v * (np.sqrt(n) + a * R**2 + R**2 * np.sqrt(n / 2) * slope))


def _height(square: Array, score: Array) -> Array:
    return np.asarray(square - np.maximum(score, 0.0) ** 2)


def _along(size: Array, score: Array) -> tuple[Array, Array]:
    """The largest height on the ray through a unit vector, and the length at which it is attained."""
    inside = (score > 0) & (size**2 < 2 * score**2)
    s = np.where(inside, size / (np.sqrt(2) * np.where(score > 0, score, 1.0)), 1.0)
    return _height((s * size) ** 2, s**2 * score), s
