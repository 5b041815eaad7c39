r"""What is integrated: a factor of the covariance, and the mean.

The state is :math:`y = (F, \alpha)` with :math:`S = FF^\top`. Tokens move by an affine field, so
:math:`\dot F = BF` and :math:`\dot\alpha = c` with B and c of :mod:`attnflow.gaussian.affine`, and hence
:math:`\dot S = BS + SB^\top`. In F small eigenvalues keep their digits beside large ones, and S
stays positive.

Time is the time elapsed since the start: a flow that starts at a million is resolved as finely as
one that starts at 0. Only a layer that depends on time sees the clock.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnflow.attention import SinkhornAttention
from attnflow.gaussian.affine import Layer, heads_and_values, refuse_misfits, slope_and_shift
from attnflow.validate import Array


class System:
    """The equation of one flow, with the sizes that its growth is measured in.

    >>> from attnflow.attention import SoftmaxAttention
    >>> I = np.eye(1)
    >>> system = System(SoftmaxAttention(I, I, I), 4 * I, np.ones(1), clock=0.0)
    >>> system.velocity(0.0, system.start)
    array([8., 5.])
    >>> system.rate(0.0, system.start)
    4.0
    """

    def __init__(
        self, attention: Layer | Callable[[float], Layer], cov0: Array, mean0: Array, clock: float
    ) -> None:
        self.attention, self.clock, self.d = attention, clock, len(cov0)
        self.start = np.concatenate([np.linalg.cholesky(cov0).ravel(), mean0])
        self.width = float(np.sqrt(np.linalg.eigvalsh(cov0)[-1]))  #: |F| at the start, spectral
        self.reach = max(self.width, float(np.abs(mean0).max()))  #: the larger of |F| and |mean|
        self.velocities = 0  #: how many were computed
        first = self._at(clock)
        kinds = [head for head, _ in heads_and_values(first)]
        self.sinkhorn = any(isinstance(head, SinkhornAttention) for head in kinds)

    def velocity(self, elapsed: float, y: Array) -> Array:
        """dy/dt; NaN where the field is not defined, since a trial step went too far."""
        self.velocities += 1
        attention = self.attention
        if callable(attention):
            attention = self._at(self.clock + elapsed)
        F = self.factor(y)
        try:
            B, c = slope_and_shift(attention, F, y[self.d**2 :])
        except np.linalg.LinAlgError:
            return np.full(y.shape, np.nan)
        return np.concatenate([(B @ F).ravel(), c])

    def rate(self, elapsed: float, y: Array) -> float:
        """The growth rate of the cloud, d log|F| / dt with the norm of Frobenius."""
        F, moved = self.factor(y), self.factor(self.velocity(elapsed, y))
        size = np.linalg.norm(F)
        return float(np.sum((F / size) * (moved / size)))

    def jacobian(self, elapsed: float, y: Array) -> Array:
        """The derivative of the velocity by differences, shape (len(y), len(y))."""
        step = np.sqrt(np.finfo(float).eps) * float(np.abs(y).max())
        here = self.velocity(elapsed, y)
        columns = [self.velocity(elapsed, y + step * e) - here for e in np.eye(len(y))]
        return np.stack(columns, axis=1) / step

    def factor(self, y: Array) -> Array:
        """F, shape (d, d)."""
        return y[: self.d**2].reshape(self.d, self.d)

    def mean(self, y: Array) -> Array:
        """The mean, shape (d,)."""
        return y[self.d**2 :]

    def growth(self, y: Array) -> tuple[float, float]:
        """Of the covariance's norm since the start, and the covariance's condition number."""
        sizes = np.linalg.svd(self.factor(y), compute_uv=False)
        condition = sizes[0] / max(sizes[-1], np.finfo(float).tiny)
        return float(sizes[0] / self.width) ** 2, float(condition) ** 2

    def _at(self, time: float) -> Layer:
        now = self.attention(time) if callable(self.attention) else self.attention
        refuse_misfits(now, self.d)
        return now
