r"""Layers as time: L residual layers with step T/L, and the equation they discretise.

One layer moves every token by :math:`x_i \mapsto x_i + \frac{T}{L}\,\Gamma(x_i)`, which is the
explicit Euler step of :math:`\dot x_i = \Gamma(x_i)`.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import solve_ivp

from attnflow import validate
from attnflow.validate import Array


class Layer(Protocol):
    """Anything that gives tokens a velocity: the classes of `attnflow.attention`, for example."""

    def velocity(self, x: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """(n, d) -> (n, d)."""


class Flow(NamedTuple):
    """Tokens along time."""

    times: Array  #: (m,)
    states: Array  #: (m, n, d)


def layers(
    attention: Layer, x0: ArrayLike, depth: int, *, time: float = 1.0,
    weights: ArrayLike | None = None,
) -> Flow:  # fmt: skip
    """`depth` residual layers x <- x + (time/depth) Gamma(x); all depth + 1 states.

    >>> from attnflow.attention import SoftmaxAttention
    >>> I = np.eye(1)
    >>> layers(SoftmaxAttention(I, I, I), [[1.0]], depth=2).states.ravel()
    array([1.  , 1.5 , 2.25])
    """
    x = validate.tokens(x0, "x0")
    depth = validate.count(depth, "depth")
    step = validate.positive(time, "time") / depth
    states = [x]
    for _ in range(depth):
        x = x + step * _velocity(attention, x, weights)
        states.append(x)
    return Flow(np.linspace(0.0, step * depth, depth + 1), np.stack(states))


def ode(
    attention: Layer, x0: ArrayLike, times: ArrayLike, *, rtol: float = 1e-10,
    weights: ArrayLike | None = None,
) -> Flow:  # fmt: skip
    """The limit of many thin layers, dx/dt = Gamma(x), at increasing times from x0 at times[0].

    Integrated by an explicit Runge-Kutta method of order 8 (scipy's DOP853).

    >>> from attnflow.attention import SoftmaxAttention
    >>> I = np.eye(1)
    >>> ode(SoftmaxAttention(I, I, I), [[1.0]], [0.0, 1.0]).states.ravel().round(6)
    array([1.      , 2.718282])
    """
    x = validate.tokens(x0, "x0")
    t = validate.array(times, "times", 1)
    if len(t) < 2 or (np.diff(t) <= 0).any():
        raise ValueError(f"times must be at least two increasing numbers, got {t}")
    rtol = validate.positive(rtol, "rtol")
    size = max(float(np.abs(x).max()), np.finfo(float).tiny)
    _velocity(attention, x, weights)  # what is wrong from the start is not a trial step's fault

    def velocity(_: float, y: Array) -> Array:
        try:
            return _velocity(attention, y.reshape(x.shape), weights).ravel()
        except ValueError:  # a trial step that went too far: NaN makes the solver shorten it
            return np.full(x.size, np.nan)

    with np.errstate(all="ignore"):
        result = solve_ivp(
            velocity, (t[0], t[-1]), x.ravel(),
            method="DOP853", t_eval=t, rtol=rtol, atol=rtol * size,
        )  # fmt: skip
    if not result.success:
        last = result.t[-1] if len(result.t) else t[0]
        raise ArithmeticError(f"the flow stopped after t = {last:.6g}: {result.message}")
    return Flow(t, result.y.T.reshape(len(t), *x.shape))


def _velocity(attention: Layer, x: Array, weights: ArrayLike | None) -> Array:
    out = attention.velocity(x, weights)
    if out.shape != x.shape:
        raise ValueError(f"velocities must have the tokens' shape {x.shape}, got {out.shape}")
    return out
