r"""Wasserstein distances between weighted point sets, exactly.

.. math:: W_p^p = \min_{\pi \in \Pi(a, b)} \sum_{ij} \pi_{ij} |x_i - y_j|^p

over all plans with marginals a and b (:cite:t:`kantorovich1942`, :cite:t:`peyre2019`), by the network
simplex of POT (:cite:t:`flamary2021`); on the line by sorting.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist

from attnflow import validate
from attnflow.errors import SolverFailed
from attnflow.validate import Array

#: Pivots after which the simplex gives up.
MAX_ITER = 10_000_000
#: Powers of numbers in [0, 1] beyond this leave nothing but the largest.
LARGEST_POWER = 100.0
#: A cap is lowered while it is so many times dearer than any pair of the plan can be.
CAP_SLACK = 10.0


def w2(x: ArrayLike, y: ArrayLike, a: ArrayLike | None = None, b: ArrayLike | None = None) -> float:
    r"""The 2-Wasserstein distance between two weighted point sets, exactly.

    :math:`W_2^2 = \min_\pi \sum_{ij} \pi_{ij}|x_i-y_j|^2` over plans with marginals a and b
    (:cite:t:`kantorovich1942`). In one dimension the monotone coupling is optimal; elsewhere the network
    simplex of POT (:cite:t:`flamary2021`).

    >>> w2([[0.0], [1.0]], [[3.0], [2.0]])
    2.0
    """
    return wp(x, y, 2.0, a, b)


def wp(
    x: ArrayLike, y: ArrayLike, p: float, a: ArrayLike | None = None, b: ArrayLike | None = None
) -> float:
    r"""The p-Wasserstein distance between two weighted point sets, exactly, for p >= 1.

    :math:`W_p^p = \min_\pi \sum_{ij} \pi_{ij}|x_i-y_j|^p` (:cite:t:`villani2009`). Costs of a difference
    that are convex are lowest for the monotone coupling, so on the line the plan is the same for every p;
    elsewhere the network simplex of POT (:cite:t:`flamary2021`).

    >>> [round(wp([[0.0], [1.0]], [[0.0], [9.0]], p), 3) for p in (1, 2, 3)]
    [4.0, 5.657, 6.35]
    """
    p = validate.number(p, "p", "a finite number >= 1")
    if not 1 <= p <= LARGEST_POWER:
        raise ValueError(f"p must be a number from 1 to {LARGEST_POWER:g}, got {p}")
    x_, y_ = validate.tokens(x), validate.tokens(y, "y")
    if x_.shape[1] != y_.shape[1]:
        raise ValueError(f"x and y must share a dimension, got {x_.shape[1]} and {y_.shape[1]}")
    a_, b_ = validate.weights(a, len(x_), "a"), validate.weights(b, len(y_), "b")
    a_, b_ = a_ / a_.sum(), b_ / b_.sum()
    size, (x_, y_) = _unit(x_, y_)
    if size == 0 or x_.shape[1] == 1:
        return size * _on_the_line(x_[:, 0], y_[:, 0], a_, b_, p)
    cost = cdist(x_, y_, "sqeuclidean")
    top = float(cost.max()) or 1.0
    least = least_cost((cost / top) ** (p / 2), a_, b_)
    return size * float(np.sqrt(top) * max(least, 0.0) ** (1 / p))


def least_cost(cost: Array, a: Array, b: Array) -> float:
    """The cost of the best plan, for costs in [0, 1].

    Pairs far dearer than those of the plan hide the others from the solver, whose tolerances are
    absolute. They are capped: a plan has no pair dearer than its own cost over the least mass.
    """
    import ot  # slow to import, and needed only here

    least = min(w[w > 0].min() for w in (a, b))
    cap, best = 1.0, np.inf
    while True:
        plan, log = ot.emd(a, b, np.minimum(cost / cap, 1.0), numItermax=MAX_ITER, log=True)
        if log["warning"]:
            raise SolverFailed(
                f"POT's network simplex failed: {log['warning']}; take fewer points, or weights "
                "that are less unequal"
            )
        best = min(best, float((plan * cost).sum()))  # at its true cost: an upper bound
        lower = 2 * best / least
        if not 0 < lower < cap / CAP_SLACK:
            return best
        cap = lower


def _unit(x: Array, y: Array) -> tuple[float, tuple[Array, Array]]:
    """Both point sets moved and scaled into a box of size one, and the scale.

    Squares then neither overflow nor fall below the absolute tolerances of POT's simplex.
    """
    size = 1.0
    for about_first in (False, True):
        shift = x[0] if about_first else np.zeros(x.shape[1])
        reach = float(max(np.abs(x - shift).max(), np.abs(y - shift).max()))
        if reach == 0:
            return 0.0, (x, y)
        x, y, size = (x - shift) / reach, (y - shift) / reach, size * reach
    return size, (x, y)


def _on_the_line(x: Array, y: Array, a: Array, b: Array, p: float) -> float:
    """Integrate |F^{-1} - G^{-1}|^p over the union of both sets of quantile levels."""
    i, j = np.argsort(x), np.argsort(y)
    left, right = np.cumsum(a[i]), np.cumsum(b[j])
    left, right = left / left[-1], right / right[-1]
    levels = np.union1d(left, right)  # right ends of the pieces
    size = np.diff(levels, prepend=0.0)
    middle = levels - size / 2
    gap = x[i][np.searchsorted(left, middle)] - y[j][np.searchsorted(right, middle)]
    return float((size @ np.abs(gap) ** p) ** (1 / p))
