r"""A density carried through layers without noise, on the line, and its distance to the heat flow.

A uniform grid of nodes has fixed masses :math:`\rho_0(x_i) h`. The nodes move, by
:func:`bridge_path` or :func:`euler_path`; the sums over them stay spectrally accurate, and
:math:`W_2` is the distance to the monotone map, which is exact. The layers are those of
:cite:t:`agarwal2024`; the orders are the book's own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnflow import differences, validate
from attnflow.densities import GaussianMixture
from attnflow.errors import FlowStopped
from attnflow.line import LineGrid, deviations, line_grid, uniform_nodes
from attnflow.schemes.steps import iterate
from attnflow.transport.bridge import self_bridge
from attnflow.validate import Array

SCHEMES = ("bridge", "euler")
#: Nodes per sqrt(eps) on the moving grid.
RESOLUTION = 3.75
#: The marginal error of a bridge: far below the errors of a layer, which are of order eps^3.
BRIDGE_TOL = 1e-12
#: Euler's grid: its largest eps in variances, and its step in sqrt(eps).
EULER_EPS, EULER_SPACING = 0.05, 2.0
#: More layers than this would take hours.
MOST_LAYERS = 100_000
#: How far from a whole number T / eps may be, from rounding.
WHOLE = 1e-9


class Path(NamedTuple):
    """Nodes with fixed masses, carried through layers.

    >>> from attnflow.densities import Gaussian
    >>> path = bridge_path(Gaussian(0.0, 1.0), 0.1, 0.2)
    >>> path.times, path.states.shape == (3, len(path.nodes.x)), path.converged
    (array([0. , 0.1, 0.2]), True, True)
    """

    nodes: LineGrid  #: where they start
    times: Array  #: (m + 1,)
    states: Array  #: (m + 1, n)
    converged: bool = True  #: whether every layer was solved; an explicit step solves nothing
    residual: float = 0.0  #: the largest error of a bridge's marginal
    iterations: int = 0  #: the most sweeps that a bridge took

    def density(self, k: int) -> Array:
        r"""The carried density at the nodes after k layers, shape (n,).

        It is :math:`\rho_0/(dx/dx_0)`, as the nodes keep their masses.

        >>> from attnflow.densities import Gaussian
        >>> path = bridge_path(Gaussian(0.0, 1.0), 0.1, 0.2)
        >>> float(np.abs(path.density(0) - path.nodes.rho).max().round(9))
        0.0
        """
        return self.nodes.rho / differences.on_grid(self.states[k], self.nodes.h)


def bridge_path(
    density: GaussianMixture, eps: float, T: float, *, half_width: float | None = None
) -> Path:
    r"""The nodes of a density after every layer :math:`x \mapsto 2x - B(x)` up to time T.

    >>> from attnflow.densities import Gaussian
    >>> path = bridge_path(Gaussian(0.0, 1.0), 0.1, 0.2)
    >>> (path.nodes.weights @ path.states.T**2).round(4)  # 1 + t
    array([1.    , 1.0999, 1.1998])
    """
    depth = steps_to(T, eps)
    nodes = line_grid(density, eps, half_width=half_width, resolution=RESOLUTION)
    found = iterate(nodes.x, eps, depth, nodes.weights, tol=BRIDGE_TOL, method="dense")
    states = found.states[:, :, 0]
    return Path(
        nodes, layer_times(eps, depth), states, found.converged, found.residual, found.iterations
    )


def euler_path(
    density: GaussianMixture, eps: float, T: float, *, half_width: float | None = None
) -> Path:
    r"""The nodes after every explicit Euler step :math:`x - \tfrac\varepsilon2\nabla\log\rho` up to T.

    The score is that of the density which the nodes carry. Explicit Euler amplifies waves shorter
    than about :math:`3\sqrt\varepsilon`, so its grid is too coarse to hold them: as long as it does not
    contract below :func:`~attnflow.schemes.filtered_stretch`. Nodes that fold raise
    :class:`~attnflow.errors.FlowStopped`.

    >>> from attnflow.densities import Gaussian
    >>> path = euler_path(Gaussian(0.0, 1.0), 0.05, 0.1)
    >>> (path.nodes.weights @ path.states.T**2).round(4)  # 1 + t, and more
    array([1.    , 1.0506, 1.1012])
    """
    depth = steps_to(T, eps)
    nodes = uniform_nodes(density, _euler_spacing(density, eps), half_width)
    log_rho0 = density.logpdf(nodes.x)
    states = [nodes.x]
    for k in range(depth):
        x = states[-1]
        if (differences.on_grid(x, nodes.h) <= 0).any():
            raise FlowStopped(
                f"explicit Euler folded the nodes after {k} of {depth} steps: they came nearer than "
                f"its filter allows; end before T = {T:g}"
            )
        states.append(x - eps / 2 * _carried_score(x, log_rho0, nodes.h))
    return Path(nodes, layer_times(eps, depth), np.stack(states))


def path_errors(density: GaussianMixture, path: Path) -> Array:
    r""":math:`W_2` to the heat flow of `density` after every layer of its path, shape (m,).

    :math:`W_2^2 = \sum_i w_i |x_i^k - F_t^{-1}(F_0(x_i^0))|^2` at :math:`t = k\varepsilon`.

    >>> from attnflow.densities import Gaussian
    >>> bell = Gaussian(0.0, 1.0)
    >>> path_errors(bell, bridge_path(bell, 0.1, 0.2)).round(7)
    array([5.810e-05, 1.017e-04])
    """
    start, w = path.nodes.x, path.nodes.weights
    return np.array(
        [
            np.sqrt(w @ (x - density.quantile_map(start, t)) ** 2)
            for t, x in zip(path.times[1:], path.states[1:], strict=True)
        ]
    )


def uniform_error(density: GaussianMixture, eps: float, T: float, scheme: str = "bridge") -> float:
    r""":math:`\sup_{k\varepsilon\le T} W_2(\text{layer } k, \rho_{k\varepsilon})`, noise-free, on the line.

    It tends to 0 with eps for both schemes :cite:p:`agarwal2024`: like :math:`\varepsilon^2` for
    "bridge", like :math:`\varepsilon` for "euler". The paths are two functions,
    :func:`bridge_path` and :func:`euler_path`; here the flag stays for the code that calls it by name.

    >>> from attnflow.densities import Gaussian
    >>> f"{uniform_error(Gaussian(0.0, 1.0), 0.1, 1.0):.5e}"
    '2.33554e-04'
    """
    validate.choice(scheme, "scheme", SCHEMES)
    path = bridge_path(density, eps, T) if scheme == "bridge" else euler_path(density, eps, T)
    return float(path_errors(density, path).max())


def score_error(density: GaussianMixture, eps: float) -> float:
    r""":math:`\|\varepsilon^{-1}(B - \mathrm{id}) - \tfrac12\nabla\log\rho\|_{L^2(\rho)}`, noise-free.

    For smooth densities on the line it is :math:`\tfrac\varepsilon2\|\nabla U\|_{L^2(\rho)}
    + o(\varepsilon)`.

    >>> from attnflow.densities import Gaussian
    >>> round(score_error(Gaussian(0.0, 1.0), 0.1), 6)  # about eps / 8
    0.012492
    """
    nodes = line_grid(density, eps, resolution=RESOLUTION)
    bridge = self_bridge(nodes.x, eps, nodes.weights, tol=BRIDGE_TOL, method="dense")
    estimate = (bridge.barycentric()[:, 0] - nodes.x) / eps
    gap = estimate - density.score(nodes.x)[:, 0] / 2
    return float(np.sqrt(nodes.weights @ gap**2))


def one_step_distance(density: GaussianMixture, eps: float) -> float:
    r""":math:`W_2` between the bridge step and the Euler step of a density, noise-free, on the line.

    It is :math:`o(\varepsilon)` :cite:p:`agarwal2024`, and :math:`\tfrac{\varepsilon^2}2
    \|\nabla U\|_{L^2(\rho)} + o(\varepsilon^2)` for smooth densities.

    >>> from attnflow.densities import Gaussian
    >>> round(one_step_distance(Gaussian(0.0, 1.0), 0.1), 9)
    0.00124922
    """
    return eps * score_error(density, eps)


def steps_to(T: float, eps: float) -> int:
    """The number of layers T / eps, which must be a whole number.

    >>> steps_to(0.3, 0.1)
    3
    """
    T, eps = validate.positive(T, "T"), validate.positive(eps, "eps")
    if MOST_LAYERS * eps < T:
        raise ValueError(f"T must be at most {MOST_LAYERS} eps, got T = {T} and eps = {eps}")
    n = round(T / eps)
    if n < 1 or abs(n * eps - T) > WHOLE * T:
        raise ValueError(f"T must be a multiple of eps, got T = {T} and eps = {eps}")
    return n


def layer_times(eps: float, depth: int) -> Array:
    """The times of the states of a path: multiples of eps.

    >>> layer_times(0.5, 2)
    array([0. , 0.5, 1. ])
    """
    return np.linspace(0.0, depth * eps, depth + 1)


def _euler_spacing(density: GaussianMixture, eps: float) -> float:
    smallest = float(deviations(density).min()) ** 2
    if eps > EULER_EPS * smallest:
        raise ValueError(
            f"explicit Euler needs eps <= {EULER_EPS} times the smallest variance {smallest:g} to be "
            f"both stable and resolved, got eps = {eps}"
        )
    return EULER_SPACING * float(np.sqrt(eps))


def _carried_score(x: Array, log_rho0: Array, h: float) -> Array:
    """The score of the density carried by nodes x that started on a uniform grid.

    rho(x_i) = rho_0 / (dx/dx_0), so the score is the derivative of log rho_0 - log x' over x'.
    """
    stretch = differences.on_grid(x, h)
    return differences.on_grid(log_rho0 - np.log(stretch), h) / stretch
