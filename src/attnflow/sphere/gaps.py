r"""Tokens on the circle by the logarithms of their gaps: nothing merges, and no digit is lost.

Tokens of the circle under (SA) with Q = K = V = I keep their order (:cite:t:`geshkovski2025`), so the
gaps :math:`g_k=\theta_{k+1}-\theta_k` between neighbours stay positive and :math:`u_k=\log g_k` moves by

.. math:: \dot u_k = \frac{f(\theta_{k+1})-f(\theta_k)}{\theta_{k+1}-\theta_k}, \qquad
    f(\theta) = \frac{\sum_j e^{-\beta(1-\cos(\theta_j-\theta))}\sin(\theta_j-\theta)}
    {\sum_j e^{-\beta(1-\cos(\theta_j-\theta))}}.

Within a cluster :math:`\dot u_k\approx-1`, between clusters it is of order
:math:`e^{-\beta(1-\cos g)}`, and neither is stiff: a gap that has closed to :math:`e^{-10^{50}}` says so
in an ordinary number and pulls at nobody. Arcs are sums of gaps and therefore have all their digits,
whatever else is on the circle. So an explicit method follows tokens over times such as
:math:`10^{50}`, and what has met is not taken for one, as :func:`attnflow.sphere.merges` does.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import RK45

from attnflow import validate
from attnflow.errors import NotConverged
from attnflow.sphere.circle import LATEST, circle_angles
from attnflow.validate import Array

#: A gap below this moves by the slope of f in its middle, which is off by its square.
NARROW = 1e-5
#: A logarithm above this is none of a gap: a step was too long, and is taken again.
WIDEST = 2.0
#: Stages, solution and error of Dormand and Prince; the first step, and how a step may change.
_A, _B, _E = RK45.A, RK45.B, RK45.E
FIRST_STEP, SAFETY, LEAST_CHANGE, MOST_CHANGE = 1e-2, 0.9, 0.2, 50.0
#: Of an error over its tolerance; a smaller one says nothing about the next.
LEAST_ERROR = 1e-4


class Gathering(NamedTuple):
    """When each start on the circle is one cluster.

    >>> found = gathering([[0.0, 1.0, 2.0], [0.0, 3.1, 3.2]], beta=9.0, horizon=1e4)
    >>> found.times.round(0), found.converged
    (array([17., inf]), True)
    """

    times: Array  #: (starts,) infinity where not by the horizon
    log_gaps: Array  #: (starts, n) at that time, in the order of angles
    residual: float  #: by how much gaps no longer sum to 2 pi, at most
    iterations: int  #: steps of the start that took most
    converged: bool  #: whether no start was given up for its number of steps


def gathering(
    angles: ArrayLike, beta: float, *, delta: float = 1e-3, horizon: float = LATEST,
    tol: float = 1e-6, max_iter: int = 20_000,
) -> Gathering:  # fmt: skip
    r"""Follow every start of a stack of `angles` (starts, n) until all its tokens are in one cap.

    That is :math:`\langle x_i,x_j\rangle\ge1-\delta` for all pairs, as in
    :func:`attnflow.sphere.cluster_times`. Every start has steps of its own; `tol` bounds the error of
    a step in :math:`u/(1+|u|)`. The theorem that is looked at is 5.1 of :cite:t:`geshkovski2025`.

    >>> from attnflow.sphere import merge_time
    >>> found = gathering([[0.0, 2.0]], beta=50.0)
    >>> round(float(found.times[0] / merge_time(50.0, 2.0, np.arccos(0.999))), 4)
    1.0
    """
    theta = validate.array(angles, "angles", 2)
    if not len(theta):
        raise ValueError(f"angles must hold at least one start, got shape {theta.shape}")
    theta = np.sort([circle_angles(row) % (2 * np.pi) for row in theta], axis=1)
    beta, horizon = validate.beta(beta), validate.positive(horizon, "horizon")
    cap = np.arccos(1 - validate.between_zero_and_one(delta, "delta"))
    tol, max_iter = validate.positive(tol, "tol"), validate.count(max_iter, "max_iter")
    u = np.log(np.diff(theta, axis=1, append=theta[:, :1] + 2 * np.pi))
    times, last = np.full(len(u), np.inf), u.copy()
    left, clock, drift, steps = np.arange(len(u)), np.zeros(len(u)), 0.0, 0
    slope, width, since = _rates(u, beta), np.full(len(u), np.inf), np.zeros(len(u))
    h, before = np.full(len(u), FIRST_STEP), np.full((2, len(u)), FIRST_STEP)
    while steps < max_iter:
        total, now = _widths(u)
        drift = max(drift, float(np.abs(total - 2 * np.pi).max(initial=0.0)))
        met = now <= cap
        times[left[met]] = _crossing(since[met], clock[met], width[met], now[met], cap)
        done = met | (clock >= horizon)
        last[left[done]] = u[done]
        left, clock, u, h, slope = (a[~done] for a in (left, clock, u, h, slope))
        before, width = before[:, ~done], now[~done]
        if not len(left):
            break
        since, h = clock, np.minimum(h, horizon - clock)
        moved, ahead, error = _step(u, h, slope, beta, tol)
        good = error <= 1  # not so where something overflowed
        u, slope = (np.where(good[:, None], a, b) for a, b in ((moved, u), (ahead, slope)))
        clock, h, before = clock + h * good, *_next(h, error, good, before)
        steps += 1
    else:
        last[left] = u
        warnings.warn(
            NotConverged.after(
                f"gathering, for {len(left)} of {len(times)} starts,",
                max_iter,
                float(width.max()),
                cap,
                "increase max_iter, or tol",
            ),
            stacklevel=2,
        )
    return Gathering(times, last, drift, steps, not len(left))


def _widths(u: Array) -> tuple[Array, Array]:
    """What all gaps of a start sum to, and all but the widest."""
    gaps = np.exp(u)
    total = gaps.sum(axis=1)
    return total, total - gaps.max(axis=1)


def _crossing(since: Array, until: Array, before: Array, now: Array, cap: float) -> Array:
    """When a width fell below the cap: its logarithm is linear in the end."""
    with np.errstate(divide="ignore", invalid="ignore"):
        share = (np.log(before) - np.log(cap)) / (np.log(before) - np.log(now))
    share = np.where(np.isfinite(share), np.clip(share, 0.0, 1.0), 1.0)
    return np.asarray(since + share * (until - since))


def _step(u: Array, h: Array, slope: Array, beta: float, tol: float) -> tuple[Array, Array, Array]:
    """A step of Dormand and Prince for every start: where it ends, the slope there, its error."""
    slopes = np.empty((7, *u.shape))
    slopes[0] = slope
    for k in range(1, 6):
        slopes[k] = _rates(u + h[:, None] * np.tensordot(_A[k, :k], slopes[:k], 1), beta)
    moved = u + h[:, None] * np.tensordot(_B, slopes[:6], 1)
    slopes[6] = _rates(moved, beta)
    error = h * np.abs(np.tensordot(_E, slopes, 1) / (1 + np.abs(u))).max(axis=1)
    return moved, slopes[6], error / tol


def _next(h: Array, error: Array, good: NDArray[np.bool_], before: Array) -> tuple[Array, Array]:
    """The length of every next step, and what to remember of this one: its length and its error.

    Two clusters that meet do so faster and faster, so that errors grow from step to step. What they
    grew by is expected again (Gustafsson's predictive control); without that every other step fails.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        plain = SAFETY * error**-0.2
        again = plain * h / before[0] * (before[1] / error) ** 0.2
    plain[np.isnan(plain)] = LEAST_CHANGE
    change = np.where(good & np.isfinite(again), np.minimum(plain, again), plain)
    h_next = h * np.clip(change, LEAST_CHANGE, MOST_CHANGE)
    return h_next, np.where(good, [h, np.maximum(error, LEAST_ERROR)], before)


def _rates(u: Array, beta: float) -> Array:
    """How fast logarithms of gaps change, (starts, n) -> (starts, n)."""
    gaps = np.exp(np.minimum(u, WIDEST))
    arcs = _arcs(gaps)
    weights, speed = _pull(arcs, beta)
    # from the middle of gap k, between tokens k and k + 1
    middle = arcs - gaps[..., None] / 2
    weights, at_middle = _pull(middle, beta)
    bend = beta * np.sin(middle) ** 2 - np.cos(middle)
    narrow = (weights * bend).sum(axis=-1) - beta * at_middle**2
    wide = gaps > NARROW
    apart = np.roll(speed, -1, axis=-1) - speed
    return np.where(wide, np.divide(apart, gaps, out=np.zeros_like(u), where=wide), narrow)


def _pull(arcs: Array, beta: float) -> tuple[Array, Array]:
    """The weights of the tokens that are seen at these arcs, and f."""
    weights = np.exp(-2 * beta * np.sin(arcs / 2) ** 2)
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights, (weights * np.sin(arcs)).sum(axis=-1)


def _arcs(gaps: Array) -> Array:
    """From token i to token i + k, k = 0..n-1, the shorter way round: (starts, n) -> (starts, n, n)."""
    n = gaps.shape[-1]
    ahead = np.add.outer(np.arange(n), np.arange(n)) % n
    forth = np.zeros((*gaps.shape, n))
    back = np.zeros_like(forth)
    np.cumsum(gaps[:, ahead[:, :-1]], axis=-1, out=forth[..., 1:])
    np.cumsum(gaps[:, ahead[:, ::-1]][..., :-1], axis=-1, out=back[..., :0:-1])
    return np.where(forth <= back, forth, -back)
