r"""Tokens on the sphere, compiled: shares of clustered pairs over many draws.

A draw is followed as its tokens (:func:`clustered_tokens`) or as their inner products
(:func:`clustered_grams`), which cost :math:`O(n^3)` a step and do not know d: see
:mod:`attnflow.sphere.fields` for both. In d < n dimensions only tokens will do: errors in
the Gram matrix would add dimensions, and through those tokens leave equilibria in which a circle
would hold them.

Every draw is integrated by the pair of Dormand and Prince of orders 5 and 4 with its continuous
extension (:cite:t:`hairer1993`, II.6), with steps of its own. It is left as soon as all pairs are
clustered, which is final: where all :math:`G_{ij} \ge 0` the smallest of them cannot fall. Tokens on
their way to a cluster accelerate, and the error of a step with them: a step is chosen by the trend of the
last two errors too, as if it went on, and the shorter of the two counts. Fewer are then rejected.

In a cluster USA contracts like :math:`e^\beta`, and an explicit method would follow that for ever in
steps of :math:`e^{-\beta}`. So tokens of USA that have met are one from then on: the later token takes
the place and the velocity of the earlier, and counts for attention as before. They have met where
they are nearer than :data:`MET` times a step's tolerance: at the limit of its stability the method
leaves tokens of a cluster that far apart, and no nearer. At beta = 9 this takes 40 times fewer steps.

This module needs numba, which compiles it at the first call and keeps the result on disk. Both
kinds of state share one compiled loop, which asks which it is: a loop for each would have to be
compiled twice.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from attnflow.errors import FlowStopped
from attnflow.sphere.fields import (
    FAST,
    Places,
    Room,
    copy,
    derivative,
    follow_leaders,
    inner,
    meet,
    room_for,
)
from attnflow.validate import Array

#: Nodes of the method are not needed: the field does not depend on time.
_A = np.array(
    [
        [1 / 5, 0, 0, 0, 0, 0],
        [3 / 40, 9 / 40, 0, 0, 0, 0],
        [44 / 45, -56 / 15, 32 / 9, 0, 0, 0],
        [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0, 0],
        [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656, 0],
        [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
    ]
)
#: Order 5 minus order 4.
_ERROR = np.array([71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40])
#: The fourth-order continuous extension adds s^2 (1-s)^2 h sum_i D_i k_i to a cubic.
_DENSE = np.array(
    [
        -12715105075 / 11282082432, 0, 87487479700 / 32700410799, -10690763975 / 1880347072,
        701980252875 / 199316789632, -1453857185 / 822651844, 69997945 / 29380423,
    ]
)  # fmt: skip
FIRST_STEP, SMALLEST_STEP, MOST_STEPS = 0.25, 1e-12, 100_000
#: The share of the step that would just do; how far one step may differ from the last.
SAFETY, SHORTER, LONGER = 0.9, 0.2, 5.0
#: How near, in tolerances of a step, tokens of USA are one; and how far a squared norm may stray.
MET, STRAYED = 14.0, 0.1
#: How the loop ended.
ARRIVED, TOO_MANY_STEPS, TOO_SMALL_A_STEP = 0, 1, 2


def clustered_grams(
    G: Array, beta: float, times: Array, level: float, tol: float, normalised: bool
) -> tuple[Array, int]:
    """Shares of pairs with G_ij >= level, shape (draws, times), and the steps in all.

    `G` are Gram matrices at time 0, shape (draws, n, n); times increase from 0 or later; `tol`
    bounds the error of a step.

    >>> G = np.eye(3)[None]  # orthogonal tokens meet at the same moment
    >>> clustered_grams(G, 1.0, np.array([0.0, 9.0]), 0.99, 1e-4, True)[0]
    array([[0., 1.]])
    """
    n = G.shape[1]
    states = np.ascontiguousarray(G[:, *np.tril_indices(n, -1)])
    return _checked(_follow(states, n, True, beta, times, level, tol, normalised), beta)


def clustered_tokens(
    x: Array, beta: float, times: Array, level: float, tol: float, normalised: bool
) -> tuple[Array, int]:
    """The same for tokens at time 0, shape (draws, n, d).

    >>> x = np.array([[[1.0, 0.0], [-1.0, 0.0]]])  # opposite tokens do not move
    >>> clustered_tokens(x, 1.0, np.array([0.0, 9.0]), 0.99, 1e-4, True)[0]
    array([[0., 0.]])
    """
    states, n = x.reshape(len(x), -1), x.shape[1]
    return _checked(_follow(states, n, False, beta, times, level, tol, normalised), beta)


def _checked(found: tuple[Array, int, int], beta: float) -> tuple[Array, int]:
    shares, steps, end = found
    if end == TOO_MANY_STEPS:  # USA contracts like e^beta, which is stiff
        raise FlowStopped(
            f"the flow on the sphere needs too many steps, more than {MOST_STEPS} a draw: "
            f"lower beta, or end at an earlier time; got beta = {beta:g}"
        )
    if end == TOO_SMALL_A_STEP:
        raise FlowStopped(
            f"the flow on the sphere needs too small a step, below {SMALLEST_STEP:g}: "
            f"lower beta; got beta = {beta:g}"
        )
    return shares, steps


@njit(cache=True, nogil=True, fastmath=FAST)
def _combine(weights: Array, k: Array, h: float, stages: int, out: Array) -> None:
    """Add h sum_s weights[s] k[s] to `out`."""
    for s in range(stages):
        scale = h * weights[s]
        if scale != 0.0:
            stage = k[s]
            for q in range(len(out)):
                out[q] += scale * stage[q]


@njit(cache=True, nogil=True, fastmath=FAST)
def _advance(
    y: Array, h: float, gram: bool, beta: float, normalised: bool, lead: Places, met: bool,
    room: Room, k: Array, new: Array, gap: Array,
) -> float:  # fmt: skip
    """One step of length h: stages into k (k[0] is given), the end into `new`; the error."""
    for stage in range(6):
        copy(y, new)
        _combine(_A[stage], k, h, stage + 1, new)
        derivative(new, gram, beta, normalised, lead, met, room, k[stage + 1])
    gap[:] = 0.0
    _combine(_ERROR, k, h, len(k), gap)
    worst, total = 0.0, 0.0
    for q in range(len(gap)):
        worst = max(worst, abs(gap[q]))
        total += gap[q]
    return worst if np.isfinite(total) else np.inf


@njit(cache=True, nogil=True, fastmath=FAST)
def _between(y: Array, new: Array, k: Array, h: float, s: float, extra: Array, out: Array) -> None:
    """The state at the fraction s of a step from y to `new`; `extra` is h sum_i D_i k_i."""
    for q in range(len(y)):
        rise = new[q] - y[q]
        bend = h * k[0, q] - rise
        rest = rise - h * k[6, q] - bend
        inside = bend + s * (rest + (1 - s) * extra[q])
        out[q] = y[q] + s * (rise + (1 - s) * inside)


@njit(cache=True, nogil=True)
def _products(y: Array, gram: bool, n: int, room: Room) -> Array:
    """The packed inner products of a state, which is these or the tokens."""
    if gram:
        return y
    inner(y.reshape(n, -1), room, room[-1])
    return room[-1]


@njit(cache=True, nogil=True)
def _count(g: Array, level: float) -> int:
    """How many of the packed inner products are at least `level`."""
    found = 0
    for q in range(len(g)):
        found += g[q] >= level
    return found


@njit(cache=True, nogil=True)
def _factor(error: float, before: float, ratio: float, tol: float) -> float:
    """How much longer the next step may be: by its error, and by the trend since the one `before`.

    `ratio` is the length of this step over that of the one before; `before` is 0 if there is none.
    """
    if error == 0.0:
        return LONGER
    alone = SAFETY * (tol / error) ** 0.2
    if before > 0.0 and error <= tol:
        alone = min(alone, alone * ratio * (before / error) ** 0.2)
    return min(max(alone, SHORTER), LONGER)


@njit(cache=True, nogil=True)
def _follow(
    states: Array, n: int, gram: bool, beta: float, times: Array, level: float, tol: float,
    normalised: bool,
) -> tuple[Array, int, int]:  # fmt: skip
    """Shares (draws, times), steps in all, and how it ended; see :func:`clustered_grams`."""
    draws, size = states.shape
    out, steps, pairs = np.ones((draws, len(times))), 0, n * (n - 1) // 2
    y, new, mid, extra = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    room, k, lead = room_for(n), np.empty((7, size)), np.empty(n, np.int64)
    alone = np.arange(n)
    for r in range(draws):
        copy(states[r], y)
        copy(alone, lead)
        met = 0
        derivative(y, gram, beta, normalised, lead, met > 0, room, k[0])
        now, h, at, first = 0.0, FIRST_STEP, 0, steps
        before, ratio = 0.0, 1.0
        while at < len(times):
            error = _advance(y, h, gram, beta, normalised, lead, met > 0, room, k, new, mid)
            steps += 1
            if steps - first > MOST_STEPS:
                return out, steps, TOO_MANY_STEPS
            factor = _factor(error, before, ratio, tol)
            if error > tol:
                h, ratio = h * factor, ratio * factor
                if h < SMALLEST_STEP:
                    return out, steps, TOO_SMALL_A_STEP
                continue
            if times[at] <= now + h:
                extra[:] = 0.0
                _combine(_DENSE, k, h, len(k), extra)
            while at < len(times) and times[at] <= now + h:
                _between(y, new, k, h, (times[at] - now) / h, extra, mid)
                out[r, at] = _count(_products(mid, gram, n, room), level) / pairs
                at += 1
            g = _products(new, gram, n, room)
            if _count(g, max(level, 0.0)) == pairs:  # the rest of the row stays one
                break
            copy(new, y)
            copy(k[6], k[0])
            stale = False
            if not normalised:
                known, met = met, meet(g, lead, (MET * tol) ** 2 / 2)
                if met > known:
                    follow_leaders(y, gram, lead, 1.0)
                    stale = True
            if not gram:
                stale |= _normalise(y.reshape(n, -1), 0.0 if normalised else STRAYED * tol)
            if stale:
                derivative(y, gram, beta, normalised, lead, met > 0, room, k[0])
            now += h
            h, before, ratio = h * factor, error, factor
    return out, steps, ARRIVED


@njit(cache=True, nogil=True)
def _normalise(x: Array, slack: float) -> bool:
    """Tokens whose squared norms are farther than that from one get norm one; whether any does."""
    moved = False
    for i in range(len(x)):
        size = 0.0
        for j in range(x.shape[1]):
            size += x[i, j] * x[i, j]
        if abs(size - 1.0) > slack:
            for j in range(x.shape[1]):
                x[i, j] /= np.sqrt(size)
            moved = True
    return moved
