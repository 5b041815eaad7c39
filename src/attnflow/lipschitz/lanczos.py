r"""The local constant of a layer: the norm of its Jacobian, by Lanczos, between two ends that are proved.

The method of :cite:t:`golub1965` extends an orthonormal basis of answers by products with
:math:`JJ^\top`; its largest Ritz value tends to the square of the norm from below. Iterations stop when
the bound from above of :mod:`attnflow.lipschitz.certificate` has come down to it. A random start is
blind to the first singular vector with a probability that is known, and it is set beforehand.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy.linalg import eigh_tridiagonal
from scipy.linalg.lapack import dsterf

from attnflow import validate
from attnflow.attention.head import SoftmaxLayer
from attnflow.errors import NotConverged
from attnflow.lipschitz.certificate import ceiling, reach, unseen
from attnflow.lipschitz.jacobian import Linearised
from attnflow.lipschitz.square import Square
from attnflow.validate import Array

#: Iterations run in single precision for tolerances down to this; the result is certified in double.
SINGLE = 1e-5
#: Fourth powers of numbers of this size are still numbers in single precision.
LARGEST_SINGLE = 1e8
#: Tolerances closer to rounding than this are refused.
ROUNDING = 64
#: The share of the tolerance that is left to rounding.
MARGIN = 0.2
#: Rounding seen at two vectors is multiplied by this where it must serve for all.
CAUTION = 4
#: A vector that is shorter than this share after it was made orthogonal is made so once more.
LITTLE = 0.5
#: The failure probability that is set where nobody sets one.
FAILURE = 1e-6


class LocalConstant(NamedTuple):
    """The largest singular value of a Jacobian, between two ends.

    `lower` is proved by a vector; `upper` holds unless the random start was all but orthogonal to the
    first singular vector, which has the probability `failure`.
    """

    value: float  #: the norm of ``J^T left``
    lower: float  #: `value`, less the rounding that was seen
    upper: float  #: no singular value is larger, but with probability `failure`
    failure: float  #: how likely a start is that misses a larger one
    residual: float  #: the norm of ``J right - value left``
    iterations: int  #: steps of Lanczos, each one product with J and one with its transpose
    converged: bool  #: whether both ends are within tol * value of it
    right: Array  #: (n, d), the unit direction of maximal change
    left: Array  #: (n, D), the direction of the answer

    @property
    def error(self) -> float:
        """How far the farther end is from `value`."""
        return max(self.value - self.lower, self.upper - self.value)


def local_constant(
    layer: SoftmaxLayer,
    x: ArrayLike,
    tol: float = 1e-4,
    *,
    dtype: DTypeLike = np.float64,
    seed: int = 0,
    max_iter: int = 300,
    held: Sequence[int] = (),
    failure: float = FAILURE,
    linearised: type[Linearised] = Linearised,
) -> LocalConstant:
    """The norm of the Jacobian at x to a relative error `tol`, by Lanczos on J J^T.

    Iterations stop once the bound from above is within tol of the largest Ritz value. It is the bound
    of :cite:t:`hochstenbach2013`, and fails with the probability `failure`, whatever the layer. They run
    in single precision where tol allows; the value then comes from fresh products in double, and if
    these disagree the iterations are repeated in double. Tokens that are `held` do not move: the norm
    is that of the Jacobian with respect to the others. The Jacobian is what `linearised` makes of the
    layer: :class:`attnflow.lipschitz.SigmoidLinearised` puts sigmoids in the place of softmax.

    >>> from attnflow.attention import SoftmaxAttention
    >>> I = np.eye(1)
    >>> x = [[1.0]] + 7 * [[-1.0]]
    >>> away = SoftmaxAttention(-2 * I, I, I)
    >>> found = local_constant(away, x, 1e-9)
    >>> round(found.value, 6), found.upper - found.lower <= 2e-9 * found.value, found.failure
    (3.585446, True, 1e-06)
    >>> round(local_constant(away, x, 1e-9, held=[0]).value, 6)
    1.159428
    """
    tol, seed = min(validate.positive(tol, "tol"), 1.0), validate.count(seed, "seed", 0)
    max_iter, failure = validate.count(max_iter, "max_iter"), _probability(failure)
    J = linearised(layer, x, dtype=dtype)
    if tol < ROUNDING * np.finfo(J.dtype).eps:
        raise ValueError(f"tol must be at least {ROUNDING} roundings of {J.dtype}, got {tol}")
    free = _free(J, held)
    small = max(max(p.size(), p.reach()) for p in J.parts) < LARGEST_SINGLE
    precisions = [True, False] if tol >= SINGLE and J.dtype == np.float64 and small else [False]
    rng, steps = np.random.default_rng(seed), 0
    for single in precisions:
        square = Square(J, free, single=single)
        run = _lanczos(square, rng, tol, max_iter, failure)
        steps += run.steps
        found = _certified(J, free, square, run)
        found = found._replace(iterations=steps, failure=failure)
        if found.error <= tol * found.value:
            return found._replace(converged=True)
    missing = found.error / (found.value or 1.0)
    advice = "the two ends are that share of the value apart; increase max_iter, or tol"
    warnings.warn(NotConverged.after("local_constant", steps, missing, tol, advice), stacklevel=2)
    return found


def _probability(failure: float) -> float:
    out = validate.positive(failure, "failure")
    if out >= 1:
        raise ValueError(f"failure must be below 1, got {out:g}")
    return out


def _free(J: Linearised, held: Sequence[int]) -> Array | None:
    """(n, 1), one where a token may move and zero where it is held; None if all may."""
    places = [validate.count(i, "held", 0, J.n - 1) for i in held]
    if not places:
        return None
    free = np.ones((J.n, 1), J.dtype)
    free[places] = 0
    return free


class _Run(NamedTuple):
    """What the iterations have found, in their own precision."""

    left: Array  # the leading Ritz vector, in the basis of the square
    image: Array  # its product with the square
    top: float  # the leading Ritz value
    above: float  # the bound on all eigenvalues
    steps: int


def _certified(J: Linearised, free: Array | None, square: Square, run: _Run) -> LocalConstant:
    """Two ends, from fresh products with the vector that was found."""
    u = run.left @ square.basis.T.astype(J.dtype)
    u = u / np.linalg.norm(u)  # to the precision of J; it may come from a coarser one
    right = J.pull(u) if free is None else J.pull(u) * free
    value = float(np.linalg.norm(right))
    if value == 0:
        return LocalConstant(0.0, 0.0, float(np.sqrt(run.above)), 0.0, 0.0, 0, False, right, u)
    right /= value
    answer = J.push(right)
    residual = float(np.linalg.norm(answer - value * u))
    seen = np.linalg.norm(value * answer - run.image @ square.basis.T) / value**2
    rounding = CAUTION * float(seen) + ROUNDING / 2 * float(np.finfo(J.dtype).eps)
    lower, upper = value * (1 - rounding), float(np.sqrt(run.above)) * (1 + rounding)
    if upper < value:  # numbers too small for the precision of the iterations
        upper = np.inf
    return LocalConstant(value, lower, upper, 0.0, residual, 0, False, right, u)


def _lanczos(
    square: Square, rng: np.random.Generator, tol: float, limit: int, failure: float
) -> _Run:
    """The leading eigenvector of a square, from a random start, and a bound on its eigenvalue."""
    kind, shape = square.M.dtype, square.shape
    size, eps = shape[0] * shape[1], float(np.finfo(kind).eps)
    most, limit = unseen(size, failure), min(limit, size)
    basis = np.empty((min(limit, 32) + 1, size), kind)
    basis[0] = _random(rng, basis[:0])
    diagonal, off = np.zeros(limit), np.zeros(limit)
    for m in range(limit):
        if m + 2 > len(basis):
            basis = np.vstack([basis, np.empty_like(basis)])
        y = square(basis[m].reshape(shape)).ravel()
        diagonal[m] = basis[m] @ y
        y -= kind.type(diagonal[m]) * basis[m]
        if m:
            y -= kind.type(off[m - 1]) * basis[m - 1]
        off[m] = _orthogonal(y, basis[: m + 1])
        top = float(dsterf(diagonal[: m + 1], off[:m])[0][-1]) if m else float(diagonal[0])
        if m + 1 == size:
            off[m] = 0.0
            break
        if (
            off[m] <= eps * top
        ):  # the start reaches no further: a perturbation of this size leads on
            y, off[m] = _random(rng, basis[: m + 1]), eps * top
            if top <= 0:
                break
        goal = top * (1 + (1 - MARGIN) * tol) ** 2
        if reach(diagonal[: m + 1], off[: m + 1], goal, most) >= most:
            break
        basis[m + 1] = y / np.linalg.norm(y)
    T = diagonal[: m + 1], off[: m + 1]
    above = ceiling(*T, top, most)
    s = eigh_tridiagonal(T[0], T[1][:-1], select="i", select_range=(m, m))[1][:, 0]
    u = s.astype(kind) @ basis[: m + 1]
    beyond = off[m] * s[-1] * (y / (np.linalg.norm(y) or 1.0))
    return _Run(u.reshape(shape), (top * u + beyond).reshape(shape), top, above, m + 1)


def _orthogonal(y: Array, basis: Array) -> float:
    """Take from y, in place, what the rows of a basis hold of it; its length afterwards.

    Once is enough unless little is left (Kahan and Parlett).
    """
    before = np.linalg.norm(y)
    for _ in range(3):
        y -= (basis @ y) @ basis
        after = np.linalg.norm(y)
        if after > LITTLE * before:
            break
        before = after
    return float(after)


def _random(rng: np.random.Generator, basis: Array) -> Array:
    """A random unit vector, orthogonal to the rows of a basis."""
    y = rng.standard_normal((basis.shape[1],)).astype(basis.dtype)
    return y / _orthogonal(y, basis)
