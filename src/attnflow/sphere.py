r"""Attention on the sphere with Q = K = V = I: energy, inner products, clusters.

Tokens are unit vectors. Layer normalisation after every layer turns the flow into

.. math:: \dot x_i = P_{x_i} \sum_j A_{ij} x_j, \qquad P_x = I - xx^\top,

with :math:`A_{ij} = e^{\beta\langle x_i,x_j\rangle}/\sum_k e^{\beta\langle x_i,x_k\rangle}`
(self-attention, SA) or :math:`A_{ij} = e^{\beta\langle x_i,x_j\rangle}/n` (unnormalised, USA):
Geshkovski, Letrouit, Polyanskiy and Rigollet, A mathematical perspective on transformers. A
causal mask lets token i see tokens 1..i alone; sums then run over these.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import quad
from scipy.sparse.csgraph import connected_components
from scipy.special import exp1, expi, hyp0f1, hyperu

from attnflow import validate
from attnflow.attention import SoftmaxAttention, UnnormalisedAttention
from attnflow.flows import Flow, integrate, sphere_ode
from attnflow.phase import PhaseDiagram, phase_diagram, uniform
from attnflow.validate import Array

__all__ = [
    "GramFlow",
    "PhaseDiagram", "clusters", "dirac_energy", "energy", "energy_rate", "flow", "gamma",
    "gram_flow", "hitting_time", "merge_time", "phase_diagram", "uniform", "uniform_energy",
    "velocity",
]  # fmt: skip

#: Inner products of unit vectors leave [-1, 1] by rounding.
GRAM_SLACK = 1e-6

#: The smallest inverse temperature of an energy.
LEAST_BETA = 1e-300
#: Beyond this many tokens the time to cluster is lost in rounding.
MOST_TOKENS = 10**12
#: The last time at which gamma is asked for; it is 1 long before.
LATEST = 1e300


class GramFlow(NamedTuple):
    """Inner products along time."""

    times: Array  #: (m,)
    states: Array  #: (m, n, n)
    evaluations: int


def velocity(x: ArrayLike, beta: float, normalised: bool = True, *, causal: bool = False) -> Array:
    """The velocity of every token, tangent to the sphere: SA, or USA if not `normalised`.

    >>> velocity([[1.0, 0.0], [0.0, 1.0]], beta=0.0)
    array([[0. , 0.5],
           [0.5, 0. ]])
    """
    x = _tokens(x)
    v = _layer(beta, x.shape[1], normalised, causal).velocity(x)
    return v - (x * v).sum(axis=1, keepdims=True) * x


def flow(
    x0: ArrayLike, beta: float, times: ArrayLike, normalised: bool = True, *,
    causal: bool = False, rtol: float = 1e-10,
) -> Flow:  # fmt: skip
    """Tokens at increasing times from x0 at times[0]; norms are one up to rounding.

    >>> flow(np.eye(3), beta=1.0, times=[0.0, 50.0]).diameter[-1] < 1e-9
    np.True_
    """
    x, times = _tokens(x0), validate.times(times, longest=validate.LONGEST)
    return sphere_ode(_layer(beta, x.shape[1], normalised, causal), x, times, rtol=rtol)


def energy(x: ArrayLike, beta: float, V: ArrayLike | None = None) -> float:
    r"""E = (1/2 beta) mean of exp(beta <V x_i, x_j>) over all pairs; V = I unless given.

    >>> round(energy(np.eye(2), beta=1.0), 6)
    0.92957
    """
    x = _tokens(x)
    beta = _above_zero(beta)
    y = x if V is None else x @ _square(V, x.shape[1]).T
    scores = beta * (y @ x.T)
    if scores.max() > np.log(np.finfo(float).max):
        raise ValueError(f"exp of beta <Vx, y> must be finite, got a score of {scores.max():.3g}")
    return float(np.exp(scores).mean() / (2 * beta))


def energy_rate(x: ArrayLike, beta: float, normalised: bool = True) -> float:
    r"""dE/dt: the mean of Z_i |x_i'|^2 along SA, Z_i a mean, and of |x_i'|^2 along USA."""
    x = _tokens(x)
    beta = _above_zero(beta)
    squares = (velocity(x, beta, normalised) ** 2).sum(axis=1)
    return float(
        (squares * np.exp(beta * (x @ x.T)).mean(axis=1) if normalised else squares).mean()
    )


def uniform_energy(beta: float, d: int) -> float:
    r"""The least energy, that of the uniform measure on the sphere of R^d.

    :math:`\frac{1}{2\beta}\,\Gamma(\tfrac d2)(\tfrac2\beta)^{d/2-1} I_{d/2-1}(\beta)`, as the
    hypergeometric function :math:`{}_0F_1(;\tfrac d2;\tfrac{\beta^2}{4})/2\beta`.
    """
    beta, d = _above_zero(beta), validate.count(d, "d", 2)
    return float(hyp0f1(d / 2, beta**2 / 4) / (2 * beta))


def dirac_energy(beta: float) -> float:
    """The greatest energy, that of one cluster: exp(beta) / (2 beta)."""
    beta = _above_zero(beta)
    return float(np.exp(beta) / (2 * beta))


def gram_flow(
    G0: ArrayLike, beta: float, times: ArrayLike, normalised: bool = True, *,
    causal: bool = False, rtol: float = 1e-10,
) -> GramFlow:  # fmt: skip
    """The inner products alone, shape (m, n, n): the cost does not depend on the dimension.

    Where G0 has a rank d < n, errors feed other dimensions and grow like instabilities of the
    flow do; there :func:`flow` is the one to trust at long times.

    >>> gram_flow(np.eye(4), 0.0, [0.0, 1.0]).states[-1][0, 1].round(6)  # gamma_0(1), n = 4
    np.float64(0.614979)
    """
    g0, times = _gram(G0), validate.times(times, longest=validate.LONGEST)
    beta = validate.beta(beta)
    n = len(g0)
    mask = np.tril(np.ones((n, n))) if causal else np.ones((n, n))
    seen = mask.sum(axis=1, keepdims=True)

    def derivative(_: float, g: Array) -> Array:
        a = mask * np.exp(beta * (g - 1.0))
        a /= a.sum(axis=1, keepdims=True) if normalised else seen * np.exp(-beta)
        m = a @ g
        s = np.diag(m)
        out = m + m.T - (s[:, None] + s) * g
        np.fill_diagonal(out, 0.0)
        return out

    return GramFlow(*integrate(derivative, g0, times, rtol=rtol)[:3])


def gamma(beta: float, n: int, times: ArrayLike, normalised: bool = True) -> Array:
    r"""The common inner product at `times` after an orthogonal start at time 0.

    SA: :math:`\dot\gamma = 2(1-\gamma)((n-1)\gamma+1)/(e^{\beta(1-\gamma)}+n-1)`; it is solved for
    :math:`-\log(1-\gamma)`, so that :math:`1-\gamma` keeps its digits.

    >>> t = 1.0
    >>> bool(np.isclose(gamma(0.0, 32, [t])[0], np.expm1(2 * t) / (np.exp(2 * t) + 31)))
    True
    """
    beta, n = validate.beta(beta), validate.count(n, "n", 2)
    t = validate.array(times, "times", 1)
    if not len(t) or t[0] < 0 or (np.diff(t) <= 0).any():
        raise ValueError(f"times must increase from 0 or later, got {validate.said(t)}")
    if t[-1] > LATEST:
        raise ValueError(f"times must be at most {LATEST:g}, got {t[-1]:g}")
    knots = np.unique(np.concatenate([[0.0], t]))
    if len(knots) == 1:
        return np.zeros(1)
    speed = lambda _, s: 1.0 / _slowness(s, beta, n, normalised)  # noqa: E731
    found = integrate(speed, np.zeros(1), knots, rtol=1e-12, scale=1.0).states.ravel()
    return -np.expm1(-found[np.searchsorted(knots, t)])


def hitting_time(beta: float, n: int, delta: float, normalised: bool = True) -> float:
    """When gamma reaches 1 - delta, by quadrature.

    >>> round(hitting_time(4.0, 32, 1e-3), 8)
    6.95350185
    """
    beta, n, delta = (
        validate.beta(beta),
        validate.count(n, "n", 2, MOST_TOKENS),
        validate.between_zero_and_one(delta, "delta"),
    )
    end = -np.log(delta)
    # exp(beta exp(-s)) falls within the first 40/beta; what follows is smooth
    knots = [0.0, *(k / max(beta, 1.0) for k in (1.0, 5.0, 40.0) if k / max(beta, 1.0) < end), end]
    parts = [
        quad(_slowness, low, high, args=(beta, n, normalised), epsabs=0.0, epsrel=1e-12, limit=500)
        for low, high in pairwise(knots)
    ]
    return float(sum(part[0] for part in parts))


def merge_time(beta: float, angle: float, end: float) -> float:
    r"""How long two equal clusters take from an angle in (0, pi) down to the angle `end`, by SA.

    :math:`\int (1+e^{\beta(1-\cos\varphi)})/(2\sin\varphi)\,d\varphi` in closed form: with
    :math:`w = 1-\cos\varphi` its second part is
    :math:`\frac14(\mathrm{Ei}(\beta w) + e^{2\beta}E_1(\beta(2-w)))`.

    >>> round(merge_time(5.0, np.pi / 2, 0.01), 6)
    20.924948
    """
    beta = validate.beta(beta)
    angle, end = validate.positive(angle, "angle"), validate.positive(end, "end")
    if not end < angle < np.pi:
        raise ValueError(f"angles must satisfy 0 < end < angle < pi, got {end} and {angle}")
    free = 0.5 * np.log(np.tan(angle / 2) / np.tan(end / 2))
    if beta == 0:
        return float(2 * free)
    half = np.array([angle, end]) / 2
    w, v = 2 * np.sin(half) ** 2, 2 * np.cos(half) ** 2  # v = 2 - w
    with np.errstate(over="ignore", invalid="ignore"):
        rest = expi(beta * w) + np.exp(beta * w) * _scaled_exp1(beta * v)
        out = float(free + (rest[0] - rest[1]) / 4)
    if not np.isfinite(out):
        raise ValueError(f"the merge time must be a finite number, got {out} at beta = {beta}")
    return out


def clusters(x: ArrayLike, delta: float) -> NDArray[np.int32]:
    """A cluster's number for every token: chains of tokens with inner products >= 1 - delta.

    >>> clusters([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], delta=1e-3)
    array([0, 1, 0], dtype=int32)
    """
    x = _tokens(x)
    return connected_components(
        x @ x.T >= 1 - validate.between_zero_and_one(delta, "delta"), directed=False
    )[1]


def _scaled_exp1(z: Array) -> Array:
    """e^z E_1(z), where e^z alone would overflow."""
    small = np.minimum(z, 50.0)
    return np.where(z < 50.0, np.exp(small) * exp1(small), hyperu(1.0, 1.0, np.maximum(z, 50.0)))


def _slowness(s: Array, beta: float, n: int, normalised: bool) -> Array:
    """dt/ds for s = -log(1 - gamma)."""
    u = np.exp(-s)  # 1 - gamma
    bottom = 2 * ((n - 1) * (1 - u) + 1)
    if normalised:
        return (np.exp(beta * u) + n - 1) / bottom
    return n * np.exp(-beta * (1 - u)) / bottom


def _layer(
    beta: float, d: int, normalised: bool, causal: bool
) -> SoftmaxAttention | UnnormalisedAttention:
    I = np.eye(d)  # noqa: E741
    kind = SoftmaxAttention if normalised else UnnormalisedAttention
    return kind(validate.beta(beta) * I, I, I, causal)


def _tokens(x: ArrayLike) -> Array:
    x = validate.on_sphere(x)
    if len(x) < 2:
        raise ValueError(f"x must hold at least two tokens, got {len(x)}")
    return x


def _gram(G: ArrayLike) -> Array:
    g = validate.array(G, "G0", 2)
    if g.shape[0] != g.shape[1] or len(g) < 2:
        raise ValueError(f"G0 must be a square matrix of two tokens or more, got shape {g.shape}")
    if np.abs(g - g.T).max() > GRAM_SLACK or np.abs(np.diag(g) - 1).max() > GRAM_SLACK:
        raise ValueError("G0 must be symmetric with ones on its diagonal, as unit vectors give it")
    lowest = float(np.linalg.eigvalsh(g)[0])
    if lowest < -GRAM_SLACK * len(g):
        raise ValueError(f"G0 must be positive semi-definite, got an eigenvalue {lowest:.3g}")
    g = (g + g.T) / 2
    np.fill_diagonal(g, 1.0)
    return g


def _square(V: ArrayLike, d: int) -> Array:
    out = validate.array(V, "V", 2)
    if out.shape != (d, d):
        raise ValueError(f"V must have shape {(d, d)}, got {out.shape}")
    return out


def _above_zero(beta: float) -> float:
    out = validate.beta(beta)
    if out < LEAST_BETA:
        raise ValueError(
            f"beta must be > 0 for an energy, which divides by it; at least {LEAST_BETA:g}, "
            f"got {out:g}"
        )
    return out
