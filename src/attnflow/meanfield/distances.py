r"""The Wasserstein distance of two measures, by linear programming.

.. math:: W_p(\mu,\nu)^p = \min_\pi \sum_{ij} \pi_{ij} |x_i - y_j|^p

over all plans :math:`\pi` with marginals :math:`\mu` and :math:`\nu` (:cite:t:`kantorovich1942`,
:cite:t:`peyre2019`), solved by the network simplex of POT (:cite:t:`flamary2021`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from attnflow import validate
from attnflow.errors import SolverFailed
from attnflow.meanfield.measures import Measure, measure
from attnflow.validate import Array

#: Pivots after which the simplex gives up.
MAX_ITER = 10_000_000
#: A cap is lowered while it is so many times dearer than any pair of the plan can be.
CAP_SLACK = 10.0


def wasserstein(mu: Measure | ArrayLike, nu: Measure | ArrayLike, p: float = 2.0) -> float:
    """W_p of two measures; an array is read as points of equal weight.

    >>> wasserstein([[0.0], [1.0]], [[1.0], [4.0]], p=1)
    2.0
    >>> wasserstein(measure([[0.0], [1.0]], [0.25, 0.75]), [[1.0]], p=2)
    0.5
    """
    p = validate.number(p, "p")
    if p < 1:
        raise ValueError(f"p must be at least 1, got {p}")
    (x, a), (y, b) = _weighted(mu), _weighted(nu)
    if x.shape[1] != y.shape[1]:
        raise ValueError(f"measures must share a dimension, got {x.shape[1]} and {y.shape[1]}")
    cost = np.linalg.norm(x[:, None] - y, axis=2)
    size = max(float(cost.max()), np.finfo(float).tiny)
    least = _least_cost((cost / size) ** p, a, b)
    return float(size * max(least, 0.0) ** (1 / p))


def _least_cost(cost: Array, a: Array, b: Array) -> float:
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


def _weighted(mu: Measure | ArrayLike) -> tuple[Array, Array]:
    return mu if isinstance(mu, Measure) else measure(mu)
