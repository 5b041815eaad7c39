r"""The Wasserstein distance of two measures, by linear programming.

.. math:: W_p(\mu,\nu)^p = \min_\pi \sum_{ij} \pi_{ij} |x_i - y_j|^p

over all plans :math:`\pi` with marginals :math:`\mu` and :math:`\nu` (:cite:t:`kantorovich1942`,
:cite:t:`peyre2019`), solved by the network simplex of POT (:cite:t:`flamary2021`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from attnflow import validate
from attnflow.meanfield.measures import Measure, measure
from attnflow.transport.wasserstein import least_cost
from attnflow.validate import Array


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
    least = least_cost((cost / size) ** p, a, b)
    return float(size * max(least, 0.0) ** (1 / p))


def _weighted(mu: Measure | ArrayLike) -> tuple[Array, Array]:
    return mu if isinstance(mu, Measure) else measure(mu)
