r"""Scores :math:`\langle z_i, y_j\rangle/\varepsilon` balanced in linear time, in at most three dimensions.

For every invertible S,

.. math:: \langle z, y\rangle = \langle Sz, S^{-\top}y\rangle
          = -\tfrac12|Sz - S^{-\top}y|^2 + \tfrac12|Sz|^2 + \tfrac12|S^{-\top}y|^2,

and what depends on z alone or on y alone goes into the potentials. So every bilinear score is a Gaussian kernel
between other points, and S is free. Here it makes both covariances equal
(:math:`S^2` is Monge's map between two Gaussians, :cite:t:`peyre2019`), both means zero: Gaussians become one
measure, whose potentials are as mild as those of a bridge to itself. What is left of the
potentials' range is the difference of shapes.

The fast kernel errs by its accuracy times :math:`|u|_1` and :math:`|v|_1`, which are large where potentials range
widely. Their product with the accuracy bounds the error of a marginal, is part of the stated
residual, and decides whether the method is trusted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from attnflow.kernels.fast import ACCURACIES, FastPair
from attnflow.matrices import inverse_root, root
from attnflow.transport.newton import Newton
from attnflow.validate import Array

#: The share of a residual, or of the tolerance, that the kernel's error may have.
FAST_SHARE = 0.1
#: How coarse a kernel is at first.
COARSEST = 1e-8
#: The error of directions in units of their size, and an accuracy that single precision has.
ROUGH, SINGLE = 1e-2, 1e-5
#: The accuracy of squared entries, whose scales are squared too.
SQUARED = 1e-12
#: The most that a row may owe to itself: the fast kernel cannot tell more from all.
MOST_OWN = 0.999
#: Residuals below the error of the finest kernel times this are hopeless.
HOPELESS = 1.0
#: Variances below this share of the largest count as this.
THIN = 1e-4


class Aligned(NamedTuple):
    """Points z', y' of a Gaussian kernel, and what is left of <z, y>: p_i + q_j."""

    z: Array  #: (n, k)
    y: Array  #: (m, k)
    p: Array  #: (n,)
    q: Array  #: (m,)


class Scaled(NamedTuple):
    """A plan u_i K_ij v_j of the aligned points, with potentials of the scores <z, y> / eps."""

    f: Array  #: (n,)
    g: Array  #: (m,)
    v: Array  #: (m,), b e^g in aligned coordinates
    kernel: FastPair
    iterations: int
    residual: float  #: measured, and what the kernel's error may add


def aligned(z: Array, y: Array, a: Array, b: Array) -> Aligned:
    """Both in the coordinates in which they have mean zero and one covariance.

    >>> x = np.random.default_rng(0).normal(size=(50, 2))
    >>> w = np.full(50, 0.02)
    >>> found = aligned(3 * x + 1, x / 2, w, w)
    >>> bool(np.allclose(found.z, found.y))
    True
    """
    mean_z, mean_y = a @ z, b @ y
    z0, y0 = z - mean_z, y - mean_y
    stretch = _stretch((z0.T * a) @ z0, (y0.T * b) @ y0)
    moved_z, moved_y = z0 @ stretch, y0 @ np.linalg.inv(stretch)
    p = (moved_z**2).sum(axis=1) / 2 + z0 @ mean_y
    q = (moved_y**2).sum(axis=1) / 2 + y @ mean_z
    return Aligned(moved_z, moved_y, p, q)


def balanced_products(
    points: Aligned, eps: float, a: Array, b: Array, tol: float, max_iter: int
) -> Scaled | None:
    """The plan of the scores <z, y> / eps with marginals a, b > 0; the residual says how good it is.

    None where the potentials range too widely for the kernel's accuracy.
    """
    plan = _FastPlan(points, eps, a, b, tol)
    try:
        plan.balance(tol / 2, max_iter)
    except _TooWide:
        return None
    noise = plan.kernel.accuracy * plan.size
    if not plan.residual <= tol / 2 and plan.iterations < max_iter:  # it came to a halt
        return None
    f, g = np.log(plan.u / a) - points.p / eps, np.log(plan.v / b) - points.q / eps
    return Scaled(f, g, plan.v, plan.kernel, plan.iterations, plan.residual + noise)


class _TooWide(Exception):
    """The kernel's error is larger than what is to be corrected, and it cannot be smaller."""


class _FastPlan(Newton):
    """The plan as scales on both sides of transforms, which become finer as they must."""

    _quick: FastPair
    _squared: FastPair

    def __init__(self, points: Aligned, eps: float, a: Array, b: Array, tol: float) -> None:
        super().__init__(a, b)
        self.points, self.eps, self.tol = points, eps, tol
        self.kernel = self._pair(COARSEST)
        # the half step, exact where both are one measure that is locally uniform
        self.u = a / np.sqrt(np.maximum(self.kernel.times(b[:, None])[:, 0], COARSEST))
        self._renew()
        self._sharpen()

    @property
    def size(self) -> float:
        """What the kernel's accuracy is multiplied with in the error of a marginal."""
        return float(self.u.sum() * self.v.sum())

    def _pair(self, accuracy: float) -> FastPair:
        return FastPair(self.points.z, self.points.y, self.eps, accuracy)

    def _renew(self) -> None:
        """Exact columns, and the rows measured, by the present kernel."""
        self.v = self.b / self._floored(self.kernel.transposed, self.u)
        self._measured(self._sums(np.ones(len(self.b))))

    def _sharpen(self) -> None:
        """A finer kernel where the error of the present one could be seen."""
        while True:
            seen = FAST_SHARE * max(self.tol, FAST_SHARE * self.residual)
            finest = self.kernel.accuracy == ACCURACIES[0]
            if finest and ACCURACIES[0] * self.size > max(self.tol / 2, HOPELESS * self.residual):
                raise _TooWide
            if finest or self.kernel.accuracy * self.size <= seen:
                return
            self.kernel = self._pair(float(np.clip(0.1 * seen / self.size, *ACCURACIES)))
            self._renew()

    def _floored(self, product: Callable[[Array], Array], x: Array) -> Array:
        """A product with x > 0; where it is below the kernel's error, that error."""
        return np.maximum(product(x[:, None])[:, 0], self.kernel.accuracy * x.sum())

    def _totals(self, u: Array) -> Array:
        return self.v * self._floored(self.kernel.transposed, self.u * u)

    def _sums(self, v: Array) -> Array:
        return self.u * self._floored(self.kernel.times, self.v * v)

    def _times(self, x: Array) -> Array:
        return self.u * self.kernel.times((self.v * x)[:, None])[:, 0]

    def _transposed(self, x: Array) -> Array:
        return self.v * self.kernel.transposed((self.u * x)[:, None])[:, 0]

    def _own(self) -> Array:
        masses = self.v**2 / self.b
        found = self.u**2 * self._squared.times(masses[:, None])[:, 0]
        error = self.u**2 * (self._squared.accuracy * masses.sum())
        return np.where(error < ROUGH * self.rows, np.clip(found, 0.0, MOST_OWN * self.rows), 0.0)

    def _roughen(self) -> None:
        self._sharpen()
        enough = float(np.clip(ROUGH / self.size, *ACCURACIES))
        if not self.rough or self._quick.accuracy > 10 * enough:
            self._quick = self._pair(min(enough, SINGLE))
            self._squared = FastPair(self.points.z, self.points.y, self.eps / 2, SQUARED)
        self.rough = True

    def _roughly(self, p: Array) -> Array:
        middle = self.v**2 / self.b * self._quick.transposed((self.u * p)[:, None])[:, 0]
        return self.u * self._quick.times(middle[:, None])[:, 0]

    def _renewed(self, tol: float) -> bool:
        self._sharpen()
        return False


def _stretch(first: Array, second: Array) -> Array:
    """S, symmetric, with S^2 first S^2 = second; one where a measure is a point."""
    if not min(np.trace(first), np.trace(second)) > np.finfo(float).tiny ** 0.5:
        return np.eye(len(first))
    first, second = _thick(first), _thick(second)
    side, back = root(first), inverse_root(first)
    return root(back @ root(side @ second @ side) @ back)


def _thick(cov: Array) -> Array:
    """A covariance without directions that are too thin to be divided by."""
    return cov + THIN * float(np.linalg.eigvalsh(cov)[-1]) * np.eye(len(cov))
