"""Newton's method on the potentials of a plan of which only products are known.

The plan is diag(u) kernel diag(v), its columns exact after every step. What the kernel is, a matrix or
two transforms, is for the subclass to say.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from attnflow.validate import Array

#: Sweeps go on while the residual falls at least by this factor; but a few are always made.
QUICK, FEW = 0.3, 3
#: Conjugate gradients solve to this, more exactly as the residual falls, in at most so many steps.
LOOSE, MOST_CONJUGATE = 0.1, 200
#: After so many, which single precision or a sparse plan would have done as well, they use one;
#: where that is sparse, they may take more.
MANY, MOST_SPARSE = 12, 2000
#: Factored steps are damped: the first, the least and the most, and how that eases and hardens.
DAMPING, LEAST_DAMPING, MOST_DAMPING, EASE, HARDEN = 1e-3, 1e-15, 1e9, 4.0, 10.0
#: No potential changes by more than this in one step, and no step is cut below this share.
LONGEST_STEP, SHORTEST_SHARE = 4.0, 1e-3
#: A step is taken if the residual falls to this share, or F by this share of what its slope promises.
ENOUGH, ARMIJO = 0.9, 1e-4
#: Entries of the Hessian's diagonal below this share of the row are rounding.
ROUNDING = 1e-14


class Newton(ABC):
    """A plan on the way to its marginals: `rows` are its row sums, `residual` what these lack.

    See :mod:`attnflow.transport.balance` for the function that is minimised.
    """

    u: Array
    v: Array
    #: Where conjugate gradients fail, matrices up to this size are factored.
    largest_factored = 0

    def __init__(self, a: Array, b: Array) -> None:
        self.a, self.b = a, b
        self.iterations, self.direct, self.damping = 0, False, DAMPING
        #: Steps of conjugate gradients; whether they must be, and are rough; whether many are cheap.
        self.conjugates, self.exact, self.rough, self.many = 0, False, False, False

    @abstractmethod
    def _times(self, x: Array) -> Array:
        """P x."""

    @abstractmethod
    def _transposed(self, x: Array) -> Array:
        """P^T x."""

    @abstractmethod
    def _own(self) -> Array:
        """sum_j P_ij^2 / b_j, (n,)."""

    @abstractmethod
    def _roughen(self) -> None:
        """Products of fewer digits, once there have been many of all."""

    @abstractmethod
    def _roughly(self, p: Array) -> Array:
        """P diag(b)^(-1) P^T p, by the cheapest kernel there is."""

    def _factored(self) -> Array:
        """Newton's direction by elimination, damped; only where `largest_factored` allows it."""
        raise TypeError("a plan of which only products are known has no factors")

    def _totals(self, u: Array) -> Array:
        """P^T u for u > 0, (m,), which must be > 0."""
        return self._transposed(u)

    def _sums(self, v: Array) -> Array:
        """P v for v > 0, (n,), which must be > 0."""
        return self._times(v)

    def _measured(self, rows: Array) -> None:
        self.rows, self.residual = rows, float(np.abs(rows - self.a).sum())

    def balance(self, tol: float, most: int) -> None:
        """Until the rows are right to `tol`, or `most` iterations are done."""
        while self.iterations < most and self.residual > tol:
            self._sweeps(tol, most)
            while self.residual > tol and self.iterations < most and self._newton(tol, most):
                pass
            if not self._renewed(tol):
                break

    def _renewed(self, tol: float) -> bool:
        """Whether to go on after a round of steps; errors that have gathered may be removed here."""
        return True

    def _take(self, u: Array, v: Array, rows: Array) -> None:
        """Rows times u and columns times v from here on."""
        self.u, self.v = self.u * u, self.v * v
        self._measured(rows)

    def _sweeps(self, tol: float, most: int) -> None:
        """Alternating normalisation while it is quick."""
        for done in range(1, most - self.iterations + 1):
            last = self.residual
            u = self.a / self.rows
            v = self.b / self._totals(u)
            self._take(u, v, u * self._sums(v))
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
            totals = self._totals(u)
            v = self.b / totals
            rows = u * self._sums(v)
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
            if not solved and self.rough and not self.many:
                self.exact, self.rough = True, False  # a few digits were too few
                change, solved = self._conjugate(tol, most)
            if solved or len(self.a) > self.largest_factored:
                return change - np.median(change)
            self.direct = True
        change = self._factored()
        self.iterations += 1
        return change - np.median(change)

    def _conjugate(self, tol: float, most: int) -> tuple[Array, bool]:
        """By conjugate gradients with the diagonal as preconditioner; and whether they got there."""
        self._roughen()
        diagonal = np.maximum(self.rows - self._own(), ROUNDING * self.rows)
        r = self.a - self.rows
        r -= r.mean()
        closeness = max(min(LOOSE, np.sqrt(self.residual)), 0.3 * tol / self.residual)
        goal = closeness * np.abs(r).sum()
        x, z = np.zeros(len(r)), r / diagonal
        p, rz = z, float(r @ z)
        limit = MOST_SPARSE if self.rough and self.many else MOST_CONJUGATE
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
