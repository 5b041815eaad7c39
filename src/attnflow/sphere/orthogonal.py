r"""Closed forms of tokens on the sphere: the orthogonal start, and two clusters that merge.

Tokens that start orthogonal keep one common inner product :math:`\gamma_\beta(t)`, which solves an
equation of one variable; in high dimension random tokens follow it too (:cite:t:`geshkovski2025`).
It is solved for :math:`s = -\log(1-\gamma)`, so that :math:`1-\gamma` keeps its digits. Two equal
clusters at an angle are one variable as well, and the time in which they merge is elementary up to
exponential integrals: of order :math:`e^{\beta(1-\cos\varphi)}/\beta`, which is why clusters that
have not met stand for so long.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import quad
from scipy.special import exp1, expi, hyperu

from attnflow import validate
from attnflow.flows import integrate
from attnflow.validate import Array

#: Beyond this many tokens the time to cluster is lost in rounding.
MOST_TOKENS = 10**12
#: The last time at which gamma is asked for; it is 1 long before.
LATEST = 1e300
#: From here on e^z E_1(z) is taken from its asymptotic form; e^z overflows at 709.
LARGE_ARGUMENT = 50.0


def gamma(beta: float, n: int, times: ArrayLike, normalised: bool = True) -> Array:
    r"""The common inner product at `times` after an orthogonal start at time 0.

    .. math:: \dot\gamma = \frac{2(1-\gamma)((n-1)\gamma+1)}{e^{\beta(1-\gamma)}+n-1} \text{ (SA)},
        \qquad \dot\gamma = \frac2n e^{\beta\gamma}(1-\gamma)((n-1)\gamma+1) \text{ (USA)}

    :cite:p:`geshkovski2025`. The constant of the same name in :func:`attnflow.lipschitz.gamma` is
    another one.

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
    r"""When :func:`gamma` reaches 1 - delta, by quadrature.

    .. math:: T_\beta(\delta) = \int_0^{-\log\delta}
        \frac{e^{\beta e^{-s}}+n-1}{2((n-1)(1-e^{-s})+1)}\,ds \text{ (SA)}

    and with :math:`n e^{-\beta(1-e^{-s})}` in the numerator for USA: the equation of
    :cite:t:`geshkovski2025` with its variables separated.

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

    .. math:: \int_{\mathrm{end}}^{\mathrm{angle}}
        \frac{1+e^{\beta(1-\cos\varphi)}}{2\sin\varphi}\,d\varphi

    in closed form: with :math:`w = 1-\cos\varphi` its second part is
    :math:`\frac14(\mathrm{Ei}(\beta w) + e^{2\beta}E_1(\beta(2-w)))`, between the two ends.

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


def _slowness(s: Array, beta: float, n: int, normalised: bool) -> Array:
    """dt/ds for s = -log(1 - gamma)."""
    u = np.exp(-s)  # 1 - gamma
    bottom = 2 * ((n - 1) * (1 - u) + 1)
    if normalised:
        return (np.exp(beta * u) + n - 1) / bottom
    return n * np.exp(-beta * (1 - u)) / bottom


def _scaled_exp1(z: Array) -> Array:
    """e^z E_1(z), where e^z alone would overflow."""
    small, large = np.minimum(z, LARGE_ARGUMENT), np.maximum(z, LARGE_ARGUMENT)
    return np.where(z < LARGE_ARGUMENT, np.exp(small) * exp1(small), hyperu(1.0, 1.0, large))
