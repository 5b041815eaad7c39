r"""Layers as time: L residual layers with step T/L, and the equation they discretise.

One layer moves every token by :math:`x_i \mapsto x_i + \frac{T}{L}\,\Gamma(x_i)`, which is the
explicit Euler step of :math:`\dot x_i = \Gamma(x_i)`: :func:`layers` and :func:`ode`. With layer
normalisation tokens live on the sphere and :math:`\dot x_i = P_{x_i}\Gamma(x_i)`,
:math:`P_x = I - xx^\top`: :func:`sphere_layers` and :func:`sphere_ode` (:cite:t:`geshkovski2025`).
Rescaled tokens have a module of their own, :mod:`attnflow.geometry.rescaled`.

The equations are integrated by scipy's DOP853, an explicit Runge-Kutta method of order 8
(:cite:t:`hairer1993`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import DOP853
from scipy.spatial.distance import pdist

from attnflow import validate
from attnflow.errors import FlowStopped
from attnflow.validate import Array

#: Between these norms no square of a token's entries is too small or too large to be added.
SQUARED = 1e-140, 1e140


class VelocityField(Protocol):
    """Anything that gives tokens a velocity: the classes of `attnflow.attention`, for example.

    >>> class Wind:
    ...     def velocity(self, x, weights=None):
    ...         return np.ones_like(x)
    >>> ode(Wind(), [[0.0], [2.0]], [0.0, 1.0]).states[-1].ravel().round(6)
    array([1., 3.])
    """

    def velocity(self, x: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """(n, d) -> (n, d)."""


class Flow(NamedTuple):
    """Tokens along time.

    >>> flow = Flow(np.zeros(1), np.array([[[0.0], [4.0]]]), weights=np.array([0.75, 0.25]))
    >>> flow.covariances
    array([[[3.]]])
    """

    times: Array  #: (m,)
    states: Array  #: (m, n, d)
    iterations: int = 0  #: how often the velocity was computed
    weights: Array | None = None  #: the tokens' masses, (n,); None where all have the same
    rtol: float = 0.0  #: the relative error allowed in every step; 0 for layers, which are exact

    @property
    def converged(self) -> bool:
        """True: a flow that does not reach its last time raises `FlowStopped` instead."""
        return True

    @property
    def radius(self) -> Array:
        """The largest norm of a token, at every time."""
        return np.linalg.norm(self.states, axis=2).max(axis=1)

    @property
    def diameter(self) -> Array:
        """The largest distance of two tokens, at every time."""
        return np.array([pdist(x).max(initial=0.0) for x in self.states])

    @property
    def covariances(self) -> Array:
        """The covariance of the tokens with their weights, at every time, shape (m, d, d)."""
        n = self.states.shape[1]
        w = np.full(n, 1 / n) if self.weights is None else self.weights
        centred = self.states - np.einsum("n,mni->mi", w, self.states)[:, None]
        return np.einsum("n,mni,mnj->mij", w, centred, centred, optimize=True)


def layers(
    attention: VelocityField, x0: ArrayLike, depth: int, *, time: float = 1.0,
    weights: ArrayLike | None = None,
) -> Flow:  # fmt: skip
    """`depth` residual layers x <- x + (time/depth) Gamma(x); all depth + 1 states.

    >>> from attnflow.attention import SoftmaxAttention
    >>> I = np.eye(1)
    >>> layers(SoftmaxAttention(I, I, I), [[1.0]], depth=2).states.ravel()
    array([1.  , 1.5 , 2.25])
    """
    return _layers(attention, validate.tokens(x0, "x0"), depth, time, weights, lambda x: x)


def sphere_layers(
    attention: VelocityField, x0: ArrayLike, depth: int, *, time: float = 1.0,
    weights: ArrayLike | None = None,
) -> Flow:  # fmt: skip
    """The same, with every token divided by its norm after each layer.

    >>> from attnflow.attention import SoftmaxAttention
    >>> I = np.eye(2)
    >>> layer = SoftmaxAttention(0 * I, 0 * I, I)
    >>> sphere_layers(layer, I, depth=50, time=10.0).states[-1].round(3)
    array([[0.707, 0.707],
           [0.707, 0.707]])
    """
    return _layers(attention, validate.on_sphere(x0, "x0"), depth, time, weights, unit_rows)


def ode(
    attention: VelocityField, x0: ArrayLike, times: ArrayLike, *, rtol: float = 1e-10,
    weights: ArrayLike | None = None,
) -> Flow:  # fmt: skip
    """The limit of many thin layers, dx/dt = Gamma(x), at increasing times from x0 at times[0].

    >>> from attnflow.attention import SoftmaxAttention
    >>> I = np.eye(1)
    >>> ode(SoftmaxAttention(I, I, I), [[1.0]], [0.0, 1.0]).states.ravel().round(6)
    array([1.      , 2.718282])
    """
    x = validate.tokens(x0, "x0")
    flow = integrate(lambda _, y: _velocity(attention, y, weights), x, times, rtol=rtol)
    return flow._replace(weights=_masses(weights, x))


def sphere_ode(
    attention: VelocityField, x0: ArrayLike, times: ArrayLike, *, rtol: float = 1e-10,
    weights: ArrayLike | None = None,
) -> Flow:  # fmt: skip
    """The limit of thin normalised layers: dx_i/dt is Gamma(x_i) projected on the tangent space.

    The field is read at the projected tokens and the states are projected, so that norms are
    one up to rounding.

    >>> from attnflow.attention import SoftmaxAttention
    >>> I = np.eye(2)
    >>> x = sphere_ode(SoftmaxAttention(I, I, I), I, [0.0, 30.0]).states[-1]
    >>> bool(np.abs(x[0] - x[1]).max() < 1e-9)
    True
    """
    x = validate.on_sphere(x0, "x0")

    def tangent(_: float, y: Array) -> Array:
        u = unit_rows(y)
        v = _velocity(attention, u, weights)
        return v - (u * v).sum(axis=1, keepdims=True) * u

    flow = integrate(tangent, x, times, rtol=rtol)
    return flow._replace(states=unit_rows(flow.states), weights=_masses(weights, x))


def integrate(
    velocity: Callable[[float, Array], Array], x0: Array, times: ArrayLike, *,
    rtol: float = 1e-10, scale: float = 0.0,
) -> Flow:  # fmt: skip
    """dx/dt = velocity(t, x) for an array x of any shape, at increasing times from times[0].

    Errors are relative to x itself or to the largest entry of x0, or `scale` if that is larger.
    A ValueError of `velocity` at the start is raised; later it only shortens a step, since a
    trial step may leave the set where the field is defined. A flow that cannot be followed to the
    last time raises :class:`~attnflow.errors.FlowStopped`.

    >>> integrate(lambda t, x: 2 * t, np.zeros(1), [0.0, 3.0], scale=1.0).states.ravel().round(6)
    array([0., 9.])
    """
    t = validate.times(times)
    rtol = validate.positive(rtol, "rtol")
    size = max(float(np.abs(x0).max()), scale, np.finfo(float).tiny)
    velocity(float(t[0]), x0)

    def flat(elapsed: float, y: Array) -> Array:
        try:
            return velocity(t[0] + elapsed, y.reshape(x0.shape)).ravel()
        except ValueError:  # a trial step that went too far: NaN makes the solver shorten it
            return np.full(x0.size, np.nan)

    with np.errstate(all="ignore"):
        solver = DOP853(flat, 0.0, x0.ravel(), t[-1] - t[0], rtol=rtol, atol=rtol * size)
        states, between = [solver.y], None
        for target in t[1:] - t[0]:
            while solver.t < target:
                if trouble := solver.step():
                    raise FlowStopped(
                        f"the flow stopped after t = {t[len(states) - 1]:.6g}: {trouble} Scale the "
                        "layer down (lower beta), shorten the times or raise rtol."
                    )
                between = None
            if solver.t > target:
                between = between or solver.dense_output()  # costs three more velocities
            states.append(solver.y if between is None else between(target))
    shaped = np.reshape(states, (len(t), *x0.shape))
    return Flow(t, shaped, iterations=int(solver.nfev) + 1, rtol=rtol)


def _layers(
    attention: VelocityField, x: Array, depth: int, time: float, weights: ArrayLike | None,
    project: Callable[[Array], Array],
) -> Flow:  # fmt: skip
    depth = validate.depth(depth, x.size)
    step = validate.positive(time, "time") / depth
    states = [x]
    for _ in range(depth):
        x = project(x + step * _velocity(attention, x, weights))
        states.append(x)
    times = np.linspace(0.0, step * depth, depth + 1)
    return Flow(times, np.stack(states), iterations=depth, weights=_masses(weights, x))


def _velocity(attention: VelocityField, x: Array, weights: ArrayLike | None) -> Array:
    out = attention.velocity(x, weights)
    if out.shape != x.shape:
        raise ValueError(f"velocities must have the tokens' shape {x.shape}, got {out.shape}")
    return out


def _masses(weights: ArrayLike | None, x: Array) -> Array | None:
    return None if weights is None else validate.weights(weights, len(x))


def unit_rows(x: Array) -> Array:
    """Every token divided by its norm; a ``ValueError`` for a token at zero.

    >>> unit_rows(np.array([[3.0, 4.0]]))
    array([[0.6, 0.8]])
    """
    with np.errstate(over="ignore"):
        norms = np.linalg.norm(x, axis=-1, keepdims=True)
    if not (SQUARED[0] < norms.min(initial=1.0) and norms.max(initial=1.0) < SQUARED[1]):
        largest = np.abs(x).max(axis=-1, keepdims=True)
        if not largest.all():
            raise ValueError("tokens must have a direction on the sphere, got a zero vector")
        x = np.ldexp(x, -np.frexp(largest)[1])  # the direction stays
        norms = np.linalg.norm(x, axis=-1, keepdims=True)
    return np.asarray(x / norms)
