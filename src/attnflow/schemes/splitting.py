r"""Fokker-Planck flows by layers: a general bridge layer, or attention and a potential in turn.

The flow :math:`\partial_t\rho = \tfrac12\Delta\rho - \tfrac12\mathrm{div}(\rho\nabla\log\nu)` moves particles by
:math:`-\tfrac12\nabla\log(\rho/\nu)` and ends at :math:`\nu`. The layer of :cite:t:`agarwal2024` solves the bridge
of a surrogate :math:`\sigma \propto (\rho/\nu)^{-\theta}` (:func:`surrogate_path`) and is of first order.
Splitting is of second (:cite:t:`strang1968`): half a step of the potential flow
:math:`\dot x = \tfrac12\nabla\log\nu`, one attention layer, which is of second order for heat, and half a
step again (:func:`strang_path`); in whole steps it is of first (:func:`lie_path`). The halves of neighbouring layers merge: attention and a
feed-forward block in turn.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import make_interp_spline
from scipy.optimize.elementwise import find_root

from attnflow import validate
from attnflow.densities import GaussianMixture
from attnflow.errors import SolverFailed
from attnflow.langevin import langevin_pair
from attnflow.line import LineGrid, line_grid, uniform_nodes
from attnflow.schemes.paths import BRIDGE_TOL, RESOLUTION, Path, layer_times, steps_to
from attnflow.schemes.steps import Worst, reflected
from attnflow.transport.bridge import Bridge, self_bridge
from attnflow.validate import Array

#: Runge-Kutta steps of the potential flow per half layer.
POTENTIAL_STEPS = 2
#: Nodes per smallest standard deviation of the spectral solution, and its spline's degree.
SPECTRAL, DEGREE = 20.0, 9
#: Less mass than this beyond a node does not say where it goes.
FAINT = 1e-11


def potential_flow(x: ArrayLike, t: float, force: Callable[[Array], Array]) -> Array:
    r"""Tokens moved by :math:`\dot x = f(x)` for a time t, classical Runge-Kutta, shape (n, d).

    >>> potential_flow([[1.0]], 0.1, lambda x: -x / 2).round(6)
    array([[0.951229]])
    """
    x, t = validate.tokens(x), validate.number(t, "t")
    h = t / POTENTIAL_STEPS
    for _ in range(POTENTIAL_STEPS):
        k1 = force(x)
        k2 = force(x + h / 2 * k1)
        k3 = force(x + h / 2 * k2)
        x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + force(x + h * k3))
    return validate.finite(x, "tokens after the potential flow")


def strang_path(start: GaussianMixture, target: GaussianMixture, eps: float, T: float) -> Path:
    """Nodes of `start` through layers of half potential, attention, half potential, up to T.

    Second order (:cite:t:`strang1968`).

    >>> from attnflow.densities import Gaussian
    >>> path = strang_path(Gaussian(0.0, 0.5), Gaussian(0.0, 1.0), 0.1, 1.0)
    >>> exact = 1 - 0.5 * np.exp(-1.0)
    >>> round(float(path.nodes.weights @ path.states[-1] ** 2 - exact), 5)
    -0.00211
    """
    return _split_path(start, target, eps, T, 0.5)


def lie_path(start: GaussianMixture, target: GaussianMixture, eps: float, T: float) -> Path:
    """Nodes of `start` through layers of attention, then the whole potential step, up to T.

    This is the order of an ordinary transformer block: first order, as all products of two flows that
    do not commute (:cite:t:`strang1968`).

    Half the step, half the error of a variance:

    >>> from attnflow.densities import Gaussian
    >>> pair, exact = (Gaussian(0.0, 0.5), Gaussian(0.0, 1.0)), 1 - 0.5 * np.exp(-1.0)
    >>> for path in (lie_path(*pair, 0.1, 1.0), lie_path(*pair, 0.05, 1.0)):
    ...     print(round(float(path.nodes.weights @ path.states[-1] ** 2 - exact), 5))
    -0.03275
    -0.01609
    """
    return _split_path(start, target, eps, T, 0.0)


def _split_path(
    start: GaussianMixture, target: GaussianMixture, eps: float, T: float, share: float
) -> Path:
    """The share of a potential step that comes before attention; the rest comes after."""
    depth = steps_to(T, eps)
    nodes = line_grid(start, eps, resolution=RESOLUTION)

    def pull(x: Array) -> Array:
        return target.score(x) / 2

    states, worst = [nodes.x[:, None]], Worst()
    for _ in range(depth):
        x = potential_flow(states[-1], share * eps, pull)
        solved = self_bridge(x, eps, nodes.weights, tol=BRIDGE_TOL, method="dense")
        worst = worst.or_worse(solved)
        states.append(potential_flow(reflected(solved), (1 - share) * eps, pull))
    return Path(nodes, layer_times(eps, depth), np.stack(states)[:, :, 0], *worst)


def surrogate_path(
    start: GaussianMixture, target: GaussianMixture, eps: float, T: float, theta: float
) -> Path:
    r"""Nodes of `start` through general layers with the surrogate :math:`(\rho/\nu)^{-\theta}`, up to T.

    A layer stretches the nodes by :math:`1 + \tfrac1\theta(B' - 1)` with :math:`B'(x) = \mathrm{Var}(Y|x)/\varepsilon`, and
    divides the density that they carry by it: nothing is differentiated. The surrogate must have finite mass:
    :math:`\theta < 0` where `start` is narrower than `target`.

    >>> from attnflow.densities import Gaussian
    >>> path = surrogate_path(Gaussian(0.0, 0.5), Gaussian(0.0, 1.0), 0.1, 0.1, -1.0)
    >>> round(float(path.nodes.weights @ path.states[-1] ** 2), 6)
    0.549939
    """
    theta = validate.number(theta, "theta", "a finite number other than 0")
    if theta == 0:
        raise ValueError(f"theta must be a finite number other than 0, got {theta}")
    depth = steps_to(T, eps)
    nodes = line_grid(start, eps, resolution=RESOLUTION)
    log_rho, states, width = start.logpdf(nodes.x), [nodes.x], np.full(len(nodes.x), nodes.h)
    worst = Worst()
    for _ in range(depth):
        x = states[-1]
        log_ratio = log_rho - target.logpdf(x)
        surrogate = np.exp(-theta * log_ratio - (-theta * log_ratio).max()) * width
        solved = self_bridge(x, eps, surrogate / surrogate.sum(), tol=BRIDGE_TOL, method="dense")
        worst = worst.or_worse(solved)
        mean, var = _conditional(solved)
        stretch = 1 + (var / eps - 1) / theta  # of this layer: B' = Var(Y | x) / eps
        states.append(x + (mean - x) / theta)
        log_rho, width = log_rho - np.log(stretch), width * stretch
    return Path(nodes, layer_times(eps, depth), np.stack(states), *worst)


def _conditional(bridge: Bridge) -> tuple[Array, Array]:
    """Mean and variance of the partner of every node, (n,) each."""
    plan = bridge.plan()
    plan /= plan.sum(axis=1, keepdims=True)
    y = bridge.x[:, 0]
    mean = plan @ y
    return mean, np.einsum("ij,ij->i", plan, (y - mean[:, None]) ** 2)


def fokker_planck_map(
    start: GaussianMixture, target: GaussianMixture, x: ArrayLike, t: float
) -> Array:
    r""":math:`F_t^{-1}(F_0(x))` along the Fokker-Planck flow from `start` towards `target`, (n,).

    The density is :math:`\rho_t = \nu\,e^{tL}(\rho_0/\nu)`, from the joint law of the stationary diffusion in a
    sinc basis (:func:`attnflow.langevin.langevin_pair`), integrated as a spline. `start` must not have
    heavier tails than `target`.

    >>> from attnflow.densities import Gaussian
    >>> y = fokker_planck_map(Gaussian(0.0, 0.5), Gaussian(0.0, 1.0), [1.0], 1.0)
    >>> round(float(y[0] / np.sqrt((1 - 0.5 * np.exp(-1.0)) / 0.5)), 9)
    1.0
    """
    z, t = validate.tokens(x)[:, 0], validate.positive(t, "t")
    nodes = _spectral_nodes(start, target)
    pair = langevin_pair(target, t, nodes)
    later = (start.pdf(nodes.x) / nodes.rho) @ pair * nodes.h
    below = start.cdf(z)
    right = below > 0.5  # solved from the other end: 1 - mass has lost the digits of the tail
    out = np.empty(len(z))
    out[~right] = _quantiles(nodes.x, later, below[~right])
    mirrored = GaussianMixture(start.weights, -start.means, start.covs)
    out[right] = -_quantiles(nodes.x, later[::-1], mirrored.cdf(-z)[right])
    return out


def _quantiles(x: Array, density: Array, p: Array) -> Array:
    """Where a density on nodes that are symmetric about 0 has the masses p to the left."""
    mass = make_interp_spline(x, density, k=DEGREE).antiderivative()
    far = np.full(len(p), x[-1])
    found = find_root(lambda y, q: mass(y) - q, (-far, far), args=(p,))
    if not found.success.all():
        raise SolverFailed(
            f"x must lie within the nodes, got one with {p.min():.1g} of the mass beyond it: "
            "keep x nearer"
        )
    return np.asarray(found.x)


def fokker_planck_error(start: GaussianMixture, target: GaussianMixture, path: Path) -> float:
    r""":math:`W_2` between the end of a path and the Fokker-Planck flow, noise-free, on the line.

    Nodes with less mass than 1e-11 on either side of them are left out: rounding hides where they go.

    >>> from attnflow.densities import Gaussian
    >>> ends = Gaussian(0.0, 0.5), Gaussian(0.0, 1.0)
    >>> round(fokker_planck_error(*ends, strang_path(*ends, 0.1, 1.0)), 6)
    0.001169
    """
    below = start.cdf(path.nodes.x)
    seen = (below > FAINT) & (below < 1 - FAINT)
    exact = fokker_planck_map(start, target, path.nodes.x[seen], float(path.times[-1]))
    gap = path.states[-1][seen] - exact
    return float(np.sqrt(path.nodes.weights[seen] @ gap**2))


def _spectral_nodes(start: GaussianMixture, target: GaussianMixture) -> LineGrid:
    heaviest, allowed = float(start.covs.max()), float(target.covs.max())
    if heaviest > allowed:
        raise ValueError(
            f"start must not have heavier tails than target, got variances {heaviest:g} and {allowed:g}"
        )
    narrow = min(float(start.covs.min()), float(target.covs.min()))
    return uniform_nodes(target, np.sqrt(narrow) / SPECTRAL)
