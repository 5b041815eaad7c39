r"""Steps of tokens: the layer :math:`x \mapsto 2x - B(x)`, the explicit Euler step, the general one.

B(x) is where the partners of x are on average, under the Schrödinger bridge of the tokens to
themselves (:mod:`attnflow.transport.bridge`). The layer moves every token as far to the other side: away
from the crowd, as heat does.
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

#: Below this many tokens within sqrt(eps) of each other the bridge couples a token with itself.
FROZEN_BELOW = 0.3


def reflected(bridge: Bridge) -> Array:
    r"""One layer :math:`2x - B(x)`, the mean of the partners reflected in the token, shape (n, d).

    This is the step of :cite:t:`agarwal2024`, for a bridge that is already solved.

    >>> reflected(self_bridge([[-1.0], [1.0]], eps=1.0)).round(3)
    array([[-1.238],
           [ 1.238]])
    """
    return 2 * bridge.x - bridge.barycentric()


def bridge_step(x: ArrayLike, eps: float, weights: ArrayLike | None = None) -> Array:
    r"""One layer :math:`x \mapsto 2x - B(x)`, shape (n, d). Warns where the tokens are frozen.

    On the line tokens freeze when :math:`\sqrt\varepsilon\, n\, \rho_{\max} < 0.3`; in general when
    a token has, on average, no other within about :math:`\sqrt\varepsilon`
    (:class:`~attnflow.errors.Frozen`).

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
        return validate.finite(reflected(bridge), "tokens after the layer")


class Layers(NamedTuple):
    """Tokens through layers, and what the worst of the bridges says of itself.

    >>> iterate([[-1.0], [1.0]], eps=1.0, depth=2).converged
    True
    """

    states: Array  #: (depth + 1, n, d)
    converged: bool  #: whether every bridge was solved to tol
    residual: float  #: the largest L1 error of a bridge's marginal
    iterations: int  #: the most sweeps that a bridge took


def iterate(
    x: ArrayLike, eps: float, depth: int, weights: ArrayLike | None = None, *,
    tol: float = 1e-9, method: str = "auto",
) -> Layers:  # fmt: skip
    r"""Tokens through `depth` layers :math:`x \mapsto 2x - B(x)`.

    `tol` and `method` are those of :func:`attnflow.transport.self_bridge`.

    >>> iterate([[-1.0], [1.0]], eps=1.0, depth=2).states[:, 1, 0].round(3)
    array([1.   , 1.238, 1.349])
    """
    states, converged, residual, iterations = [validate.tokens(x)], True, 0.0, 0
    for _ in range(validate.count(depth, "depth")):
        bridge = self_bridge(states[-1], eps, weights, tol=tol, method=method)
        states.append(reflected(bridge))
        converged &= bool(bridge.converged)
        residual, iterations = max(residual, bridge.residual), max(iterations, bridge.iterations)
    return Layers(np.stack(states), converged, residual, iterations)


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
