r"""Gaussians and their mixtures: density, score, samples, heat flow, and what the bridge sees.

The heat flow is :math:`\partial_t \rho = \tfrac12 \Delta\rho`: every covariance grows by t I. With
:math:`\rho = e^{-g}` and :math:`b = \tfrac12\nabla\log\rho` the Langevin diffusion
:math:`dX = b\,dt + dB` has :math:`\rho` as its stationary law, and

.. math:: U = \tfrac12|b|^2 + \tfrac12\,\mathrm{div}\, b = \tfrac18|\nabla g|^2 - \tfrac14\Delta g

is the potential of its generator after the ground-state transform. Its gradient is the first
correction of the bridge: :math:`B(x) = x + \varepsilon b + \tfrac{\varepsilon^2}{2}\nabla U + \dots`

Points are rows, (n, d); a vector is read as n points in one dimension.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr

from attnflow import validate
from attnflow.validate import Array

#: Steps of the safeguarded Newton iteration that inverts a distribution function.
QUANTILE_STEPS = 200
#: Logarithms of tails end here: what lies further out has no mass that a number could hold.
FARTHEST = -1e300
#: Determinants of 2 pi C are formed.
LARGEST_COV = 1e300


def _logsumexp(terms: Array) -> Array:
    """log of the sum over the first axis; scipy's general version is ten times slower here."""
    top = terms.max(axis=0)
    return top + np.log(np.exp(terms - top).sum(axis=0))


class GaussianMixture:
    """sum_k w_k N(m_k, C_k) in any dimension. In one, means and covs are sequences of numbers.

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
        if np.abs(self.covs).max() > LARGEST_COV:
            raise ValueError(
                f"covs must be at most {LARGEST_COV:g}, got {np.abs(self.covs).max():g}"
            )
        if np.abs(self.covs - np.swapaxes(self.covs, 1, 2)).max() > 1e-10 * np.abs(self.covs).max():
            raise ValueError("covs must be symmetric")
        lowest = float(np.linalg.eigvalsh(self.covs).min())
        if lowest <= 0:
            raise ValueError(f"covs must be positive definite, got an eigenvalue {lowest:.3g}")
        self.precisions = np.linalg.inv(self.covs)

    @property
    def dimension(self) -> int:
        """d."""
        return self.means.shape[1]

    def logpdf(self, x: ArrayLike) -> Array:
        """log rho, shape (n,)."""
        return _logsumexp(self._log_terms(self._points(x)))

    def pdf(self, x: ArrayLike) -> Array:
        """rho, shape (n,)."""
        return np.exp(self.logpdf(x))

    def score(self, x: ArrayLike) -> Array:
        """grad log rho, shape (n, d)."""
        return self._moments(self._points(x))[0]

    def potential(self, x: ArrayLike) -> Array:
        """U, shape (n,)."""
        score, hessian = self._moments(self._points(x))
        return (score**2).sum(axis=1) / 8 + np.trace(hessian, axis1=1, axis2=2) / 4

    def potential_gradient(self, x: ArrayLike, step: float = 1e-3) -> Array:
        """grad U, shape (n, d), by central differences of order eight.

        U is smooth on the scale of the components, so `step` is measured in their smallest
        standard deviation; the error is about 1e-11 of U.
        """
        return np.stack(
            [
                self._derivative(lambda y: self.potential(y), x, j, step)
                for j in range(self.dimension)
            ],
            axis=1,
        )

    def potential_hessian(self, x: ArrayLike, step: float = 1e-2) -> Array:
        """Hess U, shape (n, d, d), by central differences of the gradient."""
        columns = [
            self._derivative(lambda y: self.potential_gradient(y, 1e-2), x, j, step)
            for j in range(self.dimension)
        ]
        return np.stack(columns, axis=2)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """n independent points, shape (n, d)."""
        n = validate.count(n, "n", maximum=validate.MOST_STORED)
        validate.instance(rng, "rng", np.random.Generator)
        which = rng.choice(len(self.weights), size=n, p=self.weights / self.weights.sum())
        noise = rng.standard_normal((n, self.dimension, 1))
        roots = np.linalg.cholesky(self.covs)
        return self.means[which] + (roots[which] @ noise)[:, :, 0]

    def heat(self, t: float) -> GaussianMixture:
        """The heat flow at time t >= 0, the same kind of density."""
        t = validate.number(t, "t", "a finite number >= 0")
        if t < 0:
            raise ValueError(f"t must be a finite number >= 0, got {t}")
        return GaussianMixture(self.weights, self.means, self.covs + t * np.eye(self.dimension))

    @property
    def mean(self) -> Array:
        """The mean, shape (d,)."""
        return self.weights @ self.means

    @property
    def cov(self) -> Array:
        """The covariance, shape (d, d)."""
        off = self.means - self.mean
        return np.einsum("k,kij->ij", self.weights, self.covs + off[:, :, None] * off[:, None, :])

    def cdf(self, x: ArrayLike) -> Array:
        """The distribution function in one dimension, shape (n,)."""
        return np.exp(self._log_tail(self._line(x), upper=False))

    def quantile_map(self, x: ArrayLike, t: float) -> Array:
        """F_t^{-1}(F_0(x)): where the heat flow carries x by time t; one dimension, shape (n,).

        Each point is mapped from the tail it lies in, in logarithms, so both tails are accurate.
        In a gap between components that holds less than 1e-16 of the mass the answer is only
        known to lie in the gap.

        >>> Gaussian(0.0, 1.0).quantile_map([-30.0, 1.0], 3.0)
        array([-60.,   2.])
        """
        z = self._line(x)
        later = self.heat(t)
        upper = self._log_tail(z, upper=True) < self._log_tail(z, upper=False)
        out = np.empty_like(z)
        for side in (False, True):
            mine = upper == side
            if mine.any():
                target = self._log_tail(z[mine], upper=side)
                if (target <= FARTHEST).any():
                    raise ValueError("x must lie where the tails have mass, got a point beyond")
                out[mine] = later._invert(target, z[mine], side, t)
        return out

    def _invert(self, target: Array, start: Array, upper: bool, t: float) -> Array:
        """Solve log-tail(y) = target by Newton's method inside a shrinking bracket."""
        sigma = np.sqrt(self.covs[:, 0, 0])
        spread = sigma.max() / np.sqrt(max(float((self.covs[:, 0, 0] - t).min()), 1e-300))
        reach = (np.abs(start) + np.abs(self.means).max() + 1.0) * (spread + 2.0) + 10 * sigma.max()
        low, high = -reach, reach.copy()
        sign = -1.0 if upper else 1.0
        y = start.copy()
        for _ in range(QUANTILE_STEPS):
            value = self._log_tail(y, upper) - target
            above = sign * value > 0
            high, low = np.where(above, y, high), np.where(above, low, y)
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                slope = sign * np.exp(self.logpdf(y) - self._log_tail(y, upper))
                step = value / slope  # beyond the bracket where the slope vanishes
            new = y - step
            outside = ~((new > low) & (new < high))
            new = np.where(outside, (low + high) / 2, new)
            if (np.abs(new - y) <= 1e-14 * (1 + np.abs(y))).all():
                return new
            y = new
        return y

    def _log_tail(self, z: Array, upper: bool) -> Array:
        with np.errstate(divide="ignore", over="ignore"):
            u = (z - self.means[:, 0, None]) / np.sqrt(self.covs[:, 0])  # (k, n)
            tails = np.maximum(log_ndtr(-u if upper else u), FARTHEST)
            return _logsumexp(np.log(self.weights)[:, None] + tails)

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
        share = np.exp(terms - _logsumexp(terms))  # (k, n)
        pull = -np.einsum("kij,knj->kni", self.precisions, x - self.means[:, None, :])  # (k, n, d)
        score = np.einsum("kn,kni->ni", share, pull)
        spread = np.einsum("kn,kni,knj->nij", share, pull, pull)
        mean_precision = np.einsum("kn,kij->nij", share, self.precisions)
        return score, spread - score[:, :, None] * score[:, None, :] - mean_precision

    def _derivative(self, f: object, x: ArrayLike, axis: int, step: float) -> Array:
        z = self._points(x)
        h = step * float(np.sqrt(np.linalg.eigvalsh(self.covs).min()))
        total = 0.0
        for k, c in enumerate((4 / 5, -1 / 5, 4 / 105, -1 / 280), start=1):
            shift = np.zeros(self.dimension)
            shift[axis] = k * h
            total = total + c * (f(z + shift) - f(z - shift))  # type: ignore[operator]
        return total / h  # type: ignore[return-value]

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
    """N(mean, cov) in any dimension; in one, mean and cov may be numbers.

    >>> float(Gaussian(0.0, 4.0).pdf([0.0])[0].round(6))
    0.199471
    """

    def __init__(self, mean: ArrayLike, cov: ArrayLike) -> None:
        mean = np.atleast_1d(validate.real(mean, "mean"))
        cov = np.atleast_2d(validate.real(cov, "cov"))
        super().__init__([1.0], mean[None, :], cov[None, :, :])

    def heat(self, t: float) -> Gaussian:
        """N(mean, cov + t I)."""
        later = super().heat(t)
        return Gaussian(later.means[0], later.covs[0])
