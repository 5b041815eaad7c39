r"""Tokens as a measure: quadratures, distances between flows, bounds, and the masked layer.

A measure is points with weights. Attention acts on it through the same classes as on tokens, and
:func:`attnflow.flows.ode` moves it. Castin, Ablin, Carrillo and Peyré (2025) prove that the flow of
a compactly supported measure exists for all times, that its support stays in a ball of radius
:math:`e^{\int|V|}R_0`, and that nearby measures stay near. A mask needs positions:
:class:`MaskedMeanField` acts on measures on :math:`[0,1]\times\mathbb R^d`, keeps the position s
of every point, and lets it see the positions up to s.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import numpy as np
import ot
from numpy.typing import ArrayLike
from scipy.integrate import quad
from scipy.special import roots_hermitenorm
from scipy.stats import norm, qmc

from attnflow import validate
from attnflow.attention import Attention, MultiHead
from attnflow.densities import GaussianMixture
from attnflow.validate import Array

#: Points of a tensor grid; more are refused.
MAX_POINTS = 2_000_000


class Measure(NamedTuple):
    """Points with weights that sum to one."""

    points: Array  #: (n, d)
    weights: Array  #: (n,)

    @property
    def mean(self) -> Array:
        """(d,)"""
        return self.weights @ self.points

    @property
    def cov(self) -> Array:
        """(d, d)"""
        centred = self.points - self.mean
        return (self.weights[:, None] * centred).T @ centred

    @property
    def radius(self) -> float:
        """The largest norm of a point that carries mass."""
        return float(np.linalg.norm(self.points[self.weights > 0], axis=1).max())


def measure(points: ArrayLike, weights: ArrayLike | None = None) -> Measure:
    """Points with their weights, 1/n unless given."""
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
    grids = [norm.ppf(qmc.Sobol(density.dimension, rng=rng).random(n)) for _ in density.weights]
    return _spread(density, grids, [np.full(n, 1 / n)] * len(grids))


def _spread(density: GaussianMixture, grids: list[Array], shares: list[Array]) -> Measure:
    means = np.reshape(density.means, (len(density.weights), -1))
    covs = np.reshape(density.covs, (len(means), means.shape[1], -1))
    points = [m + g @ np.linalg.cholesky(S).T for m, S, g in zip(means, covs, grids, strict=True)]
    weights = [w * s for w, s in zip(density.weights, shares, strict=True)]
    total = np.concatenate(weights)
    return Measure(np.concatenate(points), total / total.sum())


def wasserstein(mu: Measure, nu: Measure, p: float = 2.0) -> float:
    """W_p by linear programming (POT's network simplex).

    >>> wasserstein(measure([[0.0], [1.0]]), measure([[1.0], [4.0]]), p=1)
    2.0
    """
    p = validate.number(p, "p")
    if p < 1:
        raise ValueError(f"p must be at least 1, got {p}")
    if mu.points.shape[1] != nu.points.shape[1]:
        raise ValueError(
            f"measures must share a dimension, got {mu.points.shape[1]} and {nu.points.shape[1]}"
        )
    cost = np.linalg.norm(mu.points[:, None] - nu.points, axis=2)
    size = max(float(cost.max()), np.finfo(float).tiny)
    cost = (cost / size) ** p
    least = min(w[w > 0].min() for w in (mu.weights, nu.weights))
    cap, best = 1.0, np.inf
    while True:  # pairs far dearer than the plan hide the others from the solver: cap them
        plan, log = ot.emd(
            mu.weights, nu.weights, np.minimum(cost / cap, 1.0), numItermax=10_000_000, log=True
        )
        if log["warning"]:
            raise ArithmeticError(f"POT's network simplex failed: {log['warning']}")
        best = min(best, float((plan * cost).sum()))  # at its true cost: an upper bound
        lower = 2 * best / least
        if not 0 < lower < cap / 10:
            return float(size * max(best, 0.0) ** (1 / p))
        cap = lower


def support_bound(
    radius: float, V: ArrayLike | Callable[[float], ArrayLike], t: float, start: float = 0.0
) -> float:
    r"""exp(integral of |V(s)|) R_0, which the support stays within; V may depend on time.

    >>> round(support_bound(2.0, np.diag([1.0, -3.0]), 1.0), 4)
    40.1711
    """
    radius, t = validate.positive(radius, "radius"), validate.number(t, "t")
    start = validate.number(start, "start")
    if t < start:
        raise ValueError(f"t must not lie before the start {start}, got {t}")
    if callable(V):
        norms = lambda s: np.linalg.norm(validate.array(V(s), "V", 2), 2)  # noqa: E731
        exponent = quad(norms, start, t, limit=200)[0]
    else:
        exponent = np.linalg.norm(validate.array(V, "V", 2), 2) * (t - start)
    with np.errstate(over="ignore"):
        return float(radius * np.exp(exponent))


def log_stability_bound(A: ArrayLike, V: ArrayLike, radius: float, t: float) -> float:
    r"""The logarithm of C with W_p(mu_t, nu_t) <= C W_p(mu_0, nu_0), for softmax attention.

    The layer is Lipschitz in W_p on measures in a ball of radius R with constant
    :math:`|V|(1+3|A|R^2)e^{2|A|R^2}` (Castin, Ablin, Peyré 2024), the support grows at most like
    :math:`e^{|V|t}`, and Grönwall's inequality integrates the constant along the way. It is far
    from sharp, often beyond what a number can hold, hence the logarithm.
    """
    a = float(np.linalg.norm(validate.array(A, "A", 2), 2))
    v = float(np.linalg.norm(validate.array(V, "V", 2), 2))
    R, t = validate.positive(radius, "radius"), validate.number(t, "t")
    if t < 0:
        raise ValueError(f"t must not be negative, got {t}")

    if a == 0:
        return v * t

    def constant(s: float) -> float:
        g = a * (R * np.exp(v * s)) ** 2
        return float(v * (1 + 3 * g) * np.exp(2 * g))

    with np.errstate(over="ignore"):
        if not np.isfinite(constant(t)):
            return np.inf
    return float(quad(constant, 0.0, t, limit=200)[0])


class MaskedMeanField:
    """A layer on measures over positions and tokens: a point at s averages the points up to s.

    Positions lie in [0, 1] and do not move. With positions i/n it is the causal layer.

    >>> from attnflow.attention import SoftmaxAttention
    >>> I = np.eye(1)
    >>> layer = MaskedMeanField(SoftmaxAttention(0 * I, I, I), [0.0, 0.5, 0.5])
    >>> layer.velocity([[1.0], [3.0], [5.0]]).ravel()
    array([1., 3., 3.])
    """

    def __init__(self, attention: Attention | MultiHead, positions: ArrayLike) -> None:
        s = validate.array(positions, "positions", 1)
        if not len(s) or s.min() < 0 or s.max() > 1:
            raise ValueError(
                f"positions must lie in [0, 1], got {s.min(initial=0)} to {s.max(initial=0)}"
            )
        heads = attention.heads if isinstance(attention, MultiHead) else (attention,)
        if any(head.causal for head in heads):
            raise ValueError("the mask comes from the positions: give a layer that is not causal")
        self.attention, self.positions, self.heads = attention, s, heads

    def matrix(self, x: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """P of every head, shape (n, n), or (heads, n, n) for several."""
        x = validate.tokens(x)
        if len(x) != len(self.positions):
            raise ValueError(
                f"x must have one token per position, {len(self.positions)}, got {len(x)}"
            )
        if x.shape[1] != self.heads[0].Q.shape[1]:
            raise ValueError(f"x must have {self.heads[0].Q.shape[1]} columns, got shape {x.shape}")
        w = validate.weights(weights, len(x))
        out = np.stack([self._rows(head, x, w) for head in self.heads])
        return out if isinstance(self.attention, MultiHead) else out[0]

    def velocity(self, x: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """Gamma(s_i, x_i), shape (n, p); the velocity of the position is 0."""
        x = validate.tokens(x)
        P = self.matrix(x, weights)
        with np.errstate(over="ignore", invalid="ignore"):
            if isinstance(self.attention, MultiHead):
                parts = zip(P, self.heads, self.attention.W, strict=True)
                out = np.sum([p @ (x @ head.V.T) @ w.T for p, head, w in parts], axis=0)
            else:
                out = P @ (x @ self.attention.V.T)
        if not np.isfinite(out).all():
            raise ValueError("velocities must be finite; these tokens or matrices are too large")
        return out

    def _rows(self, head: Attention, x: Array, w: Array) -> Array:
        out = np.zeros((len(x), len(x)))
        for s in np.unique(self.positions):
            here, seen = self.positions == s, self.positions <= s
            mass = w[seen].sum()
            if mass == 0:
                raise ValueError(f"the points up to position {s:g} must carry mass, got 0")
            out[np.ix_(here, seen)] = head.rows(x[here], x[seen], w[seen] / mass)
        return out
