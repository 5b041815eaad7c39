r"""How a layer of softmax attention answers a small change of its tokens, without the matrix.

The Jacobian of a layer with n tokens in dimension d has :math:`(nd)^2` entries. Its products cost
no more than the layer itself. With q, k, v the queries, keys and values of the tokens, P the
attention matrix, and E a change of the tokens,

.. math:: S = (EQ^\top)k^\top + q(EK^\top)^\top, \qquad
          J(E) = (P\circ S)\,v - \mathrm{diag}\big((P\circ S)1\big)\,Pv + P\,EV^\top.

These are the three terms in which :cite:t:`castin2024` bound the derivative. The change enters through :math:`EM^\top` alone, M being the rows of all Q, K, V; so
:math:`JJ^\top` needs M only through :math:`MM^\top`, which is as if the tokens lived in the span of
these rows: one head of size 64 in dimension 768 lives in dimension 192. Likewise it answers in the
span of the columns of all W.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from attnflow import validate
from attnflow.attention.head import Head, SoftmaxLayer, checked
from attnflow.attention.layer import representable
from attnflow.rotation import Turn, rotate
from attnflow.softmax import hide_future, softmax_rows
from attnflow.validate import Array

#: Rows of an n by n product that are formed at a time.
BLOCK = 512
#: Entries of J J^T are squared and added: this is left to their number.
ROOM = 0.1


class Linearised:
    """The Jacobian of a layer of softmax attention at tokens x, as products.

    >>> from attnflow.attention import SoftmaxAttention
    >>> J = Linearised(SoftmaxAttention([[0.0]], [[0.0]], [[2.0]]), [[1.0], [3.0]])
    >>> J.jvp([[1.0], [0.0]]).ravel()
    array([1., 1.])
    """

    # What every head becomes at its tokens.
    _part: ClassVar[type[Part]]

    def __init__(self, layer: SoftmaxLayer, x: ArrayLike, *, dtype: DTypeLike = np.float64) -> None:
        x = validate.tokens(x)
        self.n, self.d = x.shape
        self.dtype = np.dtype(dtype)
        if self.dtype not in (np.float32, np.float64):
            raise ValueError(f"dtype must be float32 or float64, got {self.dtype}")
        heads = checked(layer, self.n, self.d)
        self.parts = [self._part.at(head, x, self.dtype) for head in heads]
        self.D = len(self.parts[0].W)
        largest = ROOM * float(np.finfo(self.dtype).max) ** 0.25
        if not all(p.reach() <= largest for p in self.parts):
            raise ValueError(
                f"derivatives must be below {largest:.1g}, so that their fourth powers are numbers of "
                f"{self.dtype}: these tokens or matrices are too large"
            )

    def jvp(self, e: ArrayLike) -> Array:
        """J e for a change e of the tokens, shape (n, d) to (n, D).

        >>> from attnflow.attention import SoftmaxAttention
        >>> one = Linearised(SoftmaxAttention([[1.0]], [[1.0]], [[2.0]]), [[5.0]])
        >>> one.jvp([[3.0]])
        array([[6.]])
        """
        return _linear(self.push, self._given(e, "e", self.d))

    def vjp(self, u: ArrayLike) -> Array:
        """J^T u for a change u of the output, shape (n, D) to (n, d).

        >>> from attnflow.attention import SoftmaxAttention
        >>> mean = Linearised(SoftmaxAttention([[0.0]], [[0.0]], [[2.0]]), [[1.0], [3.0]])
        >>> mean.vjp([[1.0], [0.0]]).ravel()
        array([1., 1.])
        """
        return _linear(self.pull, self._given(u, "u", self.D))

    def bend(self, u: ArrayLike, e: ArrayLike) -> Array:
        """The gradient of <u, J(x) e> with respect to x, shape (n, d): how the Jacobian turns.

        >>> from attnflow.attention import SoftmaxAttention
        >>> mean = Linearised(SoftmaxAttention([[0.0]], [[0.0]], [[2.0]]), [[1.0], [3.0]])
        >>> mean.bend([[1.0], [0.0]], [[0.0], [1.0]]).ravel()
        array([0., 0.])
        """
        e, u = self._given(e, "e", self.d), self._given(u, "u", self.D)

        def bent(e: Array) -> Array:
            return _linear(lambda u: total(p.bend(u @ p.W, e @ p.M.T) @ p.M for p in self.parts), u)

        return _linear(bent, e)

    def push(self, e: Array) -> Array:
        """:meth:`jvp` of an array that is known to fit."""
        return total(p.push(e @ p.M.T) @ p.W.T for p in self.parts)

    def pull(self, u: Array) -> Array:
        """:meth:`vjp` of an array that is known to fit."""
        return total(p.pull(u @ p.W) @ p.M for p in self.parts)

    def _given(self, value: ArrayLike, name: str, width: int) -> Array:
        out = validate.array(value, name, 2)
        if out.shape != (self.n, width):
            raise ValueError(f"{name} must have shape {(self.n, width)}, got {out.shape}")
        return out.astype(self.dtype, copy=False)


class Part(NamedTuple):
    """One head at its tokens, or a stack of them. Columns of queries, keys and values stand side by side.

    A row of attention sees differences of keys and of values only, so that both are kept without
    their means over all tokens: what would cancel is not there to be rounded.
    """

    M: Array  # (2k + p, d), the rows of Q, K, V
    W: Array  # (D, p)
    turn: Turn | None  # of queries and keys
    q: Array
    k: Array
    v: Array
    P: Array
    mean: Array  # P v
    causal: bool

    @classmethod
    def at(cls, head: Head, x: Array, t: DTypeLike) -> Self:
        """Computed in double precision and kept in that of t, so that scores of any size do no harm."""
        n = len(x)
        M = np.vstack([head.Q, head.K, head.V])
        W = np.eye(len(head.V)) if head.W is None else head.W
        turn = None if head.angles is None else Turn.by(head.angles[:n])
        with np.errstate(over="ignore", invalid="ignore"):
            q, k, v = _columns(x @ M.T, len(head.Q))
            q = q if head.bq is None else q + head.bq
            k = k if head.bk is None else k + head.bk
            q, k = _turned(q, turn), _turned(k, turn)
            k, v = cls.placed(k), cls.placed(v)
        P, mean = np.zeros((n, n), t), np.empty_like(v)
        for row, seen in _blocks(n, head.causal):
            with np.errstate(over="ignore", invalid="ignore"):
                scores = q[row] @ k[seen].T
            representable(scores, "scores")
            if head.causal:
                scores[:, row] = hide_future(scores[:, row])
            P[row, seen] = weights = cls.weights(scores, n)
            mean[row] = weights @ v[seen]
        out = cls(M, W, turn, q, k, v, P, mean, head.causal)
        return out if t == np.float64 else out.single()

    @staticmethod
    def placed(y: Array) -> Array:
        """Keys or values around their mean."""
        return y - y.mean(axis=0)

    @staticmethod
    def weights(scores: Array, n: int) -> Array:
        """The attention that scores of rows give among n tokens, in place."""
        return softmax_rows(scores)

    def single(self) -> Self:
        """The same in single precision."""
        turn = self.turn and Turn(*(y.astype(np.float32) for y in self.turn))
        fields: dict[str, Any] = self._asdict() | {"turn": turn}
        with np.errstate(over="ignore"):  # refused by its reach
            for name in ("M", "W", "q", "k", "v", "P", "mean"):
                fields[name] = fields[name].astype(np.float32, copy=False)
        return type(self)(**fields)

    def size(self) -> float:
        """The largest number in it."""
        return max(float(np.abs(y).max()) for y in (self.M, self.W, self.q, self.k, self.v))

    def reach(self) -> float:
        """How large an entry of the Jacobian may be, up to the number of terms in it."""
        size = self.q.shape[1]
        blocks = self.M[:size], self.M[size : 2 * size], self.M[2 * size :]
        Q, K, V = (float(np.abs(y).max()) for y in blocks)
        W, q, k, v = (float(np.abs(y).max()) for y in (self.W, self.q, self.k, self.v))
        return W * max(V, v * k * Q, v * q * K)

    def push(self, z: Array) -> Array:
        """From changes of queries, keys and values, (..., n, 2k + p), to the answer of the head."""
        eq, ek, ev = self.turned(z)
        left, right = beside(eq, self.q), beside(self.k, ek)
        out = np.empty_like(self.mean)
        for row, seen in self.blocks():
            P = self.P[..., row, seen]
            S = left[..., row, :] @ right[..., seen, :].mT
            S *= P
            out[..., row, :] = S @ self.v[..., seen, :] + P @ ev[..., seen, :]
            out[..., row, :] -= S.sum(axis=-1, keepdims=True) * self.mean[..., row, :]
        return out

    def pull(self, g: Array) -> Array:
        """The transpose of push."""
        size = self.q.shape[-1]
        out = np.zeros((*g.shape[:-1], 2 * size + g.shape[-1]), g.dtype)
        dq, dk, dv = _columns(out, size)
        for row, seen in self.blocks():
            P, g_row = self.P[..., row, seen], g[..., row, :]
            G = g_row @ self.v[..., seen, :].mT
            G -= np.vecdot(g_row, self.mean[..., row, :])[..., None]
            G *= P
            dq[..., row, :] = G @ self.k[..., seen, :]
            dk[..., seen, :] += G.mT @ self.q[..., row, :]
            dv[..., seen, :] += P.mT @ g_row
        return out if self.turn is None else self.returned(dq, dk, dv)

    def bend(self, g: Array, z: Array) -> Array:
        """<g, push(z)> is the sum over rows of Cov_P(S, M) + E_P(N), M = g v^T, N = g (E V^T)^T."""
        eq, ek, ev = self.turned(z)
        left, right = beside(eq, self.q), beside(self.k, ek)
        dq, dk, dv = (np.zeros_like(y) for y in (self.q, self.k, self.v))
        for row, seen in self.blocks():
            P = self.P[row, seen]
            pairs = (left, right), (g, self.v), (g, ev)
            S, M, N = (_centred(a[row] @ b[seen].T, P) for a, b in pairs)
            dL = P * _centred(S * M, P) + P * N
            dS, dM = P * M, P * S
            dq[row] = dL @ self.k[seen] + dS @ ek[seen]
            dk[seen] += dL.T @ self.q[row] + dS.T @ eq[row]
            dv[seen] += dM.T @ g[row]
        return self.returned(dq, dk, dv)

    def turned(self, z: Array) -> tuple[Array, Array, Array]:
        eq, ek, ev = _columns(z, self.q.shape[-1])
        return _turned(eq, self.turn), _turned(ek, self.turn), ev

    def returned(self, dq: Array, dk: Array, dv: Array) -> Array:
        back = self.turn and self.turn.back
        return beside(_turned(dq, back), _turned(dk, back), dv)

    def blocks(self) -> Iterator[tuple[slice, slice]]:
        return _blocks(self.P.shape[-1], self.causal)


Linearised._part = Part


def _blocks(n: int, causal: bool) -> Iterator[tuple[slice, slice]]:
    """Rows a block at a time, with the columns they see."""
    for start in range(0, n, BLOCK):
        stop = min(start + BLOCK, n)
        yield slice(start, stop), slice(0, stop if causal else n)


def jvp(layer: SoftmaxLayer, x: ArrayLike, e: ArrayLike, *, dtype: DTypeLike = np.float64) -> Array:
    r"""The derivative of a layer at tokens x in the direction e, shape (n, D).

    With :math:`A = K^\top Q`, :math:`m_i = \sum_j P_{ij}x_j` and the covariance :math:`C_i` around
    it, token i answers, as in :cite:t:`castin2024`,

    .. math:: V\Big(\sum_jP_{ij}e_j + \sum_jP_{ij}\langle Ax_i,e_j\rangle(x_j-m_i) + C_iAe_i\Big).

    >>> from attnflow.attention import SoftmaxAttention
    >>> jvp(SoftmaxAttention([[1.0]], [[1.0]], [[1.0]]), [[0.0], [0.0]], [[1.0], [0.0]]).ravel()
    array([0.5, 0.5])
    """
    return Linearised(layer, x, dtype=dtype).jvp(e)


def vjp(layer: SoftmaxLayer, x: ArrayLike, u: ArrayLike, *, dtype: DTypeLike = np.float64) -> Array:
    """The transposed derivative applied to u, shape (n, d): the gradient of <u, layer(x)>.

    >>> from attnflow.attention import SoftmaxAttention
    >>> vjp(SoftmaxAttention([[1.0]], [[1.0]], [[1.0]]), [[0.0], [0.0]], [[1.0], [0.0]]).ravel()
    array([0.5, 0.5])
    """
    return Linearised(layer, x, dtype=dtype).vjp(u)


def _linear(f: Callable[[Array], Array], e: Array) -> Array:
    """A linear map at a change of any size: it is divided by a power of two, and so loses no digit."""
    power = np.frexp(np.abs(e).max())[1]
    with np.errstate(over="ignore"):
        return representable(np.ldexp(f(np.ldexp(e, -power)), power), "derivatives")


def total(parts: Iterable[Array]) -> Array:
    """The sum, in place of the first."""
    first, *others = parts
    for part in others:
        first += part
    return first


def _columns(z: Array, k: int) -> tuple[Array, Array, Array]:
    return z[..., :k], z[..., k : 2 * k], z[..., 2 * k :]


def beside(*columns: Array) -> Array:
    """Columns put side by side."""
    return np.concatenate(columns, axis=-1)


def _turned(y: Array, turn: Turn | None) -> Array:
    return y if turn is None else cast(Array, rotate(y, turn))


def _centred(Y: Array, P: Array) -> Array:
    """Rows of Y less their means under P."""
    return Y - np.einsum("ij,ij->i", P, Y)[:, None]
