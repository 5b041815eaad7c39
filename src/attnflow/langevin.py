r"""The Langevin pair (X_0, X_eps) against the Schrödinger bridge, without noise, in one dimension.

Both are laws on pairs with the same marginals :math:`\rho`. Their symmetrised relative entropy is
:math:`o(\varepsilon^2)` by the theorem of :cite:t:`agarwal2024`, and in truth about
:math:`\varepsilon^4`, so everything here is spectrally accurate:

* :math:`\ell = \sqrt\rho\, e^{-\varepsilon H}\sqrt\rho` with :math:`H = -\tfrac12\partial_x^2 + U`, in a
  sinc basis on a uniform grid (:mod:`attnflow.line`);
* :math:`\pi` by symmetric scaling on the same grid, whose sums converge as fast;
* sums run over :math:`|x-y| \le 6\sqrt\varepsilon`, where both densities have all their digits.

A second-order difference scheme would have an error thousands of times the answer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnflow import validate
from attnflow.densities import GaussianMixture
from attnflow.line import RESOLUTION, LineGrid, deviations, line_grid
from attnflow.transport.bridge import Bridge, self_bridge
from attnflow.validate import Array

#: The bridge's marginal error; J is about its square root's square, 1e-10 and more.
BRIDGE_TOL = 1e-13
#: Pairs further apart than this many sqrt(eps) are left out: they hold exp(-18) of the mass.
BAND = 6.0
#: Times the variance: beyond this the diffusion has forgotten where it began, to all digits.
LONGEST = 1e6
#: Gauss-Legendre nodes in time, for integrals of functions that are analytic in it.
TIME_NODES = 8


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

    :math:`\rho_t` is the law at time :math:`t\varepsilon` of the bridge process: the product of the
    two ends' potentials, each run through the heat flow, here by Fourier multipliers.

    >>> from attnflow.densities import Gaussian
    >>> found = fisher_bound(Gaussian(0.0, 1.0), 0.1)
    >>> round(found.fisher, 9), found.bound > symmetric_kl(Gaussian(0.0, 1.0), 0.1)
    (1.0, True)
    """
    nodes = line_grid(density, eps)
    end = nodes.rho * _bridge(eps, nodes).scaling * (2 * np.pi * eps) ** 0.25
    pad = len(nodes.x)
    xi = 2 * np.pi * np.fft.rfftfreq(2 * pad, nodes.h)
    spectrum = np.fft.rfft(end, 2 * pad)

    def flowed(t: float) -> Array:
        return np.fft.irfft(spectrum * np.exp(-t * eps * xi**2 / 2), 2 * pad)[:pad]

    def fisher(rho: Array) -> float:
        root = np.sqrt(np.maximum(rho, 0.0))
        slope = np.fft.irfft(1j * xi * np.fft.rfft(root, 2 * pad), 2 * pad)[:pad]
        return float(4 * (slope**2).sum() * nodes.h)

    force = (density.potential_gradient(nodes.x)[:, 0]) ** 2
    at, weight = np.polynomial.legendre.leggauss(TIME_NODES)
    fishers, forces = 0.0, 0.0
    for t, w in zip((at + 1) / 2, weight / 2, strict=True):
        rho = flowed(t) * flowed(1 - t)
        fishers += w * fisher(rho)
        forces += w * float((force * rho).sum() * nodes.h)
    start = fisher(nodes.rho)
    gap, slope = float(start - fishers), float(forces)
    return FisherBound(gap, slope, eps**2 / 2 * float(np.sqrt(max(gap, 0.0) * slope)), start)
