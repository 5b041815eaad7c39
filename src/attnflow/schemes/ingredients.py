r"""What a uniform error is made of: the error of one layer, what earlier errors become, curves in time.

The triangle inequality splits the error after layer k,

.. math:: W_2(SB^k(\rho_0), \rho_{k\varepsilon}) \le W_2(SB(\rho_{(k-1)\varepsilon}), \rho_{k\varepsilon})
          + W_2(SB(SB^{k-1}(\rho_0)), SB(\rho_{(k-1)\varepsilon})),

into a local error, of order :math:`\varepsilon^3`, and what the layer makes of the error it was given
(:func:`triangle`, after :cite:t:`agarwal2024`). Both add up to a constant times :math:`\varepsilon^2`, which
:func:`second_order_constant` computes from the density alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import make_interp_spline

from attnflow import differences, validate
from attnflow.densities import GaussianMixture
from attnflow.line import deviations, uniform_nodes
from attnflow.schemes.paths import BRIDGE_TOL, Path, bridge_path
from attnflow.schemes.steps import reflected
from attnflow.transport.bridge import self_bridge
from attnflow.validate import Array

#: Times of Duhamel's integral, and the step of differences in time.
TIME_NODES, TIME_STEP = 16, 1e-3
#: The step of five nested differences in smallest standard deviations, and the spline they end on.
NESTED, BORDER, DEGREE = 0.03, 60, 7
#: Runge-Kutta steps per unit of time over the smallest variance, for particles of the heat flow.
PARTICLE_STEPS = 40
#: Nodes per smallest standard deviation, and the density below which nothing is counted.
FINE, FAINT = 12.0, 1e-11


class Triangle(NamedTuple):
    """The two sides that bound the error of every layer, and the error, each (m,).

    >>> from attnflow.densities import Gaussian
    >>> sides = triangle(Gaussian(0.0, 1.0), 0.1, 0.2)
    >>> bool((sides.total <= sides.local + sides.carried + 1e-12).all())
    True
    """

    total: Array  #: the error after layer k
    local: Array  #: the error of layer k alone, started on the heat flow
    carried: Array  #: what layer k makes of the error before it

    @property
    def growth(self) -> Array:
        """The factor by which a layer multiplies the error it was given, (m - 1,)."""
        return self.carried[1:] / self.total[:-1]


def triangle(density: GaussianMixture, eps: float, T: float) -> Triangle:
    """The triangle of every layer up to time T, noise-free, on the line.

    >>> from attnflow.densities import Gaussian
    >>> sides = triangle(Gaussian(0.0, 1.0), 0.1, 0.3)
    >>> float((sides.local / 0.1**3).round(3)[0]), sides.growth.round(3)
    (0.058, array([0.958, 0.961]))
    """
    path = bridge_path(density, eps, T)
    start, w = path.nodes.x, path.nodes.weights
    heat = [start, *(density.quantile_map(start, t) for t in path.times[1:])]
    apart: list[tuple[float, ...]] = []
    for k in range(1, len(path.times)):
        solved = self_bridge(heat[k - 1], eps, w, tol=BRIDGE_TOL, method="dense")
        restarted = reflected(solved)[:, 0]
        gaps = path.states[k] - heat[k], restarted - heat[k], path.states[k] - restarted
        apart.append(tuple(float(np.sqrt(w @ gap**2)) for gap in gaps))
    return Triangle(*np.array(apart).T)


def curve_error(density: GaussianMixture, path: Path, *, points: int = 4) -> float:
    r"""The largest :math:`W_2` over *all* times to the heat flow of tokens that walk from layer to layer.

    They move straight and evenly, where those of :cite:t:`agarwal2024` wait (:func:`stair_error`);
    `points` times a layer are looked at.

    >>> from attnflow.densities import Gaussian
    >>> bell = Gaussian(0.0, 1.0)
    >>> round(curve_error(bell, bridge_path(bell, 0.1, 0.5)), 5)
    0.00035
    """
    return _between_layers(density, path, points, walked=1.0)


def stair_error(density: GaussianMixture, path: Path, *, points: int = 4) -> float:
    r"""The largest :math:`W_2` over *all* times to the heat flow of tokens that wait for the next layer.

    This is the curve in time of :cite:t:`agarwal2024`; `points` times a layer are looked at, the moment
    before the next one among them.

    >>> from attnflow.densities import Gaussian
    >>> bell = Gaussian(0.0, 1.0)
    >>> round(stair_error(bell, bridge_path(bell, 0.1, 0.5)), 5)
    0.04881
    """
    return _between_layers(density, path, points, walked=0.0)


def _between_layers(density: GaussianMixture, path: Path, points: int, *, walked: float) -> float:
    """The largest gap where tokens have `walked` that part of the way that the clock has gone."""
    points = validate.count(points, "points")
    start, w, worst = path.nodes.x, path.nodes.weights, 0.0
    for k in range(len(path.times) - 1):
        for share in np.arange(1, points + 1) / points:
            t = path.times[k] + share * (path.times[k + 1] - path.times[k])
            step = walked * share * (path.states[k + 1] - path.states[k])
            gap = path.states[k] + step - density.quantile_map(start, float(t))
            worst = max(worst, float(np.sqrt(w @ gap**2)))
    return worst


def second_order_constant(density: GaussianMixture, t: float) -> float:
    r"""The limit of :math:`W_2(SB^k(\rho_0), \rho_t)/\varepsilon^2` at :math:`t = k\varepsilon`, on the line.

    A layer lacks the third term :math:`\tfrac{\varepsilon^3}6\dddot x` of the heat flow's Taylor series. So the
    layers have the extra velocity :math:`-\tfrac{\varepsilon^2}6\dddot x`, and as the heat equation is linear, their
    distribution function misses by :math:`\varepsilon^2V`,

    .. math:: V_t = \tfrac16\int_0^t P_{t-s}\bigl(\rho_s\,\dddot x_s\bigr)\,ds, \qquad
              \frac{W_2}{\varepsilon^2} \to \Bigl(\int V_t^2/\rho_t\Bigr)^{1/2},

    with :math:`\dddot x = -\partial_t\nabla U + b\cdot\nabla\nabla U` along the flow.

    >>> from attnflow.densities import Gaussian
    >>> round(second_order_constant(Gaussian(0.0, 1.0), 1.0) * 16 * 2**1.5, 4)  # t/16(1+t)^{3/2}
    1.0
    """
    t = validate.positive(t, "t")
    later = density.heat(t)
    nodes = uniform_nodes(later, float(np.sqrt(density.covs.min())) / FINE)
    size = 2 * len(nodes.x)
    waves = 2 * np.pi * np.fft.rfftfreq(size, nodes.h)
    at, weight = np.polynomial.legendre.leggauss(TIME_NODES)
    total = np.zeros(len(waves), dtype=np.complex128)
    for s, w in zip(t * (at + 1) / 2, t * weight / 2, strict=True):
        source = density.heat(s).pdf(nodes.x) * _jerk(density, s, nodes.x)
        total += w / 6 * np.exp(-(t - s) * waves**2 / 2) * np.fft.rfft(source, size)
    missed = np.fft.irfft(total, size)[: len(nodes.x)]
    seen = nodes.rho > FAINT
    return float(np.sqrt((missed[seen] ** 2 / nodes.rho[seen]).sum() * nodes.h))


def fourth_order_term(density: GaussianMixture, x: ArrayLike) -> Array:
    r"""The coefficient of :math:`\varepsilon^4` in the bridge's mean B(x), on the line, shape (n,).

    :math:`B = x + \varepsilon b + \tfrac{\varepsilon^2}2U' + \tfrac{\varepsilon^4}{48}(U'^2 - 2L^2U)' + O(\varepsilon^6)` with the
    generator :math:`Lf = \tfrac12f'' + bf'`, here by differences of order eight on a fine grid.

    >>> from attnflow.densities import Gaussian
    >>> fourth_order_term(Gaussian(0.0, 1.0), [1.0, -2.0]).round(6)  # -x/128
    array([-0.007812,  0.015625])
    """
    z = validate.tokens(x)[:, 0]
    h = NESTED * float(deviations(density).min())
    grid = np.arange(z.min() - BORDER * h, z.max() + (BORDER + 1) * h, h)
    drift, potential = density.score(grid)[:, 0] / 2, density.potential(grid)

    def slope(f: Array) -> Array:
        return differences.on_grid(f, h)

    def generator(f: Array) -> Array:
        first = slope(f)
        return slope(first) / 2 + drift * first

    inside = slope(potential) ** 2 - 2 * generator(generator(potential))
    return np.asarray(make_interp_spline(grid, slope(inside) / 48, k=DEGREE)(z))


def heat_particles(density: GaussianMixture, x: ArrayLike, t: float) -> Array:
    r"""Particles that start at x and move by :math:`\dot x = -\tfrac12\nabla\log\rho_t` for a time t, (n, d).

    In any dimension, by classical Runge-Kutta.

    >>> from attnflow.densities import Gaussian
    >>> heat_particles(Gaussian([0.0, 0.0], np.eye(2)), [[1.0, -2.0]], 3.0).round(6)
    array([[ 2., -4.]])
    """
    z, t = validate.tokens(x), validate.positive(t, "t")
    narrow = float(np.linalg.eigvalsh(density.covs).min())
    count = int(np.ceil(PARTICLE_STEPS * t / narrow))
    h = t / count

    def velocity(at: float, y: Array) -> Array:
        return -density.heat(at).score(y) / 2

    for k in range(count):
        k1 = velocity(k * h, z)
        k2 = velocity((k + 0.5) * h, z + h / 2 * k1)
        k3 = velocity((k + 0.5) * h, z + h / 2 * k2)
        z = z + h / 6 * (k1 + 2 * k2 + 2 * k3 + velocity((k + 1) * h, z + h * k3))
    return z


def _jerk(density: GaussianMixture, s: float, x: Array) -> Array:
    """The third derivative in time of particles of the heat flow that are at x at time s."""
    h = min(TIME_STEP, s / 2)
    now = density.heat(s)
    later, earlier = (density.heat(s + sign * h).potential_gradient(x)[:, 0] for sign in (1, -1))
    drift = now.score(x)[:, 0] / 2
    return np.asarray(drift * now.potential_hessian(x)[:, 0, 0] - (later - earlier) / (2 * h))
