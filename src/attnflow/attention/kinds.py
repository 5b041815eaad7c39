r"""Four rules that turn scores into a matrix P, and what a mask does to each.

The score of a pair is :math:`\langle Q x_i, K x_j \rangle` with no hidden :math:`1/\sqrt{k}`:

* softmax (:cite:t:`vaswani2017`): rows of :math:`w_j e^{\langle Qx_i, Kx_j\rangle}` divided by their sums;
* L2 (:cite:t:`kim2021`): the same with :math:`e^{-|Qx_i - Kx_j|^2}`;
* Sinkhorn (:cite:t:`sander2022`): rows *and* columns of :math:`e^{\langle Qx_i, Kx_j\rangle/\varepsilon}`
  balanced, so that P carries the measure to itself;
* unnormalised (:cite:t:`geshkovski2025`, their USA): no division at all.

A causal layer lets token i see only tokens 1..i: it is :math:`f(x_1,\dots,x_i)_i`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from attnflow import validate
from attnflow.attention import fast
from attnflow.attention.layer import Attention, representable
from attnflow.kernels.dense import squared_distances
from attnflow.kernels.fast import DENSE_BYTES
from attnflow.matrices import semidefinite_root, split
from attnflow.softmax import hide_future, softmax_rows
from attnflow.transport.balance import sinkhorn
from attnflow.transport.bridge import self_bridge
from attnflow.validate import Array


class _RowNormalised(Attention):
    """Rows proportional to w_j exp(score), dividing by the row sum."""

    def against(self, x: Array, w: Array) -> Callable[[Array], Array]:
        log_w = _log(w)
        return lambda z: softmax_rows(self.scores(z, x) + log_w)

    def _causal_rows(self, x: Array, w: Array) -> Array:
        return softmax_rows(hide_future(self.scores(x, x) + _log(w)))

    @abstractmethod
    def _as_gaussian(self, x: Array) -> fast.GaussianScores:
        """Its scores as those of a Gaussian kernel between other points."""

    def fast_velocity(self, x: Array, w: Array) -> Array | None:
        scores = self._as_gaussian(x)
        if self.method == "auto" and not fast.worthwhile(scores, self.tol, len(self.V)):
            return None
        return fast.averages(scores, w, x @ self.V.T, self.tol).values


class SoftmaxAttention(_RowNormalised):
    r"""Rows of :math:`w_j e^{\langle Q x_i, K x_j\rangle}`, each divided by its sum (:cite:t:`vaswani2017`).

    >>> I = np.eye(1)
    >>> SoftmaxAttention(I, I, I).matrix([[0.0], [1.0]]).round(4)
    array([[0.5   , 0.5   ],
           [0.2689, 0.7311]])
    """

    def _as_gaussian(self, x: Array) -> fast.GaussianScores:
        r"""<u, v> = |u|^2/2 + |v|^2/2 - |u - v|^2/2: the first is divided out, the second a mass."""
        left, right = split(self.K.T @ self.Q)
        z = x @ left.T
        y = z if left is right else x @ right.T
        return fast.GaussianScores(z, y, 1.0, (y**2).sum(axis=1) / 2)


class L2Attention(_RowNormalised):
    r"""Rows of :math:`w_j e^{-|Q x_i - K x_j|^2}`, each divided by its sum (:cite:t:`kim2021`).

    >>> I = np.eye(1)
    >>> L2Attention(I, I, I).matrix([[0.0], [1.0]]).round(4)
    array([[0.7311, 0.2689],
           [0.2689, 0.7311]])
    """

    def scores(self, z: Array, x: Array) -> Array:
        r""":math:`-|Q z_i - K x_j|^2`, shape (m, n)."""
        with np.errstate(over="ignore"):
            return representable(-squared_distances(z @ self.Q.T, x @ self.K.T), "scores")

    def _as_gaussian(self, x: Array) -> fast.GaussianScores:
        """It is one."""
        z, y = x @ self.Q.T, x @ self.K.T
        return fast.GaussianScores(z, z if np.array_equal(self.Q, self.K) else y, 0.5, None)


class UnnormalisedAttention(Attention):
    r"""Rows of :math:`w_j e^{\langle Q x_i, K x_j\rangle}`, not divided by anything (:cite:t:`geshkovski2025`).

    >>> I = np.eye(1)
    >>> UnnormalisedAttention(I, I, I).matrix([[0.0], [1.0]]).round(4)
    array([[0.5   , 0.5   ],
           [0.5   , 1.3591]])
    """

    def against(self, x: Array, w: Array) -> Callable[[Array], Array]:
        return lambda z: _exp(self.scores(z, x)) * w

    def fast_velocity(self, x: Array, w: Array) -> Array | None:
        if self.method == "auto":
            return None
        return super().fast_velocity(x, w)

    def _causal_rows(self, x: Array, w: Array) -> Array:
        return _exp(hide_future(self.scores(x, x))) * w / np.cumsum(w)[:, None]


class SinkhornAttention(Attention):
    r"""The matrix of :math:`e^{\langle Q x_i, K x_j\rangle/\varepsilon}`, rows and columns balanced.

    P has row sums 1 and carries the weights to themselves: sum_i w_i P_ij = w_j
    (:cite:t:`sander2022`). Where :math:`Q^\top K` is symmetric and positive semi-definite, P is the
    Schrödinger bridge in the coordinates :math:`(Q^\top K)^{1/2} x` and is found by one scaling;
    otherwise by two potentials.

    A causal layer balances every prefix anew: masking the balanced matrix could not do, since a
    lower triangular doubly stochastic matrix is the identity.

    >>> I = np.eye(1)
    >>> SinkhornAttention(I, I, I, eps=0.5).matrix([[0.0], [1.0]]).round(4)
    array([[0.7311, 0.2689],
           [0.2689, 0.7311]])
    """

    def __init__(
        self,
        Q: ArrayLike,
        K: ArrayLike,
        V: ArrayLike,
        causal: bool = False,
        *,
        eps: float = 1.0,
        tol: float = 1e-9,
        method: str = "auto",
    ) -> None:
        super().__init__(Q, K, V, causal, tol=tol)
        self.eps = validate.positive(eps, "eps")
        with np.errstate(over="ignore", invalid="ignore"):
            self.root = semidefinite_root(representable(self.Q.T @ self.K, "entries of Q^T K"))
        self._choose(method, tol)

    def _choose(self, method: str, tol: float) -> None:
        super()._choose(method, tol)
        self._memory = fast.Memory()  # a copy has its own

    def against(self, x: Array, w: Array) -> Callable[[Array], Array]:
        if self.root is not None:
            root, y = self.root, x @ self.root
            bridge = self_bridge(y, self.eps, w, tol=self.tol)
            log_mass = _log(w * bridge.scaling)
            return lambda z: softmax_rows(log_mass - squared_distances(z @ root, y, 2 * self.eps))
        log_mass = sinkhorn(self.scores(x, x) / self.eps, w, w, tol=self.tol).g + _log(w)
        return lambda z: softmax_rows(self.scores(z, x) / self.eps + log_mass)

    def fast_velocity(self, x: Array, w: Array) -> Array | None:
        left, right = split(self.K.T @ self.Q)
        if left is right:
            start = self._memory.guess(len(x))
            if start is not None and not (start[w > 0] > 0).all():
                start = None  # other tokens have mass now
            moved = fast.balanced(x @ left.T, self.eps, w, x @ self.V.T, self.tol, start)
            if moved.scaling is not None:
                self._memory.keep(moved.scaling)
            return moved.values
        seen = (left != 0).any(axis=1) | (right != 0).any(axis=1)  # coordinates that scores see
        z, y = x @ left[seen].T, x @ right[seen].T
        found = fast.balanced_pair(z, y, self.eps, w, x @ self.V.T, self.tol)
        if found is not None:
            return found.values
        if self.method == "fast" or 8 * len(x) ** 2 > DENSE_BYTES:
            raise ValueError(
                "fast Sinkhorn attention needs Q^T K symmetric positive semi-definite, or of rank <= 3 "
                "with potentials that do not range widely, got others: "
                f"use fewer tokens than {len(x)} with method='dense', or a larger eps"
            )
        return None


def _log(w: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.log(w)


def _exp(scores: Array) -> Array:
    if scores.max() > np.log(np.finfo(float).max):
        raise ValueError(f"exp of the scores must be finite, got a score of {scores.max():.3g}")
    return np.exp(scores)
