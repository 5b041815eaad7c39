r"""Closed forms for Gaussian data: the bridge, one step of it, and distances.

For :math:`N(0, \Sigma)` and temperature :math:`\varepsilon` write
:math:`W = \tfrac{\varepsilon}{2}\Sigma^{-1}`. The bridge of the measure to itself is Gaussian with
:math:`\mathbb E[Y|X=x] = Cx`, :math:`C = (I+W^2)^{1/2} - W`; in one dimension
:math:`C = e^{-\mathrm{asinh}\, u}` with :math:`u = \varepsilon/2s`, where the Langevin
(Ornstein-Uhlenbeck) process has :math:`e^{-u}` (:cite:t:`agarwal2024`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from attnflow import validate
from attnflow.matrices import covariance, inverse_root, root, spectral
from attnflow.validate import Array

#: Below this u the two factors of the symmetrised KL are summed as series, to keep their digits.
SERIES_BELOW = 0.1


def bridge_gain(cov: ArrayLike, eps: float) -> Array:
    r"""C with :math:`\mathbb E[Y|X=x] = Cx` under the bridge of N(0, cov) to itself.

    :math:`C = (I+W^2)^{1/2} - W` with :math:`W = \tfrac{\varepsilon}{2}\Sigma^{-1}`.

    >>> bridge_gain(1.0, 0.1).round(9)
    array([[0.95124922]])
    """
    eps = validate.positive(eps, "eps")

    def gain(s: Array) -> Array:
        w = _ratio(eps, s)
        return 1 / (_hypotenuse(w) + w)  # sqrt(1 + w^2) - w without cancellation

    return spectral(gain, covariance(cov))


def bridge_step_cov(cov: ArrayLike, eps: float) -> Array:
    r"""The covariance after the bridge step :math:`x \mapsto 2x - Cx` (:cite:t:`agarwal2024`).

    >>> bridge_step_cov(1.0, 0.1).round(9)
    array([[1.0998782]])
    """
    matrix = covariance(cov)
    return _step(matrix, 2 * np.eye(len(matrix)) - bridge_gain(matrix, eps))


def euler_step_cov(cov: ArrayLike, eps: float) -> Array:
    r"""The covariance after the Euler step :math:`x \mapsto x - \tfrac\varepsilon2\nabla\log\rho(x)`.

    Here :math:`-\nabla\log\rho(x) = \Sigma^{-1}x`.

    >>> euler_step_cov(1.0, 0.1).round(9)
    array([[1.1025]])
    """
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


def _hypotenuse(w: Array) -> Array:
    """sqrt(1 + w^2), which is w where the square of w could overflow."""
    return np.where(w > 1e8, w, np.sqrt(1 + np.minimum(w, 1e8) ** 2))


def optimal_map(cov0: ArrayLike, cov1: ArrayLike) -> Array:
    r"""The Brenier map T of N(0, cov0) to N(0, cov1), symmetric and positive (:cite:t:`gelbrich1990`).

    :math:`T = \Sigma_0^{-1/2}(\Sigma_0^{1/2}\Sigma_1\Sigma_0^{1/2})^{1/2}\Sigma_0^{-1/2}`, so that
    :math:`T\Sigma_0T = \Sigma_1`.

    >>> optimal_map(1.0, 4.0)
    array([[2.]])
    """
    first, second = covariance(cov0, "cov0"), covariance(cov1, "cov1")
    if first.shape != second.shape:
        raise ValueError(f"covariances must share a shape, got {first.shape} and {second.shape}")
    half, inverse = root(first), inverse_root(first)
    with np.errstate(over="ignore", invalid="ignore"):
        middle = validate.finite(half @ second @ half, "entries of cov0^{1/2} cov1 cov0^{1/2}")
        middle = middle / 2 + middle.T / 2
        out = validate.finite(inverse @ root(middle) @ inverse, "entries of the map")
    return out / 2 + out.T / 2


def bures_w2(cov0: ArrayLike, cov1: ArrayLike) -> float:
    r"""W2 between centred Gaussians, :math:`|(T - I)\Sigma_0^{1/2}|_F`, which loses no digits.

    Equal to the trace formula of :cite:t:`gelbrich1990`; T is :func:`optimal_map`.

    >>> bures_w2(np.diag([1.0, 4.0]), np.diag([9.0, 4.0]))
    2.0
    """
    T = optimal_map(cov0, cov1)
    with np.errstate(over="ignore", invalid="ignore"):
        moved = (T - np.eye(len(T))) @ root(covariance(cov0, "cov0"))
        return float(validate.finite(np.linalg.norm(moved), "distances"))


def entropic_cost(cov0: ArrayLike, cov1: ArrayLike, eps: float) -> float:
    r"""What the entropic plan between N(0, cov0) and N(0, cov1) pays, :math:`\int\tfrac12|x-y|^2d\pi`.

    The plan is Gaussian, and with
    :math:`D = (\Sigma_0^{1/2}\Sigma_1\Sigma_0^{1/2} + \tfrac{\varepsilon^2}4I)^{1/2}` it pays
    :math:`\tfrac12\mathrm{Tr}(\Sigma_0+\Sigma_1) - \mathrm{Tr}\,D + \tfrac d2\varepsilon`
    (:cite:t:`janati2020`): in the cold :math:`\tfrac d2\varepsilon` above the optimum.

    >>> round(entropic_cost(np.eye(2), np.eye(2), 0.1), 6)
    0.097502
    """
    eps = validate.positive(eps, "eps")
    T = optimal_map(cov0, cov1)
    half = root(covariance(cov0, "cov0"))
    with np.errstate(over="ignore", invalid="ignore"):
        middle = validate.finite(half @ T @ half, "entries of the covariance")  # D at eps = 0
        best = validate.finite(np.linalg.norm((T - np.eye(len(T))) @ half) ** 2 / 2, "costs")
        d0 = np.linalg.eigvalsh(middle / 2 + middle.T / 2)
        D = np.hypot(d0, eps / 2)
        # eps/2 less D - d0, without cancellation where eps is small or large beside d0
        above = (d0 + d0 / (D + eps / 2) * d0) * (eps / 2 / (D + d0))
        return float(validate.finite(best + above.sum(), "costs"))


def one_step_w2(cov: ArrayLike, eps: float) -> float:
    r"""W2 between the bridge and the Euler step: :math:`|\Sigma^{1/2}((I + W^2)^{1/2} - I)|_F`.

    >>> round(one_step_w2(1.0, 0.1), 12)
    0.001249219725
    """
    eps = validate.positive(eps, "eps")
    s = np.asarray(np.linalg.eigvalsh(covariance(cov)), dtype=np.float64)
    w = _ratio(eps, s)
    small = np.minimum(w, 1e16)
    moved = np.sqrt(s) * np.where(w > 1e16, w, small**2 / (_hypotenuse(small) + 1))
    with np.errstate(over="ignore"):
        return float(validate.finite(np.linalg.norm(moved), "distances"))


def langevin_symmetric_kl(var: float, eps: float) -> float:
    r"""Langevin's law of a pair against the bridge's: :math:`H(\ell|\pi) + H(\pi|\ell)` for N(0, var).

    With :math:`u = \varepsilon/2s` it is
    :math:`\tfrac12\,(e^{-\mathrm{asinh}\,u} - e^{-u})\,(1/u - 1/\sinh u)`, the
    quantity that :cite:t:`agarwal2024` bound.

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


def langevin_path_kl(cov: ArrayLike, eps: float) -> float:
    r"""Langevin diffusion against bridge process, as laws on paths: H(B|L) + H(L|B) for N(0, cov).

    It is the sum of :math:`\tfrac{u}{12}(\sqrt{1+u^2}-1)` over the eigenvalues s of the covariance, with
    :math:`u = \varepsilon/2s`; about :math:`\varepsilon^3/192s^3` each. See :mod:`attnflow.langevin`.

    >>> f"{langevin_path_kl(1.0, 0.1):.6e}"
    '5.205082e-06'
    """
    eps = validate.positive(eps, "eps")
    u = _ratio(eps, np.asarray(np.linalg.eigvalsh(covariance(cov)), dtype=np.float64))
    small = np.minimum(u, 1e8)
    rise = np.where(u > 1e8, u - 1, small**2 / (_hypotenuse(small) + 1))
    with np.errstate(over="ignore"):
        return float(validate.finite((u * rise).sum() / 12, "divergences"))
