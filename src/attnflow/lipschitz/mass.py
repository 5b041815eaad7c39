r"""How much a layer of sigmoid attention can stretch on a ball, and the crowds that reach it.

Rows of softmax attention add up to one. Those of sigmoid attention (:mod:`attnflow.lipschitz.sigmoid`)
may have a mass up to :math:`np`, where

.. math:: p = \sigma(g - \log n) = \frac1{1+ne^{-g}}, \qquad g = |A|R^2,

is the largest weight on the ball of radius R: n of them while n is below :math:`e^g`, and never more
than :math:`e^g`. This mass is what a change is multiplied by. :cite:t:`ramapuram2025` bound the constant
from above; its growth with n, from both sides, is the book's own.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from attnflow import validate
from attnflow.lipschitz.ball import length, norm, pair, radius, several, sizes, square
from attnflow.validate import Array


def sigmoid_upper_bound(A: ArrayLike, V: ArrayLike, R: float, n: int) -> float:
    r"""What the constant of the ball is at most for sigmoid attention, with a mask or without.

    .. math:: |V|\,n\,(p + 2gq), \qquad q = \max_{t\le p}t(1-t)

    It is below :math:`|V|(1+2g)e^g` whatever n. All tokens at Rx reach it where :math:`Ax=|A|x`,
    :math:`|Vx|=|V|` and :math:`n\ge e^g`.

    >>> I = np.eye(2)
    >>> round(sigmoid_upper_bound(I, I, 1.0, 8), 4), round(3 * np.e, 4)
    (5.0576, 8.1548)
    """
    (a, v), R, n = sizes(A, V), radius(R), validate.count(n, "n")
    g = a * R**2
    p = _largest(g, n)
    q = 0.25 if p > 0.5 else p * (1 - p)
    return float(v * n * (p + 2 * g * q))


def sigmoid_leaders(A: ArrayLike, R: float, n: int, leaders: int = 1) -> Array:
    r"""`leaders` tokens at Ry and the others at Rx, the first singular vectors: :math:`Ax=|A|y`.

    The others score :math:`|A|R^2` with the leaders, which is the most there is. One leader is a sink, half
    of the tokens are a crowd.

    >>> x = sigmoid_leaders(-np.eye(1), 2.0, 3)
    >>> -(x @ x.T)[1]  # the scores of a follower
    array([ 4., -4., -4.])
    """
    n, R = validate.count(n, "n", 2, validate.MOST_STORED), radius(R)
    leaders = validate.count(leaders, "leaders", 1, n - 1)
    x, y = _matched(square(A))
    return R * np.vstack([np.tile(y, (leaders, 1)), np.tile(x, (n - leaders, 1))])


def sigmoid_leaders_bound(A: ArrayLike, V: ArrayLike, R: float, n: int, leaders: int = 1) -> float:
    r"""What the others answer when all l leaders of :func:`sigmoid_leaders` move along y alike.

    .. math:: \sqrt{l(n-l)}\;p\,\big(1 + g(1-p)\big)\,|Vy|

    Not with a mask that puts followers in front.

    >>> I = np.eye(1)
    >>> round(sigmoid_leaders_bound(-2 * I, I, 1.0, 8), 4)
    2.5911
    """
    (A, V), R, n = pair(A, V), radius(R), several(n)
    leaders = validate.count(leaders, "leaders", 1, n - 1)
    y = _matched(A)[1]
    g = norm(A, "A") * R**2
    p = _largest(g, n)
    return math.sqrt(leaders * (n - leaders)) * p * (1 + g * (1 - p)) * length(V @ y)


def _largest(g: float, n: int) -> float:
    """The largest weight where scores are at most g."""
    return float(expit(g - np.log(n)))


def _matched(A: Array) -> tuple[Array, Array]:
    """Unit vectors x and y with A x = |A| y."""
    left, _, right = np.linalg.svd(A)
    return right[0], left[:, 0]
