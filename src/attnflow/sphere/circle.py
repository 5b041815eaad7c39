r"""Clusters on the circle, followed through all their merges.

Tokens at angles :math:`\theta_i` move under (SA) with Q = K = V = I by

.. math:: \dot\theta_i = \frac{\sum_j m_j e^{-\beta(1-\cos\theta_{ij})}\sin(\theta_j-\theta_i)}
    {\sum_j m_j e^{-\beta(1-\cos\theta_{ij})}}

(:cite:t:`geshkovski2025`), where tokens that have met count as one of added mass. That removes what
is stiff: within a cluster tokens contract at rates of order one, between clusters at rates of order
:math:`e^{-\beta(1-\cos\theta)}`, and after every merge only the slow ones are left. So an explicit
method with steps of its own crosses times such as :math:`10^{200}` in a few dozen steps a merge.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import RK45

from attnflow import validate
from attnflow.errors import FlowStopped
from attnflow.validate import Array

#: The last time that is followed; doubles end soon after.
LATEST = 1e300
#: The pair of Dormand and Prince: stages, solution, error (FSAL: the last stage is the next first).
_A, _B, _E = RK45.A, RK45.B, RK45.E
#: Length of the first step; bounds on how a step may change; most steps.
FIRST_STEP, LEAST_CHANGE, MOST_CHANGE, MOST_STEPS = 1e-2, 0.2, 8.0, 200_000
#: A step below this is a failure. It may be below the rounding of the time, which then stands still
#: for the last moments of a merge.
SHORTEST = 1e-9
#: Squares of masses are compared: a smaller one beside the largest is none.
LEAST_SHARE = 1e-150


class Merges(NamedTuple):
    """The merges of a flow on the circle, in the order of time; m of n - 1 if time ran out.

    >>> found = merges([0.0, 1.0, 3.0], beta=20.0)
    >>> found.kept, found.lost
    (array([0, 0]), array([1, 2]))
    """

    times: Array  #: (m,)
    kept: NDArray[np.int_]  #: (m,) the smallest number of a token of the new cluster
    lost: NDArray[np.int_]  #: (m,) that of the other cluster
    places: Array  #: (m,) the angle of the new cluster, in [0, 2 pi)
    last: Array  #: (k,) angles of the clusters that are left
    leaders: NDArray[np.int_]  #: (k,) their smallest tokens
    trail: Array  #: (steps, 2) times, and the energy over its maximum
    iterations: int  #: steps
    tol: float = 0.0  #: the error allowed in every step

    @property
    def converged(self) -> bool:
        """Whether all clusters have become one."""
        return len(self.last) == 1

    def clusters(self, times: ArrayLike) -> NDArray[np.int_]:
        """How many clusters there are at `times`.

        >>> merges([0.0, 1.0, 3.0], beta=20.0).clusters([1.0, 1e6])
        array([3, 2])
        """
        met = np.searchsorted(self.times, validate.array(times, "times", 1), side="right")
        return len(self.times) + len(self.last) - met

    def energy(self, times: ArrayLike) -> Array:
        """The energy over its maximum at `times`, linear between steps.

        >>> merges([0.0, 1.0], beta=20.0).energy([0.0, 1e9]).round(4)
        array([0.5001, 1.    ])
        """
        return np.interp(validate.array(times, "times", 1), *self.trail.T)


def merges(
    angles: ArrayLike, beta: float, masses: ArrayLike | None = None, *, causal: bool = False,
    normalised: bool = True, horizon: float = LATEST, near: float = 1e-6, tol: float = 1e-9,
) -> Merges:  # fmt: skip
    r"""Follow clusters at `angles` until all have met, or to the time `horizon`.

    Two clusters have met when they are nearer than `near`; `tol` bounds the error of an angle in
    a step. With `causal` token i sees tokens 1..i alone :cite:p:`karagodin2024`; masses are then
    one, and a cluster is led by its first token. Without `normalised` it is (USA) in the time
    :math:`e^{\beta}t`: the sum above over the total mass in place of its denominator.

    >>> from attnflow.sphere import merge_time
    >>> found = merges([0.0, 1.0], beta=30.0, near=1e-3)
    >>> round(float(found.times[0] / merge_time(30.0, 1.0, 1e-3)), 4)
    1.0
    """
    theta = circle_angles(angles)
    beta, horizon = validate.beta(beta), validate.positive(horizon, "horizon")
    near, tol = validate.positive(near, "near"), validate.positive(tol, "tol")
    if causal and masses is not None:
        raise ValueError(
            "masses must be None with a causal mask, where tokens are seen one by one; got masses"
        )
    state = _State(theta, beta, circle_masses(masses, len(theta)), causal, normalised)
    times, kept, lost, places, steps = [], [], [], [], 0
    trail = [(0.0, state.energy())]
    t, h, slope = 0.0, FIRST_STEP, None
    while len(state.theta) > 1 and t < horizon:
        pair = state.met(near)
        if pair is not None:
            i, j = pair
            times.append(t)
            kept.append(state.leaders[i])
            lost.append(state.leaders[j])
            places.append(state.join(i, j) % (2 * np.pi))
            slope = None
            continue
        t, h, slope = _step(state, t, min(h, horizon - t), slope, tol)
        trail.append((t, state.energy()))
        steps += 1
        if steps > MOST_STEPS:
            raise FlowStopped(
                f"the flow on the circle took more than {MOST_STEPS} steps by t = {t:.6g}: raise tol, or "
                "lower horizon"
            )
    return Merges(
        np.array(times), np.array(kept, int), np.array(lost, int), np.array(places),
        state.theta % (2 * np.pi), state.leaders.copy(), np.array(trail), steps, tol,
    )  # fmt: skip


class _State:
    """Clusters: angles, and the mass of each as each of the others sees it."""

    def __init__(
        self, theta: Array, beta: float, masses: Array, causal: bool, normalised: bool
    ) -> None:
        n = len(theta)
        self.theta, self.beta, self.normalised = theta, beta, normalised
        self.leaders: NDArray[np.int_] = np.arange(n)
        self.causal, self.total = causal, masses.sum()
        self.masses = masses.copy()
        self.seen = _behind_a_mask(n) if causal else np.tile(masses, (n, 1))  # (k, k)

    def velocity(self, theta: Array) -> Array:
        turn = theta[None, :] - theta[:, None]
        weights = self.seen * np.exp(-2 * self.beta * np.sin(turn / 2) ** 2)
        push = (weights * np.sin(turn)).sum(axis=1)
        below = weights.sum(axis=1) if self.normalised else self.total
        return push / below

    def energy(self) -> float:
        """Over that of one cluster."""
        turn = self.theta[None, :] - self.theta[:, None]
        weights = np.exp(-2 * self.beta * np.sin(turn / 2) ** 2)
        return float(self.masses @ weights @ self.masses / self.total**2)

    def met(self, near: float) -> tuple[int, int] | None:
        """The nearest pair if it has met, the one with the smaller leader first."""
        turn = np.abs(np.sin((self.theta[None, :] - self.theta[:, None]) / 2))
        np.fill_diagonal(turn, 1.0)
        i, j = np.unravel_index(turn.argmin(), turn.shape)
        if turn[i, j] >= np.sin(min(near, 1.0) / 2):
            return None
        return (int(i), int(j)) if self.leaders[i] < self.leaders[j] else (int(j), int(i))

    def join(self, i: int, j: int) -> float:
        """Cluster j becomes part of cluster i; the angle of both."""
        turn = (self.theta[j] - self.theta[i] + np.pi) % (2 * np.pi) - np.pi
        if not self.causal:
            self.theta = self.theta.copy()
            self.theta[i] += turn * self.masses[j] / (self.masses[i] + self.masses[j])
        place = float(self.theta[i])
        self.masses[i] += self.masses[j]
        self.seen[:, i] += self.seen[:, j]
        keep = np.arange(len(self.theta)) != j
        self.theta, self.masses, self.leaders = (
            self.theta[keep], self.masses[keep], self.leaders[keep],
        )  # fmt: skip
        self.seen = self.seen[np.ix_(keep, keep)]
        return place


def _behind_a_mask(n: int) -> Array:
    """Token i sees tokens 1..i."""
    return np.tril(np.ones((n, n)))


def _step(
    state: _State, t: float, h: float, slope: Array | None, tol: float
) -> tuple[float, float, Array]:
    """One accepted step of Dormand and Prince: the new time, the next length, the new slope."""
    slopes = np.empty((7, len(state.theta)))
    slopes[0] = state.velocity(state.theta) if slope is None else slope
    while True:
        for k in range(1, 6):
            slopes[k] = state.velocity(state.theta + h * (_A[k, :k] @ slopes[:k]))
        moved = state.theta + h * (_B @ slopes[:6])
        slopes[6] = state.velocity(moved)
        error = h * np.abs(_E @ slopes).max() / tol
        change = 0.9 * error**-0.2 if error > 0 else MOST_CHANGE
        if error <= 1:
            state.theta = moved
            return t + h, h * min(max(change, LEAST_CHANGE), MOST_CHANGE), slopes[6]
        h *= max(change, LEAST_CHANGE) if np.isfinite(change) else LEAST_CHANGE
        if h < SHORTEST:
            raise FlowStopped(
                f"the flow on the circle needs steps below {SHORTEST:g} at t = {t:g}: "
                "raise tol, or lower beta"
            )


def circle_angles(angles: ArrayLike) -> Array:
    """Two or more angles, no two of them the same point, or a ``ValueError``.

    >>> circle_angles([0.0, 2 * np.pi])
    Traceback (most recent call last):
    ValueError: angles must be different points of the circle, got two at 0
    """
    theta = validate.array(angles, "angles", 1)
    if len(theta) < 2:
        raise ValueError(f"angles must hold at least two tokens, got {len(theta)}")
    if np.abs(theta).max() > 1e6:
        raise ValueError(f"angles must be at most 1e6, got {validate.said(theta)}")
    order = np.sort(theta % (2 * np.pi))
    gaps = np.diff(order, append=order[0] + 2 * np.pi)
    if gaps.min() < 1e-12 or gaps.max() > 2 * np.pi - 1e-12:
        raise ValueError(
            f"angles must be different points of the circle, got two at {order[gaps.argmin()]:.6g}"
        )
    return theta


def circle_masses(masses: ArrayLike | None, n: int) -> Array:
    """One positive mass per cluster, by :func:`relative`; ones unless given.

    >>> circle_masses(None, 3)
    array([1., 1., 1.])
    """
    if masses is None:
        return np.ones(n)
    out = validate.array(masses, "masses", 1)
    if out.shape != (n,) or (out <= 0).any():
        raise ValueError(f"masses must be {n} positive numbers, got {validate.said(out)}")
    return relative(out, "masses")


def relative(masses: Array, name: str) -> Array:
    """Positive masses over a power of two: their ratios alone matter, and all their digits stay.

    >>> relative(np.array([3e300, 1e300]), "masses").round(3)
    array([1.12 , 0.373])
    """
    masses = validate.all_positive(masses, name)
    if masses.min() < LEAST_SHARE * masses.max():
        raise ValueError(
            f"{name} must not be below {LEAST_SHARE:g} of the largest, got {masses.min():g} "
            f"and {masses.max():g}"
        )
    return np.asarray(masses / 2.0 ** np.floor(np.log2(masses.max())))
