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

from attnflow.attention.kinds import SinkhornAttention
from attnflow.attention.layer import Layer
from attnflow.gaussian.affine import factors_and_shift, refuse_misfits
from attnflow.validate import Array

#: Of the widths of F the smallest counts as at least this part of the largest, so that the square
#: of their ratio is a number.
FLAT = 1e-150


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
        self,
        attention: Layer | Callable[[float], Layer],
        cov0: Array,
        mean0: Array,
        clock: float,
    ) -> None:
        self.attention, self.clock, self.d = attention, clock, len(cov0)
        self.start = np.concatenate([np.linalg.cholesky(cov0).ravel(), mean0])
        #: the largest standard deviation at the start
        self.width = float(np.sqrt(np.linalg.eigvalsh(cov0)[-1]))
        self.reach = max(self.width, float(np.abs(mean0).max()))  #: the larger of that and the mean
        self.velocities = 0  #: how many were computed
        first = self._at(clock)
        self.sinkhorn = any(isinstance(head, SinkhornAttention) for head in first.heads)

    def velocity(self, elapsed: float, y: Array) -> Array:
        """dy/dt; NaN where the field is not defined, since a trial step went too far."""
        self.velocities += 1
        attention = self.attention
        if callable(attention):
            attention = self._at(self.clock + elapsed)
        F = self.factor(y)
        try:
            left, right, c = factors_and_shift(attention, F, self.mean(y))
        except np.linalg.LinAlgError:
            return np.full(y.shape, np.nan)
        return np.concatenate([(left @ (right @ F)).ravel(), c])

    def rate(self, elapsed: float, y: Array) -> float:
        r"""The growth rate of the cloud, :math:`\frac{d}{dt}\log|F|` with the norm of Frobenius."""
        F, moved = self.factor(y), self.factor(self.velocity(elapsed, y))
        size = np.linalg.norm(F)
        return float(np.sum((F / size) * (moved / size)))

    def jacobian(self, elapsed: float, y: Array) -> Array:
        """The derivative of the velocity by central differences, shape (len(y), len(y))."""
        steps = np.finfo(float).eps ** (1 / 3) * self.scales(y)
        moves = np.diag(steps)
        columns = [self.velocity(elapsed, y + e) - self.velocity(elapsed, y - e) for e in moves]
        return np.stack(columns, axis=1) / (2 * steps)

    def scales(self, y: Array) -> Array:
        """The size of what every entry of y belongs to: its column of F, or the mean; not 0."""
        columns = np.linalg.norm(self.factor(y), axis=0)
        widest = float(columns.max())
        mean = max(float(np.abs(self.mean(y)).max()), widest)
        columns = np.maximum(columns, np.finfo(float).eps * widest)
        return np.concatenate([np.tile(columns, self.d), np.full(self.d, mean)])

    def aligned(self, y: Array) -> Array:
        """The same Gaussian with orthogonal columns of F, in falling order."""
        U, sizes, _ = np.linalg.svd(self.factor(y))
        return np.concatenate([(U * sizes).ravel(), self.mean(y)])

    def factor(self, y: Array) -> Array:
        """F, shape (d, d)."""
        return y[: self.d**2].reshape(self.d, self.d)

    def mean(self, y: Array) -> Array:
        """The mean, shape (d,)."""
        return y[self.d**2 :]

    def growth(self, y: Array) -> tuple[float, float]:
        """Of the covariance's norm since the start, and the covariance's condition number."""
        sizes = np.linalg.svd(self.factor(y), compute_uv=False)
        condition = sizes[0] / max(sizes[-1], FLAT * sizes[0])
        return float(sizes[0] / self.width) ** 2, float(condition) ** 2

    def _at(self, time: float) -> Layer:
        now = self.attention(time) if callable(self.attention) else self.attention
        refuse_misfits(now, self.d)
        return now
