r"""Equiangular tokens: the orbit that four normalisations share, in closed form.

If all cosines :math:`\langle\theta_i,\theta_j\rangle` are one number :math:`\gamma = 1-u`, the
attention matrix is constant off its diagonal. Its eigenvalues are 1, for the mean, and
:math:`\lambda`, for differences. With the time :math:`\tau` of the sphere (*post*),

.. math:: \frac{d}{d\tau}\log u = -2(s-\lambda), \qquad \frac{d}{d\tau}\log r = s, \qquad
    s = \langle m_i,\theta_i\rangle,

under every normalisation, r being the tokens' norm where they are not kept on the sphere. The mean
of the tokens grows like :math:`e^\tau`, and so :math:`r^2(1+(n-1)\gamma) \propto e^{2\tau}`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import exp1, expi, hyperu

from attnflow import validate
from attnflow.validate import Array

#: Beyond this many tokens differences are lost in rounding.
MOST_TOKENS = 10**12
#: From here on e^z E_1(z) is taken from its asymptotic form; e^z overflows at 709.
_LARGE = 50.0
#: Below it 1 - gamma over n has no reciprocal; no flow comes that near.
_SMALLEST_GAP = 1e-280
#: Times at a smaller beta are those at 0, to rounding.
_NO_BETA = 1e-18


class Reading(NamedTuple):
    """What one layer reads from equiangular tokens; numbers or arrays of one shape.

    >>> Reading(*reading(1.0, 0.0, 4)).size
    np.float64(0.5)
    """

    other: Array  #: a, the weight on any one other token
    difference: Array  #: lambda, by which attention shrinks differences of tokens
    along: Array  #: s = <m_i, theta_i>
    size: Array  #: q, the norm of m_i


def reading(gap: ArrayLike, beta: float, n: int) -> Reading:
    r"""a, lambda, s and q of n unit tokens whose cosines are all 1 - gap.

    .. math:: a = \frac1{e^{\beta u}+n-1}, \quad \lambda = 1-na, \quad s = 1-(n-1)au, \quad
        q^2 = 1-u\bigl(1-(\lambda+a)^2-(n-1)a^2\bigr)

    for a gap u (this book; a is that of :cite:t:`geshkovski2025`).

    >>> [float(round(value, 6)) for value in reading(0.5, 0.0, 4)]
    [0.25, 0.0, 0.625, 0.790569]
    """
    u, beta = validate.real(gap, "gap"), validate.beta(beta)
    n = validate.count(n, "n", 2, MOST_TOKENS)
    if not ((u >= 0) & (u <= n / (n - 1))).all():
        raise ValueError(f"gap must lie in [0, n/(n-1)], got {validate.said(gap)}")
    return read(u, beta, n)


def read(u: Array, beta: float, n: int) -> Reading:
    """:func:`reading` without checks.

    >>> bool(read(np.float64(0.0), 1.0, 4).along == 1)
    True
    """
    much = np.exp(beta * u)
    a = 1 / (much + (n - 1))
    own = much * a
    # 1 - own^2 - (n-1) a^2, without cancellation where own is nearly 1
    spread = (n - 1) * a * (1 + own - a)
    return Reading(a, own - a, 1 - (n - 1) * a * u, np.sqrt(1 - u * spread))


def sphere_time(beta: float, n: int, delta: ArrayLike, *, start: float = 0.0) -> Array:
    r"""When n tokens on the sphere (*post*) with common cosine `start` have the cosine 1 - delta.

    .. math:: T = \frac1{2n}\Bigl[(n-1)\log\frac{n-(n-1)u}u - \mathrm{Ei}(\beta u)
        - e^{\beta u}\,\mathcal E\bigl(\beta(\tfrac n{n-1}-u)\bigr)\Bigr]_{u=1-\mathrm{start}}
        ^{u=\delta}, \qquad \mathcal E(z) = e^zE_1(z)

    (this book): the integral of :func:`attnflow.sphere.hitting_time` in closed form. Later values of
    delta may be an array.

    >>> round(float(sphere_time(4.0, 32, 1e-3)), 8)
    6.95350185
    """
    beta, n = validate.beta(beta), validate.count(n, "n", 2, MOST_TOKENS)
    start, delta = _start(start), validate.real(delta, "delta")
    if not ((delta >= _SMALLEST_GAP) & (delta <= 1 - start)).all():
        raise ValueError(
            f"delta must lie in [{_SMALLEST_GAP:g}, 1 - start], got {validate.said(delta)}"
        )
    return np.asarray(_primitive(delta, beta, n) - _primitive(np.asarray(1 - start), beta, n))


def size(beta: float, n: int, delta: ArrayLike, *, start: float = 0.0) -> Array:
    r"""By which factor the norms have grown at the cosine 1 - delta, where nothing keeps them.

    .. math:: \frac r{r_0} = e^\tau\sqrt{\frac{1+(n-1)\gamma_0}{1+(n-1)\gamma}}

    (this book), the same for *pre* and *peri*; tau is :func:`sphere_time`.

    >>> round(float(size(0.0, 4, 0.25)), 6)  # at beta = 0 it is 1/sqrt(delta)
    2.0
    """
    tau = sphere_time(beta, n, delta, start=start)
    bottom = n - (n - 1) * validate.real(delta, "delta")
    with np.errstate(over="ignore"):
        grown = np.exp(tau) * np.sqrt((n - (n - 1) * (1 - start)) / bottom)
    return validate.finite(grown, "norms")


def valid_gap(delta: float) -> float:
    """The gap 1 - gamma at which tokens count as having met: a number in [1e-280, 1).

    >>> valid_gap(1e-300)
    Traceback (most recent call last):
    ValueError: delta must be at least 1e-280, got 1e-300
    """
    out = validate.between_zero_and_one(delta, "delta")
    if out < _SMALLEST_GAP:
        raise ValueError(f"delta must be at least {_SMALLEST_GAP:g}, got {delta}")
    return out


def _start(start: float) -> float:
    out = validate.number(start, "start")
    if not 0 <= out < 1:
        raise ValueError(f"start must lie in [0, 1), got {start}")
    return out


def _primitive(u: Array, beta: float, n: int) -> Array:
    free = np.log((n - (n - 1) * u) / u)
    if beta < _NO_BETA:
        return free / 2
    rest = expi(beta * u) + np.exp(beta * u) * _scaled_exp1(beta * (n / (n - 1) - u))
    return np.asarray(((n - 1) * free - rest) / (2 * n))


def _scaled_exp1(z: Array) -> Array:
    """e^z E_1(z), where e^z alone would overflow."""
    small, large = np.minimum(z, _LARGE), np.maximum(z, _LARGE)
    return np.where(z < _LARGE, np.exp(small) * exp1(small), hyperu(1.0, 1.0, large))
