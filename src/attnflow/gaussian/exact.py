r"""The flows of the variance in one dimension, solved.

With :math:`A = KQ` the equations of :mod:`attnflow.gaussian.affine` become
:math:`\dot s = 2VAs^2` for softmax, :math:`\dot s = 4VAs^2/(1 + 2K^2s)` for L2 and
:math:`\dot s = 4VAs^2/(\varepsilon + \sqrt{\varepsilon^2 + 4A^2s^2})` for Sinkhorn attention. Each has a
quantity that grows linearly in time. With Q = K = V = I the eigenvalues of a covariance follow them, too.
The equations are those of :cite:t:`castin2025`, the rescaled limits the book's own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import wrightomega

from attnflow import validate
from attnflow.matrices import covariance, spectral
from attnflow.validate import Array


def softmax_variance(t: float, var0: float, A: float, V: float) -> float:
    r"""Softmax attention: :math:`s(t) = s_0/(1-2VAs_0t)`; inf from the blow-up on.

    The case d = 1 of the flow of :cite:t:`castin2025`.

    >>> softmax_variance(0.25, 1.0, A=1.0, V=1.0), softmax_variance(0.5, 1.0, A=1.0, V=1.0)
    (2.0, inf)
    """
    s, t, A, V = _read(t, var0, A, V)
    left = 1 - 2 * V * A * s * t
    return s / left if left > 0 else np.inf


def l2_variance(t: float, var0: float, A: float, V: float, *, K: float = 1.0) -> float:
    r"""L2 attention: :math:`-1/s + 2K^2\log s` grows at the rate :math:`4VA`.

    Solved by Wright's omega function; inf where the variance is beyond all numbers. As A = KQ, keys
    K = 0 come with A = 0, and then nothing moves.

    >>> round(l2_variance(1.0, 1.0, A=1.0, V=1.0), 7)
    4.9573005
    """
    s, t, A, V = _read(t, var0, A, V)
    k = 2 * validate.number(K, "K") ** 2
    if k == 0:
        if A != 0:
            raise ValueError(f"K must not be 0 where A = KQ is not, got A = {A}")
        return s
    constant = -1 / s + k * np.log(s) + 4 * V * A * t
    w = float(wrightomega(-constant / k - np.log(k)).real)
    return 1 / (k * w) if k * w > 1 / np.finfo(float).max else np.inf


def sinkhorn_variance(t: float, var0: float, A: float, V: float, *, eps: float = 1.0) -> float:
    r"""Sinkhorn attention: with :math:`\sinh\theta = 2|A|s/\varepsilon`,
    :math:`\theta - \coth(\theta/2)` grows at the rate :math:`2V\operatorname{sign}A`.

    >>> round(sinkhorn_variance(1.0, 1.0, A=1.0, V=1.0), 7)
    4.7040295
    """
    s, t, A, V = _read(t, var0, A, V)
    eps = validate.positive(eps, "eps")
    if A == 0:
        return s
    theta = np.arcsinh(2 * abs(A) * s / eps)
    target = theta - 1 / np.tanh(theta / 2) + 2 * V * np.sign(A) * t

    def rise(log_theta: float) -> float:
        x = np.exp(log_theta)
        return float(x - 1 / np.tanh(x / 2) - target)

    low = high = float(np.log(theta))
    while rise(low) > 0:
        low -= 1.0
    while rise(high) < 0:
        high += 1.0
    theta = np.exp(brentq(rise, low, high, xtol=1e-15, rtol=1e-14)) if low < high else theta
    with np.errstate(over="ignore"):
        return float(np.sinh(theta) * (eps / (2 * abs(A))))


def l2_rescaled_limit(cov0: ArrayLike) -> Array:
    r"""Where :math:`e^{-2t}S(t)` goes under L2 attention with Q = K = V = I: :math:`S_0e^{-S_0^{-1}/2}`.

    All eigenvalues follow the equation of the line, and :math:`-1/s + 2\log s` grows at the rate 4
    (after :cite:t:`castin2025`).

    >>> l2_rescaled_limit([[0.5]]).round(6)
    array([[0.18394]])
    """
    return spectral(lambda s: s * np.exp(-1 / (2 * s)), covariance(cov0, "cov0"))


def sinkhorn_rescaled_limit(cov0: ArrayLike, *, eps: float = 1.0) -> Array:
    r"""The same under Sinkhorn attention: :math:`\tfrac\varepsilon4e^{\theta-\coth(\theta/2)+1}`,
    :math:`\sinh\theta = 2S_0/\varepsilon`.

    >>> sinkhorn_rescaled_limit([[0.5]]).round(6)
    array([[0.146734]])
    """
    eps = validate.positive(eps, "eps")

    def limit(s: Array) -> Array:
        theta = np.arcsinh(2 * s / eps)
        return eps / 4 * np.exp(theta - 1 / np.tanh(theta / 2) + 1)

    return spectral(limit, covariance(cov0, "cov0"))


def _read(t: float, var0: float, A: float, V: float) -> tuple[float, float, float, float]:
    s = validate.positive(var0, "var0")
    return s, validate.number(t, "t"), validate.number(A, "A"), validate.number(V, "V")
