r"""The Langevin pair (X_0, X_eps) against the Schrödinger bridge, without noise, in one dimension.

Both are laws on pairs with the same marginals :math:`\rho`. Their symmetrised relative entropy is
:math:`o(\varepsilon^2)` by the theorem of :cite:t:`agarwal2024`, and in truth about
:math:`\varepsilon^4`, so everything here is spectrally accurate:

* :math:`\ell = \sqrt\rho\, e^{-\varepsilon H}\sqrt\rho` with :math:`H = -\tfrac12\partial_x^2 + U`, in a
  sinc basis on a uniform grid (:mod:`attnflow.line`);
* :math:`\pi` by symmetric scaling on the same grid, whose sums converge as fast;
* sums run over :math:`|x-y| \le 6\sqrt\varepsilon`, where both densities have all their digits.

A second-order difference scheme would have an error thousands of times the answer.

As laws on *paths* the two differ by about :math:`\varepsilon^3` (:func:`path_divergence`). There the bridge is
its entropic interpolation: with :math:`\pi = f(x)\,p_\varepsilon(x,y)\,f(y)` and the heat flow P, the law at
time :math:`t\varepsilon` is :math:`\rho_t = P_{t\varepsilon}f\cdot P_{(1-t)\varepsilon}f`, here by Fourier
multipliers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from attnflow import validate
from attnflow.densities import GaussianMixture
from attnflow.line import RESOLUTION, LineGrid, deviations, line_grid
from attnflow.transport.bridge import Bridge, self_bridge
from attnflow.validate import Array

#: Half the grid over sqrt(eps), at least: the process between its ends stays on it to seven digits.
WITHIN = 3.0
#: The bridge's marginal error; J is about its square root's square, 1e-10 and more.
BRIDGE_TOL = 1e-13
#: Pairs further apart than this many sqrt(eps) are left out: they hold exp(-18) of the mass.
BAND = 6.0
#: Times the variance: beyond this the diffusion has forgotten where it began, to all digits.
LONGEST = 1e6
#: Gauss-Legendre nodes in time, for integrals of functions that are analytic in it.
TIME_NODES = 16
#: Below this share of its maximum a factor of the interpolation is rounding, and has no logarithm.
FAINTEST = 1e-14


def langevin_pair(density: GaussianMixture, eps: float, nodes: LineGrid) -> Array:
    r"""The joint density of :math:`(X_0, X_\varepsilon)` on the grid, shape (n, n).

    It is :math:`\sqrt{\rho(x)}\, e^{-\varepsilon H}(x, y)\sqrt{\rho(y)}`.

    >>> from attnflow.densities import Gaussian
    >>> bell = Gaussian(0.0, 1.0)
    >>> nodes = line_grid(bell, 0.5)
    >>> pair = langevin_pair(bell, 0.5, nodes)
    >>> bool(np.allclose(pair.sum(axis=0) * nodes.h, nodes.rho))
    True
    >>> float((nodes.x @ pair @ nodes.x * nodes.h**2).round(9)), float(np.exp(-0.25).round(9))
    (0.778800783, 0.778800783)
    """
    eps, widest = validate.positive(eps, "eps"), float(deviations(density).max()) ** 2
    if eps > LONGEST * widest:
        raise ValueError(
            f"eps must be at most {LONGEST:g} times the largest variance {widest:g}, got {eps:g}"
        )
    n, h = len(nodes.x), nodes.h
    k = np.subtract.outer(np.arange(n), np.arange(n))
    with np.errstate(divide="ignore"):
        second = np.where(k == 0, -(np.pi**2) / 3, -2.0 * (-1.0) ** k / np.maximum(k * k, 1))
    hamiltonian = -second / (2 * h * h) + np.diag(density.potential(nodes.x))
    values, vectors = np.linalg.eigh(hamiltonian)
    kernel = (vectors * np.exp(-eps * values)) @ vectors.T / h
    root = np.sqrt(nodes.rho)
    return root[:, None] * kernel * root


def bridge_pair(eps: float, nodes: LineGrid) -> Array:
    r"""The joint density of the bridge :math:`\pi` on the grid, shape (n, n).

    >>> from attnflow.densities import Gaussian
    >>> nodes = line_grid(Gaussian(0.0, 1.0), 0.5)
    >>> pair = bridge_pair(0.5, nodes)
    >>> float((nodes.x @ pair @ nodes.x * nodes.h**2).round(9))
    0.780776406
    >>> float(np.exp(-np.arcsinh(0.25)).round(9))
    0.780776406
    """
    return _bridge(eps, nodes).plan() / nodes.h**2


def _bridge(eps: float, nodes: LineGrid) -> Bridge:
    return self_bridge(nodes.x, eps, nodes.weights, tol=BRIDGE_TOL, method="dense")


def symmetric_kl(
    density: GaussianMixture, eps: float, *, half_width: float | None = None,
    resolution: float = RESOLUTION,
) -> float:  # fmt: skip
    r""":math:`J = H(\ell|\pi) + H(\pi|\ell)` for a density in one dimension.

    :cite:t:`agarwal2024` show :math:`J = o(\varepsilon^2)`; for smooth densities it is
    :math:`\frac{\varepsilon^4}{72}\,\mathbb E_\rho|U''|^2 + o(\varepsilon^4)`. `half_width` and
    `resolution` are those of :func:`attnflow.line.line_grid`.

    >>> from attnflow.densities import Gaussian
    >>> f"{symmetric_kl(Gaussian(0.0, 1.0), 0.1):.4e}"
    '8.2456e-08'
    """
    nodes = line_grid(density, eps, half_width=half_width, resolution=resolution)
    return divergence(langevin_pair(density, eps, nodes), bridge_pair(eps, nodes), eps, nodes)


def divergence(first: Array, second: Array, eps: float, nodes: LineGrid) -> float:
    r"""H(first|second) + H(second|first) of two joint densities.

    It is :math:`\iint(p-q)(\log p-\log q)`, over :math:`|x-y| \le 6\sqrt\varepsilon`.

    >>> from attnflow.densities import Gaussian
    >>> nodes = line_grid(Gaussian(0.0, 1.0), 1.0)
    >>> pairs = [langevin_pair(Gaussian(0.0, 1.0), t, nodes) for t in (1.0, 1.2)]
    >>> c, k = np.exp([-0.5, -0.6])
    >>> exact = (1 - c * k) / (1 - k * k) + (1 - c * k) / (1 - c * c) - 2
    >>> round(divergence(*pairs, 1.0, nodes) / float(exact), 6)
    1.0
    """
    width = BAND * np.sqrt(validate.positive(eps, "eps"))
    near = np.abs(np.subtract.outer(nodes.x, nodes.x)) <= width
    near &= (first > 0) & (second > 0)
    p, q = first[near], second[near]
    return float(((p - q) * (np.log(p) - np.log(q))).sum() * nodes.h**2)


class FisherBound(NamedTuple):
    """The Fisher-information bound of :func:`fisher_bound`, and the numbers it is made of.

    >>> FisherBound(gap=0.01, slope=0.25, bound=0.001, fisher=1.0).bound
    0.001
    """

    gap: float  #: :math:`I(\rho) - \int_0^1 I(\rho_t)\,dt` along the bridge's interpolation
    slope: float  #: :math:`\int_0^1 \mathbb E_{\rho_t}|\nabla U|^2\,dt`
    bound: float  #: :math:`\tfrac{\varepsilon^2}2` times the root of gap times slope
    fisher: float  #: :math:`I(\rho)`


def fisher_bound(density: GaussianMixture, eps: float) -> FisherBound:
    r"""The bound of J by Fisher information, after :cite:t:`agarwal2024`.

    .. math:: J \le \frac{\varepsilon^2}{2}\Bigl(I(\rho) - \int_0^1 I(\rho_t)\,dt\Bigr)^{1/2}
              \Bigl(\int_0^1 \mathbb E_{\rho_t}|\nabla U|^2\,dt\Bigr)^{1/2}.

    >>> from attnflow.densities import Gaussian
    >>> found = fisher_bound(Gaussian(0.0, 1.0), 0.1)
    >>> round(found.fisher, 9), found.bound > symmetric_kl(Gaussian(0.0, 1.0), 0.1)
    (1.0, True)
    """
    along = _Interpolation(density, eps)
    force = density.potential_gradient(along.nodes.x)[:, 0] ** 2
    fishers, forces = 0.0, 0.0
    for t, w in _times():
        rho = along.law(t)
        fishers += w * along.fisher(rho)
        forces += w * along.integral(force * rho)
    start = along.fisher(along.nodes.rho)
    gap = start - fishers
    return FisherBound(gap, forces, eps**2 / 2 * float(np.sqrt(max(gap, 0.0) * forces)), start)


class PathDivergence(NamedTuple):
    """Bridge and Langevin as laws on paths, by :func:`path_divergence`.

    >>> PathDivergence(value=2e-6, girsanov=2e-6, bound=2.1e-6, remainder=1e-3).value
    2e-06
    """

    value: float  #: :math:`\varepsilon(\int_0^1\mathbb E_{\rho_t}U\,dt - \mathbb E_\rho U)`
    girsanov: float  #: the same number from the two drifts, without U
    bound: float  #: what Fisher information bounds it by; see :func:`path_divergence`
    remainder: float  #: the largest :math:`|v_t - \tfrac\varepsilon2(1-2t)\nabla U|` in :math:`L^2(\rho_t)`


def path_divergence(density: GaussianMixture, eps: float) -> PathDivergence:
    r"""H(B|L) + H(L|B) of the bridge process B and the Langevin diffusion L, as laws on paths.

    Their densities with respect to Brownian motion are :math:`f(x_0)f(x_\varepsilon)` and
    :math:`\sqrt{\rho(x_0)\rho(x_\varepsilon)}\,e^{-\int_0^\varepsilon U}`. The ends have the same laws, so

    .. math:: H(B|L) + H(L|B) = \varepsilon\Bigl(\int_0^1\mathbb E_{\rho_t}U\,dt - \mathbb E_\rho U\Bigr)
              \approx \frac{\varepsilon^3}{12}\,\mathbb E_\rho|\nabla U|^2 .

    By Girsanov it is also :math:`\tfrac\varepsilon2\int_0^1(\mathbb E_{\rho_t} + \mathbb E_\rho)
    |\nabla\log P_{(1-t)\varepsilon}f - \tfrac12\nabla\log\rho|^2dt`. With the velocity
    :math:`v_t = \tfrac12\nabla\log(P_{(1-t)\varepsilon}f/P_{t\varepsilon}f)` of the interpolation,
    whose :math:`\mathbb E|v_t|^2 - \tfrac14I(\rho_t)` is constant in t (:cite:t:`conforti2019`), it is at most

    .. math:: \frac{\varepsilon^2}{4}\Bigl(\int_0^1 I(\rho_t)\,dt - I(\rho_{1/2})\Bigr)^{1/2}
              \Bigl(\int_0^1 (1-2t)^2\,\mathbb E_{\rho_t}|\nabla U|^2\,dt\Bigr)^{1/2}.

    >>> from attnflow.densities import Gaussian
    >>> from attnflow.gaussian import langevin_path_kl
    >>> found = path_divergence(Gaussian(0.0, 1.0), 0.1)
    >>> round(found.value / langevin_path_kl(1.0, 0.1), 6), round(found.girsanov / found.value, 6)
    (1.0, 1.0)
    """
    along = _Interpolation(density, eps)
    nodes = along.nodes
    potential, drift = density.potential(nodes.x), density.score(nodes.x)[:, 0] / 2
    force = density.potential_gradient(nodes.x)[:, 0]
    value, energy, fishers, forces, remainder = 0.0, 0.0, 0.0, 0.0, 0.0
    for t, w in _times():
        rho = along.law(t)
        ahead, behind = along.log_slope(1 - t, drift), along.log_slope(t, drift)
        off = (ahead - behind) / 2 - eps / 2 * (1 - 2 * t) * force
        value += w * along.integral(potential * (rho - nodes.rho))
        energy += w * along.integral((ahead - drift) ** 2 * (rho + nodes.rho)) / 2
        fishers += w * along.fisher(rho)
        forces += w * (1 - 2 * t) ** 2 * along.integral(force**2 * rho)
        remainder = max(remainder, float(np.sqrt(along.integral(off**2 * rho))))
    gap = max(fishers - along.fisher(along.law(0.5)), 0.0)
    bound = eps**2 / 4 * float(np.sqrt(gap * forces))
    return PathDivergence(eps * value, eps * energy, bound, remainder)


class _Interpolation:
    """The bridge process between its ends: laws and logarithmic slopes on a grid."""

    def __init__(self, density: GaussianMixture, eps: float) -> None:
        self.nodes, self.eps = line_grid(density, eps), float(eps)
        widest = (self.nodes.x[-1] / WITHIN) ** 2
        if self.eps > widest:
            raise ValueError(
                f"eps must be at most {widest:.3g} for this density, got {self.eps:g}: the process "
                "between its ends leaves the grid"
            )
        end = self.nodes.rho * _bridge(eps, self.nodes).scaling * (2 * np.pi * eps) ** 0.25
        self.pad = len(end)
        self.xi = 2 * np.pi * np.fft.rfftfreq(2 * self.pad, self.nodes.h)
        self.spectrum = np.fft.rfft(end, 2 * self.pad)

    def law(self, t: float) -> Array:
        """The density of the bridge process at time t eps."""
        return self._back(self._heated(t)) * self._back(self._heated(1 - t))

    def log_slope(self, t: float, instead: Array) -> Array:
        """The derivative of log P_{t eps} f; `instead` where that has no digits."""
        heated = self._heated(t)
        value, slope = self._back(heated), self._back(1j * self.xi * heated)
        seen = value > FAINTEST * value.max()
        return np.where(seen, slope / np.where(seen, value, 1.0), instead)

    def fisher(self, rho: Array) -> float:
        """The Fisher information of a density on the grid."""
        root = np.fft.rfft(np.sqrt(np.maximum(rho, 0.0)), 2 * self.pad)
        return 4 * self.integral(self._back(1j * self.xi * root) ** 2)

    def integral(self, values: Array) -> float:
        """The integral of values over the line."""
        return float(values.sum() * self.nodes.h)

    def _heated(self, t: float) -> np.ndarray[Any, Any]:
        return np.asarray(self.spectrum * np.exp(-t * self.eps * self.xi**2 / 2))

    def _back(self, spectrum: np.ndarray[Any, Any]) -> Array:
        return np.fft.irfft(spectrum, 2 * self.pad)[: self.pad]


def _times() -> list[tuple[float, float]]:
    """Nodes and weights on [0, 1]."""
    at, weight = np.polynomial.legendre.leggauss(TIME_NODES)
    return [(float(t), float(w)) for t, w in zip((at + 1) / 2, weight / 2, strict=True)]
