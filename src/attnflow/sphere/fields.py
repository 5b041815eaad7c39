r"""How fast tokens on the sphere move, compiled: by the tokens, or by their inner products.

Inner products are symmetric with ones on the diagonal, so that what stands below it is all: it is kept
*packed*, row after row, in a vector of n(n-1)/2 numbers. Sums of stages, errors and counts then touch half
of the matrix, and so do the exponentials. The equation stands in :mod:`attnflow.sphere.gram`.

Tokens that have met follow the first of them: see :mod:`attnflow.sphere.compiled`. This module needs numba.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from attnflow.validate import Array

Places = NDArray[np.int64]
#: Three (n, n) matrices, two vectors of n numbers, and two packed ones.
Room = tuple[Array, Array, Array, Array, Array, Array, Array]

#: What the compiler may do to sums; infinities and NaN stay what they are, to reject a step.
FAST = {"reassoc", "contract", "arcp", "nsz"}


@njit(cache=True, nogil=True)
def copy(y: NDArray[Any], out: NDArray[Any]) -> None:
    """What ``out[:] = y`` does, which takes the compiler a second wherever it stands."""
    for q in range(len(y)):
        out[q] = y[q]


@njit(cache=True, nogil=True)
def room_for(n: int) -> Room:
    """What the derivatives of n tokens need beside their answer."""
    pairs = n * (n - 1) // 2
    return (
        np.empty((n, n)), np.empty((n, n)), np.empty((n, n)), np.empty(n), np.empty(n),
        np.empty(pairs), np.empty(pairs),
    )  # fmt: skip


@njit(cache=True, nogil=True)
def unpack(y: Array, g: Array) -> None:
    """The symmetric matrix with ones on its diagonal that y holds, into g."""
    p = 0
    for i in range(len(g)):
        g[i, i] = 1.0
        for j in range(i):
            g[i, j] = y[p + j]
        for j in range(i):
            g[j, i] = y[p + j]
        p += i


@njit(cache=True, nogil=True)
def pack(g: Array, y: Array) -> None:
    """What stands below the diagonal of g, row after row, into y."""
    p = 0
    for i in range(len(g)):
        for j in range(i):
            y[p + j] = g[i, j]
        p += i


@njit(cache=True, nogil=True)
def inner(x: Array, room: Room, y: Array) -> None:
    """The inner products of tokens (n, d), packed."""
    np.dot(x, x.T, room[0])
    pack(room[0], y)


@njit(cache=True, nogil=True, fastmath=FAST)
def attend(
    y: Array, beta: float, normalised: bool, near: Array, weights: Array, share: Array
) -> None:
    """Attention to packed inner products: exp(beta (g - 1)), and one over its row sums, or over n exp(-beta).

    exp(u) is the 2^s-th power of a Taylor polynomial at u / 2^s in [-1/4, 0]: plain sums and
    products, which the processor does eight at a time. Its relative error is 3e-13 times 2^s.
    `near` has room for as many numbers as y.
    """
    n, squarings = len(weights), 0
    while 2.0 * beta > 0.25 * 2.0**squarings:
        squarings += 1
    scale = beta / 2.0**squarings
    for q in range(len(y)):
        u = scale * (y[q] - 1.0)
        p = 1.0 + u * (1 / 9)
        p = 1.0 + u * (1 / 8) * p
        p = 1.0 + u * (1 / 7) * p
        p = 1.0 + u * (1 / 6) * p
        p = 1.0 + u * (1 / 5) * p
        p = 1.0 + u * (1 / 4) * p
        p = 1.0 + u * (1 / 3) * p
        p = 1.0 + u * (1 / 2) * p
        near[q] = 1.0 + u * p
    for _ in range(squarings):
        for q in range(len(near)):
            near[q] *= near[q]
    unpack(near, weights)
    share[:] = 1.0 / (n * np.exp(-beta))
    if normalised:
        for i in range(n):
            total = 0.0
            for j in range(n):
                total += weights[i, j]
            share[i] = 1.0 / total


@njit(cache=True, nogil=True, fastmath=FAST)
def gram_derivative(y: Array, beta: float, normalised: bool, room: Room, out: Array) -> None:
    """dG/dt into `out`, packed like y."""
    weights, g, product, share, radial, _, _ = room
    n = len(g)
    attend(y, beta, normalised, out, weights, share)
    unpack(y, g)
    np.dot(weights, g, product)
    for i in range(n):
        radial[i] = share[i] * product[i, i]
    p = 0
    for i in range(n):
        for j in range(i):
            both = share[i] * product[i, j] + share[j] * product[j, i]
            out[p + j] = both - (radial[i] + radial[j]) * y[p + j]
        p += i


@njit(cache=True, nogil=True, fastmath=FAST)
def token_derivative(x: Array, beta: float, normalised: bool, room: Room, out: Array) -> None:
    """dx/dt into `out`, (n, d) like x."""
    weights, _, _, share, _, products, near = room
    n, d = x.shape
    inner(x, room, products)
    attend(products, beta, normalised, near, weights, share)
    np.dot(weights, x, out)
    for i in range(n):
        radial, size, own = 0.0, 0.0, share[i]
        for j in range(d):
            radial += out[i, j] * x[i, j]
            size += x[i, j] * x[i, j]
        if not normalised:
            radial /= size  # norms stay: USA would pull them to one like e^beta, too
        for j in range(d):
            out[i, j] = own * (out[i, j] - radial * x[i, j])


@njit(cache=True, nogil=True)
def follow_leaders(a: Array, gram: bool, lead: Places, same: float) -> None:
    """Give tokens that have met their leader's numbers, in a state or a derivative.

    Inner products of tokens that are one are `same`: one in a state, zero in a derivative.
    """
    n, p = len(lead), 0
    if not gram:
        x = a.reshape(n, -1)
        for i in range(n):
            if lead[i] != i:
                copy(x[lead[i]], x[i])
        return
    for i in range(n):
        for j in range(i):
            first, last = min(lead[i], lead[j]), max(lead[i], lead[j])
            a[p + j] = same if first == last else a[last * (last - 1) // 2 + first]
        p += i


@njit(cache=True, nogil=True)
def meet(y: Array, lead: Places, near: float) -> int:
    """Tokens with packed inner products beyond 1 - near get a leader, the first of them; how many have one."""
    followers, p = 0, 0
    for i in range(len(lead)):
        for j in range(i):
            if lead[i] == i and lead[j] == j and y[p + j] >= 1.0 - near:
                for k in range(len(lead)):
                    if lead[k] == i:
                        lead[k] = j
        followers += lead[i] != i
        p += i
    return followers


@njit(cache=True, nogil=True)
def derivative(
    y: Array, gram: bool, beta: float, normalised: bool, lead: Places, met: bool, room: Room,
    out: Array,
) -> None:  # fmt: skip
    """dy/dt of a state: packed inner products, or tokens one after another; whether any have `met`."""
    if gram:
        gram_derivative(y, beta, normalised, room, out)
    else:
        n = len(lead)
        token_derivative(y.reshape(n, -1), beta, normalised, room, out.reshape(n, -1))
    if met:
        follow_leaders(out, gram, lead, 0.0)
