r"""The Schrödinger bridge between two measures, in linear time where that is possible.

For tokens :math:`x_i` with masses :math:`a_i` and :math:`y_j` with masses :math:`b_j` the plan

.. math:: \pi_{ij} = a_i\, e^{f_i - |x_i - y_j|^2/2\varepsilon + g_j}\, b_j

is the entropic plan of the cost :math:`|x-y|^2/2` (:cite:t:`peyre2019`). Up to potentials the score is
:math:`\langle x_i, y_j\rangle/\varepsilon`, so :mod:`attnflow.transport.aligned` solves it without a matrix; where it
cannot, :func:`attnflow.transport.sinkhorn` does with one.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from attnflow import validate
from attnflow.errors import NotConverged
from attnflow.kernels.dense import BLOCK_ENTRIES, squared_distances
from attnflow.kernels.fast import DENSE_BYTES, MAX_DIMENSION, MAX_MODES
from attnflow.kernels.transforms import available, modes_needed
from attnflow.softmax import softmax_rows
from attnflow.transport.aligned import aligned, balanced_products
from attnflow.transport.balance import balanced
from attnflow.validate import Array

#: Nanoseconds on one core: an entry of a matrix over a balancing; a token and a mode of a box.
ENTRY, TOKEN, MODE = 60.0, 4e4, 1e4
#: What the fast method's tokens and modes cost before the first of them.
START = 3e7


class PairBridge(NamedTuple):
    r"""The bridge between two weighted measures.

    >>> found = pair_bridge([[0.0], [1.0]], [[2.0], [3.0]], eps=0.5)
    >>> found.converged, found.plan().sum(axis=1).round(6)
    (True, array([0.5, 0.5]))
    """

    x: Array  #: (n, d)
    y: Array  #: (m, d)
    eps: float  #: temperature
    a: Array  #: masses of x, (n,)
    b: Array  #: masses of y, (m,)
    f: Array  #: (n,)
    g: Array  #: (m,)
    iterations: int  #: products with the plan and its transpose
    residual: float  #: a bound of the L1 error of the row marginal; fast: with the kernel's error
    converged: bool  #: residual <= tol
    method: str  #: "dense" or "fast"

    def plan(self) -> Array:
        """The coupling, (n, m)."""
        with np.errstate(divide="ignore"):
            rows, columns = self.f + np.log(self.a), self.g + np.log(self.b)
        return np.exp(rows[:, None] - squared_distances(self.x, self.y, 2 * self.eps) + columns)

    def conditional_mean(self, points: ArrayLike) -> Array:
        """E[Y | X = x] at any points (k, d), by direct sums: k m terms."""
        z = validate.tokens(points, "points")
        if z.shape[1] != self.x.shape[1]:
            raise ValueError(f"points must have {self.x.shape[1]} columns, got shape {z.shape}")
        live = self.b > 0
        y, log_mass = self.y[live], (self.g + np.log(np.where(live, self.b, 1.0)))[live]
        step = max(1, BLOCK_ENTRIES // len(y))
        parts = [
            softmax_rows(log_mass - squared_distances(z[k : k + step], y, 2 * self.eps)) @ y
            for k in range(0, len(z), step)
        ]
        return np.concatenate(parts)


def pair_bridge(
    x: ArrayLike,
    y: ArrayLike,
    eps: float,
    a: ArrayLike | None = None,
    b: ArrayLike | None = None,
    *,
    tol: float = 1e-9,
    method: str = "auto",
    max_iter: int = 2000,
) -> PairBridge:
    r"""The plan of least relative entropy between :math:`\sum_i a_i\delta_{x_i}` and :math:`\sum_j b_j\delta_{y_j}`.

    The cost is :math:`|x-y|^2/2` at temperature `eps` (:cite:t:`cuturi2013`); `tol` bounds the L1 error of
    a marginal. `method` is "dense" (an n x m matrix), "fast" (d <= 3, memory linear in n + m) or
    "auto": the cheaper one that can reach `tol`. The fast method's absolute accuracy is lost where the potentials range
    over more than some e^30; it then says so, and "auto" is dense.

    >>> found = pair_bridge([[0.0], [1.0], [3.0]], [[1.0], [2.0]], eps=0.5)
    >>> bool(np.allclose(found.plan().sum(axis=0), 1 / 2))
    True
    """
    x, y = validate.tokens(x), validate.tokens(y, "y")
    if x.shape[1] != y.shape[1]:
        raise ValueError(f"x and y must have one dimension, got {x.shape[1]} and {y.shape[1]}")
    eps, tol = validate.positive(eps, "eps"), validate.positive(tol, "tol")
    masses = validate.weights(a, len(x), "a"), validate.weights(b, len(y), "b")
    p, q = (mass / mass.sum() for mass in masses)
    max_iter = validate.count(max_iter, "max_iter")
    validate.choice(method, "method", ("auto", "dense", "fast"))
    if method == "fast" or (method == "auto" and _cheaper(x, y, eps)):
        found = _fast(x, y, eps, p, q, tol, max_iter)
        if found is not None:
            return _told(found, tol)
        if method == "fast":
            raise ValueError(_TOO_WIDE)
    if 8 * len(x) * len(y) > DENSE_BYTES:
        raise ValueError(f"{_TOO_WIDE}; got {len(x)} and {len(y)} tokens, too many for a matrix")
    dense = balanced(-squared_distances(x, y, 2 * eps), p, q, tol, 10 * max_iter)
    return _told(PairBridge(
        x, y, eps, p, q, dense.f, dense.g, dense.iterations, dense.residual, dense.converged, "dense"
    ), tol)  # fmt: skip


def _told(found: PairBridge, tol: float) -> PairBridge:
    """The same; warns the caller of pair_bridge where it has not converged."""
    if not found.converged:
        advice = "increase max_iter, or tol"
        said = NotConverged.after("pair_bridge", found.iterations, found.residual, tol, advice)
        warnings.warn(said, stacklevel=3)
    return found


_TOO_WIDE = (
    "the fast bridge of two measures needs d <= 3 and measures of similar shape: these potentials "
    "range too widely for its accuracy; use fewer tokens, or a larger eps"
)


def _fast(
    x: Array, y: Array, eps: float, a: Array, b: Array, tol: float, max_iter: int
) -> PairBridge | None:
    if x.shape[1] > MAX_DIMENSION:
        return None
    rows, columns = a > 0, b > 0
    live_x, live_y, live_a, live_b = x[rows], y[columns], a[rows], b[columns]
    found = balanced_products(
        aligned(live_x, live_y, live_a, live_b), eps, live_a, live_b, tol, max_iter
    )
    if found is None:
        return None
    f, g = np.zeros(len(a)), np.zeros(len(b))
    f[rows] = found.f + (live_x**2).sum(axis=1) / (2 * eps)
    g[columns] = found.g + (live_y**2).sum(axis=1) / (2 * eps)
    return PairBridge(
        x, y, eps, a, b, f, g, found.iterations, found.residual, found.residual <= tol, "fast"
    )


def _cheaper(x: Array, y: Array, eps: float) -> bool:
    """Whether products by transforms are possible, and take less time than with a matrix."""
    if x.shape[1] > MAX_DIMENSION or not available():
        return False
    both = np.concatenate([x - x.mean(axis=0), y - y.mean(axis=0)])
    modes = modes_needed(both, eps)
    fast = START + TOKEN * len(both) + MODE * modes
    return modes <= MAX_MODES and (
        fast < ENTRY * len(x) * len(y) or 8 * len(x) * len(y) > DENSE_BYTES
    )
