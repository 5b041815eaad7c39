r"""Densities that are not smooth, their exact heat flow, and what layers make of them.

:class:`Kinked` is :math:`\rho_0 \propto \varphi(x)\,(1 + c\,x_+^m)`, with :math:`\varphi` the normal density: positive
everywhere, and its m-th derivative jumps at 0. :class:`Box` is uniform on an interval. Both have
heat flows in closed form. Nodes are Gauss-Legendre panels between the points where the density is
not smooth; a layer moves nodes by an analytic map, so sums over them stay accurate.

A layer leaves waves with :math:`\varepsilon k^2 \gg 2\log(T/\varepsilon)` as they are
(:mod:`attnflow.schemes.stability`), and a jump of the m-th derivative has waves :math:`k^{-m-1}`.
:func:`linear_errors` adds up what is left of them. This is the book's own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import factorial, gamma

import numpy as np
from scipy.optimize.elementwise import find_root
from scipy.special import ndtr, owens_t

from attnflow import validate
from attnflow.errors import SolverFailed
from attnflow.schemes.paths import BRIDGE_TOL, steps_to
from attnflow.schemes.stability import bridge_amplification
from attnflow.schemes.steps import iterate
from attnflow.validate import Array

#: Nodes of a panel, and its width in sqrt(eps).
PANEL_NODES, PANEL_WIDTH = 8, 2.0
#: How often the panels of a box halve towards its ends.
HALVINGS = 28
#: How far out nodes lie, in standard deviations; with less mass than this beyond a node, rounding
#: hides where it goes, and it is left out of errors.
REACH, FAINT = 7.5, 1e-10
#: The largest m: beyond it the jump is lost in the error of a smooth density.
MOST_DERIVATIVES = 3
#: Waves of the linear errors, from this to that in units of eps^{-1/2}, and how many.
WAVES, WAVE_COUNT = (2e-2, 1e3), 20_001


class Rough(ABC):
    """A density on the line that is smooth but for a few points."""

    breaks: tuple[float, ...]  #: where nodes begin, where it is not smooth, where they end

    @abstractmethod
    def pdf(self, x: Array) -> Array:
        """The density, (n,)."""

    @abstractmethod
    def cdf(self, x: Array) -> Array:
        """The distribution function, (n,)."""

    @abstractmethod
    def heat_cdf(self, x: Array, t: float) -> Array:
        """The distribution function of the heat flow at time t > 0, (n,)."""

    def nodes(self, eps: float) -> tuple[Array, Array]:
        """Nodes (n,) and their masses (n,), in panels of about two sqrt(eps).

        >>> x, mass = Box().nodes(0.1)
        >>> float((mass @ x**4).round(12))  # a fifth
        0.2
        """
        width = PANEL_WIDTH * np.sqrt(validate.positive(eps, "eps"))
        at, weight = np.polynomial.legendre.leggauss(PANEL_NODES)
        x, mass = [], []
        for low, high in zip(self.breaks[:-1], self.breaks[1:], strict=True):
            edges = self._edges(low, high, width)
            middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
            x.append((middle[:, None] + half[:, None] * at).ravel())
            mass.append((half[:, None] * weight).ravel())
        where = np.concatenate(x)
        masses = np.concatenate(mass) * self.pdf(where)
        return where, masses / masses.sum()

    def _edges(self, low: float, high: float, width: float) -> Array:
        """The ends of the panels between two points."""
        return np.linspace(low, high, int(np.ceil((high - low) / width)) + 1)

    def quantile_map(self, x: Array, t: float) -> Array:
        """Where the heat flow carries x by time t > 0, (n,)."""
        t = validate.positive(t, "t")
        far = np.full(len(x), max(map(abs, self.breaks)) + 10 * np.sqrt(1 + t))
        found = find_root(
            lambda y, mass: self.heat_cdf(y, t) - mass, (-far, far), args=(self.cdf(x),)
        )
        if not found.success.all():
            raise SolverFailed("a quantile must lie within the nodes, got one beyond: a smaller t")
        return np.asarray(found.x)


class Kinked(Rough):
    r""":math:`\rho_0 = \varphi(x)(1 + c\,x_+^m)/Z`: the m-th derivative jumps at 0, by :attr:`jump`.

    >>> Kinked(0, 1.0).pdf(np.array([-1e-9, 1e-9])).round(4)
    array([0.266 , 0.5319])
    """

    def __init__(self, m: int, c: float = 1.0) -> None:
        self.m = validate.count(m, "m", minimum=0, maximum=MOST_DERIVATIVES)
        self.c = validate.positive(c, "c")
        self.breaks = (-REACH, 0.0, REACH)
        moment = 2 ** (self.m / 2 - 1) * gamma((self.m + 1) / 2) / np.sqrt(np.pi)
        self.total = 1 + self.c * moment

    @property
    def jump(self) -> float:
        """The jump of the m-th derivative of the density at 0."""
        return float(self.c * factorial(self.m) / np.sqrt(2 * np.pi) / self.total)

    def pdf(self, x: Array) -> Array:
        bent = np.where(x > 0, np.abs(x) ** self.m, 0.0)
        return np.asarray(_normal(x) * (1 + self.c * bent) / self.total)

    def cdf(self, x: Array) -> Array:
        a = np.maximum(x, 0.0)
        parts = [ndtr(a) - 0.5, _normal(0.0) - _normal(a)]  # of y^k phi(y) over 0 < y < a
        for k in range(2, self.m + 1):
            parts.append((k - 1) * parts[k - 2] - a ** (k - 1) * _normal(a))
        return np.asarray((ndtr(x) + self.c * parts[self.m]) / self.total)

    def heat_pdf(self, x: Array, t: float) -> Array:
        """The density of the heat flow at time t > 0, (n,)."""
        whole = _normal(x / np.sqrt(1 + t)) / np.sqrt(1 + t)
        return np.asarray((whole + self.c * _half_moments(x, t, self.m)[self.m]) / self.total)

    def heat_cdf(self, x: Array, t: float) -> Array:
        moments = _half_moments(x, t, max(self.m - 1, 0))
        scaled = x / np.sqrt(1 + t)
        parts = [ndtr(scaled) / 2 - owens_t(scaled, 1 / np.sqrt(t))]
        parts.append(_normal(0.0) * ndtr(x / np.sqrt(t)) - moments[0])
        for k in range(2, self.m + 1):
            parts.append((k - 1) * parts[k - 2] - moments[k - 1])
        return np.asarray((ndtr(scaled) + self.c * parts[self.m]) / self.total)


class Box(Rough):
    """Uniform on [-1, 1]: at its ends the logarithm of the density jumps to minus infinity.

    >>> Box().cdf(np.array([-2.0, 0.5])).tolist()
    [0.0, 0.75]
    """

    breaks = (-1.0, 1.0)

    def pdf(self, x: Array) -> Array:
        return np.where(np.abs(x) <= 1, 0.5, 0.0)

    def cdf(self, x: Array) -> Array:
        return np.asarray((np.clip(x, -1, 1) + 1) / 2)

    def _edges(self, low: float, high: float, width: float) -> Array:
        """Panels that halve towards either end: the last tokens there spread into a whole tail."""
        middle = super()._edges(low + width, high - width, width)
        towards = width * 0.5 ** np.arange(1, HALVINGS)
        return np.concatenate([[low], low + towards[::-1], middle, high - towards, [high]])

    def heat_cdf(self, x: Array, t: float) -> Array:
        root = np.sqrt(t)
        up, down = (x + 1) / root, (x - 1) / root
        return np.asarray(
            root / 2 * (up * ndtr(up) + _normal(up) - down * ndtr(down) - _normal(down))
        )


def rough_errors(density: Rough, eps: float, T: float) -> Array:
    r""":math:`W_2` between the layers and the heat flow after every layer up to T, noise-free, (m,).

    >>> rough_errors(Kinked(0), 0.05, 0.1).round(5)
    array([0.00439, 0.00388])
    """
    validate.instance(density, "density", Rough)
    x, mass = density.nodes(eps)
    depth = steps_to(T, eps)
    states = iterate(x, eps, depth, mass, tol=BRIDGE_TOL, method="dense").states[:, :, 0]
    below = density.cdf(x)
    seen = (below > FAINT) & (below < 1 - FAINT)
    heat = [density.quantile_map(x[seen], k * eps) for k in range(1, depth + 1)]
    return np.sqrt(np.square(states[1:, seen] - np.array(heat)) @ mass[seen])


def linear_errors(density: Kinked, eps: float, T: float) -> Array:
    r"""What the linearised layers leave of a jump J, as :math:`W_2` distances to the heat flow, (m,).

    .. math:: E_n^2 = \frac{J^2}{\pi\,\rho_{n\varepsilon}(0)} \int_0^\infty k^{-2m-4}
              \Bigl(g(\varepsilon k^2)^n - e^{-n\varepsilon k^2/2}\Bigr)^2 dk,
              \qquad g(s) = 1 - \frac{s}{1 + e^{s/2}},

    since the distribution functions differ by :math:`J k^{-m-2}` times the bracket, wave by wave, and
    :math:`W_2^2 \approx \int (F - G)^2/\rho`. In the variable :math:`\varepsilon k^2` this is
    :math:`\varepsilon^{m + 3/2}` times a number that depends on n alone.

    >>> linear_errors(Kinked(0), 0.05, 0.1).round(5)
    array([0.00416, 0.00365])
    """
    validate.instance(density, "density", Kinked)
    k = np.geomspace(*WAVES, WAVE_COUNT)  # times sqrt(eps)
    layers = np.arange(1, steps_to(T, eps) + 1)
    left = np.array([bridge_amplification(k**2) ** n - np.exp(-n * k**2 / 2) for n in layers])
    total = np.trapezoid(k ** (-2.0 * density.m - 3) * left**2, np.log(k), axis=1)
    here = np.array([density.heat_pdf(np.zeros(1), n * eps)[0] for n in layers])
    return density.jump * eps ** (density.m / 2 + 0.75) * np.sqrt(total / (np.pi * here))


def _normal(x: Array | float) -> Array:
    return np.asarray(np.exp(-np.square(x) / 2) / np.sqrt(2 * np.pi))


def _half_moments(x: Array, t: float, most: int) -> list[Array]:
    r""":math:`\int_0^\infty y^k \varphi(y)\varphi_t(x-y)\,dy` for k = 0, ..., most."""
    mean, var = x / (1 + t), t / (1 + t)
    root = np.sqrt(var)
    front = _normal(x / np.sqrt(1 + t)) / np.sqrt(1 + t)
    out = [ndtr(mean / root), mean * ndtr(mean / root) + root * _normal(mean / root)]
    for k in range(2, most + 1):
        out.append(mean * out[k - 1] + (k - 1) * var * out[k - 2])
    return [front * value for value in out]
