r"""What a flow of measures can do at most: how far its support reaches, how far two come apart.

:cite:t:`castin2025`: the support of a flow stays in a ball of radius :math:`e^{\int|V|}R_0`. One
layer is Lipschitz in :math:`W_p` on the measures of a ball, with the constant
:func:`attnflow.lipschitz.mean_field_upper` of :cite:t:`castin2024`, and Grönwall's inequality
integrates it along the way.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import quad

from attnflow import validate
from attnflow.lipschitz import mean_field_upper

#: Of the quadratures; an integrand that jumps needs many pieces.
MOST_PIECES = 200


def support_bound(
    R: float, V: ArrayLike | Callable[[float], ArrayLike], t: float, start: float = 0.0
) -> float:
    r"""The radius of a ball that the support stays within; V may depend on time.

    .. math:: R(t) \le e^{\int_{\mathrm{start}}^t |V(s)|\,ds} R(\mathrm{start})

    :cite:p:`castin2025`.

    >>> round(support_bound(2.0, np.diag([1.0, -3.0]), 1.0), 4)
    40.1711
    """
    R, t = validate.positive(R, "R"), validate.number(t, "t")
    start = validate.number(start, "start")
    if t < start:
        raise ValueError(f"t must not lie before the start {start}, got {t}")
    if callable(V):
        norms = lambda s: np.linalg.norm(validate.array(V(s), "V", 2), 2)  # noqa: E731
        exponent = quad(norms, start, t, limit=MOST_PIECES)[0]
    else:
        exponent = np.linalg.norm(validate.array(V, "V", 2), 2) * (t - start)
    with np.errstate(over="ignore"):
        return float(R * np.exp(exponent))


def log_stability_bound(A: ArrayLike, V: ArrayLike, R: float, t: float) -> float:
    r"""The logarithm of C with :math:`W_p(\mu_t,\nu_t) \le C\,W_p(\mu_0,\nu_0)`, for softmax attention.

    .. math:: \log C = \int_0^t |V|(1+3g_s)e^{2g_s}\,ds, \qquad g_s = |A| R^2 e^{2|V|s},

    where the integrand is the Lipschitz constant of the layer on the ball that
    :func:`support_bound` allows at time s :cite:p:`castin2025,castin2024`. It is far from sharp, and
    C is often beyond what a number can hold, hence the logarithm.

    >>> log_stability_bound(np.zeros((2, 2)), np.diag([1.0, -3.0]), 1.0, 0.5)  # a linear flow
    1.5
    >>> bool(log_stability_bound(np.eye(2), np.eye(2), 1.0, 0.5) > 0.5 * 4 * np.exp(2))
    True
    """
    a = float(np.linalg.norm(validate.array(A, "A", 2), 2))
    v = float(np.linalg.norm(validate.array(V, "V", 2), 2))
    R, t = validate.positive(R, "R"), validate.number(t, "t")
    if t < 0:
        raise ValueError(f"t must not be negative, got {t}")
    if a == 0:
        return v * t

    def constant(s: float) -> float:
        g = a * (R * np.exp(v * s)) ** 2  # only |A| R^2 enters: a ball of radius one will do
        return mean_field_upper([[g]], [[v]], 1.0) if np.isfinite(g) else np.inf

    with np.errstate(over="ignore"):
        if not np.isfinite(constant(t)):
            return np.inf
    return float(quad(constant, 0.0, t, limit=MOST_PIECES)[0])
