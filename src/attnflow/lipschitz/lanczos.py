r"""The local constant of a layer: the norm of its Jacobian, by Lanczos, with what vouches for it.

The method of :cite:t:`golub1965` extends an orthonormal basis of answers by products with
:math:`JJ^\top`; its largest Ritz value tends to the square of the norm from below. Iterations stop by
the bound of Kato and Temple on what is missing, and the result is certified by two fresh products.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy.linalg import eigh_tridiagonal

from attnflow import validate
from attnflow.attention.head import SoftmaxLayer
from attnflow.errors import NotConverged
from attnflow.lipschitz.jacobian import Linearised, total
from attnflow.validate import Array

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

    value: float  #: the norm of ``J^T left``, so never above the true constant but for rounding
    residual: (
        float  #: the norm of ``J right - value left``: a singular value lies within this of `value`
    )
    error: float  #: an estimate of what `value` lacks, after Kato and Temple
    iterations: int  #: steps of Lanczos, each one product with J and one with its transpose
    converged: bool  #: whether error <= tol * value
    right: Array  #: (n, d), the unit direction of maximal change
    left: Array  #: (n, D), the direction of the answer


def local_constant(
    layer: SoftmaxLayer,
    x: ArrayLike,
    tol: float = 1e-4,
    *,
    dtype: DTypeLike = np.float64,
    seed: int = 0,
    max_iter: int = 300,
    held: Sequence[int] = (),
) -> LocalConstant:
    """The norm of the Jacobian at x to a relative error `tol`, by Lanczos on J J^T.

    Iterations stop once Kato and Temple's bound on what is missing, residual^2 over the gap to the
    next eigenvalue as far as that is known, has been below tol three times running. They run in
    single precision where tol allows; value and residual then come from fresh products in double,
    and if these disagree the iterations go on in double. That no larger singular value hides is a
    matter of the random start, as for every method of this kind. Tokens that are `held` do not move:
    the norm is that of the Jacobian with respect to the others.

    >>> from attnflow.attention import SoftmaxAttention
    >>> I = np.eye(1)
    >>> x = [[1.0]] + 7 * [[-1.0]]
    >>> away = SoftmaxAttention(-2 * I, I, I)
    >>> round(local_constant(away, x, 1e-9).value, 6)
    3.585446
    >>> round(local_constant(away, x, 1e-9, held=[0]).value, 6)
    1.159428
    """
    tol, seed = validate.positive(tol, "tol"), validate.count(seed, "seed", 0)
    max_iter = validate.count(max_iter, "max_iter")
    J = Linearised(layer, x, dtype=dtype)
    if tol < ROUNDING * np.finfo(J.dtype).eps:
        raise ValueError(f"tol must be at least {ROUNDING} roundings of {J.dtype}, got {tol}")
    free = _free(J, held)
    small = max(p.size() for p in J.parts) < LARGEST_SINGLE
    precisions = [True, False] if tol >= SINGLE and J.dtype == np.float64 and small else [False]
    u, steps = None, 0
    for single in precisions:
        square = _Square(J, free, single=single)
        if u is None:
            u = np.random.default_rng(seed).standard_normal((J.n, square.basis.shape[1]))
        u, following, taken = _lanczos(square, u, tol, max_iter)
        steps += taken
        found = _certified(J, free, u @ square.basis.T.astype(J.dtype), following)
        found = found._replace(iterations=steps)
        if found.error <= tol * found.value:
            return found._replace(converged=True)
    missing = found.error / (found.value or 1.0)
    advice = "the value may lack that share of itself; increase max_iter, or tol"
    warnings.warn(NotConverged.after("local_constant", steps, missing, tol, advice), stacklevel=2)
    return found


def _free(J: Linearised, held: Sequence[int]) -> Array | None:
    """(n, 1), one where a token may move and zero where it is held; None if all may."""
    places = [validate.count(i, "held", 0, J.n - 1) for i in held]
    if not places:
        return None
    free = np.ones((J.n, 1), J.dtype)
    free[places] = 0
    return free


def _certified(J: Linearised, free: Array | None, u: Array, following: float) -> LocalConstant:
    """What two fresh products say of a left vector, given the square of the next singular value."""
    u = u / np.linalg.norm(u)  # to the precision of J; it may come from a coarser one
    right = J.pull(u) if free is None else J.pull(u) * free
    value = float(np.linalg.norm(right))
    right /= value or 1.0
    residual = float(np.linalg.norm(J.push(right) - value * u))
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


class _Square:
    """J J^T, acting on answers in a basis of the columns of all W."""

    def __init__(self, J: Linearised, free: Array | None, *, single: bool) -> None:
        self.parts = [p.single() for p in J.parts] if single else J.parts
        self.M = np.vstack([p.M for p in self.parts])
        self.free = None if free is None else free.astype(self.M.dtype)
        columns = np.hstack([p.W for p in J.parts])
        self.basis = np.linalg.qr(columns)[0] if columns.shape[1] < J.D else np.eye(J.D)
        self.W = [(self.basis.T @ p.W).astype(self.M.dtype) for p in J.parts]
        self.ends = np.cumsum([len(p.M) for p in self.parts])[:-1]
        self.gram = self.M @ self.M.T if len(self.M) < J.d else None

    def __call__(self, u: Array) -> Array:
        z = np.hstack([p.pull(u @ W) for p, W in zip(self.parts, self.W, strict=True)])
        if self.free is not None:
            z *= self.free
        z = z @ self.M @ self.M.T if self.gram is None else z @ self.gram
        pieces = zip(self.parts, self.W, np.split(z, self.ends, axis=1), strict=True)
        return total(p.push(piece) @ W.T for p, W, piece in pieces)
