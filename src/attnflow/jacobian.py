r"""How a layer of softmax attention answers a small change of its tokens, without the matrix.

The Jacobian of a layer with n tokens in dimension d has :math:`(nd)^2` entries. Its products cost
no more than the layer itself. With q, k, v the queries, keys and values of the tokens, P the
attention matrix, and E a change of the tokens,

.. math:: S = (EQ^\top)k^\top + q(EK^\top)^\top, \qquad
          J(E) = (P\circ S)\,v - \mathrm{diag}\big((P\circ S)1\big)\,Pv + P\,EV^\top.

The change enters through :math:`EM^\top` alone, M being the rows of all Q, K, V; so
:math:`JJ^\top` needs M only through :math:`MM^\top`, which is as if the tokens lived in the span of
these rows: one head of size 64 in dimension 768 lives in dimension 192. Likewise it answers in the
span of the columns of all W.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy.linalg import eigh_tridiagonal

from attnflow import validate
from attnflow.attention.head import Head as Head
from attnflow.attention.head import SoftmaxLayer as Layer
from attnflow.attention.head import checked
from attnflow.validate import Array

#: Rows of an n by n product that are formed at a time.
BLOCK = 512
#: Iterations run in single precision for tolerances down to this; the result is certified in double.
SINGLE = 1e-5
#: Products of four numbers of this size are still numbers in single precision.
LARGEST_SINGLE = 1e8
#: Tolerances closer to rounding than this are refused.
ROUNDING = 64
#: Steps before an estimate of the error is believed, and how often in a row it must be small: it
#: rests on the second value found by then, which may still be on its way to the first.
LEAST, PATIENCE = 8, 3


class LocalConstant(NamedTuple):
    """The largest singular value of a Jacobian, with what vouches for it."""

    value: float  #: |J^T left|, so never above the true constant but for rounding
    residual: float  #: |J right - value left|: a singular value lies within this of `value`
    error: float  #: an estimate of what `value` lacks, after Kato and Temple
    iterations: int  #: steps of Lanczos, each one product with J and one with its transpose
    converged: bool  #: whether error <= tol * value
    right: Array  #: (n, d), the unit direction of maximal change
    left: Array  #: (n, D), the direction of the answer


class Linearised:
    """The Jacobian of a layer of softmax attention at tokens x, as products.

    >>> from attnflow.attention import SoftmaxAttention
    >>> J = Linearised(SoftmaxAttention([[0.0]], [[0.0]], [[2.0]]), [[1.0], [3.0]])
    >>> J.jvp([[1.0], [0.0]]).ravel()
    array([1., 1.])
    """

    def __init__(self, layer: Layer, x: ArrayLike, *, dtype: DTypeLike = np.float64) -> None:
        x = validate.tokens(x)
        self.n, self.d = x.shape
        self.dtype = np.dtype(dtype)
        if self.dtype not in (np.float32, np.float64):
            raise ValueError(f"dtype must be float32 or float64, got {self.dtype}")
        heads = checked(layer, self.n, self.d)
        x = x.astype(self.dtype, copy=False)
        self.parts = [_Part.at(head, x) for head in heads]
        self.D = len(self.parts[0].W)

    def jvp(self, e: ArrayLike) -> Array:
        """J e for a change e of the tokens, shape (n, d) to (n, D)."""
        return self._jvp(self._given(e, "e", self.d))

    def vjp(self, u: ArrayLike) -> Array:
        """J^T u for a change u of the output, shape (n, D) to (n, d)."""
        return self._vjp(self._given(u, "u", self.D))

    def bend(self, u: ArrayLike, e: ArrayLike) -> Array:
        """The gradient of <u, J(x) e> with respect to x, shape (n, d): how the Jacobian turns."""
        e, u = self._given(e, "e", self.d), self._given(u, "u", self.D)
        return _total(p.bend(u @ p.W, e @ p.M.T) @ p.M for p in self.parts)

    def _jvp(self, e: Array) -> Array:
        return _total(p.push(e @ p.M.T) @ p.W.T for p in self.parts)

    def _vjp(self, u: Array) -> Array:
        return _total(p.pull(u @ p.W) @ p.M for p in self.parts)

    def _given(self, value: ArrayLike, name: str, width: int) -> Array:
        out = validate.array(value, name, 2)
        if out.shape != (self.n, width):
            raise ValueError(f"{name} must have shape {(self.n, width)}, got {out.shape}")
        return out.astype(self.dtype, copy=False)


class _Part(NamedTuple):
    """One head at its tokens. Columns of queries, keys and values stand side by side."""

    M: Array  # (2k + p, d), the rows of Q, K, V
    W: Array  # (D, p)
    turn: tuple[Array, Array] | None  # cosines and sines, (n, k/2)
    q: Array
    k: Array
    v: Array
    P: Array
    mean: Array  # P v
    causal: bool

    @classmethod
    def at(cls, head: Head, x: Array) -> _Part:
        n, t = len(x), x.dtype
        M = np.vstack([head.Q, head.K, head.V], dtype=t, casting="same_kind")
        W = np.eye(len(head.V), dtype=t) if head.W is None else head.W.astype(t)
        turn = None
        if head.angles is not None:
            turn = np.cos(head.angles[:n]).astype(t), np.sin(head.angles[:n]).astype(t)
        with np.errstate(over="ignore", invalid="ignore"):
            q, k, v = _columns(x @ M.T, len(head.Q))
            q = q if head.bq is None else q + head.bq.astype(t)
            k = k if head.bk is None else k + head.bk.astype(t)
            q, k, v = _rotate(q, turn), _rotate(k, turn), v.copy()
            P = _softmax(q @ k.T, head.causal)
        if not np.isfinite(P).all():
            raise ValueError("scores must be finite; these tokens or matrices are too large")
        return cls(M, W, turn, q, k, v, P, P @ v, head.causal)

    def single(self) -> _Part:
        """The same in single precision."""
        turn = self.turn and (self.turn[0].astype(np.float32), self.turn[1].astype(np.float32))
        fields: dict[str, Any] = self._asdict() | {"turn": turn}
        for name in ("M", "W", "q", "k", "v", "P", "mean"):
            fields[name] = fields[name].astype(np.float32)
        return _Part(**fields)

    def size(self) -> float:
        """The largest number in it."""
        return max(float(np.abs(y).max()) for y in (self.M, self.W, self.q, self.k, self.v))

    def push(self, z: Array) -> Array:
        """From changes of queries, keys and values, (n, 2k + p), to the answer of the head."""
        eq, ek, ev = self.turned(z)
        left, right = np.hstack([eq, self.q]), np.hstack([self.k, ek])
        out = np.empty_like(self.mean)
        for row, seen in self.blocks():
            S = left[row] @ right[seen].T
            S *= self.P[row, seen]
            out[row] = S @ self.v[seen] + self.P[row, seen] @ ev[seen]
            out[row] -= S.sum(axis=1, keepdims=True) * self.mean[row]
        return out

    def pull(self, g: Array) -> Array:
        """The transpose of push."""
        dq, dk, dv = (np.zeros_like(y) for y in (self.q, self.k, self.v))
        for row, seen in self.blocks():
            G = g[row] @ self.v[seen].T
            G -= np.einsum("ip,ip->i", g[row], self.mean[row])[:, None]
            G *= self.P[row, seen]
            dq[row] = G @ self.k[seen]
            dk[seen] += G.T @ self.q[row]
            dv[seen] += self.P[row, seen].T @ g[row]
        return self.returned(dq, dk, dv)

    def bend(self, g: Array, z: Array) -> Array:
        """<g, push(z)> is the sum over rows of Cov_P(S, M) + E_P(N), M = g v^T, N = g (E V^T)^T."""
        eq, ek, ev = self.turned(z)
        left, right = np.hstack([eq, self.q]), np.hstack([self.k, ek])
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
        eq, ek, ev = _columns(z, self.q.shape[1])
        return _rotate(eq, self.turn), _rotate(ek, self.turn), ev

    def returned(self, dq: Array, dk: Array, dv: Array) -> Array:
        return np.hstack([_rotate(dq, self.turn, -1), _rotate(dk, self.turn, -1), dv])

    def blocks(self) -> Iterator[tuple[slice, slice]]:
        """Rows a block at a time, with the columns they see."""
        n = len(self.P)
        for start in range(0, n, BLOCK):
            stop = min(start + BLOCK, n)
            yield slice(start, stop), slice(0, stop if self.causal else n)


class _Square:
    """J J^T, acting on answers in a basis of the columns of all W."""

    def __init__(self, J: Linearised, *, single: bool) -> None:
        self.parts = [p.single() for p in J.parts] if single else J.parts
        self.M = np.vstack([p.M for p in self.parts])
        columns = np.hstack([p.W for p in J.parts])
        self.basis = np.linalg.qr(columns)[0] if columns.shape[1] < J.D else np.eye(J.D)
        self.W = [(self.basis.T @ p.W).astype(self.M.dtype) for p in J.parts]
        self.ends = np.cumsum([len(p.M) for p in self.parts])[:-1]
        self.gram = self.M @ self.M.T if len(self.M) < J.d else None

    def __call__(self, u: Array) -> Array:
        z = np.hstack([p.pull(u @ W) for p, W in zip(self.parts, self.W, strict=True)])
        z = z @ self.M @ self.M.T if self.gram is None else z @ self.gram
        pieces = zip(self.parts, self.W, np.split(z, self.ends, axis=1), strict=True)
        return _total(p.push(piece) @ W.T for p, W, piece in pieces)


def jvp(layer: Layer, x: ArrayLike, e: ArrayLike, *, dtype: DTypeLike = np.float64) -> Array:
    """The derivative of a layer at tokens x in the direction e, shape (n, D)."""
    return Linearised(layer, x, dtype=dtype).jvp(e)


def vjp(layer: Layer, x: ArrayLike, u: ArrayLike, *, dtype: DTypeLike = np.float64) -> Array:
    """The transposed derivative applied to u, shape (n, d): the gradient of <u, layer(x)>."""
    return Linearised(layer, x, dtype=dtype).vjp(u)


def local_constant(
    layer: Layer,
    x: ArrayLike,
    tol: float = 1e-4,
    *,
    dtype: DTypeLike = np.float64,
    seed: int = 0,
    max_iterations: int = 300,
) -> LocalConstant:
    """The norm of the Jacobian at x to a relative error `tol`, by Lanczos on J J^T.

    The largest Ritz value tends to the square of the norm from below. Iterations stop once Kato
    and Temple's bound on what is missing, residual^2 over the gap to the next eigenvalue as far as
    that is known, has been below tol three times running. They run in single precision where tol allows; value and residual then come from
    fresh products in double, and if these disagree the iterations go on in double. That no larger
    singular value hides is a matter of the random start, as for every method of this kind.

    >>> from attnflow.attention import SoftmaxAttention
    >>> I = np.eye(1)
    >>> x = [[1.0]] + 7 * [[-1.0]]
    >>> round(local_constant(SoftmaxAttention(-2 * I, I, I), x, 1e-9).value, 6)
    3.585446
    """
    tol, seed = validate.positive(tol, "tol"), validate.count(seed, "seed", 0)
    limit = validate.count(max_iterations, "max_iterations")
    J = Linearised(layer, x, dtype=dtype)
    if tol < ROUNDING * np.finfo(J.dtype).eps:
        raise ValueError(f"tol must be at least {ROUNDING} roundings of {J.dtype}, got {tol}")
    small = max(p.size() for p in J.parts) < LARGEST_SINGLE
    precisions = [True, False] if tol >= SINGLE and J.dtype == np.float64 and small else [False]
    u, steps = None, 0
    for single in precisions:
        square = _Square(J, single=single)
        if u is None:
            u = np.random.default_rng(seed).standard_normal((J.n, square.basis.shape[1]))
        u, following, taken = _lanczos(square, u, tol, limit)
        steps += taken
        found = _certified(J, u @ square.basis.T.astype(J.dtype), following)._replace(
            iterations=steps
        )
        if found.error <= tol * found.value:
            return found._replace(converged=True)
    warnings.warn(
        f"the local constant {found.value:.6g} may lack {found.error:.1e} after {steps} steps",
        RuntimeWarning,
        stacklevel=2,
    )
    return found


def _certified(J: Linearised, u: Array, following: float) -> LocalConstant:
    """What two fresh products say of a left vector, given the square of the next singular value."""
    u = u / np.linalg.norm(u)  # to the precision of J; it may come from a coarser one
    right = J._vjp(u)
    value = float(np.linalg.norm(right))
    right /= value or 1.0
    residual = float(np.linalg.norm(J._jvp(right) - value * u))
    gap = value**2 - following
    error = min(residual, value * residual**2 / (2 * gap)) if gap > 0 else residual
    return LocalConstant(value, residual, error, 0, False, right, u)


def _lanczos(square: _Square, start: Array, tol: float, limit: int) -> tuple[Array, float, int]:
    """The leading eigenvector, an upper estimate of the second eigenvalue, the number of steps."""
    shape, kind = start.shape, square.M.dtype
    limit = min(limit, start.size)
    basis = np.empty((min(limit, 32) + 1, start.size), kind)
    basis[0] = start.ravel()
    basis[0] /= np.linalg.norm(basis[0])  # in the precision of the basis: start may be coarser
    diagonal, off, settled = np.zeros(limit), np.zeros(limit), 0
    for m in range(limit):
        if m + 2 > len(basis):
            basis = np.vstack([basis, np.empty_like(basis)])
        y = square(basis[m].reshape(shape)).ravel()
        diagonal[m] = basis[m] @ y
        for _ in range(2):
            y -= (basis[: m + 1] @ y) @ basis[: m + 1]
        off[m] = np.linalg.norm(y)
        values, vectors = eigh_tridiagonal(diagonal[: m + 1], off[:m])
        rest = off[m] * np.abs(vectors[m])
        top, following = values[-1], (values[-2] + rest[-2] if m else values[-1])
        if off[m] <= np.finfo(kind).eps * top:  # the basis holds all that the start can reach
            break
        missing = rest[-1] ** 2 / (top - following) if m and top > following else 2 * rest[-1]
        settled = settled + 1 if missing <= 2 * tol * top else 0
        if m + 1 >= LEAST and settled >= PATIENCE:
            break
        basis[m + 1] = y / off[m]
    u = vectors[:, -1].astype(kind) @ basis[: m + 1]
    return (u / np.linalg.norm(u)).reshape(shape), float(following), m + 1


def _total(parts: Iterable[Array]) -> Array:
    """The sum, in place of the first."""
    first, *others = parts
    for part in others:
        first += part
    return first


def _columns(z: Array, k: int) -> tuple[Array, Array, Array]:
    return z[:, :k], z[:, k : 2 * k], z[:, 2 * k :]


def _rotate(y: Array, turn: tuple[Array, Array] | None, sign: int = 1) -> Array:
    """Turn coordinates c and c + k/2 of row i together, or back with sign -1."""
    if turn is None:
        return y
    (cos, sin), (a, b) = turn, np.split(y, 2, axis=1)
    return np.hstack([a * cos - sign * b * sin, sign * a * sin + b * cos])


def _softmax(scores: Array, causal: bool) -> Array:
    """Rows of exp(scores) divided by their sums, in place."""
    if causal:
        scores[np.triu_indices(len(scores), 1)] = -np.inf
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return scores


def _centred(Y: Array, P: Array) -> Array:
    """Rows of Y less their means under P."""
    return Y - np.einsum("ij,ij->i", P, Y)[:, None]
