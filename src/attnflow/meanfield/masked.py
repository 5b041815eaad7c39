r"""The masked layer on measures: a mask needs positions, which a measure of tokens does not have.

:class:`MaskedMeanField` acts on measures over :math:`[0,1]\times\mathbb R^d`, keeps the position s
of every point, and lets it see the positions up to s (:cite:t:`castin2024`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from attnflow import validate
from attnflow.attention import Attention, MultiHead
from attnflow.validate import Array


class MaskedMeanField:
    r"""A layer on measures over positions and tokens: a point at s averages the points up to s.

    .. math:: \Gamma(s, x) = \frac{\int_{[0,s]\times\mathbb R^d} k(x,y)\,Vy\,d\mu(\tau,y)}
        {\int_{[0,s]\times\mathbb R^d} k(x,y)\,d\mu(\tau,y)}

    for softmax and L2 attention; other kinds act in the same way on the measure of the positions up
    to s :cite:p:`castin2024`. Positions lie in [0, 1] and do not move. With positions i/n it is the
    causal layer.

    >>> from attnflow.attention import SoftmaxAttention
    >>> I = np.eye(1)
    >>> layer = MaskedMeanField(SoftmaxAttention(0 * I, I, I), [0.0, 0.5, 0.5])
    >>> layer.velocity([[1.0], [3.0], [5.0]]).ravel()
    array([1., 3., 3.])
    """

    def __init__(self, attention: Attention | MultiHead, positions: ArrayLike) -> None:
        s = validate.array(positions, "positions", 1)
        if not len(s) or s.min() < 0 or s.max() > 1:
            raise ValueError(
                f"positions must lie in [0, 1], got {s.min(initial=0)} to {s.max(initial=0)}"
            )
        self.attention, self.positions = attention, s
        self.heads, self.W = _heads(attention)
        if any(head.causal for head in self.heads):
            raise ValueError(
                "attention must not be causal, since the mask comes from the positions; "
                "got a causal layer"
            )

    def matrix(self, x: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """P of every head, shape (n, n), or (heads, n, n) for a layer of several.

        >>> from attnflow.attention import SoftmaxAttention
        >>> I = np.eye(1)
        >>> MaskedMeanField(SoftmaxAttention(0 * I, I, I), [0.0, 1.0]).matrix([[1.0], [3.0]])
        array([[1. , 0. ],
               [0.5, 0.5]])
        """
        P = self._matrices(x, weights)
        return P if isinstance(self.attention, MultiHead) else P[0]

    def velocity(self, x: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """Gamma(s_i, x_i), shape (n, p); the velocity of the position is 0."""
        x = validate.tokens(x)
        parts = zip(self._matrices(x, weights), self.heads, self.W, strict=True)
        with np.errstate(over="ignore", invalid="ignore"):
            out = np.sum([P @ (x @ head.V.T) @ w.T for P, head, w in parts], axis=0)
        if not np.isfinite(out).all():
            raise ValueError("velocities must be finite; these tokens or matrices are too large")
        return out

    def _matrices(self, x: ArrayLike, weights: ArrayLike | None) -> Array:
        """P of all heads, shape (heads, n, n)."""
        x = validate.tokens(x)
        if len(x) != len(self.positions):
            raise ValueError(
                f"x must have one token per position, {len(self.positions)}, got {len(x)}"
            )
        if x.shape[1] != self.heads[0].Q.shape[1]:
            raise ValueError(f"x must have {self.heads[0].Q.shape[1]} columns, got shape {x.shape}")
        w = validate.weights(weights, len(x))
        return np.stack([self._rows(head, x, w) for head in self.heads])

    def _rows(self, head: Attention, x: Array, w: Array) -> Array:
        out = np.zeros((len(x), len(x)))
        for s in np.unique(self.positions):
            here, seen = self.positions == s, self.positions <= s
            mass = w[seen].sum()
            if mass == 0:
                raise ValueError(f"the points up to position {s:g} must carry mass, got 0")
            out[np.ix_(here, seen)] = head.rows(x[here], x[seen], w[seen] / mass)
        return out


def _heads(attention: Attention | MultiHead) -> tuple[tuple[Attention, ...], tuple[Array, ...]]:
    """The heads of a layer and the matrices that map their outputs."""
    if isinstance(attention, MultiHead):  # until every attention has heads
        return attention.heads, attention.W
    return (attention,), (np.eye(len(attention.V)),)
