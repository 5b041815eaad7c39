r"""What one layer of attention does to tokens, seen as a velocity field.

Tokens are the rows of x, shape (n, d), with masses w (1/n unless given). A kind of attention is
a rule that turns scores into a matrix P; the velocity of token i is
:math:`\Gamma(x_i) = \sum_j P_{ij} V x_j`, without the residual. The score of a pair is
:math:`\langle Q x_i, K x_j \rangle` with no hidden :math:`1/\sqrt{k}`. Four rules:

* softmax (Vaswani et al. 2017): rows of :math:`w_j e^{\langle Qx_i, Kx_j\rangle}` divided by their sums;
* L2 (Kim, Papamakarios, Mnih 2021): the same with :math:`e^{-|Qx_i - Kx_j|^2}`;
* Sinkhorn (Sander et al. 2022): rows *and* columns of :math:`e^{\langle Qx_i, Kx_j\rangle/\varepsilon}`
  balanced, so that P carries the measure to itself;
* unnormalised (Geshkovski et al. 2025, their USA): no division at all.

A causal layer lets token i see only tokens 1..i: it is :math:`f(x_1,\dots,x_i)_i`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from attnflow import validate
from attnflow.kernels import squared_distances
from attnflow.transport import self_bridge, sinkhorn, softmax_rows
from attnflow.validate import Array

#: Relative asymmetry or negativity of Q^T K that rounding explains.
SYMMETRY_SLACK = 1e-12


class Attention:
    """A layer with query, key and value matrices Q, K (k, d) and V (p, d)."""

    def __init__(self, Q: ArrayLike, K: ArrayLike, V: ArrayLike, causal: bool = False) -> None:
        self.Q, self.K = validate.array(Q, "Q", 2), validate.array(K, "K", 2)
        self.V = validate.array(V, "V", 2)
        if self.Q.shape != self.K.shape:
            raise ValueError(f"Q and K must have one shape, got {self.Q.shape} and {self.K.shape}")
        if self.V.shape[1] != self.Q.shape[1]:
            raise ValueError(
                f"V must have {self.Q.shape[1]} columns as Q has, got shape {self.V.shape}"
            )
        self.causal = causal

    def matrix(self, x: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """P, shape (n, n): row i says how token i averages the others."""
        x, w = self._measure(x, weights)
        if not self.causal:
            return self.rows(x, x, w)
        if w[0] == 0:
            raise ValueError("causal attention needs a positive weight on the first token, got 0")
        return self._causal_rows(x, w)

    def velocity(self, x: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """Gamma(x_i) = sum_j P_ij V x_j, shape (n, p)."""
        x = validate.tokens(x)
        return self._send(self.matrix(x, weights), x)

    def field(self, points: ArrayLike, x: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """Gamma at other points (m, d), for the measure that x and its weights describe."""
        if self.causal:
            raise ValueError("a causal layer has no field: a point has no place in the sequence")
        x, w = self._measure(x, weights)
        z = validate.tokens(points, "points")
        self._dimension(z, "points")
        return self._send(self.rows(z, x, w), x)

    def _send(self, P: Array, x: Array) -> Array:
        """P x V^T."""
        with np.errstate(over="ignore", invalid="ignore"):
            return _finite(P @ (x @ self.V.T), "velocities")

    def scores(self, z: Array, x: Array) -> Array:
        """<Q z_i, K x_j>, shape (m, n)."""
        with np.errstate(over="ignore", invalid="ignore"):
            return _finite((z @ self.Q.T) @ (x @ self.K.T).T, "scores")

    def rows(self, z: Array, x: Array, w: Array) -> Array:
        """P from points z to the measure of tokens x with weights w; arguments are not checked."""
        raise TypeError("choose a kind of attention: softmax, L2, Sinkhorn or unnormalised")

    def _causal_rows(self, x: Array, w: Array) -> Array:
        """Row i of the layer applied to the first i tokens alone; the definition, O(n) layers."""
        out = np.zeros((len(x), len(x)))
        for i in range(1, len(x) + 1):
            head = slice(0, i)
            out[i - 1, head] = self.rows(x[head], x[head], w[head] / w[head].sum())[-1]
        return out

    def _measure(self, x: ArrayLike, weights: ArrayLike | None) -> tuple[Array, Array]:
        x = validate.tokens(x)
        self._dimension(x, "x")
        return x, validate.weights(weights, len(x))

    def _dimension(self, x: Array, name: str) -> None:
        if x.shape[1] != self.Q.shape[1]:
            raise ValueError(f"{name} must have {self.Q.shape[1]} columns, got shape {x.shape}")


class _RowNormalised(Attention):
    """Rows proportional to w_j exp(score), dividing by the row sum."""

    def rows(self, z: Array, x: Array, w: Array) -> Array:
        return softmax_rows(self.scores(z, x) + _log(w))

    def _causal_rows(self, x: Array, w: Array) -> Array:
        logits = self.scores(x, x) + _log(w)
        logits[np.triu_indices(len(x), 1)] = -np.inf
        return softmax_rows(logits)


class SoftmaxAttention(_RowNormalised):
    """Rows of w_j exp(<Q x_i, K x_j>), each divided by its sum.

    >>> I = np.eye(1)
    >>> SoftmaxAttention(I, I, I).matrix([[0.0], [1.0]]).round(4)
    array([[0.5   , 0.5   ],
           [0.2689, 0.7311]])
    """


class L2Attention(_RowNormalised):
    """Rows of w_j exp(-|Q x_i - K x_j|^2), each divided by its sum.

    >>> I = np.eye(1)
    >>> L2Attention(I, I, I).matrix([[0.0], [1.0]]).round(4)
    array([[0.7311, 0.2689],
           [0.2689, 0.7311]])
    """

    def scores(self, z: Array, x: Array) -> Array:
        """-|Q z_i - K x_j|^2, shape (m, n)."""
        with np.errstate(over="ignore"):
            return _finite(-squared_distances(z @ self.Q.T, x @ self.K.T), "scores")


class UnnormalisedAttention(Attention):
    """Rows of w_j exp(<Q x_i, K x_j>), not divided by anything.

    >>> I = np.eye(1)
    >>> UnnormalisedAttention(I, I, I).matrix([[0.0], [1.0]]).round(4)
    array([[0.5   , 0.5   ],
           [0.5   , 1.3591]])
    """

    def rows(self, z: Array, x: Array, w: Array) -> Array:
        return _exp(self.scores(z, x)) * w

    def _causal_rows(self, x: Array, w: Array) -> Array:
        scores = self.scores(x, x)
        scores[np.triu_indices(len(x), 1)] = -np.inf
        return _exp(scores) * w / np.cumsum(w)[:, None]


class SinkhornAttention(Attention):
    """The matrix of exp(<Q x_i, K x_j>/eps) with rows and columns balanced.

    P has row sums 1 and carries the weights to themselves: sum_i w_i P_ij = w_j. Where Q^T K is
    symmetric and positive semi-definite, P is the Schrödinger bridge in the coordinates
    (Q^T K)^{1/2} x and is found by one scaling; otherwise by two potentials.

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
    ) -> None:
        super().__init__(Q, K, V, causal)
        self.eps, self.tol = validate.positive(eps, "eps"), validate.positive(tol, "tol")
        with np.errstate(over="ignore", invalid="ignore"):
            self.root = _psd_root(_finite(self.Q.T @ self.K, "entries of Q^T K"))

    def rows(self, z: Array, x: Array, w: Array) -> Array:
        if self.root is not None:
            at, y = z @ self.root, x @ self.root
            bridge = self_bridge(y, self.eps, w, tol=self.tol)
            return softmax_rows(_log(w * bridge.scaling) - squared_distances(at, y, 2 * self.eps))
        g = sinkhorn(self.scores(x, x) / self.eps, w, w, tol=self.tol).g
        return softmax_rows(self.scores(z, x) / self.eps + g + _log(w))


class MultiHead:
    """Several heads whose outputs are mapped by W_h, shape (d, p_h), and added.

    The usual "concatenate, then multiply by one matrix" is the same sum: the W_h are the column
    blocks of that matrix. Without `W` the heads are added as they are.

    >>> I = np.eye(2)
    >>> head = SoftmaxAttention(I, I, I)
    >>> both = MultiHead([head, head], W=[0.5 * I, 0.5 * I])
    >>> x = [[0.0, 1.0], [2.0, 0.0]]
    >>> bool(np.allclose(both.velocity(x), head.velocity(x)))
    True
    """

    def __init__(self, heads: Sequence[Attention], W: Sequence[ArrayLike] | None = None) -> None:
        self.heads = tuple(_listed(heads, "heads"))
        if not self.heads:
            raise ValueError("heads must not be empty, got none")
        for h, head in enumerate(self.heads):
            validate.instance(head, f"heads[{h}]", Attention)
        if W is None:
            W = [np.eye(len(head.V)) for head in self.heads]
        self.W = tuple(validate.array(w, f"W[{h}]", 2) for h, w in enumerate(_listed(W, "W")))
        if len(self.W) != len(self.heads):
            raise ValueError(
                f"W must have one matrix per head, {len(self.heads)}, got {len(self.W)}"
            )
        for h, (w, head) in enumerate(zip(self.W, self.heads, strict=True)):
            if w.shape != (len(self.W[0]), len(head.V)):
                raise ValueError(
                    f"W[{h}] must have shape {(len(self.W[0]), len(head.V))}, got {w.shape}"
                )

    def matrix(self, x: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """The attention matrices of all heads, shape (heads, n, n)."""
        return np.stack([head.matrix(x, weights) for head in self.heads])

    def velocity(self, x: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """sum_h W_h Gamma_h(x_i), shape (n, d)."""
        return self._sum([h.velocity(x, weights) for h in self.heads])

    def field(self, points: ArrayLike, x: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """The same at other points."""
        return self._sum([h.field(points, x, weights) for h in self.heads])

    def _sum(self, parts: list[Array]) -> Array:
        """sum_h parts_h W_h^T."""
        with np.errstate(over="ignore", invalid="ignore"):
            sent = [part @ w.T for part, w in zip(parts, self.W, strict=True)]
            return _finite(np.sum(sent, axis=0), "velocities")


def _listed(values: Any, name: str) -> list[Any]:
    try:
        return list(values)
    except TypeError:
        raise TypeError(f"{name} must be a list, got {validate.said(values)}") from None


def _log(w: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.log(w)


def _exp(scores: Array) -> Array:
    if scores.max() > np.log(np.finfo(float).max):
        raise ValueError(f"exp of the scores must be finite, got a score of {scores.max():.3g}")
    return np.exp(scores)


def _finite(values: Array, name: str) -> Array:
    if not np.isfinite(values).all():
        raise ValueError(f"{name} must be finite; these tokens or matrices are too large")
    return values


def _psd_root(A: Array) -> Array | None:
    """The symmetric square root of A, or None where A is not symmetric positive semi-definite."""
    size = np.abs(A).max()
    if np.abs(A - A.T).max() > SYMMETRY_SLACK * size:
        return None
    values, vectors = np.linalg.eigh((A + A.T) / 2)
    if values.min() < -SYMMETRY_SLACK * size:
        return None
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
