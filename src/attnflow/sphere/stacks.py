r"""Many starts at once: stacks of tokens on the sphere, and when each start is one cluster.

A stack has shape (starts, n, d). All of it is one state of the integrator: that is many times
faster than start by start where n is small, and no start sees another but through the length of the
steps. Self-attention (SA) is :math:`\dot x_i = P_{x_i}\sum_jA_{ij}x_j` (:cite:t:`geshkovski2025`), with a
mask or without; for shares of clustered pairs over thousands of starts there is the compiled
:func:`attnflow.sphere.phase_diagram`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from attnflow import validate
from attnflow.flows import integrate
from attnflow.sphere.tokens import tangent, unit
from attnflow.validate import Array

#: 1 - <x_i, x_j> below this is rounding.
CLOSEST = 1e-12
#: The flow is followed over legs that double, each seen at so many times.
FIRST_LEG, LOOKS = 1.0, 33


def velocities(x: ArrayLike, beta: float, *, causal: bool = False) -> Array:
    """The velocity of every token of a stack, (starts, n, d) -> (starts, n, d), by SA.

    Start by start it is :func:`attnflow.sphere.velocity` :cite:p:`geshkovski2025`.

    >>> velocities([np.eye(2), -np.eye(2)], beta=0.0, causal=True)[:, 1]
    array([[ 0.5,  0. ],
           [-0.5,  0. ]])
    """
    return _velocities(_stack(x), validate.beta(beta), causal)


def meeting_times(times: ArrayLike, states: ArrayLike, delta: float = 1e-3) -> Array:
    r"""When all inner products have reached 1 - delta, for tokens seen at some times.

    `states` has shape (times, starts, n, d). Between two times
    :math:`-\log(1-\min_{ij}\langle x_i,x_j\rangle)` is interpolated, which grows linearly where
    tokens approach each other exponentially. Infinity for a start that is not one cluster at the
    last time.

    >>> angles = np.array([1.0, 0.1, 0.01])
    >>> x = np.stack([np.cos([0 * angles, angles]), np.sin([0 * angles, angles])], axis=-1)
    >>> meeting_times([0.0, 1.0, 2.0], x.swapaxes(0, 1)[:, None], delta=1 - np.cos(0.1)).round(9)
    array([1.])
    """
    t, x = validate.times(times), validate.array(states, "states", 4)
    if len(x) != len(t):
        raise ValueError(f"states must have one stack per time, {len(t)}, got {len(x)}")
    flat = _stack(x.reshape(-1, *x.shape[2:]), "states")
    return _meetings(t, flat.reshape(x.shape), validate.between_zero_and_one(delta, "delta"))


def cluster_times(
    x0: ArrayLike, beta: ArrayLike, horizon: float, delta: float = 1e-3, *,
    causal: bool = False, rtol: float = 1e-6,
) -> Array:  # fmt: skip
    """When each start of a stack (starts, n, d) is one cluster, by SA; infinity if not in time.

    `beta` is a number, or one for every start: many temperatures at once cost little more than one.
    A cluster is one when all inner products are at least 1 - delta. That is final without a mask:
    where all inner products are positive the smallest of them cannot fall :cite:p:`geshkovski2025`.
    Starts are left as soon as they are one. Each is looked at 32 times while its age doubles, and
    between two looks :func:`meeting_times` interpolates.

    >>> from attnflow.sphere import merge_time
    >>> near, opposite = [[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.0], [-1.0, 0.0]]
    >>> cluster_times([near, opposite], beta=2.0, horizon=30.0).round(3)
    array([3.386,   inf])
    >>> round(merge_time(2.0, np.arccos(0.6), np.arccos(0.999)), 3)
    3.386
    """
    x = _stack(x0, "x0")
    betas = _per_start(beta, len(x))
    horizon = validate.positive(horizon, "horizon")
    delta = validate.between_zero_and_one(delta, "delta")
    out, left, now = np.full(len(x), np.inf), np.arange(len(x)), 0.0
    while len(left) and now < horizon:
        t = np.linspace(now, min(max(FIRST_LEG, 2 * now), horizon), LOOKS)
        field = lambda _, y, now=betas[left]: _velocities(unit(y), now, causal)  # noqa: E731
        path = unit(integrate(field, x, t, rtol=rtol).states)  # (times, starts left, n, d)
        out[left] = _meetings(t, path, delta)
        apart = np.isinf(out[left])
        x, left, now = path[-1][apart], left[apart], t[-1]
    return out


def _velocities(x: Array, beta: float | Array, causal: bool) -> Array:
    near = x @ x.mT  # (starts, n, n)
    near -= 1  # no score is above a token's own
    near *= beta
    np.exp(near, out=near)
    if causal:
        near *= np.tri(near.shape[-1])
    sums = near @ np.concatenate([x, np.ones_like(x[..., :1])], axis=-1)
    return tangent(x, sums[..., :-1] / sums[..., -1:])


def _meetings(t: Array, x: Array, delta: float) -> Array:
    lowest = (x @ x.swapaxes(-1, -2)).min(axis=(-1, -2))  # (times, starts)
    near = np.maximum.accumulate(-np.log(np.maximum(1 - lowest, CLOSEST)))
    goal = -np.log(delta)
    met = [np.interp(goal, column, t) if column[-1] >= goal else np.inf for column in near.T]
    return np.array(met)


def _per_start(beta: ArrayLike, count: int) -> Array:
    """One beta a start, shaped to multiply a stack of scores: (count, 1, 1)."""
    if np.ndim(beta) == 0:
        return np.full((count, 1, 1), validate.beta(beta))
    given = validate.array(beta, "beta", 1)
    if len(given) != count:
        raise ValueError(f"beta must be a number or {count}, one a start, got shape {given.shape}")
    return np.reshape([validate.beta(value) for value in given], (count, 1, 1))


def _stack(x: ArrayLike, name: str = "x") -> Array:
    """A stack of two unit vectors or more each, (starts, n, d)."""
    out = validate.array(x, name, 3)
    if not len(out):
        raise ValueError(f"{name} must hold at least one start, got shape {out.shape}")
    if out.shape[1] < 2:
        raise ValueError(f"{name} must hold at least two tokens a start, got {out.shape[1]}")
    return validate.on_sphere(out.reshape(-1, out.shape[2]), name).reshape(out.shape)
