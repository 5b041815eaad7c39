r"""Balancing a matrix of scores: the plan :math:`a_i e^{f_i + s_{ij} + g_j} b_j` with marginals a and b.

Alternating normalisation (:cite:t:`sinkhorn1967`, :cite:t:`cuturi2013`) contracts at a rate that
tends to one as the scores grow. Here it is only how an iteration begins. The potentials solve a
smooth convex problem: with g eliminated so that columns are exact, minimise over f

.. math:: F(f) = \sum_j b_j \log \sum_i a_i e^{f_i + s_{ij}} - \sum_i a_i f_i,

.. math:: \nabla F = P1 - a, \qquad \nabla^2 F = \mathrm{diag}(P1) - P\,\mathrm{diag}(b)^{-1} P^\top.

Newton's steps come from conjugate gradients, so nothing but products with P is ever formed; the
diagonal of the Hessian as preconditioner deals with tokens that are far from all others, which
slow down alternating normalisation most. Large scores start near their solution by way of
higher temperatures.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from attnflow import validate
from attnflow.errors import NotConverged
from attnflow.softmax import exponentials
from attnflow.transport.rough import Rough, squares_times
from attnflow.validate import Array

#: Scores that spread over no more than this need no higher temperature to start from.
GENTLE = 60.0
#: The temperatures above the asked one: each is this many times the next, solved to this residual.
FACTOR, COARSE = 8.0, 1e-2
#: Sweeps go on while the residual falls at least by this factor; but a few are always made.
QUICK, FEW = 0.3, 3
#: Conjugate gradients solve to this, more exactly as the residual falls, in at most so many steps.
LOOSE, MOST_CONJUGATE = 0.1, 200
#: After so many, which single precision or a sparse plan would have done as well, they use one;
#: where that is sparse, they may take more.
MANY, MOST_SPARSE = 12, 2000
#: Where they fail, matrices up to this size are factored.
LARGEST_FACTORED = 2000
#: Factored steps are damped: the first, the least and the most, and how that eases and hardens.
DAMPING, LEAST_DAMPING, MOST_DAMPING, EASE, HARDEN = 1e-3, 1e-15, 1e9, 4.0, 10.0
#: No potential changes by more than this in one step, and no step is cut below this share.
LONGEST_STEP, SHORTEST_SHARE = 4.0, 1e-3
#: A step is taken if the residual falls to this share, or F by this share of what its slope promises.
ENOUGH, ARMIJO = 0.9, 1e-4
#: Entries of the Hessian's diagonal below this share of the row are rounding.
ROUNDING = 1e-14
#: Scales beyond e^{+-40} are taken into the kernel; products of rounded numbers drift by less than this.
LARGEST_SCALE, DRIFT = 40.0, 1e-12
#: Row sums below this share of their mass have lost their digits: a sweep in logarithms restores them.
FADED = 1e-200


class Potentials(NamedTuple):
    r"""Two potentials: the plan is :math:`a_i e^{f_i + s_{ij} + g_j} b_j` (:cite:t:`peyre2019`).

    >>> found = sinkhorn(np.zeros((2, 3)))
    >>> found.converged, found.plan().sum().round(12)
    (True, np.float64(1.0))
    """

    f: Array  #: (n,)
    g: Array  #: (m,)
    scores: Array  #: s, (n, m)
    a: Array  #: the plan's row sums, (n,)
    b: Array  #: the plan's column sums, (m,)
    iterations: int  #: products with the plan and its transpose
    residual: float  #: L1 error of the row marginal; the column marginal is exact
    converged: bool  #: residual <= tol

    @property
    def log_plan(self) -> Array:
        """The logarithm of the plan, (n, m); -inf where there is no mass."""
        with np.errstate(divide="ignore"):
            rows, columns = self.f + np.log(self.a), self.g + np.log(self.b)
        return rows[:, None] + self.scores + columns

    def plan(self) -> Array:
        """The plan itself, (n, m), summing to one."""
        return np.exp(self.log_plan)


def sinkhorn(
    scores: ArrayLike,
    a: ArrayLike | None = None,
    b: ArrayLike | None = None,
    *,
    tol: float = 1e-9,
    max_iter: int = 20_000,
) -> Potentials:
    r"""The matrix :math:`a_i e^{f_i + s_{ij} + g_j} b_j` with row sums a and column sums b.

    Entropic transport (:cite:t:`cuturi2013`) with the cost -eps s; `tol` bounds the L1 error of the rows. Potentials
    are 0 where there is no mass.

    >>> plan = sinkhorn([[1.0, -2.0], [0.5, 3.0]]).plan()
    >>> bool(np.allclose(plan.sum(axis=0), 0.5) and np.allclose(plan.sum(axis=1), 0.5))
    True
    """
    s = validate.array(scores, "scores", 2)
    if s.size == 0:
        raise ValueError(f"scores must not be empty, got shape {s.shape}")
    masses = validate.weights(a, s.shape[0], "a"), validate.weights(b, s.shape[1], "b")
    p, q = (mass / mass.sum() for mass in masses)  # equal totals, else no plan has both
    tol, max_iter = validate.positive(tol, "tol"), validate.count(max_iter, "max_iter")
    rows, columns = p > 0, q > 0
    live = s if rows.all() and columns.all() else s[np.ix_(rows, columns)]
    f, g = np.zeros(len(p)), np.zeros(len(q))
    f[rows], g[columns], residual, iterations = _solve(live, p[rows], q[columns], tol, max_iter)
    if not residual <= tol:
        advice = "increase max_iter, or lower the scores (a larger eps)"
        warnings.warn(
            NotConverged.after("sinkhorn", iterations, residual, tol, advice), stacklevel=2
        )
    return Potentials(f, g, s, p, q, iterations, residual, residual <= tol)


def _solve(
    s: Array, a: Array, b: Array, tol: float, max_iter: int
) -> tuple[Array, Array, float, int]:
    """Potentials f and g, the residual and the iterations, by way of higher temperatures."""
    f, used, room = np.zeros(len(a)), 0, np.empty_like(s)
    for temperature in _temperatures(float(np.ptp(s))):
        last = temperature == 1.0
        state = _Plan(s, temperature, a, b, f / temperature, room)
        state.balance(tol if last else max(COARSE, tol), max_iter - used)
        f, used = temperature * state.f, used + state.iterations
    return state.f, state.g, state.residual, used


def _temperatures(spread: float) -> list[float]:
    """Falling to one from where scores of this spread are gentle.

    >>> _temperatures(1000.0)
    [64.0, 8.0, 1.0]
    """
    out = [1.0]
    while spread > GENTLE * out[0]:
        out.insert(0, FACTOR * out[0])
    return out


class _Plan:
    """The plan at one temperature, diag(u) kernel diag(v): a matrix that stays, and what scales it.

    Columns are exact after every step; `rows` are its row sums, `residual` what these lack.
    The kernel is made in `room`.
    """

    def __init__(
        self, s: Array, temperature: float, a: Array, b: Array, f: Array, room: Array
    ) -> None:
        self.s, self.temperature, self.a, self.b, self.room = s, temperature, a, b, room
        self.iterations, self.direct, self.damping = 0, False, DAMPING
        self.exact = False
        self._refresh(f)
        if (self.rows < FADED * a).any():  # far from the solution: whole rows underflow
            _, total, top = exponentials(s / temperature + (self.g + np.log(b)))
            self._refresh(-(top + np.log(total))[:, 0])

    @property
    def f(self) -> Array:
        """The potential of the rows."""
        return self._f + np.log(self.u)

    @property
    def g(self) -> Array:
        """The potential of the columns."""
        return self._g + np.log(self.v)

    def balance(self, tol: float, most: int) -> None:
        """Until the rows are right to `tol`, or `most` iterations are done."""
        while self.iterations < most and self.residual > tol:
            self._sweeps(tol, most)
            while self.residual > tol and self.iterations < most and self._newton(tol, most):
                pass
            if tol < DRIFT:
                self._refresh(self.f)

    def _refresh(self, f: Array) -> None:
        """The kernel of a potential, in logarithms, with exact columns."""
        self._f = f
        scores = np.divide(self.s, self.temperature, out=self.room)
        scores += (f + np.log(self.a))[:, None]
        self.kernel, total, top = exponentials(scores, axis=0)
        self.kernel *= self.b / total
        self.rough: Rough | None = None
        self.conjugates = 0
        self._g = -(top + np.log(total))[0]
        self.u, self.v = np.ones(len(self.a)), np.ones(len(self.b))
        self._measured(self.kernel.sum(axis=1))

    def _measured(self, rows: Array) -> None:
        self.rows, self.residual = rows, float(np.abs(rows - self.a).sum())

    def _take(self, u: Array, v: Array, rows: Array) -> None:
        """Rows times u and columns times v from here on."""
        self.u, self.v = self.u * u, self.v * v
        self._measured(rows)
        if max(np.abs(np.log(self.u)).max(), np.abs(np.log(self.v)).max()) > LARGEST_SCALE:
            self._refresh(self.f)

    def _times(self, x: Array) -> Array:
        """P x."""
        return self.u * (self.kernel @ (self.v * x))

    def _transposed(self, x: Array) -> Array:
        """P^T x."""
        return self.v * ((self.u * x) @ self.kernel)

    def _sweeps(self, tol: float, most: int) -> None:
        """Alternating normalisation while it is quick."""
        for done in range(1, most - self.iterations + 1):
            last = self.residual
            u = self.a / self.rows
            v = self.b / self._transposed(u)
            self._take(u, v, u * self._times(v))
            self.iterations += 1
            if self.residual <= tol or (done > FEW and self.residual > QUICK * last):
                break

    def _newton(self, tol: float, most: int) -> bool:
        """One Newton step on F; whether it made progress."""
        change = self._direction(tol, most)
        share = min(1.0, LONGEST_STEP / max(float(np.abs(change).max()), LONGEST_STEP))
        slope = float((self.rows - self.a) @ change)  # of F, < 0
        while share >= SHORTEST_SHARE and self.iterations < most:
            u = np.exp(share * change)
            totals = self._transposed(u)
            v = self.b / totals
            rows = u * self._times(v)
            self.iterations += 1
            residual = float(np.abs(rows - self.a).sum())
            lower = float(self.b @ np.log(totals / self.b) - share * (self.a @ change))
            if residual <= ENOUGH * self.residual or lower <= ARMIJO * share * slope:
                self.damping = max(self.damping / EASE, LEAST_DAMPING)
                self._take(u, v, rows)
                return True
            share /= 2
        self.damping = min(self.damping * HARDEN, MOST_DAMPING)
        return self.direct and self.damping < MOST_DAMPING

    def _direction(self, tol: float, most: int) -> Array:
        """- Hessian^{-1} gradient, less its median: f is free up to a constant."""
        if not self.direct:
            change, solved = self._conjugate(tol, most)
            if not solved and self.rough is not None and not self.rough.sparse:
                self.exact, self.rough = True, None  # single precision was too little
                change, solved = self._conjugate(tol, most)
            if solved or len(self.a) > LARGEST_FACTORED:
                return change - np.median(change)
            self.direct = True
        change = self._factored()
        self.iterations += 1
        return change - np.median(change)

    def _conjugate(self, tol: float, most: int) -> tuple[Array, bool]:
        """By conjugate gradients with the diagonal as preconditioner; and whether they got there."""
        self._roughen()
        own = self.u**2 * squares_times(self.kernel, self.v**2 / self.b)
        diagonal = np.maximum(self.rows - own, ROUNDING * self.rows)
        r = self.a - self.rows
        r -= r.mean()
        closeness = max(min(LOOSE, np.sqrt(self.residual)), 0.3 * tol / self.residual)
        goal = closeness * np.abs(r).sum()
        x, z = np.zeros(len(r)), r / diagonal
        p, rz = z, float(r @ z)
        limit = MOST_SPARSE if self.rough and self.rough.sparse else MOST_CONJUGATE
        for _ in range(min(limit, most - self.iterations)):
            image = self.rows * p - self._roughly(p)
            self.iterations += 1
            self.conjugates += 1
            curvature = float(p @ image)
            if not curvature > 0:  # rounding has taken over
                return x, False
            x, r = x + rz / curvature * p, r - rz / curvature * image
            if np.abs(r).sum() <= goal:
                return x, True
            z = r / diagonal
            rz, before = float(r @ z), rz
            p = z + rz / before * p
        return x, False

    def _roughen(self) -> None:
        """Products of fewer digits, once there have been many of all."""
        wanted = not self.exact and self.conjugates >= MANY
        if wanted and (self.rough is None or self.rough.stale(self.u, self.v)):
            self.rough = Rough(self.kernel, self.u, self.v, self.b)

    def _roughly(self, p: Array) -> Array:
        """P diag(b)^{-1} P^T p, by the cheapest kernel there is."""
        if self.rough is None:
            return self._times(self._transposed(p) / self.b)
        middle = self.v**2 / self.b * self.rough.transposed(self.u * p)
        return self.u * self.rough.times(middle)

    def _factored(self) -> Array:
        """By elimination, damped. No digits cancel where rows are hardly joined.

        The Hessian is the Laplacian of the graph in which rows i, k are joined by
        sum_j P_ij P_kj / b_j: its diagonal is summed from the other entries.
        """
        scaled = self.u[:, None] * self.kernel * (self.v / np.sqrt(self.b))
        joint = scaled @ scaled.T
        np.fill_diagonal(joint, 0.0)
        diagonal = joint.sum(axis=1) + self.damping * self.a + np.finfo(float).tiny
        step = np.linalg.solve(np.diag(diagonal) - joint, self.a - self.rows)
        return np.asarray(step, np.float64)
