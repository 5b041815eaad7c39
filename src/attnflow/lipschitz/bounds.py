r"""How much a layer of attention can stretch on a ball, from above and from below.

Tokens lie in a ball of radius R, scores are :math:`\langle Ax_i, x_j\rangle` with
:math:`A = K^\top Q`, and changes are measured by :math:`|X|^2=\sum_i|x_i|^2`. The constant of the
layer on the ball is the largest *local* constant, the norm of the Jacobian
(:mod:`attnflow.lipschitz.lanczos`). :cite:t:`kim2021`: it grows at least like :math:`R^2`.
:cite:t:`geshkovski2023`: it is at most exponential in :math:`R^2`, whatever n. :cite:t:`castin2024`:
it is at most of order :math:`R^2\sqrt n`, and at least of order :math:`\sqrt n` until n is
exponentially large in :math:`R^2`. The lower bound has a constant

.. math:: \gamma = \max(-\lambda_{\min}, \lambda_{\max}/8),

with the extreme eigenvalues of the symmetric part of A: the proof asks for nothing but
:math:`\langle Au, u\rangle` of one unit vector u.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from attnflow import validate
from attnflow.attention.head import Head
from attnflow.lipschitz.ball import norm, radius, several, sizes, square
from attnflow.validate import Array


class Line(NamedTuple):
    """Where the tokens of the lower bound stand: a leader at Ru, all others at R times `others` u."""

    gamma: float
    u: Array  #: a unit vector
    others: float  #: -1, or 1/2 where the scores along u are positive


def line(A: ArrayLike) -> Line:
    """The eigenvector of the symmetric part of A with the larger gamma.

    >>> line([[-1.0, 0.0], [0.0, 16.0]])
    Line(gamma=2.0, u=array([0., 1.]), others=0.5)
    """
    A = square(A)
    values, vectors = np.linalg.eigh(A / 2 + A.T / 2)
    negative = -values[0] >= values[-1] / 8
    u = vectors[:, 0 if negative else -1]
    u = u * np.sign(u[np.abs(u).argmax()])
    gamma = float(max(-values[0], values[-1] / 8)) + 0.0
    return Line(gamma, u, -1.0 if negative else 0.5)


def gamma(A: ArrayLike) -> float:
    r""":math:`\max(-\lambda_{\min}, \lambda_{\max}/8)` of the symmetric part of A.

    :cite:t:`castin2024` have it for symmetric A.

    >>> gamma([[-2.0, 0.0], [0.0, 8.0]]), gamma(np.eye(3))
    (2.0, 0.125)
    """
    return line(A).gamma


# --- from below ----------------------------------------------------------------------------------


def lower_bound(A: ArrayLike, R: float, n: int) -> float:
    r"""What the constant of the ball is at least for V = I, with a mask or without.

    .. math:: \frac{\sqrt{n-1}}{1 + (n-1)e^{-2\gamma R^2}}

    The lower bound of :cite:t:`castin2024`; :func:`attnflow.lipschitz.adversarial` has the tokens.

    >>> round(lower_bound(-2 * np.eye(2), 1.0, 8), 6)
    2.345089
    """
    m = several(n) - 1
    return float(np.sqrt(m) * _share(m, gamma(A) * radius(R) ** 2))


def sharper_lower_bound(A: ArrayLike, R: float, n: int) -> float:
    r"""What the adversarial tokens answer when the first moves along the line, for V = I.

    .. math:: \sqrt{n-1}\,p\,\big(1 + 2\gamma R^2(1-p)\big), \qquad
              p = \frac{1}{1 + (n-1)e^{-2\gamma R^2}}

    It follows from the proof of :cite:t:`castin2024`. It does not hold with a mask.

    >>> round(sharper_lower_bound(-2 * np.eye(2), 1.0, 8), 6)
    3.41107
    """
    return followed(several(n) - 1, gamma(A) * radius(R) ** 2)


def followed(m: float, g: float) -> float:
    r"""The answer of m followers who score :math:`2g` more with their leader than with each other.

    >>> round(followed(7, 2.0), 5)
    3.41107
    """
    p = _share(m, g)
    more = 2 * g * (1 - p) if p < 1 else 0.0  # also where g is no number any more
    return float(np.sqrt(m) * p * (1 + more))


def mean_field_lower(A: ArrayLike, R: float) -> float:
    r""":math:`\frac\gamma2 R^2e^{\gamma R^2}`, for V = I and :math:`n - 1 = e^{2\gamma R^2}` tokens.

    With as many tokens as that, or more; :cite:t:`castin2024`. Beyond 1e308 it is inf.

    >>> round(mean_field_lower(-np.eye(1), 2.0), 4)
    109.1963
    """
    g = gamma(A) * radius(R) ** 2
    with np.errstate(over="ignore"):
        return float(g / 2 * np.exp(g))


# --- from above ----------------------------------------------------------------------------------


def upper_bound(A: ArrayLike, V: ArrayLike, R: float, n: int) -> float:
    r"""What the constant of the ball is at most, with a mask or without.

    .. math:: \sqrt3\,|V|\left(|A|^2R^4(4n+1) + n\right)^{1/2}

    The upper bound of :cite:t:`castin2024`.

    >>> round(upper_bound(-2 * np.eye(2), np.eye(2), 1.0, 8), 4)
    20.4939
    """
    (a, v), R, n = sizes(A, V), radius(R), validate.count(n, "n")
    if v == 0:
        return 0.0
    with np.errstate(over="ignore"):  # a bound beyond 1e308 is inf
        return float(np.sqrt(3) * v * np.sqrt(np.float64(a) ** 2 * R**4 * (4 * n + 1) + n))


def tight_upper_bound(A: ArrayLike, V: ArrayLike, R: float, n: int) -> float:
    r"""A smaller bound from above, with a mask or without; never above :func:`upper_bound`.

    .. math:: |V|\left(\sqrt n + |A|R^2\left(1 + \sqrt{n/2}\right)\right)

    The three terms are the others' move, the change of the query, and that of the keys: a token's
    attention has mean zero around its own mean, so no more than two others can hold all of it.
    Two leaders reach it as n and :math:`R^2/\log n` grow. This is the book's own.

    >>> round(tight_upper_bound(-2 * np.eye(2), np.eye(2), 1.0, 8), 4)
    8.8284
    """
    (a, v), R, n = sizes(A, V), radius(R), validate.count(n, "n")
    if v == 0:
        return 0.0
    with np.errstate(over="ignore"):  # a bound beyond 1e308 is inf
        return float(v * (np.sqrt(n) + a * R**2 * (1 + np.sqrt(n / 2))))


def mean_field_upper(A: ArrayLike, V: ArrayLike, R: float) -> float:
    r""":math:`|V|(1 + 3|A|R^2)e^{2|A|R^2}`, whatever the number of tokens; inf beyond 1e308.

    After :cite:t:`geshkovski2023` and :cite:t:`castin2024`. It does not hold with a mask.

    >>> round(mean_field_upper(-np.eye(1), 2 * np.eye(1), 1.0), 4)
    59.1124
    """
    a, v = sizes(A, V)
    g = a * radius(R) ** 2
    if v == 0:
        return 0.0
    with np.errstate(over="ignore"):
        return float(v * (1 + 3 * g) * np.exp(2 * g))


def layer_upper_bound(heads: Sequence[Head], R: float, n: int) -> float:
    r"""The sum over the heads of a trained layer, with their biases and rotations.

    A bias is a column more: with :math:`\tilde x = (x, R)`, :math:`\tilde Q = (Q, b_q/R)` and
    :math:`\tilde K = (K, b_k/R)` the scores are
    :math:`\langle\tilde Q\tilde x_i, \tilde K\tilde x_j\rangle`, and :math:`\tilde x` has norm at most
    :math:`\sqrt2R`. A rotation makes A depend on i and j, but :func:`upper_bound` needs only its
    norm, which is at most :math:`|K||Q|`.

    >>> I = np.eye(2)
    >>> round(layer_upper_bound([Head(-2 * I, I, I)], 1.0, 8), 4)
    20.4939
    >>> round(layer_upper_bound([Head(-2 * I, I, I, 3 * I, angles=np.zeros((8, 1)))], 1.0, 8), 4)
    61.4817
    """
    if not len(heads):
        raise ValueError("a layer must have at least one head, got none")
    R = radius(R)
    return sum(_head_upper_bound(head, R, n) for head in heads)


def _head_upper_bound(head: Head, R: float, n: int) -> float:
    Q, K, V = head.Q, head.K, head.V
    if head.bq is not None or head.bk is not None:
        none = np.zeros(len(Q))
        Q = np.column_stack([Q, none if head.bq is None else head.bq / R])
        K = np.column_stack([K, none if head.bk is None else head.bk / R])
        V = np.column_stack([V, np.zeros(len(V))])
        R = np.sqrt(2) * R
    A = K.T @ Q if head.angles is None else norm(K, "K") * norm(Q, "Q") * np.eye(Q.shape[1])
    outer = 1.0 if head.W is None else norm(head.W, "W")
    return outer * upper_bound(A, V, R, n)


def _share(m: float, g: float) -> float:
    """The attention that each of m followers pays to their leader."""
    return float(expit(2 * g - np.log(m)))
