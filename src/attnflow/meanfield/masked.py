r"""The masked layer on measures: a mask needs positions, which a measure of tokens does not have.

:class:`MaskedMeanField` acts on measures over :math:`[0,1]\times\mathbb R^d`, keeps the position s
of every point, and lets it see the positions up to s (:cite:t:`castin2024`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from attnflow import validate
from attnflow.attention import Attention, Layer
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

    def __init__(self, attention: Layer, positions: ArrayLike) -> None:
        s = validate.array(positions, "positions", 1)
        if not len(s) or s.min() < 0 or s.max() > 1:
            raise ValueError(
                f"positions must lie in [0, 1], got {s.min(initial=0)} to {s.max(initial=0)}"
            )
        if any(head.causal for head in attention.heads):
            raise ValueError(
                "attention must not be causal, since the mask comes from the positions; "
                "got a causal layer"
            )
        self.attention, self.positions = attention, s

    def matrix(self, x: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """P of every head, shape (n, n), or (heads, n, n) for a layer of several.

        >>> from attnflow.attention import SoftmaxAttention
        >>> I = np.eye(1)
        >>> MaskedMeanField(SoftmaxAttention(0 * I, I, I), [0.0, 1.0]).matrix([[1.0], [3.0]])
        array([[1. , 0. ],
               [0.5, 0.5]])
        """
        return self.attention.stacked(self._matrices(validate.tokens(x), weights))

    def velocity(self, x: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """Gamma(s_i, x_i), shape (n, p); the velocity of the position is 0."""
        x = validate.tokens(x)
        P = self._matrices(x, weights)
        with np.errstate(over="ignore", invalid="ignore"):
            parts = [p @ (x @ head.V.T) for p, head in zip(P, self.attention.heads, strict=True)]
        return self.attention.combined(parts)

    def _matrices(self, x: Array, weights: ArrayLike | None) -> list[Array]:
        """P of every head, shape (n, n) each."""
        if len(x) != len(self.positions):
            raise ValueError(
                f"x must have one token per position, {len(self.positions)}, got {len(x)}"
            )
        if x.shape[1] != self.attention.dimension:
            raise ValueError(f"x must have {self.attention.dimension} columns, got shape {x.shape}")
        w = validate.weights(weights, len(x))
        return [self._rows(head, x, w) for head in self.attention.heads]

    def _rows(self, head: Attention, x: Array, w: Array) -> Array:
        out = np.zeros((len(x), len(x)))
        for s in np.unique(self.positions):
            here, seen = self.positions == s, self.positions <= s
            mass = w[seen].sum()
            if mass == 0:
                raise ValueError(f"the points up to position {s:g} must carry mass, got 0")
            out[np.ix_(here, seen)] = head.rows(x[here], x[seen], w[seen] / mass)
        return out


def running_mean_norm(ratio: float, steps: int) -> float:
    r"""The norm, averaged over positions, of the masked layer with A = 0, V = I at geometric positions.

    The layer is then the running mean, at positions :math:`r^{-N}, \dots, r^{-1}, 1` with the masses
    between them. Its inverse couples neighbours only, and its largest singular value is

    .. math:: \frac{r-1}{|r-\sqrt r\,e^{i\theta}|} \approx \frac1{|\tfrac12 + i\pi/\ell|},
        \qquad \ell = N\log r,

    with the smallest positive root :math:`\theta` of the equation that the ends of the list impose. It
    tends to Hardy's constant 2 (:cite:t:`hardy1952`) for fine steps and long lists.

    >>> round(running_mean_norm(1.001, 60_000), 2)
    1.99
    """
    r, N = validate.number(ratio, "ratio"), validate.count(steps, "steps", 2)
    if r <= 1:
        raise ValueError(f"ratio must be above 1, got {r}")
    a, b = r / (r - 1), np.sqrt(r) / (r - 1)

    def least(angle: float) -> float:
        return float(a**2 + b**2 - 2 * a * b * np.cos(angle))

    def ends(angle: float) -> float:
        s = least(angle)
        bulk = a * b * np.sin((N + 1) * angle) - b**2 * np.sin(N * angle)
        return float(bulk - s / (1 - s) / (r - 1) * np.sin(N * angle))

    pole = np.arccos((a**2 + b**2 - 1) / (2 * a * b))  # where least is 1
    last = min(np.pi / N, pole * (1 - 1e-12))
    return float(1 / np.sqrt(least(brentq(ends, 1e-9 / N, last, xtol=1e-16))))
