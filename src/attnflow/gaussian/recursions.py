r"""Variances along layers, in one dimension: the bridge, explicit Euler, Fokker-Planck.

A layer maps :math:`N(0, \sigma^2)` to a Gaussian, so a network is a recursion for one number. With
:math:`u = \varepsilon/2\sigma^2` the bridge multiplies :math:`\sigma` by
:math:`2 + u - \sqrt{1+u^2}` and explicit Euler by :math:`1 + u`. Both follow the heat flow, whose
variance is :math:`\sigma^2 + t`: the one to second order in :math:`\varepsilon`, the other to first.
The layers are those of :cite:t:`agarwal2024`, the recursions the book's own.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from attnflow import validate
from attnflow.validate import Array


def bridge_recursion(var0: float, eps: float, depth: int) -> Array:
    r"""Standard deviations along `depth` layers of the bridge step, shape (depth + 1,).

    :math:`\sigma \mapsto \sigma\,(2 + u - \sqrt{1 + u^2})`, the scheme of :cite:t:`agarwal2024`.

    >>> bridge_recursion(1.0, 0.1, 2).round(6)
    array([1.      , 1.048751, 1.095343])
    """
    return _layers(var0, eps, depth, lambda u: 1 + u - u**2 / (np.sqrt(1 + u**2) + 1))


def euler_recursion(var0: float, eps: float, depth: int) -> Array:
    r"""The same for explicit Euler steps, :math:`\sigma \mapsto \sigma\,(1 + u)`.

    >>> euler_recursion(1.0, 0.1, 2).round(6)
    array([1.      , 1.05    , 1.097619])
    """
    return _layers(var0, eps, depth, lambda u: 1 + u)


def _layers(var0: float, eps: float, depth: int, factor: Callable[[float], float]) -> Array:
    eps, depth = validate.positive(eps, "eps"), validate.depth(depth)
    sigma = [np.sqrt(validate.positive(var0, "var0"))]
    for _ in range(depth):
        sigma.append(sigma[-1] * factor(eps / (2 * sigma[-1] ** 2)))
    return np.array(sigma)


def ornstein_uhlenbeck(var0: float, t: ArrayLike) -> Array:
    r"""The variance at time t of :math:`dX = -\tfrac12X\,dt + dB` from :math:`N(0, s_0)`:
    :math:`1 + (s_0 - 1)\,e^{-t}`.

    >>> ornstein_uhlenbeck(3.0, [0.0, np.log(2.0)]).round(12)
    array([3., 2.])
    """
    return 1 + (validate.positive(var0, "var0") - 1) * np.exp(-np.asarray(t, dtype=np.float64))


def fokker_planck_recursion(var0: float, eps: float, depth: int, theta: float) -> Array:
    r"""Variances of the general bridge scheme towards N(0, 1), shape (depth + 1,).

    The surrogate is :math:`(\rho/\nu)^{-\theta}`, a Gaussian of variance
    :math:`s/(\theta(s-1))`, which exists if :math:`\theta(s-1) > 0`; the layer is
    :math:`x \mapsto (1 - \tfrac1\theta)\,x + \tfrac1\theta B(x)` with the bridge B of the surrogate
    (:cite:t:`agarwal2024`).

    >>> fokker_planck_recursion(2.0, 0.1, 1, theta=1.0).round(6)
    array([2.      , 1.902469])
    """
    eps, depth = validate.positive(eps, "eps"), validate.depth(depth)
    theta = validate.number(theta, "theta")
    s = [validate.positive(var0, "var0")]
    for _ in range(depth):
        if not theta * (s[-1] - 1) > 0:
            raise ValueError(
                f"theta (variance - 1) must be > 0 at every layer, got theta = {theta} and a "
                f"variance of {s[-1]:g}; a smaller eps does not overshoot"
            )
        surrogate = s[-1] / (theta * (s[-1] - 1))
        u = eps / (2 * surrogate)
        gain = 1 / (np.sqrt(1 + u**2) + u)
        s.append(s[-1] * (1 - (1 - gain) / theta) ** 2)
    return np.array(s)
