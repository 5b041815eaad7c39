r"""Gaussians and their mixtures: density, score, samples, heat flow, and what the bridge sees.

The heat flow is :math:`\partial_t \rho = \tfrac12 \Delta\rho`: every covariance grows by t I. With
:math:`\rho = e^{-g}` and :math:`b = \tfrac12\nabla\log\rho` the Langevin diffusion
:math:`dX = b\,dt + dB` has :math:`\rho` as its stationary law, and

.. math:: U = \tfrac12|b|^2 + \tfrac12\,\mathrm{div}\, b = \tfrac18|\nabla g|^2 - \tfrac14\Delta g

is the potential of its generator after the ground-state transform :cite:p:`agarwal2024`. Its
gradient is the first correction of the bridge:
:math:`B(x) = x + \varepsilon b + \tfrac{\varepsilon^2}{2}\nabla U + \dots`

Points are rows, (n, d); a vector is read as n points in one dimension.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize.elementwise import find_root
from scipy.special import log_ndtr

from attnflow import differences, validate
from attnflow.errors import SolverFailed
from attnflow.softmax import log_sum
from attnflow.validate import Array

#: Quantiles are found to this, absolutely and relatively.
QUANTILE_TOL = 1e-14
#: Newton's steps settle when they are as short as this, relatively: the last one leaves a rounding error.
SETTLED, MOST_NEWTON = 1e-12, 12
#: Logarithms of tails end here: what lies further out has no mass that a number could hold.
FARTHEST = -1e300
#: Determinants of 2 pi C are formed.
LARGEST_COV = 1e300
Places = NDArray[np.int_]
#: Asymmetry of a covariance that rounding explains, relative to its largest entry.
SYMMETRY_SLACK = 1e-10


class GaussianMixture:
    r""":math:`\rho = \sum_k w_k N(m_k, C_k)` in any dimension.

    In one dimension `means` and `covs` are sequences of numbers, else of shape (k, d) and (k, d, d).

    >>> mix = GaussianMixture([0.5, 0.5], [-2.0, 2.0], [1.0, 1.0])
    >>> mix.score([0.0, 2.0]).ravel().round(6)
    array([ 0.      , -0.001341])
    """

    def __init__(self, weights: ArrayLike, means: ArrayLike, covs: ArrayLike) -> None:
        self.means = validate.tokens(means, "means")  # (k, d)
        k, d = self.means.shape
        covs = validate.real(covs, "covs")
        covs = covs.reshape(k, 1, 1) if d == 1 and covs.size == k else covs
        self.covs = validate.array(covs, "covs", 3)  # (k, d, d)
        self.weights = validate.weights(weights, k)
        if self.covs.shape != (k, d, d):
            raise ValueError(f"covs must have shape {(k, d, d)}, got {self.covs.shape}")
        largest = float(np.abs(self.covs).max())
        if largest > LARGEST_COV:
            raise ValueError(f"covs must be at most {LARGEST_COV:g}, got {largest:g}")
        askew = float(np.abs(self.covs - np.swapaxes(self.covs, 1, 2)).max())
        if askew > SYMMETRY_SLACK * largest:
            raise ValueError(f"covs must be symmetric, got a difference {askew:.3g}")
        lowest = float(np.linalg.eigvalsh(self.covs).min())
        if lowest <= 0:
            raise ValueError(f"covs must be positive definite, got an eigenvalue {lowest:.3g}")
        self.precisions = np.linalg.inv(self.covs)

    @property
    def dimension(self) -> int:
        """The dimension d of the points."""
        return self.means.shape[1]

    @property
    def mean(self) -> Array:
        """The mean, shape (d,)."""
        return self.weights @ self.means

    @property
    def cov(self) -> Array:
        """The covariance, shape (d, d).

        >>> GaussianMixture([0.5, 0.5], [-2.0, 2.0], [1.0, 1.0]).cov
        array([[5.]])
        """
        off = self.means - self.mean
        return np.einsum("k,kij->ij", self.weights, self.covs + off[:, :, None] * off[:, None, :])

    def logpdf(self, x: ArrayLike) -> Array:
        r""":math:`\log\rho`, shape (n,), accurate where the density itself is no number any more.

        >>> Gaussian(0.0, 1.0).logpdf([100.0]).round(3)
        array([-5000.919])
        """
        return np.asarray(log_sum(self._log_terms(self._points(x)), axis=0))

    def pdf(self, x: ArrayLike) -> Array:
        r""":math:`\rho`, shape (n,).

        >>> Gaussian(0.0, 1.0).pdf([0.0, 1.0]).round(6)
        array([0.398942, 0.241971])
        """
        return np.exp(self.logpdf(x))

    def score(self, x: ArrayLike) -> Array:
        r""":math:`\nabla\log\rho`, shape (n, d).

        >>> Gaussian([1.0, 0.0], [[2.0, 0.0], [0.0, 1.0]]).score([[3.0, 4.0]])
        array([[-1., -4.]])
        """
        return self._moments(self._points(x))[0]

    def potential(self, x: ArrayLike) -> Array:
        r""":math:`U = \tfrac18|\nabla\log\rho|^2 + \tfrac14\Delta\log\rho`, shape (n,).

        >>> Gaussian(0.0, 1.0).potential([0.0, 2.0])
        array([-0.25,  0.25])
        """
        score, hessian = self._moments(self._points(x))
        return (score**2).sum(axis=1) / 8 + np.trace(hessian, axis1=1, axis2=2) / 4

    def potential_gradient(self, x: ArrayLike, step: float = 1e-3) -> Array:
        r""":math:`\nabla U`, shape (n, d), by differences of order eight.

        U is smooth on the scale of the components, so `step` is measured in their smallest
        standard deviation; the error is about 1e-11 of U.

        >>> Gaussian(0.0, 1.0).potential_gradient([2.0]).round(9)
        array([[0.5]])
        """
        z, h = self._points(x), self._step(step)
        slopes = [differences.along(self.potential, z, j, h) for j in range(self.dimension)]
        return np.stack(slopes, axis=1)

    def potential_hessian(self, x: ArrayLike, step: float = 1e-2) -> Array:
        r""":math:`\nabla^2U`, shape (n, d, d), by differences of the gradient.

        >>> Gaussian(0.0, 1.0).potential_hessian([2.0]).round(9)
        array([[[0.25]]])
        """
        z, h = self._points(x), self._step(step)
        columns = [
            differences.along(lambda y: self.potential_gradient(y, 1e-2), z, j, h)
            for j in range(self.dimension)
        ]
        return np.stack(columns, axis=2)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """n independent points, shape (n, d).

        >>> Gaussian(5.0, 0.01).sample(1000, np.random.default_rng(0)).mean().round(2)
        np.float64(5.0)
        """
        n = validate.count(n, "n", maximum=validate.MOST_STORED)
        validate.instance(rng, "rng", np.random.Generator)
        which = rng.choice(len(self.weights), size=n, p=self.weights / self.weights.sum())
        noise = rng.standard_normal((n, self.dimension, 1))
        roots = np.linalg.cholesky(self.covs)
        return self.means[which] + (roots[which] @ noise)[:, :, 0]

    def heat(self, t: float) -> GaussianMixture:
        r"""The solution of :math:`\partial_t\rho = \tfrac12\Delta\rho` at time t >= 0.

        It is the same kind of density, with the covariances :math:`C_k + tI`.

        >>> GaussianMixture([0.5, 0.5], [-2.0, 2.0], [1.0, 1.0]).heat(3.0).covs.ravel()
        array([4., 4.])
        """
        t = validate.number(t, "t", "a finite number >= 0")
        if t < 0:
            raise ValueError(f"t must be a finite number >= 0, got {t}")
        return GaussianMixture(self.weights, self.means, self.covs + t * np.eye(self.dimension))

    def cdf(self, x: ArrayLike) -> Array:
        r"""The distribution function :math:`F(x) = \int_{-\infty}^x\rho` on the line, shape (n,).

        >>> Gaussian(0.0, 1.0).cdf([0.0, 1.0]).round(6)
        array([0.5     , 0.841345])
        """
        return np.exp(self._log_tail(self._line(x), upper=False))

    def quantile_map(self, x: ArrayLike, t: float) -> Array:
        r""":math:`F_t^{-1}(F_0(x))`: where the heat flow carries x by time t, on the line, (n,).

        It is the optimal map from the density to its heat flow, being monotone
        :cite:p:`brenier1991`. With L the mass that components left of x have beyond a point, and R
        the mass that those right of x have before it, :math:`F_t(y) = F_0(x)` reads

        .. math:: R_t(y) + L_0(x) = L_t(y) + R_0(x).

        Nothing is subtracted, so tails and gaps between components are accurate however little mass
        they hold.

        >>> Gaussian(0.0, 1.0).quantile_map([-30.0, 1.0], 3.0).round(12)
        array([-60.,   2.])
        >>> GaussianMixture([0.5, 0.5], [-12.0, 12.0], [1.0, 1.0]).quantile_map([1.0], 0.01).round(6)
        array([0.945137])
        """
        z, later = self._line(x), self.heat(t)
        left = self.means[:, 0, None] <= z  # (k, n)
        after, before = self._log_tails(z, left, upper=True), self._log_tails(z, ~left, upper=False)
        empty = np.maximum(after, before) <= FARTHEST
        if empty.any():
            raise ValueError(f"x must lie where the tails have mass, got {z[empty][0]:g}")
        reach, wide = self._carried_at_most(z, later), np.sqrt(later.covs[:, 0])  # (n,), (k, 1)

        def sides(y: Array, of: Places) -> tuple[Array, Array]:
            gained = np.logaddexp(later._log_tails(y, ~left[:, of], upper=False), after[of])
            return gained, np.logaddexp(later._log_tails(y, left[:, of], upper=True), before[of])

        def newton(y: Array, of: Places) -> Array:
            gained, lost = sides(y, of)
            terms = -(((y - later.means) / wide) ** 2) / 2 - np.log(wide * np.sqrt(2 * np.pi))
            terms += np.log(later.weights)[:, None] - np.where(left[:, of], lost, gained)
            slope = np.exp(terms).sum(axis=0)
            return (gained - lost) / np.where(slope < np.inf, slope, np.nan)

        def gap(y: Array, of: Array) -> Array:
            return np.subtract(*sides(y, of.astype(int)))

        out, rest = _by_newton(newton, z, reach, float(wide.min()))
        if len(rest):
            found = find_root(
                gap,
                (-reach[rest], reach[rest]),
                args=(rest.astype(float),),
                tolerances={"xatol": QUANTILE_TOL, "xrtol": QUANTILE_TOL, "fatol": 0, "frtol": 0},
            )
            if not found.success.all():
                raise SolverFailed(
                    f"the quantile must lie within {reach.max():g} of 0, got status "
                    f"{int(found.status.min())}: keep x nearer to the means"
                )
            out[rest] = found.x
        return out

    def _carried_at_most(self, z: Array, later: GaussianMixture) -> Array:
        """A distance from 0 beyond which no z is carried, shape (n,)."""
        narrow, wide = np.sqrt(self.covs.min()), np.sqrt(later.covs.max())
        with np.errstate(over="ignore"):
            far = (np.abs(z) + np.abs(self.means).max() + 1) * (wide / narrow + 2) + 10 * wide
        return np.minimum(far, np.finfo(float).max)

    def _log_tail(self, z: Array, upper: bool) -> Array:
        """log of the mass beyond z, above it or below."""
        return self._log_tails(z, np.ones((len(self.weights), 1), bool), upper)

    def _log_tails(self, z: Array, which: NDArray[np.bool_], upper: bool) -> Array:
        """log of the mass that some of the components, (k, n) or (k, 1), have above or below z."""
        with np.errstate(divide="ignore", over="ignore"):
            u = (z - self.means[:, 0, None]) / np.sqrt(self.covs[:, 0])  # (k, n)
            tails = np.where(which, log_ndtr(-u if upper else u), FARTHEST)
            tails = np.log(self.weights)[:, None] + np.maximum(tails, FARTHEST)
            return np.maximum(log_sum(tails, axis=0), FARTHEST)

    def _log_terms(self, x: Array) -> Array:
        """log of every weighted component, shape (k, n)."""
        with np.errstate(over="ignore", invalid="ignore"):
            off = x - self.means[:, None, :]  # (k, n, d)
            square = np.einsum("kni,kij,knj->kn", off, self.precisions, off)
        validate.finite(square, "squared distances of x to the means")
        _, logdet = np.linalg.slogdet(2 * np.pi * self.covs)
        with np.errstate(divide="ignore"):
            return np.log(self.weights)[:, None] - (square + logdet[:, None]) / 2

    def _moments(self, x: Array) -> tuple[Array, Array]:
        """grad log rho (n, d) and its Jacobian (n, d, d)."""
        terms = self._log_terms(x)
        share = np.exp(terms - log_sum(terms, axis=0))  # (k, n)
        pull = -np.einsum("kij,knj->kni", self.precisions, x - self.means[:, None, :])  # (k, n, d)
        score = np.einsum("kn,kni->ni", share, pull)
        spread = np.einsum("kn,kni,knj->nij", share, pull, pull)
        mean_precision = np.einsum("kn,kij->nij", share, self.precisions)
        return score, spread - score[:, :, None] * score[:, None, :] - mean_precision

    def _step(self, step: float) -> float:
        """`step` smallest standard deviations."""
        step = validate.positive(step, "step")
        return step * float(np.sqrt(np.linalg.eigvalsh(self.covs).min()))

    def _points(self, x: ArrayLike) -> Array:
        z = validate.tokens(x)
        if z.shape[1] != self.dimension:
            raise ValueError(f"x must have {self.dimension} columns, got shape {z.shape}")
        return z

    def _line(self, x: ArrayLike) -> Array:
        if self.dimension != 1:
            raise ValueError(f"this needs a density in one dimension, got {self.dimension}")
        return self._points(x)[:, 0]


class Gaussian(GaussianMixture):
    r""":math:`N(m, C)` in any dimension; in one, mean and cov may be numbers.

    >>> float(Gaussian(0.0, 4.0).pdf([0.0])[0].round(6))
    0.199471
    """

    def __init__(self, mean: ArrayLike, cov: ArrayLike) -> None:
        mean = np.atleast_1d(validate.real(mean, "mean"))
        cov = np.atleast_2d(validate.real(cov, "cov"))
        super().__init__([1.0], mean[None, :], cov[None, :, :])

    def heat(self, t: float) -> Gaussian:
        r""":math:`N(m, C + tI)`.

        >>> Gaussian(0.0, 1.0).heat(3.0).cov
        array([[4.]])
        """
        later = super().heat(t)
        return Gaussian(later.means[0], later.covs[0])


def _by_newton(
    step: Callable[[Array, Places], Array], start: Array, reach: Array, size: float
) -> tuple[Array, Places]:
    """Where Newton's steps lead, and the places at which they did not come to rest.

    A step is asked for at some points, with their places. The function has one zero and turns at
    the scale of `size` or a larger one, so that steps which come to rest have found the zero.
    """
    y, on_the_way, astray = start.copy(), np.arange(len(start)), np.zeros(len(start), bool)
    for _ in range(MOST_NEWTON):
        with np.errstate(all="ignore"):
            moved = step(y[on_the_way], on_the_way)
            y[on_the_way] -= moved
            now = np.abs(y[on_the_way])
            astray[on_the_way] = ~(now <= reach[on_the_way])
            on_the_way = on_the_way[
                (np.abs(moved) > SETTLED * (size + now)) & (now <= reach[on_the_way])
            ]
        if not len(on_the_way):
            break
    return y, np.union1d(on_the_way, np.flatnonzero(astray))
