r"""What n samples do to the score that attention estimates: variance, bias, the best temperature.

A sample is the density with white noise :math:`\eta` on it, of variance :math:`1/(n\rho)` per wave. To
first order the scaling of the bridge answers a wave by :math:`-\eta_k/(1 + e^{\varepsilon k^2/2})`, and
the estimated score by :math:`ik` times it. Summed over waves, in d dimensions,

.. math:: \mathbb E\,|\text{noise}|^2 = \frac{C_d}{n\,\rho(x)\,\varepsilon^{1+d/2}}, \qquad
          C_d = \int \frac{|k|^2}{(1 + e^{|k|^2/2})^2}\,\frac{dk}{(2\pi)^d}
          = \frac{d}{(2\pi)^{d/2}}\Bigl(\eta\bigl(\tfrac d2 + 1\bigr) - \eta\bigl(\tfrac d2\bigr)\Bigr)

with Dirichlet's :math:`\eta(p) = \sum_{j\ge1} (-1)^{j+1} j^{-p}`. Limit laws of this estimate are proved by
:cite:t:`mordant2024`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import zeta

from attnflow import validate
from attnflow.validate import Array

#: Beyond this dimension the constant is below every number.
MOST_DIMENSIONS = 300


def noise_constant(d: int = 1) -> float:
    r""":math:`C_d`: n samples have the variance :math:`C_d/(n\rho\,\varepsilon^{1+d/2})`.

    >>> [round(noise_constant(d), 6) for d in (1, 2, 3)]
    [0.06393, 0.041164, 0.019439]
    """
    d = validate.count(d, "d", maximum=MOST_DIMENSIONS)
    return float(d * (2 * np.pi) ** (-d / 2) * (_eta(d / 2 + 1) - _eta(d / 2)))


def noise_variance(rho: ArrayLike, n: int, eps: float, d: int = 1) -> Array:
    r"""The variance of the score estimated at points where the density is `rho`, to leading order.

    It is the expectation of the squared length of :math:`\varepsilon^{-1}(B_n(x) - B(x))`, with :math:`B_n` the
    bridge of n samples.

    >>> round(float(noise_variance(0.2, 1000, 0.1)), 5)
    0.01011
    """
    n, eps = validate.count(n, "n"), validate.positive(eps, "eps")
    rho = validate.all_positive(validate.finite(validate.real(rho, "rho"), "rho"), "rho")
    return noise_constant(d) / (n * rho * eps ** (1 + d / 2))


def best_temperature(rho: float, force: float, n: float, d: int = 1) -> float:
    r"""The eps at which bias and variance of the score at a point add up to least.

    The squared bias is :math:`\tfrac{\varepsilon^2}4|\nabla U|^2` with `force` :math:`= |\nabla U|`, so

    .. math:: \varepsilon^\star = \Bigl(\frac{(d + 2)\,C_d}{n\,\rho\,|\nabla U|^2}\Bigr)^{2/(d+6)},

    and the squared error at it falls like :math:`n^{-4/(d+6)}`, the rate at which the gradient of a
    twice smoother density can be estimated from a sample.

    >>> round(best_temperature(0.2, 0.4, 1000), 4)
    0.2318
    """
    rho, force = validate.positive(rho, "rho"), validate.positive(force, "force")
    n = validate.positive(n, "n")
    return float(((d + 2) * noise_constant(d) / (n * rho * force**2)) ** (2 / (d + 6)))


def _eta(p: float) -> float:
    """Dirichlet's eta, by Riemann's zeta or, near its pole, the logarithm."""
    return float(np.log(2.0)) if p == 1 else float((1 - 2.0 ** (1 - p)) * zeta(p))
