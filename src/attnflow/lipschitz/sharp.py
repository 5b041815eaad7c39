r"""The constant in front of :math:`R^2\sqrt{n/2}`, for every score matrix.

.. math:: c(A) = \max_{|x|\le1}\sqrt{|Ax|^2 - \langle Ax, x\rangle_+^2}

In two dimensions and more, for V = I, the constant of the ball of radius R is
:math:`c(A)R^2\sqrt{n/2}\,(1+o(1))` as n and :math:`R^2/\log n` grow: :func:`sharp_upper_bound` is above it, and
:func:`attnflow.lipschitz.two_leaders` reach it. This is the book's own.

The function is not concave. But :math:`s_+^2 = \max_{\mu\ge0}(2\mu s - \mu^2)`, and the pairs
:math:`(|Ax|^2, \langle Ax, x\rangle)` of all x in the ball form a convex set; so maximum and minimum may change
places, and with the symmetric part S of A

.. math:: c(A)^2 = \min_{\mu\ge0}\; \mu^2 + \max\left(0, \lambda_{\max}\left(A^\top A - 2\mu S\right)\right),

a convex function of one number. Every :math:`\mu` bounds c from above and every x from below, so that a
result vouches for itself.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike

from attnflow import validate
from attnflow.errors import NotConverged
from attnflow.lipschitz.ball import norm, radius, sizes, square
from attnflow.lipschitz.crowd import APART, CLOSED, HALVINGS, Attained, best_in_plane
from attnflow.validate import Array


def sharp_constant(A: ArrayLike) -> Attained:
    r""":math:`c(A) = \max_{|x|\le1}\sqrt{|Ax|^2 - \langle Ax, x\rangle_+^2}`, and a maximiser.

    It lies between half the norm of A and all of it.

    >>> round(sharp_constant(-3 * np.eye(2)).value, 6), round(sharp_constant(3 * np.eye(2)).value, 6)
    (3.0, 1.5)
    >>> round(sharp_constant(np.diag([-1.0, 8.0])).value, 6)  # more than half of 8
    4.5
    """
    A = square(A)
    size = norm(A, "A")
    if size == 0:
        return Attained(0.0, np.zeros(len(A)), 0.0, 0, True)
    B = A / size
    gram, symmetric = B.T @ B, (B + B.T) / 2

    def highest(mu: float) -> tuple[float, Array]:
        values, vectors = np.linalg.eigh(gram - 2 * mu * symmetric)
        return float(values[-1]), vectors[:, -1]

    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        mu = (low + high) / 2
        top, v = highest(mu)
        falls = top > 0 and v @ symmetric @ v > mu  # the slope of the function to minimise
        low, high = (mu, high) if falls else (low, mu)
    above = min(mu**2 + max(highest(mu)[0], 0.0) for mu in (0.0, low, high))
    sides = [highest(side)[1] for side in (mu - APART, mu + APART)]
    x = best_in_plane(B, np.linalg.qr(np.stack(sides, axis=1))[0], _along)
    x = x * np.sign(x[np.abs(x).argmax()])  # -x is as good
    value = float(np.sqrt(_height(np.asarray((B @ x) @ (B @ x)), np.asarray(x @ B @ x))))
    gap = max(float(np.sqrt(above)) - value, 0.0)
    found = Attained(size * value, x, size * gap, HALVINGS, gap <= CLOSED * value)
    if not found.converged:
        advice = "the constant may be larger by that share; the maximiser is not unique"
        warnings.warn(
            NotConverged.after("sharp_constant", found.iterations, gap / value, CLOSED, advice),
            stacklevel=2,
        )
    return found


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
    found = sharp_constant(A)
    c = (found.value + found.residual) ** 2 + 6 * a * np.log(n) / R**2
    slope = min(a, np.sqrt(c) + 2 * a / n)
    return float(v * (np.sqrt(n) + a * R**2 + R**2 * np.sqrt(n / 2) * slope))


def _height(square: Array, score: Array) -> Array:
    return np.asarray(square - np.maximum(score, 0.0) ** 2)


def _along(size: Array, score: Array) -> tuple[Array, Array]:
    """The largest height on the ray through a unit vector, and the length at which it is attained."""
    inside = (score > 0) & (size**2 < 2 * score**2)
    s = np.where(inside, size / (np.sqrt(2) * np.where(score > 0, score, 1.0)), 1.0)
    return _height((s * size) ** 2, s**2 * score), s
