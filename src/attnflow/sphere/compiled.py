r"""Tokens on the sphere, compiled: shares of clustered pairs over many draws.

A draw is followed as its tokens (:func:`clustered_tokens`) or as their inner products
(:func:`clustered_grams`), which cost :math:`O(n^3)` a step and do not know d: see
:mod:`attnflow.sphere.gram` for their equation. In d < n dimensions only tokens will do: errors in
the Gram matrix would add dimensions, and through those tokens leave equilibria in which a circle
would hold them.

Every draw is integrated by the pair of Dormand and Prince of orders 5 and 4 with its continuous
extension (:cite:t:`hairer1993`, II.6), with steps of its own. It is left as soon as all pairs are
clustered, which is final: where all :math:`G_{ij} \ge 0` the smallest of them cannot fall.

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
from numpy.typing import NDArray

from attnflow.errors import FlowStopped
from attnflow.validate import Array

Places = NDArray[np.int64]

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
FIRST_STEP, SMALLEST_STEP, MOST_STEPS = 0.05, 1e-12, 100_000
#: How near, in tolerances of a step, tokens of USA are one; and how far a squared norm may stray.
MET, STRAYED = 14.0, 0.1
#: How the loop ended.
ARRIVED, TOO_MANY_STEPS, TOO_SMALL_A_STEP = 0, 1, 2
#: What the compiler may do to sums; infinities and NaN stay what they are, to reject a step.
_FAST = {"reassoc", "contract", "arcp", "nsz"}


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
    return _checked(_follow(G, True, beta, times, level, tol, normalised), beta)


def clustered_tokens(
    x: Array, beta: float, times: Array, level: float, tol: float, normalised: bool
) -> tuple[Array, int]:
    """The same for tokens at time 0, shape (draws, n, d).

    >>> x = np.array([[[1.0, 0.0], [-1.0, 0.0]]])  # opposite tokens do not move
    >>> clustered_tokens(x, 1.0, np.array([0.0, 9.0]), 0.99, 1e-4, True)[0]
    array([[0., 0.]])
    """
    return _checked(_follow(x, False, beta, times, level, tol, normalised), beta)


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


@njit(cache=True, nogil=True, fastmath=_FAST)
def _weigh(g: Array, beta: float, normalised: bool) -> None:
    """Overwrite inner products by attention: rows of exp(beta g) over their sums, or over n.

    exp(u) is the 2^s-th power of a Taylor polynomial at u / 2^s in [-1/4, 0]: plain sums and
    products, which the processor does eight at a time. Its relative error is 3e-13 times 2^s.
    """
    n = len(g)
    squarings = 0
    while 2.0 * beta > 0.25 * 2.0**squarings:
        squarings += 1
    scale = beta / 2.0**squarings
    flat = g.ravel()
    for q in range(len(flat)):
        u = scale * (flat[q] - 1.0)
        p = 1.0 + u * (1 / 9)
        p = 1.0 + u * (1 / 8) * p
        p = 1.0 + u * (1 / 7) * p
        p = 1.0 + u * (1 / 6) * p
        p = 1.0 + u * (1 / 5) * p
        p = 1.0 + u * (1 / 4) * p
        p = 1.0 + u * (1 / 3) * p
        p = 1.0 + u * (1 / 2) * p
        flat[q] = 1.0 + u * p
    for _ in range(squarings):
        for q in range(len(flat)):
            flat[q] *= flat[q]
    for i in range(n):
        row = g[i]
        total = float(n) * np.exp(-beta)
        if normalised:
            total = 0.0
            for j in range(n):
                total += row[j]
        share = 1.0 / total
        for j in range(n):
            row[j] *= share


@njit(cache=True, nogil=True, fastmath=_FAST)
def _inner(x: Array, g: Array) -> None:
    """The inner products of tokens (n, d) into g (n, n)."""
    n, d = x.shape
    for i in range(n):
        g[i, i] = 1.0
        for j in range(i):
            total = 0.0
            for k in range(d):
                total += x[i, k] * x[j, k]
            g[i, j] = g[j, i] = total


@njit(cache=True, nogil=True, fastmath=_FAST)
def _gram_derivative(G: Array, beta: float, normalised: bool, room: Array, out: Array) -> None:
    """dG/dt into `out`; `room` is an (n, n) matrix."""
    n = len(G)
    room[:] = G
    _weigh(room, beta, normalised)
    np.dot(room, G, out)
    for i in range(n):
        for j in range(i):
            out[i, j] += out[j, i] - (out[i, i] + out[j, j]) * G[i, j]
            out[j, i] = out[i, j]
    for i in range(n):
        out[i, i] = 0.0


@njit(cache=True, nogil=True, fastmath=_FAST)
def _token_derivative(x: Array, beta: float, normalised: bool, room: Array, out: Array) -> None:
    """dx/dt into `out`; `room` is an (n, n) matrix."""
    n, d = x.shape
    _inner(x, room)
    _weigh(room, beta, normalised)
    np.dot(room, x, out)
    for i in range(n):
        radial, size = 0.0, 0.0
        for j in range(d):
            radial += out[i, j] * x[i, j]
            size += x[i, j] * x[i, j]
        if not normalised:
            radial /= size  # norms stay: USA would pull them to one like e^beta, too
        for j in range(d):
            out[i, j] -= radial * x[i, j]


@njit(cache=True, nogil=True, fastmath=_FAST)
def _products(y: Array, gram: bool, g: Array) -> None:
    """The inner products of a state, which is G itself or the tokens."""
    if gram:
        g[:] = y
    else:
        _inner(y, g)


@njit(cache=True, nogil=True)
def _follow_leaders(a: Array, gram: bool, lead: Places) -> None:
    """Give tokens that have met their leader's rows (and columns) of a state or a derivative."""
    for i in range(len(lead)):
        if lead[i] != i:
            a[i] = a[lead[i]]
    if gram:
        for i in range(len(lead)):
            if lead[i] != i:
                a[:, i] = a[:, lead[i]]


@njit(cache=True, nogil=True)
def _meet(g: Array, lead: Places, near: float) -> int:
    """Tokens that meet get a leader, the first of them; how many have one."""
    followers = 0
    for i in range(len(lead)):
        for j in range(i):
            if lead[i] == i and lead[j] == j and g[i, j] >= 1.0 - near:
                for k in range(len(lead)):
                    if lead[k] == i:
                        lead[k] = j
        followers += lead[i] != i
    return followers


@njit(cache=True, nogil=True, fastmath=_FAST)
def _derivative(
    y: Array, gram: bool, beta: float, normalised: bool, lead: Places, met: int, room: Array,
    out: Array,
) -> None:  # fmt: skip
    """dy/dt of a state, which is G or the tokens."""
    if gram:
        _gram_derivative(y, beta, normalised, room, out)
    else:
        _token_derivative(y, beta, normalised, room, out)
    if met > 0:
        _follow_leaders(out, gram, lead)


@njit(cache=True, nogil=True, fastmath=_FAST)
def _combine(weights: Array, k: Array, h: float, stages: int, out: Array) -> None:
    """Add h sum_s weights[s] k[s] to `out`, both flat."""
    for s in range(stages):
        scale = h * weights[s]
        if scale != 0.0:
            stage = k[s]
            for q in range(len(out)):
                out[q] += scale * stage[q]


@njit(cache=True, nogil=True, fastmath=_FAST)
def _advance(
    y: Array, h: float, gram: bool, beta: float, normalised: bool, lead: Places, met: int,
    room: Array, k: Array, new: Array, rest: Array,
) -> float:  # fmt: skip
    """One step of length h: stages into k (k[0] is given), the end into `new`; the error."""
    flat, stages, gap = new.ravel(), k.reshape(7, -1), rest.ravel()
    for stage in range(6):
        new[:] = y
        _combine(_A[stage], stages, h, stage + 1, flat)
        _derivative(new, gram, beta, normalised, lead, met, room, k[stage + 1])
    gap[:] = 0.0
    _combine(_ERROR, stages, h, 7, gap)
    worst, total = 0.0, 0.0
    for q in range(len(gap)):
        worst = max(worst, abs(gap[q]))
        total += gap[q]
    return worst if np.isfinite(total) else np.inf


@njit(cache=True, nogil=True, fastmath=_FAST)
def _between(y: Array, new: Array, k: Array, h: float, s: float, extra: Array, out: Array) -> None:
    """The state at the fraction s of a step from y to `new`; `extra` is h sum_i D_i k_i."""
    n, m = y.shape
    for i in range(n):
        for j in range(m):
            rise = new[i, j] - y[i, j]
            bend = h * k[0, i, j] - rise
            rest = rise - h * k[6, i, j] - bend
            inside = bend + s * (rest + (1 - s) * extra[i, j])
            out[i, j] = y[i, j] + s * (rise + (1 - s) * inside)


@njit(cache=True, nogil=True)
def _count(g: Array, level: float) -> tuple[float, float]:
    """The share of pairs with g_ij >= level, and the smallest g_ij."""
    n, found, lowest = len(g), 0, 1.0
    for i in range(n):
        for j in range(i):
            lowest = min(lowest, g[i, j])
            if g[i, j] >= level:
                found += 1
    return 2.0 * found / (n * (n - 1)), lowest


@njit(cache=True, nogil=True)
def _follow(
    states: Array, gram: bool, beta: float, times: Array, level: float, tol: float,
    normalised: bool,
) -> tuple[Array, int, int]:  # fmt: skip
    """Shares (draws, times), steps in all, and how it ended; see :func:`clustered_grams`."""
    draws, n, m = states.shape
    out, steps = np.ones((draws, len(times))), 0
    y, new, mid, extra = (np.empty((n, m)), np.empty((n, m)), np.empty((n, m)), np.empty((n, m)))
    room, k, lead = np.empty((n, n)), np.empty((7, n, m)), np.empty(n, np.int64)
    for r in range(draws):
        y[:] = states[r]
        lead[:], met = np.arange(n), 0
        _derivative(y, gram, beta, normalised, lead, met, room, k[0])
        now, h, at, before = 0.0, FIRST_STEP, 0, steps
        while at < len(times):
            error = _advance(y, h, gram, beta, normalised, lead, met, room, k, new, mid)
            steps += 1
            if steps - before > MOST_STEPS:
                return out, steps, TOO_MANY_STEPS
            factor = 0.9 * (tol / error) ** 0.2 if error > 0.0 else 5.0
            if error > tol:
                h *= max(factor, 0.2)
                if h < SMALLEST_STEP:
                    return out, steps, TOO_SMALL_A_STEP
                continue
            if times[at] <= now + h:
                extra[:] = 0.0
                _combine(_DENSE, k.reshape(7, -1), h, 7, extra.ravel())
            while at < len(times) and times[at] <= now + h:
                _between(y, new, k, h, (times[at] - now) / h, extra, mid)
                _products(mid, gram, room)
                out[r, at] = _count(room, level)[0]
                at += 1
            _products(new, gram, room)
            if _count(room, level)[1] >= max(level, 0.0):  # the rest of the row stays one
                break
            y[:] = new
            k[0] = k[6]
            stale = False
            if not normalised:
                before_this, met = met, _meet(room, lead, (MET * tol) ** 2 / 2)
                if met > before_this:
                    _follow_leaders(y, gram, lead)
                    stale = True
            if not gram:
                for i in range(n):
                    size = (y[i] ** 2).sum()
                    if normalised or abs(size - 1.0) > STRAYED * tol:
                        y[i] /= np.sqrt(size)
                        stale = True
            if stale:
                _derivative(y, gram, beta, normalised, lead, met, room, k[0])
            now += h
            h *= min(factor, 5.0)
    return out, steps, ARRIVED
