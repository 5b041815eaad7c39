r"""The Langevin pair (X_0, X_eps) against the Schrödinger bridge, without noise, in one dimension.

Both are laws on pairs with the same marginals :math:`\rho`. Their symmetrised relative entropy
is about :math:`\varepsilon^4`, so everything here is spectrally accurate:

* :math:`\ell = \sqrt\rho\, e^{-\varepsilon H}\sqrt\rho` with :math:`H = -\tfrac12\partial_x^2 + U`, in a
  sinc basis on a uniform grid;
* :math:`\pi` by symmetric scaling on the same grid, whose sums converge as fast;
* sums run over :math:`|x-y| \le 6\sqrt\varepsilon`, where both densities have all their digits.

A second-order difference scheme would have an error thousands of times the answer.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from attnflow import validate
from attnflow.densities import GaussianMixture
from attnflow.transport import self_bridge
from attnflow.validate import Array

#: Grid steps per sqrt(eps), and standard deviations beyond the outermost mean.
RESOLUTION, REACH = 3.5, 10.0
#: The largest grid; beyond it eps is too small for a dense computation.
MAX_NODES = 6000
#: The bridge's marginal error; J is about its square root's square, 1e-10 and more.
BRIDGE_TOL = 1e-13
#: Times the variance: beyond this the diffusion has forgotten where it began, to all digits.
LONGEST = 1e6


class Grid(NamedTuple):
    """Uniform nodes with the masses rho(x) h."""

    x: Array  #: (n,)
    h: float
    rho: Array  #: (n,)

    @property
    def weights(self) -> Array:
        """Masses, summing to one."""
        return self.rho / self.rho.sum()


class GridTooSmall(UserWarning):
    """The grid does not hold the measure, or does not resolve it."""


def grid(
    density: GaussianMixture, eps: float, *, half_width: float | None = None,
    resolution: float = RESOLUTION,
) -> Grid:  # fmt: skip
    """A uniform grid on which sums over `density` and kernels of width sqrt(eps) are exact.

    Warns where `half_width` cuts off mass, or `resolution` (nodes per sqrt(eps)) is below 2.5.
    """
    eps = validate.positive(eps, "eps")
    resolution = validate.positive(resolution, "resolution")
    sigma = _deviations(density)
    apart = float(np.ptp(density.means[:, 0])) / 2
    bend = float((sigma**2).min() / max(apart, sigma.min()))  # U turns within this distance
    if resolution < 2.5:
        warnings.warn(
            f"a grid should have at least 2.5 nodes per sqrt(eps), this one has {resolution:g}",
            GridTooSmall,
            stacklevel=2,
        )
    return uniform_nodes(density, min(float(np.sqrt(eps)), bend) / resolution, half_width)


def uniform_nodes(density: GaussianMixture, h: float, half_width: float | None = None) -> Grid:
    """Nodes a distance h apart, symmetric about 0, out to `half_width` or far into the tails."""
    far = float(np.max(np.abs(density.means[:, 0]) + REACH * _deviations(density)))
    width = far if half_width is None else validate.positive(half_width, "half_width")
    h = validate.positive(h, "h")
    n = int(np.ceil(width / h))
    if 2 * n + 1 > MAX_NODES:
        raise ValueError(
            f"eps is too small for this grid: {2 * n + 1} nodes needed, at most {MAX_NODES}"
        )
    x = h * np.arange(-n, n + 1, dtype=np.float64)
    lost = 1 - float(density.cdf(x[[-1]])[0] - density.cdf(x[[0]])[0])
    if lost > 1e-9:
        warnings.warn(
            f"a grid should hold all but 1e-9 of the mass, this one cuts off {lost:.1e}",
            GridTooSmall,
            stacklevel=3,
        )
    return Grid(x, h, density.pdf(x))


def _deviations(density: GaussianMixture) -> Array:
    validate.instance(density, "density", GaussianMixture)
    if density.dimension != 1:
        raise ValueError(f"this needs a density in one dimension, got {density.dimension}")
    return np.sqrt(density.covs[:, 0, 0])


def langevin_pair(density: GaussianMixture, eps: float, nodes: Grid) -> Array:
    """The joint density of (X_0, X_eps) on the grid, shape (n, n)."""
    eps, widest = validate.positive(eps, "eps"), float(_deviations(density).max()) ** 2
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


def bridge_pair(eps: float, nodes: Grid) -> Array:
    """The joint density of the bridge on the grid, shape (n, n)."""
    bridge = self_bridge(nodes.x, eps, nodes.weights, tol=BRIDGE_TOL, method="dense")
    return bridge.plan() / nodes.h**2


def symmetric_kl(
    density: GaussianMixture, eps: float, *, half_width: float | None = None,
    resolution: float = RESOLUTION,
) -> float:  # fmt: skip
    """J = H(l|pi) + H(pi|l) for a density in one dimension.

    >>> from attnflow.densities import Gaussian
    >>> f"{symmetric_kl(Gaussian(0.0, 1.0), 0.1):.4e}"
    '8.2456e-08'
    """
    nodes = grid(density, eps, half_width=half_width, resolution=resolution)
    return divergence(langevin_pair(density, eps, nodes), bridge_pair(eps, nodes), eps, nodes)


def divergence(first: Array, second: Array, eps: float, nodes: Grid) -> float:
    """H(first|second) + H(second|first) of two joint densities, over |x - y| <= 6 sqrt(eps)."""
    width = 6 * np.sqrt(validate.positive(eps, "eps"))
    near = np.abs(np.subtract.outer(nodes.x, nodes.x)) <= width
    near &= (first > 0) & (second > 0)
    p, q = first[near], second[near]
    return float(((p - q) * (np.log(p) - np.log(q))).sum() * nodes.h**2)


class FisherBound(NamedTuple):
    """Theorem 1's bound, and the two numbers it is made of."""

    gap: float  #: I(rho) - int_0^1 I(rho_t) dt along the bridge's interpolation
    slope: float  #: int_0^1 E_{rho_t} |grad U|^2 dt
    bound: float  #: (eps^2 / 2) sqrt(gap * slope)
    fisher: float  #: I(rho)


def fisher_bound(density: GaussianMixture, eps: float) -> FisherBound:
    """(eps^2/2) (I(rho) - int I(rho_t) dt)^{1/2} (int E|grad U|^2 dt)^{1/2}, which bounds J.

    rho_t is the law at time t eps of the bridge process: the product of the two ends' potentials,
    each run through the heat flow, here by Fourier multipliers.
    """
    nodes = grid(density, eps)
    bridge = self_bridge(nodes.x, eps, nodes.weights, tol=BRIDGE_TOL, method="dense")
    end = nodes.rho * bridge.scaling * (2 * np.pi * eps) ** 0.25
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
    at, weight = np.polynomial.legendre.leggauss(8)
    fishers, forces = 0.0, 0.0
    for t, w in zip((at + 1) / 2, weight / 2, strict=True):
        rho = flowed(t) * flowed(1 - t)
        fishers += w * fisher(rho)
        forces += w * float((force * rho).sum() * nodes.h)
    start = fisher(nodes.rho)
    gap = float(start - fishers)
    return FisherBound(
        gap, float(forces), eps**2 / 2 * float(np.sqrt(max(gap, 0.0) * forces)), start
    )
