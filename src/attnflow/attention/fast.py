r"""Layers for 10^5 tokens and more: velocities in linear time, without an (n, n) matrix.

Three kinds of attention are Gaussian kernels in disguise:

* L2: :math:`e^{-|Qx-Ky|^2}` is one, between the points Qx and Ky;
* softmax: :math:`e^{\langle u,v\rangle} = e^{|u|^2/2}\,e^{|v|^2/2}\,e^{-|u-v|^2/2}` with
  :math:`\langle u, v\rangle = \langle Ax,y\rangle` split evenly between x and y; the first factor
  is cancelled by the row normalisation, the second is a weight of y;
* Sinkhorn with :math:`Q^\top K` positive semi-definite: the bridge of a measure to itself; with any
  other, the bridge of two (:mod:`attnflow.transport`).

What counts is the dimension in which the scores live, not that of the tokens: coordinates that no
score sees are dropped. The fast kernel's error is absolute. A row is taken from it only where its
own sum is so large that the relative error of the velocity is certified to stay below `tol`; the
other rows are summed directly, block by block.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnflow.kernels.dense import BLOCK_ENTRIES, squared_distances
from attnflow.kernels.fast import MAX_DIMENSION, MAX_MODES, FastKernel, FastPair, cheaper
from attnflow.kernels.transforms import modes_needed
from attnflow.softmax import softmax_rows
from attnflow.transport.aligned import aligned, balanced_products
from attnflow.transport.bridge import MANY, self_bridge
from attnflow.validate import Array

#: The fast kernel's accuracy in units of `tol`, and the most it can give.
HEADROOM, FINEST = 1e-3, 1e-13
#: Weights e^{|Ky|^2/2} beyond this range leave the far tokens without digits.
LARGEST_EXPONENT = 600.0
#: Directions in which points spread by less than this share of the widest one are rounding.
FLAT = 1e-13
#: The L1 error of the marginals of two potentials in units of `tol`.
BALANCED = 0.1
#: Roundings of a score that are left within `tol`; the logarithm of no mass; row sums that are too small to trust.
ROUNDINGS, LOWEST, FAINT = 100.0, -1e6, 1e-250
#: Rows and columns of a tile of scores.
TILE = (64, 1024)
#: Products with a plan, and with its transpose, that a layer may take.
MOST_STEPS = 2000


class GaussianScores(NamedTuple):
    """Scores -|z_i - y_j|^2 / 2 eps + log_mass_j, up to what depends on i alone."""

    z: Array  #: (n, k)
    y: Array  #: (n, k), the same array where keys are queries
    eps: float
    log_mass: Array | None  #: (n,), none for zero


class Averages(NamedTuple):
    """What rows average to, and how many of them were summed directly."""

    values: Array  #: (n, p)
    direct: int
    scaling: Array | None = None  #: (n,), of a bridge


def accuracy(tol: float) -> float:
    """What the fast kernel must give for velocities to a relative error `tol`.

    >>> f"{accuracy(1e-8):.0e}", accuracy(1e-15)
    ('1e-11', 1e-13)
    """
    return max(HEADROOM * tol, FINEST)


def worthwhile(scores: GaussianScores, tol: float, columns: int) -> bool:
    """Whether averages of so many columns are possible by the fast kernel, and cheaper."""
    z, y, _ = _flattened(scores.z, scores.y)
    if scores.log_mass is not None and np.ptp(scores.log_mass) > LARGEST_EXPONENT:
        return False
    return cheaper(_all_points(z, y), scores.eps, accuracy(tol), products=1 + columns)


def averages(scores: GaussianScores, w: Array, sent: Array, tol: float) -> Averages:
    """sum_j P_ij sent_j for rows of w_j exp(score), each divided by its sum; relative error `tol`.

    The error is measured against the largest row of `sent`, which every answer is an average of.
    """
    z, y, same = _flattened(scores.z, scores.y)
    n = len(y)
    log_mass = np.zeros(n) if scores.log_mass is None else scores.log_mass
    if np.ptp(log_mass) > LARGEST_EXPONENT:
        raise ValueError(
            f"softmax tokens must keep |A^(1/2) y|^2/2 within {LARGEST_EXPONENT:g} of each other for "
            f"the fast method, got a range of {np.ptp(log_mass):.3g}: use method='dense'"
        )
    mass = w * np.exp(log_mass - log_mass.max())
    columns = mass[:, None] * _with_one(sent)
    if same:
        sums = FastKernel(y, scores.eps, accuracy(tol)).apply_columns(columns)
    else:
        sums = FastPair(z, y, scores.eps, accuracy(tol)).times(columns)
    exact = _Exact(z, y, scores.eps, _log(w) + log_mass, sent)
    return exact.certified(sums, float(mass.sum()), tol)


def balanced(
    y: Array, eps: float, w: Array, sent: Array, tol: float, start: Array | None = None
) -> Averages:
    """The same for the bridge of the points y to themselves, from a scaling to start with."""
    y = _flattened(y, y)[1]
    bridge = self_bridge(y, eps, w, tol=accuracy(tol), start=start)
    a = bridge.scaling
    columns = (a * w)[:, None] * _with_one(sent)
    if not isinstance(bridge.kernel, FastKernel):  # exact but where a row of it is zero
        sums = np.stack([bridge.kernel.apply(column) for column in columns.T], axis=1)
        exact = _Exact(y, y, eps, _log(a * w), sent)
        found = exact.certified(sums, 0.0, tol)
        return found._replace(direct=len(y), scaling=bridge.scaling)
    sums = bridge.kernel.apply_columns(columns)
    total, size = sums[:, 0], float((a * w).sum())
    a = a.copy()
    lonely = np.flatnonzero(total * tol < 2 * accuracy(tol) * size)
    for rows in _blocks(lonely, len(y)):  # their scaling is lost in the fast kernel's error
        near = np.exp(-squared_distances(y[rows], y, 2 * eps))
        near[np.arange(len(rows)), rows] = 0.0
        others = near @ (a * w)
        a[rows] = 2 / np.maximum(others + np.sqrt(others**2 + 4 * w[rows]), 1e-300)
    found = _Exact(y, y, eps, _log(a * w), sent).certified(sums, size, tol)
    return found._replace(scaling=bridge.scaling)


class Memory:
    """The scalings of the last three measures of so many tokens, and a guess at the next one.

    Along layers, or along a flow, tokens move a little at a time, and scalings with them: their
    logarithms are continued on a line, or on a parabola. Few tokens are not worth it.

    >>> memory = Memory(fewest=2)
    >>> for scaling in ([1.0, 2.0], [1.0, 4.0]):
    ...     memory.keep(np.array(scaling))
    >>> memory.guess(2), memory.guess(3)
    (array([1., 8.]), None)
    """

    def __init__(self, fewest: int = MANY) -> None:
        self.fewest, self._kept = fewest, tuple[Array, ...]()

    def keep(self, scaling: Array) -> None:
        """The last one; what is not one of as many tokens before it is forgotten."""
        if len(scaling) < self.fewest:
            return
        before = self._kept[-2:]
        self._kept = (*(k for k in before if len(k) == len(scaling)), scaling)

    def guess(self, n: int) -> Array | None:
        """A scaling of n tokens to start with, if there is one."""
        kept = self._kept  # at once: others may be keeping
        if not kept or len(kept[-1]) != n:
            return None
        last, *others = kept[::-1]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            steps = [a / b for a, b in zip(kept[1:], kept, strict=False)]
            out = last if not others else last * steps[-1]
            if len(steps) == 2:
                out = out * (steps[1] / steps[0])
        return np.where(np.isfinite(out) & (out > 0), out, last)


def balanced_pair(
    z: Array, y: Array, eps: float, w: Array, sent: Array, tol: float
) -> Averages | None:
    """The same for scores <z_i, y_j> / eps with both marginals w; None where that is not possible.

    Tokens without mass are sent to, and send nothing.
    """
    if z.shape[1] > MAX_DIMENSION:
        return None
    live = w > 0
    mass = w[live]
    points = aligned(z[live], y[live], mass, mass)
    if not modes_needed(np.concatenate([points.z, points.y]), eps) <= MAX_MODES:
        return None
    goal = max(BALANCED * tol, FINEST)
    found = balanced_products(points, eps, mass, mass, goal, MOST_STEPS)
    if found is None or not found.residual <= goal:
        return None
    log_weight = np.full(len(w), -np.inf)
    log_weight[live] = found.g + np.log(mass)
    sums = np.zeros((len(w), 1 + sent.shape[1]))
    sums[live] = found.kernel.times(found.v[:, None] * _with_one(sent[live]))
    size = float(found.v.sum()) * found.kernel.accuracy / accuracy(tol)
    return _Products(z, y, eps, log_weight, sent).certified(sums, size, tol)


class _Exact(NamedTuple):
    """What sums rows directly where the fast kernel cannot be trusted."""

    z: Array
    y: Array
    eps: float
    log_weight: Array
    sent: Array

    def scores(self, rows: NDArray[np.intp]) -> Array:
        """Those of some rows, (len(rows), n)."""
        return self.log_weight - squared_distances(self.z[rows], self.y, 2 * self.eps)

    def certified(self, sums: Array, size: float, tol: float) -> Averages:
        """Columns over the first where that is certain: all err by at most the accuracy times `size`."""
        total = sums[:, 0]
        certain = total * tol > 2 * accuracy(tol) * size
        out = np.empty_like(self.sent)
        out[certain] = sums[certain, 1:] / total[certain, None]
        rest = np.flatnonzero(~certain)
        out[rest] = self.direct(rest, tol)
        return Averages(out, len(rest))

    def direct(self, rest: NDArray[np.intp], tol: float) -> Array:
        """Rows summed one by one. Scores come as one product where rounding allows, else as differences."""
        out, poor = np.empty((len(rest), self.sent.shape[1])), np.full(len(rest), True)
        factors = self._factors(rest, tol)
        if factors is not None:
            sums = _summed(*factors)
            poor = sums[:, 0] < FAINT
            out[~poor] = sums[~poor, 1:] / sums[~poor, :1]
        at = np.flatnonzero(poor)
        for places in _blocks(at, len(self.y)):
            out[places] = softmax_rows(self.scores(rest[places])) @ self.sent
        return out

    def _factors(self, rest: NDArray[np.intp], tol: float) -> tuple[Array, Array, Array] | None:
        """Two factors of the scores of these rows, less one number, and what they send with a one before it.

        |z|^2 and |y|^2 cancel in the product; None where that would cost a digit of `tol`.
        """
        if not len(rest):
            return None
        middle = self.y.mean(axis=0)
        with np.errstate(over="ignore", invalid="ignore"):
            z, y = self.z[rest] - middle, self.y - middle
            far, near = np.vecdot(z, z) / (2 * self.eps), np.vecdot(y, y) / (2 * self.eps)
            size = float(far.max() + near.max())
        if not ROUNDINGS * size * np.finfo(float).eps <= tol:
            return None
        top = float(self.log_weight.max())
        heights = np.maximum(self.log_weight - top, LOWEST) - near
        left = np.column_stack([z / self.eps, -far, np.ones(len(z))])
        right = np.vstack([y.T, np.ones(len(y)), heights])
        return left, right, _with_one(self.sent)


def _summed(left: Array, right: Array, sent: Array) -> Array:
    """exp(left right) sent, a tile at a time that stays near the processor."""
    out, room = np.zeros((len(left), sent.shape[1])), np.empty(TILE)
    for i in range(0, len(left), TILE[0]):
        for j in range(0, len(sent), TILE[1]):
            rows, columns = left[i : i + TILE[0]], right[:, j : j + TILE[1]]
            tile = room[: len(rows), : columns.shape[1]]
            np.matmul(rows, columns, out=tile)
            np.exp(tile, out=tile)
            out[i : i + TILE[0]] += tile @ sent[j : j + TILE[1]]
    return out


class _Products(_Exact):
    """The same where scores are products."""

    def _factors(self, rest: NDArray[np.intp], tol: float) -> None:
        return None

    def scores(self, rows: NDArray[np.intp]) -> Array:
        return self.log_weight + self.z[rows] @ self.y.T / self.eps


def _with_one(sent: Array) -> Array:
    """A column of ones before those that are sent."""
    return np.concatenate([np.ones((len(sent), 1)), sent], axis=1)


def _flattened(z: Array, y: Array) -> tuple[Array, Array, bool]:
    """Both in the directions in which they spread, and whether they are the same points."""
    same = z is y
    if y.shape[1] <= MAX_DIMENSION:
        return z, y, same
    both = _all_points(z, y)
    middle = both.mean(axis=0)
    _, wide, directions = np.linalg.svd(both - middle, full_matrices=False)
    turn = directions[wide > FLAT * wide.max()].T  # (k, spread)
    if not 0 < turn.shape[1] <= MAX_DIMENSION:
        return z, y, same
    flat = (y - middle) @ turn
    return (flat if same else (z - middle) @ turn), flat, same


def _all_points(z: Array, y: Array) -> Array:
    return y if z is y else np.concatenate([y, z])


def _log(w: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.log(w)


def _blocks(rows: NDArray[np.intp], n: int) -> list[NDArray[np.intp]]:
    """Rows in blocks of at most BLOCK_ENTRIES entries of an (m, n) matrix."""
    if not len(rows):
        return []
    return np.array_split(rows, -(-len(rows) * n // BLOCK_ENTRIES))
