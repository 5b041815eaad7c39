r"""Many small bridges at once: heads, layers, draws.

A bridge of 64 tokens is a few dozen microseconds of arithmetic, and a call from Python to numpy one of them: a loop over
:func:`attnflow.transport.self_bridge` spends its time between calls. Here all problems are one
compiled call, each balanced as :mod:`attnflow.transport.bridge` says.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnflow import validate
from attnflow.errors import MissingPackage, NotConverged
from attnflow.kernels.dense import squared_distances
from attnflow.softmax import softmax_rows
from attnflow.transport.bridge import RADIUS, THETA
from attnflow.validate import Array


class Bridges(NamedTuple):
    """The bridges of p measures to themselves, all of n tokens.

    >>> found = self_bridges([[[0.0], [1.0]], [[0.0], [9.0]]], eps=0.5)
    >>> found.converged, found.barycentric[:, :, 0].round(3)
    (True, array([[0.269, 0.731],
           [0.   , 9.   ]]))
    """

    scaling: Array  #: a, (p, n)
    barycentric: Array  #: B(x_i) = E[Y | X = x_i], (p, n, d)
    iterations: NDArray[np.int64]  #: sweeps, (p,)
    residuals: Array  #: L1 errors of the marginals, (p,)
    converged: bool  #: all residuals <= tol

    @property
    def residual(self) -> float:
        """The largest."""
        return float(self.residuals.max(initial=0.0))


def self_bridges(
    x: ArrayLike,
    eps: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    tol: float = 1e-9,
    max_iter: int = 1000,
) -> Bridges:
    r"""The bridge of every measure :math:`\sum_i w_i \delta_{x_i}` of a stack to itself.

    `x` has shape (p, n, d), `weights` (n,) or (p, n); `eps` is one temperature or p. By symmetric scaling
    (:cite:t:`knight2014`) in one compiled call, to the L1 error `tol` of every marginal. Needs the extra `fast`.

    >>> x = np.random.default_rng(0).normal(size=(5, 16, 2))
    >>> self_bridges(x, 0.3).barycentric.shape
    (5, 16, 2)
    """
    stack = np.ascontiguousarray(validate.array(x, "x", 3))
    p, n, d = stack.shape
    if n == 0 or d == 0:
        raise ValueError(f"x must hold at least one token, got shape {stack.shape}")
    w = _masses(weights, p, n)
    temperatures = _temperatures(eps, p)
    tol, max_iter = validate.positive(tol, "tol"), validate.count(max_iter, "max_iter")
    scaling, moved = np.empty((p, n)), np.empty((p, n, d))
    sweeps, residuals = np.zeros(p, np.int64), np.zeros(p)
    _compiled()(
        stack, w, temperatures, tol, max_iter, THETA, RADIUS, scaling, moved, sweeps, residuals
    )
    for k in np.flatnonzero((w == 0).any(axis=1)):
        live = w[k] > 0
        logits = np.log(w[k, live] * scaling[k, live]) - squared_distances(
            stack[k, ~live], stack[k, live], 2.0 * float(temperatures[k])
        )
        moved[k, ~live] = softmax_rows(logits) @ stack[k, live]
    out = Bridges(scaling, moved, sweeps, residuals, bool((residuals <= tol).all()))
    if not out.converged:
        advice = "increase max_iter, or tol"
        warnings.warn(
            NotConverged.after("self_bridges", int(sweeps.max()), out.residual, tol, advice),
            stacklevel=2,
        )
    return out


def _masses(weights: ArrayLike | None, p: int, n: int) -> Array:
    if weights is None or validate.real(weights, "weights").ndim < 2:
        return np.tile(validate.weights(weights, n), (p, 1))
    given = validate.array(weights, "weights", 2)
    if given.shape != (p, n):
        raise ValueError(f"weights must have shape {(p, n)} as x has, got {given.shape}")
    return np.stack([validate.weights(row, n) for row in given]) if p else given


def _temperatures(eps: ArrayLike, p: int) -> Array:
    if validate.real(eps, "eps").ndim == 0:
        return np.full(p, validate.positive(eps, "eps"))
    given = validate.array(eps, "eps", 1)
    if given.shape != (p,):
        raise ValueError(f"eps must be one number or {p}, got shape {given.shape}")
    return np.array([validate.positive(value, "eps") for value in given.tolist()])


def _compiled() -> Callable[..., None]:
    try:
        from attnflow.transport.compiled import balance_all
    except ImportError as error:
        raise MissingPackage.named("numba", "a stack of bridges", "fast") from error
    return balance_all
