r"""Tokens on the sphere, compiled: shares of clustered pairs over many draws.

With Q = K = V = I the Gram matrix :math:`G_{ik} = \langle x_i, x_k\rangle` closes on itself,

.. math:: \dot G_{ik} = (AG)_{ik} + (AG)_{ki} - (s_i + s_k)\,G_{ik}, \qquad s_i = (AG)_{ii},

so a step costs :math:`O(n^3)` and does not know d. In d < n dimensions the state is the tokens
themselves: errors in G would add dimensions, and through those tokens leave equilibria in which
a circle would hold them. Every draw is integrated by the pair of
Dormand and Prince (1980) of orders 5 and 4 with its continuous extension (Hairer, Norsett and
Wanner, Solving Ordinary Differential Equations I, II.6), with steps of its own. It is left as
soon as all pairs are clustered, which is final: where all :math:`G_{ij} \ge 0` the smallest of
them cannot fall.

This module needs numba, which compiles it at the first call and keeps the result on disk.
"""

from __future__ import annotations

import numpy as np
from numba import njit

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
FIRST_STEP, SMALLEST_STEP, MOST_STEPS = 0.05, 1e-12, 100_000
#: What the compiler may do to sums; infinities and NaN stay what they are, to reject a step.
_FAST = {"reassoc", "contract", "arcp", "nsz"}


@njit(cache=True, nogil=True, fastmath=_FAST)
def weigh(g: Array, beta: float, normalised: bool) -> None:
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
def inner(y: Array, gram: bool, g: Array) -> None:
    """The inner products, from a state that is G itself or the tokens."""
    n, m = y.shape
    if gram:
        g[:] = y
        return
    for i in range(n):
        g[i, i] = 1.0
        for j in range(i):
            total = 0.0
            for k in range(m):
                total += y[i, k] * y[j, k]
            g[i, j] = g[j, i] = total


@njit(cache=True, nogil=True, fastmath=_FAST)
def derivative(
    y: Array, gram: bool, beta: float, normalised: bool, room: Array, out: Array
) -> None:
    """dy/dt into `out`, where y is G (n, n) or the tokens (n, d); `room` is an (n, n) matrix."""
    n, m = y.shape
    inner(y, gram, room)
    weigh(room, beta, normalised)
    np.dot(room, y, out)
    if gram:
        for i in range(n):
            for j in range(i):
                out[i, j] += out[j, i] - (out[i, i] + out[j, j]) * y[i, j]
                out[j, i] = out[i, j]
        for i in range(n):
            out[i, i] = 0.0
    else:
        for i in range(n):
            radial = 0.0
            for j in range(m):
                radial += out[i, j] * y[i, j]
            for j in range(m):
                out[i, j] -= radial * y[i, j]


@njit(cache=True, nogil=True, fastmath=_FAST)
def combine(weights: Array, k: Array, h: float, stages: int, out: Array) -> None:
    """Add h sum_s weights[s] k[s] to `out`, both flat."""
    for s in range(stages):
        scale = h * weights[s]
        if scale != 0.0:
            stage = k[s]
            for q in range(len(out)):
                out[q] += scale * stage[q]


@njit(cache=True, nogil=True, fastmath=_FAST)
def advance(
    y: Array, h: float, gram: bool, beta: float, normalised: bool, room: Array, k: Array,
    new: Array, rest: Array,
) -> float:  # fmt: skip
    """One step of length h: stages into k (k[0] is given), the end into `new`; the error."""
    flat, stages, gap = new.ravel(), k.reshape(7, -1), rest.ravel()
    for stage in range(6):
        new[:] = y
        combine(_A[stage], stages, h, stage + 1, flat)
        derivative(new, gram, beta, normalised, room, k[stage + 1])
    gap[:] = 0.0
    combine(_ERROR, stages, h, 7, gap)
    worst, total = 0.0, 0.0
    for q in range(len(gap)):
        worst = max(worst, abs(gap[q]))
        total += gap[q]
    return worst if np.isfinite(total) else np.inf


@njit(cache=True, nogil=True, fastmath=_FAST)
def between(y: Array, new: Array, k: Array, h: float, s: float, extra: Array, out: Array) -> None:
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
def count(g: Array, level: float) -> tuple[float, float]:
    """The share of pairs with g_ij >= level, and the smallest g_ij."""
    n, found, lowest = len(g), 0, 1.0
    for i in range(n):
        for j in range(i):
            lowest = min(lowest, g[i, j])
            if g[i, j] >= level:
                found += 1
    return 2.0 * found / (n * (n - 1)), lowest


@njit(cache=True, nogil=True)
def clustered(
    states: Array, gram: bool, beta: float, times: Array, level: float, tol: float,
    normalised: bool,
) -> tuple[Array, int]:  # fmt: skip
    """Shares of pairs with <x_i, x_j> >= level, shape (draws, times), and the steps in all.

    `states` at time 0 are Gram matrices (draws, n, n) if `gram`, else tokens (draws, n, d);
    times increase from 0 or later; `tol` bounds the error of a step.
    """
    draws, n, m = states.shape
    out, steps = np.ones((draws, len(times))), 0
    y, new, mid, extra = (np.empty((n, m)), np.empty((n, m)), np.empty((n, m)), np.empty((n, m)))
    room, k = np.empty((n, n)), np.empty((7, n, m))
    for r in range(draws):
        y[:] = states[r]
        derivative(y, gram, beta, normalised, room, k[0])
        now, h, at, before = 0.0, FIRST_STEP, 0, steps
        while at < len(times):
            error = advance(y, h, gram, beta, normalised, room, k, new, mid)
            steps += 1
            if steps - before > MOST_STEPS:  # USA contracts like e^beta, which is stiff
                raise ArithmeticError("the flow on the sphere needs too many steps: lower beta")
            factor = 0.9 * (tol / error) ** 0.2 if error > 0.0 else 5.0
            if error > tol:
                h *= max(factor, 0.2)
                if h < SMALLEST_STEP:
                    raise ArithmeticError("the flow on the sphere needs too small a step")
                continue
            if times[at] <= now + h:
                extra[:] = 0.0
                combine(_DENSE, k.reshape(7, -1), h, 7, extra.ravel())
            while at < len(times) and times[at] <= now + h:
                between(y, new, k, h, (times[at] - now) / h, extra, mid)
                inner(mid, gram, room)
                out[r, at] = count(room, level)[0]
                at += 1
            inner(new, gram, room)
            if count(room, level)[1] >= max(level, 0.0):  # the rest of the row stays one
                break
            y[:] = new
            k[0] = k[6]
            if not gram:
                for i in range(n):
                    y[i] /= np.sqrt((y[i] ** 2).sum())
                derivative(y, gram, beta, normalised, room, k[0])
            now += h
            h *= min(factor, 5.0)
    return out, steps
