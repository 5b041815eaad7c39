r"""Every closed form for Gaussian data: the bridge, its steps, distances, and the recursions.

For :math:`N(0, \Sigma)` and temperature :math:`\varepsilon` write
:math:`W = \tfrac{\varepsilon}{2}\Sigma^{-1}`. The bridge of the measure to itself is Gaussian with
:math:`\mathbb E[Y|X=x] = Cx`, :math:`C = (I+W^2)^{1/2} - W`; in one dimension
:math:`C = e^{-\mathrm{asinh}\, u}` with :math:`u = \varepsilon/2s`, where the Langevin
(Ornstein-Uhlenbeck) process has :math:`e^{-u}`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from attnflow import validate
from attnflow.covflow import blow_up_time, covariance_flow
from attnflow.matrices import covariance, spectral
from attnflow.validate import Array

__all__ = [
    "blow_up_time", "bridge_gain", "bridge_step_cov", "bures_w2", "covariance",
    "covariance_flow", "euler_step_cov", "fokker_planck_recursion", "langevin_symmetric_kl",
    "one_step_w2", "optimal_map", "ornstein_uhlenbeck", "recursion", "spectral",
]  # fmt: skip

#: Below this u the two factors of the symmetrised KL are summed as series, to keep their digits.
SERIES_BELOW = 0.1


def bridge_gain(cov: ArrayLike, eps: float) -> Array:
    """C with E[Y | X = x] = C x under the bridge of N(0, cov) to itself.

    >>> bridge_gain(1.0, 0.1).round(9)
    array([[0.95124922]])
    """
    eps = validate.positive(eps, "eps")

    def gain(s: Array) -> Array:
        w = _ratio(eps, s)
        return 1 / (_root(w) + w)  # sqrt(1 + w^2) - w without cancellation

    return spectral(gain, covariance(cov))


def bridge_step_cov(cov: ArrayLike, eps: float) -> Array:
    """The covariance after x -> 2x - B(x)."""
    return _step(covariance(cov), 2 * np.eye(len(covariance(cov))) - bridge_gain(cov, eps))


def euler_step_cov(cov: ArrayLike, eps: float) -> Array:
    """The covariance after the explicit Euler step x -> x - (eps/2) grad log rho(x)."""
    eps = validate.positive(eps, "eps")
    matrix = covariance(cov)
    return _step(matrix, np.eye(len(matrix)) + eps / 2 * np.linalg.inv(matrix))


def _step(cov: Array, factor: Array) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        out = validate.finite(factor @ cov @ factor.T, "entries of the covariance")
    return out / 2 + out.T / 2


def _ratio(eps: float, s: Array) -> Array:
    """eps / 2s."""
    with np.errstate(over="ignore"):
        w = eps / (2 * s)
    if not np.isfinite(w).all():
        raise ValueError(f"eps over the variance must be finite, got {eps:g} and {s.min():g}")
    return w


def _root(w: Array) -> Array:
    """sqrt(1 + w^2), which is w where the square of w could overflow."""
    return np.where(w > 1e8, w, np.sqrt(1 + np.minimum(w, 1e8) ** 2))


def optimal_map(cov0: ArrayLike, cov1: ArrayLike) -> Array:
    """The Brenier map T of N(0, cov0) to N(0, cov1): symmetric, positive, T cov0 T = cov1.

    >>> optimal_map(1.0, 4.0)
    array([[2.]])
    """
    first, second = covariance(cov0, "cov0"), covariance(cov1, "cov1")
    if first.shape != second.shape:
        raise ValueError(f"covariances must share a shape, got {first.shape} and {second.shape}")
    root, inverse = spectral(np.sqrt, first), spectral(lambda s: s**-0.5, first)
    with np.errstate(over="ignore", invalid="ignore"):
        middle = validate.finite(root @ second @ root, "entries of cov0^{1/2} cov1 cov0^{1/2}")
        middle = middle / 2 + middle.T / 2
        out = validate.finite(inverse @ spectral(np.sqrt, middle) @ inverse, "entries of the map")
    return out / 2 + out.T / 2


def bures_w2(cov0: ArrayLike, cov1: ArrayLike) -> float:
    """W2 between centred Gaussians: the norm of (T - I) cov0^{1/2}, which loses no digits.

    >>> bures_w2(np.diag([1.0, 4.0]), np.diag([9.0, 4.0]))
    2.0
    """
    T = optimal_map(cov0, cov1)
    with np.errstate(over="ignore", invalid="ignore"):
        moved = (T - np.eye(len(T))) @ spectral(np.sqrt, covariance(cov0, "cov0"))
        return float(validate.finite(np.linalg.norm(moved), "distances"))


def one_step_w2(cov: ArrayLike, eps: float) -> float:
    """W2 between the bridge and the Euler step: |cov^{1/2} ((I + W^2)^{1/2} - I)|_F.

    >>> round(one_step_w2(1.0, 0.1), 12)
    0.001249219725
    """
    eps = validate.positive(eps, "eps")
    s = np.asarray(np.linalg.eigvalsh(covariance(cov)), dtype=np.float64)
    w = _ratio(eps, s)
    small = np.minimum(w, 1e16)
    moved = np.sqrt(s) * np.where(w > 1e16, w, small**2 / (_root(small) + 1))
    with np.errstate(over="ignore"):
        return float(validate.finite(np.linalg.norm(moved), "distances"))


def langevin_symmetric_kl(var: float, eps: float) -> float:
    """H(l|pi) + H(pi|l) for N(0, var): the Langevin pair law l against the bridge pi.

    >>> f"{langevin_symmetric_kl(1.0, 0.1):.6e}"
    '8.245605e-08'
    """
    u = validate.positive(eps, "eps") / (2 * validate.positive(var, "var"))
    if u < SERIES_BELOW:
        gap = u**3 / 6 - 3 * u**5 / 40 + 5 * u**7 / 112 - 35 * u**9 / 1152 + 63 * u**11 / 2816
        rest = u / 6 * (1 + u**2 / 20 * (1 + u**2 / 42 * (1 + u**2 / 72)))  # (sinh u - u) / u^2
        second = rest / (1 + u**2 / 6 * (1 + u**2 / 20 * (1 + u**2 / 42)))
        return float(0.5 * np.exp(-u) * np.expm1(gap) * second)
    reciprocal = 2 * np.exp(-u) / -np.expm1(-2 * u)  # 1 / sinh u
    first = np.exp(-np.arcsinh(u)) - np.exp(-u)
    return float(0.5 * first * (1 / u - reciprocal))


def recursion(var0: float, eps: float, steps: int, scheme: str = "bridge") -> Array:
    """Standard deviations along `steps` layers in one dimension, shape (steps + 1,).

    The bridge: sigma (2 + u - sqrt(1 + u^2)); explicit Euler: sigma (1 + u); u = eps/(2 sigma^2).
    """
    validate.choice(scheme, "scheme", ("bridge", "euler"))
    eps, steps = validate.positive(eps, "eps"), validate.count(steps, "steps")
    sigma = [np.sqrt(validate.positive(var0, "var0"))]
    for _ in range(steps):
        u = eps / (2 * sigma[-1] ** 2)
        excess = u**2 / (np.sqrt(1 + u**2) + 1) if scheme == "bridge" else 0.0
        sigma.append(sigma[-1] * (1 + u - excess))
    return np.array(sigma)


def ornstein_uhlenbeck(var0: float, t: ArrayLike) -> Array:
    """The variance at time t of dX = -X/2 dt + dB from N(0, var0): 1 + (var0 - 1) e^{-t}."""
    return 1 + (validate.positive(var0, "var0") - 1) * np.exp(-np.asarray(t, dtype=np.float64))


def fokker_planck_recursion(var0: float, eps: float, steps: int, theta: float) -> Array:
    """Variances of the general bridge scheme towards N(0, 1), shape (steps + 1,).

    The surrogate is sigma = (rho/nu)^{-theta}, a Gaussian of variance s / (theta (s - 1)), which
    exists if theta (s - 1) > 0; the layer is x -> (1 - 1/theta) x + (1/theta) B_{sigma,eps}(x).
    """
    eps, steps = validate.positive(eps, "eps"), validate.count(steps, "steps")
    theta = validate.number(theta, "theta")
    s = [validate.positive(var0, "var0")]
    for _ in range(steps):
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
