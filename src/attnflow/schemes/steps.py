r"""Steps of tokens: the layer :math:`x \mapsto 2x - B(x)`, the explicit Euler step, the general one.

B(x) is where the partners of x are on average, under the Schrödinger bridge of the tokens to
themselves (:mod:`attnflow.transport.bridge`). The layer moves every token as far to the other side: away
from the crowd, as heat does (:cite:t:`agarwal2024`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from attnflow import validate
from attnflow.errors import Frozen
from attnflow.transport.bridge import Bridge, self_bridge
from attnflow.validate import Array

#: Tokens are frozen where they spread by less than this share of what heat would do...
FROZEN_BELOW = 0.5
#: ...and keep more than this share of their variance in common with their partners: where they do
#: not, the temperature is large for the variance, and each is coupled with all.
KEPT = 0.5


def reflected(bridge: Bridge) -> Array:
    r"""One layer :math:`2x - B(x)`, the mean of the partners reflected in the token, shape (n, d).

    This is the step of :cite:t:`agarwal2024`, for a bridge that is already solved.

    >>> reflected(self_bridge([[-1.0], [1.0]], eps=1.0)).round(3)
    array([[-1.238],
           [ 1.238]])
    """
    return _across(bridge.x, bridge.barycentric())


def _across(x: Array, mean: Array) -> Array:
    with np.errstate(over="ignore"):
        return validate.finite(2 * x - mean, "tokens after the layer")


def heat_share(bridge: Bridge) -> float:
    r"""How much of heat's spreading the tokens see, :math:`q = \mathbb E_\pi|x-y|^2/(d\,\varepsilon)`.

    Since both marginals of the plan are equal, :math:`\mathbb E_\pi|x-y|^2 = 2\sum_i w_i\langle x_i,
    x_i - B(x_i)\rangle`: it is free once the layer is computed. For a smooth density and small eps it
    tends to one, as the bridge is nearly a Langevin diffusion (:cite:t:`agarwal2024`). It is near zero
    where tokens are coupled with themselves alone, and where eps is large for their variance.

    >>> grid = np.linspace(-5.0, 5.0, 101)
    >>> bell = np.exp(-(grid**2) / 2) / np.exp(-(grid**2) / 2).sum()
    >>> round(heat_share(self_bridge(grid, 0.1, bell)), 4)  # resolved: a step of 0.1
    0.975
    >>> round(heat_share(self_bridge(grid, 0.001, bell)), 4)  # frozen
    0.1328
    """
    return _share(bridge, bridge.barycentric())[0]


def _share(bridge: Bridge, mean: Array) -> tuple[float, bool]:
    """q, and whether the tokens are frozen."""
    off = bridge.x - bridge.weights @ bridge.x  # (n, d)
    half = float(bridge.weights @ np.einsum("nd,nd->n", off, bridge.x - mean))
    spread = float(bridge.weights @ np.einsum("nd,nd->n", off, off))
    q = 2 * half / (off.shape[1] * bridge.eps)
    return q, q < FROZEN_BELOW and half < KEPT * spread


def bridge_step(x: ArrayLike, eps: float, weights: ArrayLike | None = None) -> Array:
    r"""One layer :math:`x \mapsto 2x - B(x)`, shape (n, d). Warns where the tokens are frozen.

    They are frozen (:class:`~attnflow.errors.Frozen`) where :func:`heat_share` is below one half
    because tokens are coupled with themselves.

    >>> bridge_step([[-1.0], [0.0], [1.0]], eps=1.0).ravel().round(4)
    array([-1.4674,  0.    ,  1.4674])
    """
    x = validate.tokens(x)
    bridge = self_bridge(x, eps, weights)
    mean = bridge.barycentric()
    q, frozen = _share(bridge, mean)
    if frozen:
        warnings.warn(
            f"tokens are frozen when they spread by less than {FROZEN_BELOW:g} of what heat does, "
            f"here {q:.2g}: each is coupled with itself; use more tokens or a larger eps",
            Frozen,
            stacklevel=2,
        )
    return _across(bridge.x, mean)


class Worst(NamedTuple):
    """What the worst of some bridges says of itself.

    >>> Worst().or_worse(self_bridge([[-1.0], [1.0]], 1.0)).converged
    True
    """

    converged: bool = True  #: whether every bridge was solved to its tolerance
    residual: float = 0.0  #: the largest L1 error of a bridge's marginal
    iterations: int = 0  #: the most sweeps that a bridge took

    def or_worse(self, bridge: Bridge) -> Worst:
        """The worst of these and one more."""
        return Worst(
            self.converged and bool(bridge.converged),
            max(self.residual, bridge.residual),
            max(self.iterations, bridge.iterations),
        )


class Layers(NamedTuple):
    """Tokens through layers, and what the worst of the bridges says of itself.

    >>> iterate([[-1.0], [1.0]], eps=1.0, depth=2).converged
    True
    """

    states: Array  #: (depth + 1, n, d)
    converged: bool  #: whether every bridge was solved to tol
    residual: float  #: the largest L1 error of a bridge's marginal
    iterations: int  #: the most sweeps that a bridge took
    heat: Array  #: the :func:`heat_share` of every layer, (depth,)


def iterate(
    x: ArrayLike, eps: float, depth: int, weights: ArrayLike | None = None, *,
    tol: float = 1e-9, method: str = "auto",
) -> Layers:  # fmt: skip
    r"""Tokens through `depth` layers :math:`x \mapsto 2x - B(x)`.

    `tol` and `method` are those of :func:`attnflow.transport.self_bridge`.

    >>> iterate([[-1.0], [1.0]], eps=1.0, depth=2).states[:, 1, 0].round(3)
    array([1.   , 1.238, 1.349])
    """
    states, worst, heat = [validate.tokens(x)], Worst(), []
    for _ in range(validate.depth(depth, states[0].size)):
        bridge = self_bridge(states[-1], eps, weights, tol=tol, method=method)
        mean = bridge.barycentric()
        heat.append(_share(bridge, mean)[0])
        states.append(_across(bridge.x, mean))
        worst = worst.or_worse(bridge)
    return Layers(np.stack(states), *worst, np.array(heat))


def euler_step(x: ArrayLike, eps: float, score: Callable[[Array], Array]) -> Array:
    r"""The explicit Euler step :math:`x - \tfrac\varepsilon2\nabla\log\rho(x)`, shape (n, d).

    >>> euler_step([[1.0], [2.0]], 0.2, score=lambda x: -x)
    array([[1.1],
           [2.2]])
    """
    x, eps = validate.tokens(x), validate.positive(eps, "eps")
    if not callable(score):
        raise TypeError(f"score must be a function of tokens, got {validate.said(score)}")
    slope = validate.array(score(x), "score(x)", 2)
    if slope.shape != x.shape:
        raise ValueError(f"score(x) must have the tokens' shape {x.shape}, got {slope.shape}")
    with np.errstate(over="ignore", invalid="ignore"):
        return validate.finite(x - eps / 2 * slope, "tokens after the step")


def general_step(x: ArrayLike, eps: float, theta: float, surrogate: ArrayLike) -> Array:
    r""":math:`(1 - \tfrac1\theta)x + \tfrac1\theta B_{\sigma,\varepsilon}(x)`, shape (n, d).

    :math:`\sigma` is the measure with masses `surrogate` at x. With
    :math:`\sigma \propto e^{2\theta\psi}` this is :math:`x + \varepsilon\nabla\psi` to first order
    :cite:p:`agarwal2024`. :math:`\theta = -1` and :math:`\sigma = \rho` is the heat flow's layer.

    >>> general_step([[-1.0], [0.0], [1.0]], 1.0, -1.0, np.full(3, 1 / 3)).ravel().round(4)
    array([-1.4674,  0.    ,  1.4674])
    """
    x = validate.tokens(x)
    theta = validate.number(theta, "theta", "a finite number other than 0")
    if theta == 0:
        raise ValueError(f"theta must be a finite number other than 0, got {theta}")
    mean = self_bridge(x, eps, surrogate).barycentric()
    with np.errstate(over="ignore", invalid="ignore"):
        return validate.finite(x + (mean - x) / theta, "tokens after the step")
