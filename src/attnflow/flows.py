r"""Layers as time: L residual layers with step T/L, and the equation they discretise.

One layer moves every token by :math:`x_i \mapsto x_i + \frac{T}{L}\,\Gamma(x_i)`, which is the
explicit Euler step of :math:`\dot x_i = \Gamma(x_i)`. Three frames:

* space: :func:`layers` and :func:`ode`;
* the sphere: layer normalisation after every layer, :math:`\dot x_i = P_{x_i}\Gamma(x_i)` with
  :math:`P_x = I - xx^\top`: :func:`sphere_layers` and :func:`sphere_ode`;
* rescaled tokens :math:`z = e^{-tV}x`, which stay bounded where x does not:
  :func:`rescaled_flow`, :math:`\dot z_i = V(\sum_j P_{ij} z_j - z_i)` with P at
  :math:`e^{tV}z` (Geshkovski, Letrouit, Polyanskiy, Rigollet 2023).

The equations are integrated by scipy's DOP853, an explicit Runge-Kutta method of order 8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from scipy.spatial.distance import pdist

from attnflow import validate
from attnflow.attention import Attention, MultiHead
from attnflow.validate import Array

#: e^30 of double precision's e^36: the growth beyond which tokens of a cluster look equal.
RESOLVED_GROWTH = 30.0


class Layer(Protocol):
    """Anything that gives tokens a velocity: the classes of `attnflow.attention`, for example."""

    def velocity(self, x: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """(n, d) -> (n, d)."""


class Flow(NamedTuple):
    """Tokens along time."""

    times: Array  #: (m,)
    states: Array  #: (m, n, d)
    evaluations: int = 0  #: how often the velocity was computed

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
        """The covariance matrix of the tokens, at every time, shape (m, d, d)."""
        centred = self.states - self.states.mean(axis=1, keepdims=True)
        return np.einsum("mni,mnj->mij", centred, centred) / self.states.shape[1]


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
    return _layers(attention, validate.tokens(x0, "x0"), depth, time, weights, lambda x: x)


def sphere_layers(
    attention: Layer, x0: ArrayLike, depth: int, *, time: float = 1.0,
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
    return _layers(attention, validate.on_sphere(x0, "x0"), depth, time, weights, _normalise)


def ode(
    attention: Layer, x0: ArrayLike, times: ArrayLike, *, rtol: float = 1e-10,
    weights: ArrayLike | None = None,
) -> Flow:  # fmt: skip
    """The limit of many thin layers, dx/dt = Gamma(x), at increasing times from x0 at times[0].

    >>> from attnflow.attention import SoftmaxAttention
    >>> I = np.eye(1)
    >>> ode(SoftmaxAttention(I, I, I), [[1.0]], [0.0, 1.0]).states.ravel().round(6)
    array([1.      , 2.718282])
    """
    x = validate.tokens(x0, "x0")
    return integrate(lambda _, y: _velocity(attention, y, weights), x, times, rtol=rtol)


def sphere_ode(
    attention: Layer, x0: ArrayLike, times: ArrayLike, *, rtol: float = 1e-10,
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
        u = _normalise(y)
        v = _velocity(attention, u, weights)
        return v - (u * v).sum(axis=1, keepdims=True) * u

    flow = integrate(tangent, x, times, rtol=rtol)
    return flow._replace(states=_normalise(flow.states))


def rescaled_flow(
    attention: Attention | MultiHead, z0: ArrayLike, times: ArrayLike, *, rtol: float = 1e-8,
    weights: ArrayLike | None = None,
) -> Flow:  # fmt: skip
    """Rescaled tokens z = exp(-tV) x; x follows dx/dt = Gamma(x) and z = x at t = 0.

    Times start at 0 or later; z0 are the rescaled tokens at times[0]. The attention matrix sees
    exp(tV) z, whose scores may reach 1e300 (t = 100 and more for V = I); row maxima are
    subtracted, so that nothing overflows. Several heads share V = sum_h W_h V_h.

    Tokens that follow one leader approach each other like exp(-lambda t), lambda the largest
    real part in V's spectrum, and from lambda t = 36 on rounding alone would say who leads.
    Where V = lambda I that does not matter. For any other V the attention matrix is held from
    lambda t = 30 on, and the flow goes on with it.

    >>> from attnflow.attention import SoftmaxAttention
    >>> I = np.eye(1)
    >>> layer = SoftmaxAttention(I, I, I)
    >>> rescaled_flow(layer, [[-1.0], [0.5], [1.0]], [0.0, 100.0]).states[-1].ravel().round(6)
    array([-0.869541,  0.839422,  0.839422])
    """
    z = validate.tokens(z0, "z0")
    t = validate.times(times, start=0.0)
    V, heads, maps = _parts(attention, z)
    growth = float(np.linalg.eigvals(V).real.max())
    scalar = len(heads) == 1 and np.array_equal(V, V[0, 0] * np.eye(len(V)))
    resolved = np.inf if scalar or growth <= 0 else max(RESOLVED_GROWTH / growth, t[0])

    def matrices(time: float, y: Array) -> list[Array]:
        x = y @ expm(time * V).T
        return [head.matrix(x, weights) for head in heads]

    def velocity(time: float, y: Array, held: list[Array] | None = None) -> Array:
        out = -y @ V.T
        for P, M in zip(held or matrices(time, y), maps, strict=True):
            if len(heads) > 1:
                grow = expm(time * V)
                M = np.linalg.solve(grow, M @ grow)
            out = out + (P @ y) @ M.T
        return out

    if t[-1] <= resolved:
        return integrate(velocity, z, t, rtol=rtol)
    early, late = t[t < resolved], t[t >= resolved]
    states, evaluations = [z[None]], 0
    if len(early):
        first = integrate(velocity, z, np.append(early, resolved), rtol=rtol)
        states, evaluations = [first.states], first.evaluations
    start = states[-1][-1]
    hold = matrices(resolved, start)
    knots = late if late[0] == resolved else np.append(resolved, late)
    if len(knots) > 1:
        second = integrate(lambda s, y: velocity(s, y, hold), start, knots, rtol=rtol)
        states.append(second.states[1:])
        evaluations += second.evaluations
    found = np.concatenate(states)  # at the early times, at `resolved`, at the late ones
    if len(early) and late[0] > resolved:
        found = np.delete(found, len(early), axis=0)
    return Flow(t, found, evaluations)


def layer_value(attention: Attention | MultiHead, d: int) -> Array:
    """V of a layer, shape (d, d): that of its head, or the sum of W_h V_h."""
    if isinstance(attention, MultiHead):
        V = sum(w @ head.V for w, head in zip(attention.W, attention.heads, strict=True))
    else:
        V = attention.V
    if np.shape(V) != (d, d):
        raise ValueError(f"V must be square, {d} rows and columns, got shape {np.shape(V)}")
    return np.asarray(V)


def integrate(
    velocity: Callable[[float, Array], Array], x0: Array, times: ArrayLike, *,
    rtol: float = 1e-10, scale: float = 0.0,
) -> Flow:  # fmt: skip
    """dx/dt = velocity(t, x) for an array x of any shape, at increasing times from times[0].

    Errors are relative to x itself or to the largest entry of x0, or `scale` if that is larger.
    A ValueError of `velocity` at the start is raised; later it only shortens a step, since a
    trial step may leave the set where the field is defined.
    """
    t = validate.times(times)
    rtol = validate.positive(rtol, "rtol")
    size = max(float(np.abs(x0).max()), scale, np.finfo(float).tiny)
    velocity(float(t[0]), x0)

    def flat(time: float, y: Array) -> Array:
        try:
            return velocity(time, y.reshape(x0.shape)).ravel()
        except ValueError:  # a trial step that went too far: NaN makes the solver shorten it
            return np.full(x0.size, np.nan)

    with np.errstate(all="ignore"):
        result = solve_ivp(
            flat, (t[0], t[-1]), x0.ravel(),
            method="DOP853", t_eval=t, rtol=rtol, atol=rtol * size,
        )  # fmt: skip
    if not result.success:
        last = result.t[-1] if len(result.t) else t[0]
        raise ArithmeticError(f"the flow stopped after t = {last:.6g}: {result.message}")
    return Flow(t, result.y.T.reshape(len(t), *x0.shape), int(result.nfev))


def _layers(
    attention: Layer, x: Array, depth: int, time: float, weights: ArrayLike | None,
    project: Callable[[Array], Array],
) -> Flow:  # fmt: skip
    depth = validate.count(depth, "depth")
    step = validate.positive(time, "time") / depth
    states = [x]
    for _ in range(depth):
        x = project(x + step * _velocity(attention, x, weights))
        states.append(x)
    return Flow(np.linspace(0.0, step * depth, depth + 1), np.stack(states), depth)


def _velocity(attention: Layer, x: Array, weights: ArrayLike | None) -> Array:
    out = attention.velocity(x, weights)
    if out.shape != x.shape:
        raise ValueError(f"velocities must have the tokens' shape {x.shape}, got {out.shape}")
    return out


def _normalise(x: Array) -> Array:
    norms = np.linalg.norm(x, axis=-1, keepdims=True)
    if not norms.all():
        raise ValueError("a zero vector has no direction on the sphere")
    return x / norms


def _parts(
    attention: Attention | MultiHead, z: Array
) -> tuple[Array, tuple[Attention, ...], list[Array]]:
    """V of the whole layer, its heads, and W_h V_h of each."""
    if isinstance(attention, MultiHead):
        heads = attention.heads
        maps = [w @ head.V for w, head in zip(attention.W, heads, strict=True)]
    else:
        heads, maps = (attention,), [attention.V]
    return layer_value(attention, z.shape[1]), heads, maps
