r"""Who leads in a decoder: captures on the circle, and Renyi's parking beside them.

With a causal mask the first token stands still and every other is drawn to those before it
(:cite:t:`karagodin2024`). In the clock :math:`s = (\log t)/\beta` a cluster's first token, its
*leader*, moves when s reaches the barrier :math:`1-\cos` of its distance to the nearest earlier
leader. So token j leads up to the radius

.. math:: R_j = \min\{|x_j-x_i| : i < j,\ |x_j-x_i| \le R_i\},\qquad R_1 = \infty

(:func:`captures`). In :cite:t:`renyi1958`'s parking a token is kept if no *kept* one is nearer
than r (:func:`park`). There who was refused is forgotten; here it has captured others before.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import quad
from scipy.special import exp1

from attnflow import validate
from attnflow.validate import Array

#: Before it all places are free, to rounding.
EARLY = 1e-20


class Captures(NamedTuple):
    """Up to which radius every token leads, and who takes it then.

    >>> captures([0.0, 1.0, 1.6]).by
    array([-1,  0,  1])
    """

    radii: Array  #: (n,) infinite for the first token
    by: NDArray[np.int_]  #: (n,) -1 for the first token

    def leading(self, radius: float) -> NDArray[np.bool_]:
        """Which tokens still lead at `radius`.

        >>> captures([0.0, 1.0, 1.6]).leading(0.7)
        array([ True,  True, False])
        """
        return self.radii > validate.positive(radius, "radius")


def captures(points: ArrayLike, length: float = 2 * np.pi) -> Captures:
    r"""Who takes whom, on a circle of that `length`, as beta tends to infinity.

    .. math:: R_j = \min\{|x_j-x_i| : i < j,\ |x_j-x_i| \le R_i\}, \qquad R_1 = \infty

    >>> captures([0.0, 1.0, 1.6]).radii  # the third is taken by the second, 0.6 away
    array([inf, 1. , 0.6])
    >>> captures([0.0, 1.0, 2.5]).radii  # the second is gone before it can take the third
    array([inf, 1. , 2.5])
    """
    x, length = _points(points, length)
    radii, by = np.full(len(x), np.inf), np.full(len(x), -1)
    for j in range(1, len(x)):
        far = _distance(x[j], x[:j], length)
        open_ = np.where(far <= radii[:j], far, np.inf)
        by[j] = open_.argmin()
        radii[j] = open_[by[j]]
    return Captures(radii, by)


def park(points: ArrayLike, radius: float, length: float = 2 * np.pi) -> NDArray[np.bool_]:
    """Which tokens park: no earlier parked token is within `radius` :cite:p:`renyi1958`.

    >>> park([0.0, 1.0, 1.6], 1.2)
    array([ True, False,  True])
    """
    x, length = _points(points, length)
    radius = validate.positive(radius, "radius")
    kept: list[int] = []
    for j in range(len(x)):
        if not kept or _distance(x[j], x[kept], length).min() > radius:
            kept.append(j)
    return np.isin(np.arange(len(x)), kept)


def parking_density(tries: float = np.inf) -> float:
    r"""The share of a long street that is covered after `tries` attempts per length of a car.

    .. math:: \int_0^{\mathrm{tries}} \exp\Bigl(-2\int_0^t\frac{1-e^{-u}}u\,du\Bigr)dt

    For infinitely many it is the constant of :cite:t:`renyi1958`.

    >>> round(parking_density(), 9)
    0.74759792
    """
    endless = isinstance(tries, float) and tries == np.inf
    end = float(tries) if endless else validate.positive(tries, "tries")

    def free(t: float) -> float:
        # the inner integral is log t + E_1(t) + Euler's constant
        return float(np.exp(-2 * (np.euler_gamma + exp1(t))) / t**2) if t > EARLY else 1.0

    knots = [0.0, *(v for v in (1.0, 30.0) if v < end), min(end, 1e8)]
    parts = [
        quad(free, a, b, epsabs=0.0, epsrel=1e-12, limit=400)[0]
        for a, b in itertools.pairwise(knots)
    ]
    beyond = np.exp(-2 * np.euler_gamma) * (1 / knots[-1] - 1 / end) if end > 1e8 else 0.0
    return float(sum(parts) + beyond)


def _distance(x: float, others: Array, length: float) -> Array:
    turn = np.abs(x - others) % length
    return np.minimum(turn, length - turn)


def _points(points: ArrayLike, length: float) -> tuple[Array, float]:
    x = validate.array(points, "points", 1)
    if not len(x):
        raise ValueError("points must hold at least one token, got none")
    return x, validate.positive(length, "length")
