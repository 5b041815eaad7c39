r"""Uniform grids on the line, on which sums against a density are as good as integrals.

The trapezoidal rule on nodes a distance h apart errs by :math:`\exp(-2(\pi\sigma/h)^2)` for a
Gaussian of deviation :math:`\sigma`: a few nodes a deviation give all digits. What must be
resolved is the narrowest of the density, the kernel of width :math:`\sqrt\varepsilon`, and the
potential U of :mod:`attnflow.densities`, which turns between two components within
:math:`\sigma^2` over half their distance.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from attnflow import validate
from attnflow.densities import GaussianMixture
from attnflow.errors import GridTooSmall
from attnflow.validate import Array

#: Nodes per sqrt(eps), and standard deviations beyond the outermost mean.
RESOLUTION, REACH = 3.5, 10.0
#: Below this many nodes per sqrt(eps) kernels are not resolved.
COARSEST = 2.5
#: The mass that a grid may cut off.
LOST_MASS = 1e-9
#: The largest grid; beyond it eps is too small for a dense computation.
MAX_NODES = 6000


class LineGrid(NamedTuple):
    """Uniform nodes on the line with a density's masses rho(x) h.

    >>> from attnflow.densities import Gaussian
    >>> nodes = line_grid(Gaussian(0.0, 1.0), 0.1)
    >>> float((nodes.weights @ nodes.x**4).round(12))  # the fourth moment
    3.0
    """

    x: Array  #: nodes, (n,)
    h: float  #: their distance
    rho: Array  #: the density at the nodes, (n,)

    @property
    def weights(self) -> Array:
        """Masses, summing to one."""
        return self.rho / self.rho.sum()


def line_grid(
    density: GaussianMixture, eps: float, *, half_width: float | None = None,
    resolution: float = RESOLUTION,
) -> LineGrid:  # fmt: skip
    """A grid on which sums over `density` and kernels of width sqrt(eps) are exact.

    Warns (:class:`~attnflow.errors.GridTooSmall`) where `half_width` cuts off mass, or `resolution`
    (nodes per sqrt(eps)) is below 2.5.

    >>> from attnflow.densities import Gaussian
    >>> nodes = line_grid(Gaussian(0.0, 1.0), 0.1)
    >>> len(nodes.x), round(nodes.h, 4)
    (223, 0.0904)
    """
    eps = validate.positive(eps, "eps")
    resolution = validate.positive(resolution, "resolution")
    sigma = deviations(density)
    apart = float(np.ptp(density.means[:, 0])) / 2
    bend = float((sigma**2).min() / max(apart, sigma.min()))  # U turns within this distance
    if resolution < COARSEST:
        warnings.warn(
            f"a grid should have at least {COARSEST} nodes per sqrt(eps), this one has "
            f"{resolution:g}: increase resolution",
            GridTooSmall,
            stacklevel=2,
        )
    return uniform_nodes(density, min(float(np.sqrt(eps)), bend) / resolution, half_width)


def uniform_nodes(density: GaussianMixture, h: float, half_width: float | None = None) -> LineGrid:
    """Nodes a distance h apart, symmetric about 0, out to `half_width` or far into the tails.

    >>> from attnflow.densities import Gaussian
    >>> uniform_nodes(Gaussian(0.0, 1.0), 5.0).x
    array([-10.,  -5.,   0.,   5.,  10.])
    """
    sigma = deviations(density)
    far = float(np.max(np.abs(density.means[:, 0]) + REACH * sigma))
    width = far if half_width is None else validate.positive(half_width, "half_width")
    h = validate.positive(h, "h")
    n = float(np.ceil(width / h))
    if 2 * n + 1 > MAX_NODES:
        raise ValueError(
            f"a grid must have at most {MAX_NODES} nodes, got {2 * n + 1:.0f}: increase eps, or "
            "decrease half_width"
        )
    x = h * np.arange(-n, n + 1)
    lost = 1 - float(density.cdf(x[[-1]])[0] - density.cdf(x[[0]])[0])
    if lost > LOST_MASS:
        warnings.warn(
            f"a grid should hold all but {LOST_MASS:g} of the mass, this one cuts off {lost:.1e}: "
            "increase half_width",
            GridTooSmall,
            stacklevel=3,
        )
    return LineGrid(x, h, density.pdf(x))


def deviations(density: GaussianMixture) -> Array:
    """The standard deviations of the components, (k,); refuses what is no density on the line.

    >>> deviations(GaussianMixture([0.5, 0.5], [-2.0, 2.0], [1.0, 4.0]))
    array([1., 2.])
    """
    validate.instance(density, "density", GaussianMixture)
    if density.dimension != 1:
        raise ValueError(f"this needs a density in one dimension, got {density.dimension}")
    return np.sqrt(density.covs[:, 0, 0])
