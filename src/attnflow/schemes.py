r"""Layers that follow the heat equation: the bridge step, the Euler step, and their errors.

One layer of Sinkhorn attention with :math:`Q^\top K = -V = I` is :math:`x \mapsto 2x - B(x)`.
Along the heat flow particles move by :math:`\dot x = -b(t, x)`, :math:`b = \tfrac12\nabla\log\rho_t`, and
:math:`\ddot x = -\nabla U` exactly; since :math:`B(x) = x + \varepsilon b + \tfrac{\varepsilon^2}{2}\nabla U
+ O(\varepsilon^3)`, the bridge step agrees with the flow through :math:`\varepsilon^2` (order 2) while the explicit
Euler step :math:`x - \varepsilon b` does not (order 1).

The noise-free functions carry a uniform grid of nodes with fixed masses :math:`\rho_0(x_i) h`; the
nodes move, the sums stay spectrally accurate, and W2 is the distance to the monotone map.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from attnflow import validate
from attnflow.densities import GaussianMixture
from attnflow.langevin import Grid, grid, uniform_nodes
from attnflow.transport import self_bridge
from attnflow.validate import Array

SCHEMES = ("bridge", "euler")
#: Nodes per sqrt(eps) on the moving grid.
RESOLUTION = 3.75
#: Euler's grid: its largest eps in variances, and its step in sqrt(eps).
EULER_EPS, EULER_SPACING = 0.05, 2.0
#: Below this many tokens within sqrt(eps) of each other the bridge couples a token with itself.
FROZEN_BELOW = 0.3

#: More layers than this would take hours.
MOST_LAYERS = 100_000


class Frozen(UserWarning):
    """Too few tokens for this temperature: the layer hardly moves them."""


def bridge_step(x: ArrayLike, eps: float, weights: ArrayLike | None = None) -> Array:
    """One layer, x -> 2x - B(x), shape (n, d). Warns where the tokens are frozen.

    On the line tokens freeze when sqrt(eps) n rho_max < 0.3; in general when a token has, on
    average, no other within about sqrt(eps).

    >>> bridge_step([[-1.0], [0.0], [1.0]], eps=1.0).ravel().round(4)
    array([-1.4674,  0.    ,  1.4674])
    """
    x = validate.tokens(x)
    bridge = self_bridge(x, eps, weights)
    # On the line a token has n rho sqrt(2 pi eps) others around it, and E rho is about
    # rho_max / sqrt(2): from the mean number of others follows sqrt(eps) n rho_max.
    others = len(x) * float(bridge.weights @ bridge.kernel.apply(bridge.weights)) - 1
    crowd = others / np.sqrt(np.pi)
    if len(x) > 1 and crowd < FROZEN_BELOW:
        warnings.warn(
            f"tokens are frozen when sqrt(eps) n rho_max < {FROZEN_BELOW}, here about {crowd:.2g}: "
            "each is coupled with itself; use more tokens or a larger eps",
            Frozen,
            stacklevel=2,
        )
    with np.errstate(over="ignore"):
        return validate.finite(2 * x - bridge.barycentric(), "tokens after the layer")


def iterate(
    x: ArrayLike, eps: float, layers: int, weights: ArrayLike | None = None, *, tol: float = 1e-9
) -> Array:
    """Tokens through `layers` layers x -> 2x - B(x); all states, shape (layers + 1, n, d).

    >>> iterate([[-1.0], [1.0]], eps=1.0, layers=2)[:, 1, 0].round(3)
    array([1.   , 1.238, 1.349])
    """
    states = [validate.tokens(x)]
    for _ in range(validate.count(layers, "layers")):
        bridge = self_bridge(states[-1], eps, weights, tol=tol)
        states.append(2 * states[-1] - bridge.barycentric())
    return np.stack(states)


def euler_step(x: ArrayLike, eps: float, score: Callable[[Array], Array]) -> Array:
    """The explicit Euler step x -> x - (eps/2) score(x), shape (n, d)."""
    x, eps = validate.tokens(x), validate.positive(eps, "eps")
    if not callable(score):
        raise TypeError(f"score must be a function of tokens, got {validate.said(score)}")
    slope = validate.array(score(x), "score(x)", 2)
    if slope.shape != x.shape:
        raise ValueError(f"score(x) must have the tokens' shape {x.shape}, got {slope.shape}")
    with np.errstate(over="ignore", invalid="ignore"):
        return validate.finite(x - eps / 2 * slope, "tokens after the step")


def general_step(x: ArrayLike, eps: float, theta: float, surrogate: ArrayLike) -> Array:
    """(1 - 1/theta) x + (1/theta) B_{sigma,eps}(x), sigma the measure with these masses at x.

    With sigma ~ e^{2 theta psi} this is x + eps grad psi to first order. theta = -1 and sigma =
    rho is the heat flow's layer.
    """
    x = validate.tokens(x)
    theta = validate.number(theta, "theta", "a finite number other than 0")
    if theta == 0:
        raise ValueError(f"theta must be a finite number other than 0, got {theta}")
    mean = self_bridge(x, eps, surrogate).barycentric()
    return x + (mean - x) / theta


def steps_to(T: float, eps: float) -> int:
    """T / eps, which must be a whole number."""
    T, eps = validate.positive(T, "T"), validate.positive(eps, "eps")
    if MOST_LAYERS * eps < T:
        raise ValueError(f"T must be at most {MOST_LAYERS} eps, got T = {T} and eps = {eps}")
    n = round(T / eps)
    if n < 1 or abs(n * eps - T) > 1e-9 * T:
        raise ValueError(f"T must be a multiple of eps, got T = {T} and eps = {eps}")
    return n


class Path(NamedTuple):
    """Nodes with fixed masses, carried through layers."""

    nodes: Grid  #: where they start
    times: Array  #: (m + 1,)
    states: Array  #: (m + 1, n)

    def density(self, k: int) -> Array:
        """The carried density at the nodes after k layers: rho_0 / (dx/dx_0), shape (n,)."""
        return self.nodes.rho / _derivative(self.states[k], self.nodes.h)


def node_path(
    density: GaussianMixture, eps: float, T: float, scheme: str = "bridge", *,
    half_width: float | None = None,
) -> Path:  # fmt: skip
    """The nodes of a density after every layer up to T, noise-free, one dimension."""
    validate.choice(scheme, "scheme", SCHEMES)
    n = steps_to(T, eps)
    if scheme == "bridge":
        nodes = grid(density, eps, half_width=half_width, resolution=RESOLUTION)
    else:
        nodes = uniform_nodes(density, _euler_spacing(density, eps), half_width)
    log_rho0 = density.logpdf(nodes.x)
    states = [nodes.x]
    for _ in range(n):
        x = states[-1]
        if scheme == "bridge":
            bridge = self_bridge(x, eps, nodes.weights, tol=1e-12, method="dense")
            states.append(2 * x - bridge.barycentric()[:, 0])
        else:
            states.append(x - eps / 2 * _carried_score(x, log_rho0, nodes.h))
    return Path(nodes, np.linspace(0.0, n * eps, n + 1), np.stack(states))


def error_path(
    density: GaussianMixture, eps: float, T: float, scheme: str = "bridge", *,
    half_width: float | None = None,
) -> Array:  # fmt: skip
    """W2 to the heat flow after every layer up to T, noise-free, shape (T/eps,)."""
    path = node_path(density, eps, T, scheme, half_width=half_width)
    start, w = path.nodes.x, path.nodes.weights
    return np.array(
        [
            np.sqrt(w @ (x - density.quantile_map(start, t)) ** 2)
            for t, x in zip(path.times[1:], path.states[1:], strict=True)
        ]
    )


def uniform_error(density: GaussianMixture, eps: float, T: float, scheme: str = "bridge") -> float:
    """sup_k W2(layer k, heat flow at k eps) for k eps <= T, noise-free, one dimension.

    >>> from attnflow.densities import Gaussian
    >>> f"{uniform_error(Gaussian(0.0, 1.0), 0.1, 1.0):.5e}"
    '2.33554e-04'
    """
    return float(error_path(density, eps, T, scheme).max())


def score_error(density: GaussianMixture, eps: float) -> float:
    """The L2(rho) distance of (B(x) - x)/eps from (1/2) grad log rho, noise-free, one dimension."""
    nodes = grid(density, eps, resolution=RESOLUTION)
    bridge = self_bridge(nodes.x, eps, nodes.weights, tol=1e-12, method="dense")
    estimate = (bridge.barycentric()[:, 0] - nodes.x) / eps
    gap = estimate - density.score(nodes.x)[:, 0] / 2
    return float(np.sqrt(nodes.weights @ gap**2))


def one_step_distance(density: GaussianMixture, eps: float) -> float:
    """W2 between the bridge step and the Euler step of a density, noise-free, one dimension."""
    return eps * score_error(density, eps)


def _euler_spacing(density: GaussianMixture, eps: float) -> float:
    """Explicit Euler amplifies waves shorter than about 3 sqrt(eps): the grid must not hold them."""
    sigma = float(np.sqrt(density.covs[:, 0, 0].min()))
    if eps > EULER_EPS * sigma**2:
        raise ValueError(
            f"explicit Euler needs eps <= {EULER_EPS} times the smallest variance {sigma**2:g} to be "
            f"both stable and resolved, got eps = {eps}"
        )
    return EULER_SPACING * float(np.sqrt(eps))


def _carried_score(x: Array, log_rho0: Array, h: float) -> Array:
    """The score of the density carried by nodes x that started on a uniform grid.

    rho(x_i) = rho_0 / (dx/dx_0), so the score is the derivative of log rho_0 - log x' over x'.
    """
    stretch = _derivative(x, h)
    return _derivative(log_rho0 - np.log(stretch), h) / stretch


def _derivative(f: Array, h: float) -> Array:
    """The derivative on a uniform grid: central differences of order eight, parabolas at the ends."""
    pad = 4
    beyond = np.arange(-pad, 0, dtype=np.float64)
    left, right = _parabola(f[:3], beyond), _parabola(f[:-4:-1], beyond)
    g = np.concatenate([left, f, right[::-1]])
    out = np.zeros_like(f)
    for k, c in enumerate((4 / 5, -1 / 5, 4 / 105, -1 / 280), start=1):
        out += c * (g[pad + k : pad + k + len(f)] - g[pad - k : pad - k + len(f)])
    return out / h


def _parabola(f: Array, at: Array) -> Array:
    """The parabola through f at 0, 1, 2, evaluated at `at`."""
    return f[0] + (f[1] - f[0]) * at + (f[2] - 2 * f[1] + f[0]) * at * (at - 1) / 2
