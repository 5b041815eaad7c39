r"""Measures :math:`\sum_iw_i\delta_{x_i}` as points with weights: given ones, Gauss-Hermite grids, Sobol points.

The flow of a measure depends continuously on it (:cite:t:`castin2025`), so the points need not be
random: what matters is how well they stand for the measure.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri, roots_hermitenorm

from attnflow import validate
from attnflow.densities import GaussianMixture
from attnflow.validate import Array

#: Points of a tensor grid; more are refused.
MAX_POINTS = 2_000_000


class Measure(NamedTuple):
    """Points with weights that sum to one.

    >>> mu = Measure(np.array([[0.0], [4.0]]), np.array([0.25, 0.75]))
    >>> mu.mean, mu.cov, mu.radius
    (array([3.]), array([[3.]]), 4.0)
    """

    points: Array  #: (n, d)
    weights: Array  #: (n,)

    @property
    def mean(self) -> Array:
        """The mean, shape (d,)."""
        return self.weights @ self.points

    @property
    def cov(self) -> Array:
        """The covariance, shape (d, d)."""
        centred = self.points - self.mean
        return (self.weights[:, None] * centred).T @ centred

    @property
    def radius(self) -> float:
        """The largest norm of a point that carries mass."""
        return float(np.linalg.norm(self.points[self.weights > 0], axis=1).max())


def measure(points: ArrayLike, weights: ArrayLike | None = None) -> Measure:
    """Points with their weights, 1/n unless given; both are checked.

    >>> measure([[0.0], [1.0]]).weights
    array([0.5, 0.5])
    """
    x = validate.tokens(points, "points")
    return Measure(x, validate.weights(weights, len(x)))


def quadrature(density: GaussianMixture, order: int) -> Measure:
    """Gauss-Hermite points of every component, order^d each: moments up to 2 order - 1 are exact.

    >>> from attnflow.densities import Gaussian
    >>> quadrature(Gaussian([0.0, 1.0], [[2.0, 0.5], [0.5, 1.0]]), 3).cov.round(12)
    array([[2. , 0.5],
           [0.5, 1. ]])
    """
    order, d = validate.count(order, "order"), density.dimension
    if len(density.weights) * order**d > MAX_POINTS:
        raise ValueError(f"order must give at most {MAX_POINTS} points, got {order}^{d} each")
    nodes, mass = roots_hermitenorm(order)
    grid = np.array(list(product(nodes, repeat=d)))  # (order^d, d)
    share = np.array([np.prod(w) for w in product(mass / mass.sum(), repeat=d)])
    return _spread(density, [grid] * len(density.weights), [share] * len(density.weights))


def quasi(density: GaussianMixture, n: int, seed: int = 0) -> Measure:
    """n points a component from scrambled Sobol sequences; n is a power of two.

    >>> from attnflow.densities import Gaussian
    >>> quasi(Gaussian([0.0], [[4.0]]), 1024).cov.round(1)
    array([[4.]])
    """
    n = validate.count(n, "n")
    if n & (n - 1):
        raise ValueError(
            f"n must be a power of two, which Sobol sequences are balanced for, got {n}"
        )
    rng = np.random.default_rng(validate.count(seed, "seed", 0))
    from scipy.stats import qmc  # slow to import

    grids = [ndtri(qmc.Sobol(density.dimension, rng=rng).random(n)) for _ in density.weights]
    return _spread(density, grids, [np.full(n, 1 / n)] * len(grids))


def _spread(density: GaussianMixture, grids: list[Array], shares: list[Array]) -> Measure:
    means = np.reshape(density.means, (len(density.weights), -1))
    covs = np.reshape(density.covs, (len(means), means.shape[1], -1))
    points = [m + g @ np.linalg.cholesky(S).T for m, S, g in zip(means, covs, grids, strict=True)]
    weights = [w * s for w, s in zip(density.weights, shares, strict=True)]
    total = np.concatenate(weights)
    return Measure(np.concatenate(points), total / total.sum())
