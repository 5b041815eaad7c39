r"""The energy by spherical modes, which is why the uniform measure is its only minimum.

The kernel of the energy is a sum of Gegenbauer polynomials with positive coefficients,

.. math:: e^{\beta t} = \sum_{k\ge0} a_k\,G_k(t), \qquad
    a_k = \Gamma(\lambda)\Bigl(\frac2\beta\Bigr)^{\lambda}(\lambda+k)\,I_{\lambda+k}(\beta)\,C_k^\lambda(1),
    \qquad \lambda = \frac d2-1,

with :math:`G_k = C_k^\lambda/C_k^\lambda(1)`. The mean of :math:`G_k(\langle x,x'\rangle)` over pairs is a sum
of squares of moments (addition theorem), never negative; and all of them vanish, k = 0 apart, for
the uniform measure alone: the argument of :cite:t:`geshkovski2025`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import eval_chebyt, eval_gegenbauer, gammaln, ive

from attnflow import validate
from attnflow.sphere.tokens import unit_tokens
from attnflow.validate import Array


def gegenbauer(k: int, d: int, t: ArrayLike) -> Array:
    r"""The Gegenbauer polynomial of order k on the sphere of R^d, divided by its value at 1.

    In the plane it is :math:`\cos(k\arccos t)`.

    >>> gegenbauer(2, 3, [0.0, 1.0])  # Legendre's
    array([-0.5,  1. ])
    """
    k, d = validate.count(k, "k", 0), validate.count(d, "d", 2)
    t = validate.real(t, "t")
    if d == 2:
        return np.asarray(eval_chebyt(k, t))
    lam = d / 2 - 1
    return np.asarray(eval_gegenbauer(k, lam, t) / eval_gegenbauer(k, lam, 1.0))


#: Bessel functions below it have lost digits, and what they are multiplied by may be no number.
FAINTEST = 1e-280
#: Kernels that are allowed, of beta up to 700, have none beyond it that counts.
MOST_MODES = 10_000


def exponential_modes(beta: float, d: int, count: int) -> Array:
    r"""The first coefficients :math:`a_0, a_1, \dots` of :math:`e^{\beta t}` on the sphere of R^d, (count,).

    In the plane :math:`a_0=I_0(\beta)` and :math:`a_k=2I_k(\beta)`. They add up to :math:`e^\beta`.

    >>> a = exponential_modes(2.0, 3, 30)
    >>> bool((a > 0).all()), bool(np.isclose(a.sum(), np.exp(2.0)))
    (True, True)
    """
    beta, d = validate.beta(beta), validate.count(d, "d", 2)
    count = validate.count(count, "count", maximum=MOST_MODES)
    if beta == 0:
        raise ValueError("beta must be > 0 for these coefficients, got 0")
    k = np.arange(count)
    if d == 2:
        return np.asarray(np.where(k == 0, 1.0, 2.0) * ive(k, beta) * np.exp(beta))
    lam = d / 2 - 1
    # C_k(1) = Gamma(k + 2 lam) / (k! Gamma(2 lam)), in logarithms
    size = gammaln(k + 2 * lam) - gammaln(k + 1) - gammaln(2 * lam)
    scale, bessel = gammaln(lam) + lam * np.log(2 / beta) + size, ive(lam + k, beta)
    plain = (bessel > FAINTEST) & (scale + beta < -np.log(FAINTEST))
    factor = np.exp(np.where(plain, scale + beta, 0.0)) * (lam + k)
    return np.where(plain, factor * bessel, _by_series(beta, lam, k.astype(np.float64)))


def _by_series(beta: float, lam: float, k: Array) -> Array:
    r"""The same coefficients, where Bessel functions underflow or dimensions are huge.

    .. math:: a_k = {}_0F_1\bigl(\lambda+k+1, \tfrac{\beta^2}4\bigr)
        \prod_{j<k}\frac\beta2\,\frac{2\lambda+j}{(\lambda+j)(j+1)}
    """
    j = k[:-1]
    steps = np.log(beta / 2) + np.log((2 * lam + j) / (lam + j)) - np.log1p(j)
    total, term, m = np.ones(len(k)), np.ones(len(k)), 0.0
    while (term > np.finfo(float).eps * total).any():  # all terms are positive
        m += 1
        term = term * (beta / 2 / m) * (beta / 2 / (lam + k + m))
        total += term
    return np.exp(np.cumsum([0.0, *steps])) * total


def pair_modes(x: ArrayLike, count: int) -> Array:
    r"""The means over pairs :math:`\frac1{n^2}\sum_{ij}G_k(\langle x_i,x_j\rangle)` for k < count, (count,).

    >>> pair_modes([[1.0, 0.0], [-1.0, 0.0]], 4)  # symmetric about 0: no odd moments
    array([1., 0., 1., 0.])
    """
    x, count = unit_tokens(x), validate.count(count, "count", maximum=MOST_MODES)
    G = np.clip(x @ x.T, -1.0, 1.0)
    return np.array([gegenbauer(k, x.shape[1], G).mean() for k in range(count)])
