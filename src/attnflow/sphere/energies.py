r"""The energy of tokens on the sphere, which no layer with V = I can lower.

.. math:: E_\beta(\mu) = \frac1{2\beta} \iint e^{\beta\langle x,x'\rangle}\,d\mu(x)\,d\mu(x')

grows along both flows, is least for the uniform measure and greatest for one cluster
(:cite:t:`geshkovski2025`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import hyp0f1

from attnflow import validate
from attnflow.sphere.tokens import unit_tokens, velocity
from attnflow.validate import Array

#: The smallest inverse temperature of an energy, which divides by it.
LEAST_BETA = 1e-300


def energy(x: ArrayLike, beta: float, V: ArrayLike | None = None) -> float:
    r"""The energy of tokens, over all pairs; V = I unless given.

    .. math:: E = \frac{1}{2\beta n^2} \sum_{i,j} e^{\beta\langle Vx_i, x_j\rangle}

    :cite:p:`geshkovski2025`.

    >>> round(energy(np.eye(2), beta=1.0), 6)
    0.92957
    """
    x = unit_tokens(x)
    beta = _above_zero(beta)
    y = x if V is None else x @ _square(V, x.shape[1]).T
    scores = beta * (y @ x.T)
    if scores.max() > np.log(np.finfo(float).max):
        raise ValueError(f"exp of beta <Vx, y> must be finite, got a score of {scores.max():.3g}")
    return float(np.exp(scores).mean() / (2 * beta))


def energy_rate(x: ArrayLike, beta: float, normalised: bool = True) -> float:
    r"""The slope of the energy along the flow; it is never negative.

    .. math:: \dot E = \frac1n\sum_i Z_i |\dot x_i|^2 \text{ (SA)}, \qquad
        \dot E = \frac1n\sum_i |\dot x_i|^2 \text{ (USA)}, \qquad
        Z_i = \frac1n\sum_j e^{\beta\langle x_i,x_j\rangle}

    :cite:p:`geshkovski2025`.

    >>> round(energy_rate([[1.0, 0.0], [0.0, 1.0]], beta=1.0, normalised=False), 6)  # 1/4
    0.25
    """
    x = unit_tokens(x)
    beta = _above_zero(beta)
    squares = (velocity(x, beta, normalised) ** 2).sum(axis=1)
    return float(
        (squares * np.exp(beta * (x @ x.T)).mean(axis=1) if normalised else squares).mean()
    )


def uniform_energy(beta: float, d: int) -> float:
    r"""The least energy, that of the uniform measure on the sphere of R^d.

    .. math:: \frac{1}{2\beta}\,\Gamma(\tfrac d2)(\tfrac2\beta)^{d/2-1} I_{d/2-1}(\beta)
        = \frac{1}{2\beta}\,{}_0F_1(;\tfrac d2;\tfrac{\beta^2}{4})

    :cite:p:`geshkovski2025`. On the ordinary sphere it is :math:`\sinh(\beta)/2\beta^2`.

    >>> bool(np.isclose(uniform_energy(2.0, 3), np.sinh(2.0) / 8))
    True
    """
    beta, d = _above_zero(beta), validate.count(d, "d", 2)
    return float(hyp0f1(d / 2, beta**2 / 4) / (2 * beta))


def dirac_energy(beta: float) -> float:
    r"""The greatest energy, that of one cluster: :math:`e^\beta/2\beta` :cite:p:`geshkovski2025`.

    >>> dirac_energy(1.0) == energy([[1.0, 0.0], [1.0, 0.0]], 1.0)
    True
    """
    beta = _above_zero(beta)
    return float(np.exp(beta) / (2 * beta))


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
