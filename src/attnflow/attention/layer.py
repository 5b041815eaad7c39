r"""What every layer of attention has: heads, the matrices that map their outputs, a velocity.

Tokens are the rows of x, shape (n, d), with masses w (1/n unless given). A head is a rule that
turns scores into a matrix P; its answer is :math:`\Gamma(x_i) = \sum_j P_{ij} V x_j`, without the
residual. A layer adds its heads up, :math:`\sum_h W_h \Gamma_h(x_i)`. A single kind of attention is
a layer of one head whose W is the identity.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from attnflow import validate
from attnflow.kernels.dense import BLOCK_ENTRIES
from attnflow.validate import Array

METHODS = ("auto", "dense", "fast")
#: Below this many tokens "auto" is dense, which has all digits.
FEWEST_FAST = 4096


class Layer(ABC):
    """Heads, and a matrix for the output of each: what flows, limits and bounds ask of a layer.

    >>> from attnflow.attention import SoftmaxAttention
    >>> I = np.eye(2)
    >>> layer = SoftmaxAttention(I, I, 3 * I)
    >>> len(layer.heads), layer.value
    (1, array([[3., 0.],
           [0., 3.]]))
    """

    heads: tuple[Attention, ...]

    @property
    @abstractmethod
    def W(self) -> tuple[Array, ...]:
        """What maps the output of every head, (D, p_h) each."""

    @property
    def values(self) -> tuple[Array, ...]:
        """W_h V_h of every head, (D, d) each: what it sends of a token, as the layer puts it out."""
        return tuple(W @ head.V for W, head in zip(self.W, self.heads, strict=True))

    @property
    def value(self) -> Array:
        """Their sum, shape (D, d): what a token does that attends to itself alone."""
        return np.sum(self.values, axis=0)

    @property
    def dimension(self) -> int:
        """d, the dimension of its tokens."""
        return self.heads[0].Q.shape[1]

    @abstractmethod
    def stacked(self, matrices: Sequence[Array]) -> Array:
        """What :meth:`matrix` returns of one matrix a head."""

    def combined(self, parts: Sequence[Array]) -> Array:
        """sum_h W_h parts_h for what every head answers, (n, p_h) each."""
        with np.errstate(over="ignore", invalid="ignore"):
            sent = [part @ W.T for part, W in zip(parts, self.W, strict=True)]
            return representable(np.sum(sent, axis=0), "velocities")

    @abstractmethod
    def using(self, method: str, tol: float = 1e-9) -> Self:
        """The same layer by another method, "dense", "fast" or "auto", to a relative error `tol`."""

    def matrix(self, x: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """P, shape (n, n), or (heads, n, n) for several: how every token averages the others."""
        return self.stacked([head._matrix(*head._measure(x, weights)) for head in self.heads])

    def velocity(self, x: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """The velocity of every token, shape (n, D)."""
        return self.combined([h._velocity(*h._measure(x, weights)) for h in self.heads])

    def field(self, points: ArrayLike, x: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """The velocity at other points (m, d), for the measure that x and its weights describe."""
        return self.combined([head._field(points, x, weights) for head in self.heads])


class Attention(Layer):
    """A head with query, key and value matrices Q, K (k, d) and V (p, d).

    `method` is "dense" (every P_ij is formed, a block of rows at a time), "fast" (products with
    Gaussian kernels in linear time, for scores of rank three or less; velocities are certified to
    a relative error `tol`) or "auto": fast where that is possible, cheaper, and the tokens are
    many. The same word chooses in :func:`attnflow.transport.self_bridge`.

    >>> from attnflow.attention import L2Attention
    >>> I = np.eye(2)
    >>> fast = L2Attention(I, I, I).using("fast", tol=1e-6)
    >>> fast.velocity([[0.0, 0.0], [2.0, 0.0]]).round(4)
    array([[0.036, 0.   ],
           [1.964, 0.   ]])
    """

    def __init__(
        self,
        Q: ArrayLike,
        K: ArrayLike,
        V: ArrayLike,
        causal: bool = False,
        *,
        method: str = "auto",
        tol: float = 1e-9,
    ) -> None:
        self.Q, self.K = validate.array(Q, "Q", 2), validate.array(K, "K", 2)
        self.V = validate.array(V, "V", 2)
        if self.Q.shape != self.K.shape:
            raise ValueError(f"Q and K must have one shape, got {self.Q.shape} and {self.K.shape}")
        if self.V.shape[1] != self.Q.shape[1]:
            raise ValueError(
                f"V must have {self.Q.shape[1]} columns as Q has, got shape {self.V.shape}"
            )
        self.causal, self.method, self.tol = causal, "auto", tol
        self._choose(method, tol)

    @property
    def heads(self) -> tuple[Attention, ...]:  # type: ignore[override]
        """Itself."""
        return (self,)

    @property
    def W(self) -> tuple[Array, ...]:
        """The identity."""
        return (np.eye(len(self.V)),)

    @property
    def values(self) -> tuple[Array, ...]:
        return (self.V,)

    def using(self, method: str, tol: float = 1e-9) -> Self:
        out = copy(self)
        out._choose(method, tol)
        return out

    def _choose(self, method: str, tol: float) -> None:
        self.method, self.tol = (
            validate.choice(method, "method", METHODS),
            validate.positive(tol, "tol"),
        )
        if self.causal and method == "fast":
            raise ValueError("a causal layer has no fast method, got method='fast'")

    def stacked(self, matrices: Sequence[Array]) -> Array:
        return matrices[0]

    def combined(self, parts: Sequence[Array]) -> Array:
        return representable(parts[0], "velocities")

    def scores(self, z: Array, x: Array) -> Array:
        """<Q z_i, K x_j>, shape (m, n)."""
        with np.errstate(over="ignore", invalid="ignore"):
            return representable((z @ self.Q.T) @ (x @ self.K.T).T, "scores")

    def against(self, x: Array, w: Array) -> Callable[[Array], Array]:
        """What maps points z (m, d) to their rows of P (m, n) against tokens x with weights w.

        Arguments are not checked.
        """
        raise TypeError("choose a kind of attention: softmax, L2, Sinkhorn or unnormalised")

    def rows(self, z: Array, x: Array, w: Array) -> Array:
        """P from points z to the measure of tokens x with weights w; arguments are not checked."""
        return self.against(x, w)(z)

    def fast_velocity(self, x: Array, w: Array) -> Array | None:
        """Velocities in linear time to a relative error `tol`; None where "auto" prefers dense.

        Arguments are not checked. A ValueError says why there is no fast method here.
        """
        raise ValueError(f"{type(self).__name__} has no fast method: use method='dense'")

    def _matrix(self, x: Array, w: Array) -> Array:
        if not self.causal:
            return self.rows(x, x, w)
        if w[0] == 0:
            raise ValueError("causal attention needs a positive weight on the first token, got 0")
        return self._causal_rows(x, w)

    def _velocity(self, x: Array, w: Array) -> Array:
        if self.causal:
            return self._send(self._matrix(x, w), x)
        if self.method == "fast" or (self.method == "auto" and len(x) >= FEWEST_FAST):
            found = self.fast_velocity(x, w)
            if found is not None:
                return found
        return self._averages(x, x, w)

    def _field(self, points: ArrayLike, x: ArrayLike, weights: ArrayLike | None) -> Array:
        if self.causal:
            raise ValueError("a causal layer has no field: a point has no place in the sequence")
        tokens, w = self._measure(x, weights)
        z = validate.tokens(points, "points")
        self._dimension(z, "points")
        return self._averages(z, tokens, w)

    def _averages(self, z: Array, x: Array, w: Array) -> Array:
        """P x V^T, a block of rows at a time: P is never held whole where it is large."""
        rows = self.against(x, w)
        if len(z) * len(x) <= BLOCK_ENTRIES:
            return self._send(rows(z), x)
        return np.concatenate([self._send(rows(z[at]), x) for at in blocks(len(z), len(x))])

    def _send(self, P: Array, x: Array) -> Array:
        """P x V^T."""
        with np.errstate(over="ignore", invalid="ignore"):
            return P @ (x @ self.V.T)

    def _causal_rows(self, x: Array, w: Array) -> Array:
        """Row i of the layer applied to the first i tokens alone; the definition, O(n) layers."""
        out = np.zeros((len(x), len(x)))
        for i in range(1, len(x) + 1):
            head = slice(0, i)
            out[i - 1, head] = self.rows(x[i - 1 : i], x[head], w[head] / w[head].sum())[0]
        return out

    def _measure(self, x: ArrayLike, weights: ArrayLike | None) -> tuple[Array, Array]:
        x = validate.tokens(x)
        self._dimension(x, "x")
        return x, validate.weights(weights, len(x))

    def _dimension(self, x: Array, name: str) -> None:
        if x.shape[1] != self.Q.shape[1]:
            raise ValueError(f"{name} must have {self.Q.shape[1]} columns, got shape {x.shape}")


class MultiHead(Layer):
    """Several heads whose outputs are mapped by W_h, shape (D, p_h), and added.

    The usual "concatenate, then multiply by one matrix" (:cite:t:`vaswani2017`) is the same sum:
    the W_h are the column blocks of that matrix. Without `W` the heads are added as they are.

    >>> from attnflow.attention import SoftmaxAttention
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
            if head.Q.shape[1] != self.dimension:
                raise ValueError(
                    f"heads must share a dimension, got {self.dimension} and {head.Q.shape[1]}"
                )
        if W is None:
            W = [np.eye(len(head.V)) for head in self.heads]
        self._W = tuple(validate.array(w, f"W[{h}]", 2) for h, w in enumerate(_listed(W, "W")))
        if len(self._W) != len(self.heads):
            raise ValueError(
                f"W must have one matrix per head, {len(self.heads)}, got {len(self._W)}"
            )
        for h, (w, head) in enumerate(zip(self._W, self.heads, strict=True)):
            if w.shape != (len(self._W[0]), len(head.V)):
                raise ValueError(
                    f"W[{h}] must have shape {(len(self._W[0]), len(head.V))}, got {w.shape}"
                )

    @property
    def W(self) -> tuple[Array, ...]:
        """What maps the output of every head, (D, p_h) each."""
        return self._W

    @property
    def causal(self) -> bool:
        """Whether some head has a mask."""
        return any(head.causal for head in self.heads)

    def using(self, method: str, tol: float = 1e-9) -> Self:
        out = copy(self)
        out.heads = tuple(head.using(method, tol) for head in self.heads)
        return out

    def stacked(self, matrices: Sequence[Array]) -> Array:
        return np.stack(matrices)


def blocks(m: int, n: int) -> Iterator[slice]:
    """m rows of n entries in slices of at most BLOCK_ENTRIES entries, one row at least."""
    step = max(1, BLOCK_ENTRIES // n)
    for start in range(0, m, step):
        yield slice(start, min(start + step, m))


def representable(values: Array, name: str) -> Array:
    """What was computed, refused where numbers overflowed.

    >>> representable(np.array([1.0, np.inf]), "scores")
    Traceback (most recent call last):
    ValueError: scores must be finite, got inf: these tokens or matrices are too large
    """
    if not np.isfinite(values).all():
        worst = values[~np.isfinite(values)][0]
        raise ValueError(
            f"{name} must be finite, got {worst}: these tokens or matrices are too large"
        )
    return values


def _listed(values: Any, name: str) -> list[Any]:
    try:
        return list(values)
    except TypeError:
        raise TypeError(f"{name} must be a list, got {validate.said(values)}") from None
