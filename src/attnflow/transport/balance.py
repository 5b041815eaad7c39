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
from attnflow.transport.newton import MANY, Newton
from attnflow.transport.rough import Rough, squares_times
from attnflow.validate import Array

#: Scores that spread over no more than this need no higher temperature to start from.
GENTLE = 60.0
#: The temperatures above the asked one: each is this many times the next, solved to this residual.
FACTOR, COARSE = 8.0, 1e-2
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
    found = balanced(scores, a, b, tol, max_iter)
    if not found.converged:
        advice = "increase max_iter, or lower the scores (a larger eps)"
        said = NotConverged.after("sinkhorn", found.iterations, found.residual, tol, advice)
        warnings.warn(said, stacklevel=2)
    return found


def balanced(
    scores: ArrayLike, a: ArrayLike | None, b: ArrayLike | None, tol: float, max_iter: int
) -> Potentials:
    """What :func:`sinkhorn` finds; whoever calls it looks whether it converged.

    >>> balanced([[1.0, -2.0], [0.5, 3.0]], None, None, 1e-9, 100).converged
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


class _Plan(Newton):
    """The plan at one temperature: a matrix that stays, made in `room`, and what scales it."""

    largest_factored = 2000
    _quick: Rough

    def __init__(
        self, s: Array, temperature: float, a: Array, b: Array, f: Array, room: Array
    ) -> None:
        super().__init__(a, b)
        self.s, self.temperature, self.room = s, temperature, room
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

    def _refresh(self, f: Array) -> None:
        """The kernel of a potential, in logarithms, with exact columns."""
        self._f = f
        scores = np.divide(self.s, self.temperature, out=self.room)
        scores += (f + np.log(self.a))[:, None]
        self.kernel, total, top = exponentials(scores, axis=0)
        self.kernel *= self.b / total
        self.rough, self.conjugates = False, 0
        self._g = -(top + np.log(total))[0]
        self.u, self.v = np.ones(len(self.a)), np.ones(len(self.b))
        self._measured(self.kernel.sum(axis=1))

    def _renewed(self, tol: float) -> bool:
        if tol < DRIFT:
            self._refresh(self.f)
        return True

    def _take(self, u: Array, v: Array, rows: Array) -> None:
        super()._take(u, v, rows)
        if max(np.abs(np.log(self.u)).max(), np.abs(np.log(self.v)).max()) > LARGEST_SCALE:
            self._refresh(self.f)

    def _times(self, x: Array) -> Array:
        return self.u * (self.kernel @ (self.v * x))

    def _transposed(self, x: Array) -> Array:
        return self.v * ((self.u * x) @ self.kernel)

    def _own(self) -> Array:
        return self.u**2 * squares_times(self.kernel, self.v**2 / self.b)

    def _roughen(self) -> None:
        wanted = not self.exact and self.conjugates >= MANY
        if wanted and (not self.rough or self._quick.stale(self.u, self.v)):
            self._quick = Rough(self.kernel, self.u, self.v, self.b)
            self.rough, self.many = True, self._quick.sparse

    def _roughly(self, p: Array) -> Array:
        if not self.rough:
            return self._times(self._transposed(p) / self.b)
        middle = self.v**2 / self.b * self._quick.transposed(self.u * p)
        return self.u * self._quick.times(middle)

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
