r"""Self-transport: the Schrödinger bridge of a measure to itself, and the distance W2.

For tokens :math:`x_i` with masses :math:`w_i` the entropic plan

.. math:: \min_{\pi \in \Pi(w, w)} \tfrac12 \sum_{ij} \pi_{ij} |x_i - x_j|^2
          + \varepsilon\, \mathrm{KL}(\pi \,\|\, w \otimes w)

is :math:`\pi_{ij} = w_i a_i K_{ij} a_j w_j` with *one* scaling *a*. Both marginals being equal
makes the problem easy. The Gaussian kernel is positive semi-definite, so the damped update
:math:`a \leftarrow a\, r^{-\theta}`, :math:`r = a\, K(a w)`, has a linearisation with spectrum
in :math:`[1-2\theta, 1-\theta]`: with :math:`\theta = 2/3` errors shrink by 1/3 a sweep at
*every* temperature, where alternating normalisation slows down like :math:`1/\varepsilon`. A
spectrum that is known to lie in [-1/3, 1/3] invites Chebyshev's momentum, with which errors
shrink by :math:`3 - 2\sqrt2 = 0.17` a sweep.

For a general score matrix there are two potentials and :func:`sinkhorn` finds them in the log
domain.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from attnflow import validate
from attnflow.kernels import BLOCK_ENTRIES, DenseKernel, Kernel, squared_distances
from attnflow.nufft import ACCURACIES, FastKernel, cheaper
from attnflow.validate import Array

#: The damping that contracts fastest: |1 - theta| = |1 - 2 theta|, the radius of the spectrum.
THETA, RADIUS = 2.0 / 3.0, 1.0 / 3.0
#: The fast kernel's accuracy in units of `tol`: its noise stays below what a sweep can see.
FAST_SHARE = 0.01
#: Displacements with more noise than this, in units of sqrt(eps), are summed directly instead;
#: only tokens with next to no mass have them.
FAST_NOISE = 1e-3

#: Sweeps before Newton steps begin, and the largest matrix they factor.
NEWTON_AFTER, NEWTON_SIZE = 20, 2000


class NotConverged(RuntimeWarning):
    """An iteration stopped at its limit; the result carries its residual."""


class Bridge(NamedTuple):
    """The bridge of a weighted measure to itself."""

    x: Array  #: tokens, (n, d)
    eps: float  #: temperature
    weights: Array  #: masses, (n,)
    scaling: Array  #: a, (n,)
    n_iter: int  #: sweeps, one kernel product each
    residual: float  #: sum_i w_i |r_i - 1|, the L1 error of the marginal
    converged: bool  #: residual <= tol
    kernel: Kernel  #: the kernel the scaling was found with

    def plan(self) -> Array:
        """The coupling, shape (n, n), summing to one."""
        mass = self.weights * self.scaling
        return mass[:, None] * _dense(self).matrix * mass[None, :]

    def barycentric(self) -> Array:
        """B(x_i) = E[Y | X = x_i] under the plan, shape (n, d)."""
        mass = self.weights * self.scaling
        out = self.x + self.scaling[:, None] * self.kernel.displacement(mass)
        unsure = self.weights == 0
        if isinstance(self.kernel, FastKernel):
            unsure |= self.scaling * mass.sum() * self.kernel.accuracy > FAST_NOISE
        if unsure.any():
            out[unsure] = self.conditional_mean(self.x[unsure])
        return out

    def conditional_mean(self, points: ArrayLike) -> Array:
        """B at other points, (m, d): the potential extended by the Schrödinger equation."""
        z = validate.tokens(points, "points")
        if z.shape[1] != self.x.shape[1]:
            raise ValueError(f"points must have {self.x.shape[1]} columns, got shape {z.shape}")
        live = self.weights > 0
        log_mass = np.log(self.weights[live] * self.scaling[live])
        out = np.empty_like(z)
        step = max(1, BLOCK_ENTRIES // len(log_mass))
        for start in range(0, len(z), step):
            rows = slice(start, start + step)
            logits = log_mass - squared_distances(z[rows], self.x[live], 2.0 * self.eps)  # (b, n)
            out[rows] = softmax_rows(logits) @ self.x[live]
        return out


def softmax_rows(logits: Array) -> Array:
    """exp of the logits, every row divided by its sum; no row may be empty."""
    if not np.isfinite(logits.max(axis=1)).all():
        raise ValueError("distances must be finite; these points are too far from all tokens")
    return np.exp(logits - logsumexp(logits, axis=1, keepdims=True))


def _dense(bridge: Bridge) -> DenseKernel:
    if isinstance(bridge.kernel, DenseKernel):
        return bridge.kernel
    return DenseKernel(bridge.x, bridge.eps)


def self_bridge(
    x: ArrayLike,
    eps: float,
    weights: ArrayLike | None = None,
    *,
    tol: float = 1e-9,
    method: str = "auto",
    max_iter: int = 1000,
) -> Bridge:
    """The Schrödinger bridge of the measure sum_i w_i delta(x_i) to itself.

    `tol` bounds the L1 error of the marginal. `method` is "dense" (the kernel matrix is stored,
    8 n^2 bytes), "fast" (:mod:`attnflow.nufft`: d <= 3, linear in n) or "auto", the cheaper one.

    >>> bridge = self_bridge([[0.0], [1.0], [3.0]], eps=0.5)
    >>> bool(np.allclose(bridge.plan().sum(axis=0), 1 / 3))
    True
    >>> bridge.barycentric().ravel().round(3)
    array([0.267, 0.764, 2.969])
    """
    x = validate.tokens(x)
    eps = validate.positive(eps, "eps")
    w = validate.weights(weights, len(x))
    tol = validate.positive(tol, "tol")
    max_iter = validate.count(max_iter, "max_iter")
    validate.choice(method, "method", ("auto", "dense", "fast"))
    kernel = _kernel(x, eps, tol, method)
    log_a, n_iter, residual = _scale(kernel, w, tol, max_iter)
    if not residual <= tol:
        warnings.warn(_slow("self_bridge", n_iter, residual, tol), NotConverged, stacklevel=2)
    a = np.where(w > 0, np.exp(log_a), 0.0)
    return Bridge(x, eps, w, a, n_iter, residual, residual <= tol, kernel)


def _kernel(x: Array, eps: float, tol: float, method: str) -> Kernel:
    accuracy = float(np.clip(FAST_SHARE * tol, *ACCURACIES))
    if method == "fast" or (method == "auto" and cheaper(x, eps, accuracy)):
        return FastKernel(x, eps, accuracy)
    return DenseKernel(x, eps)


def _scale(kernel: Kernel, w: Array, tol: float, max_iter: int) -> tuple[Array, int, float]:
    """log a, the sweeps taken and the residual, by Chebyshev's semi-iteration.

    The first step is the half step, exact where the measure is locally uniform. A sweep after
    which the residual has grown is followed by one without momentum.
    """
    live = w > 0
    u = before = np.zeros(len(w))  # log a, now and a sweep ago
    omega, residual = 2.0, np.inf
    for n_iter in range(1, max_iter + 1):
        a = np.exp(u)
        product = np.maximum(kernel.apply(a * w), a * w)  # K_ii = 1, whatever the noise
        r = np.where(live, a * product, 1.0)
        last, residual = residual, float(w @ np.abs(r - 1.0))
        if residual <= tol:
            break
        step = np.log(r) * (-0.5 if n_iter == 1 else -THETA)
        if n_iter <= 2 or residual >= last:
            omega, before, u = 2.0, u, u + step
        else:
            omega = 1.0 / (1.0 - omega * RADIUS**2 / 4.0)
            before, u = u, before + omega * (u + step - before)
    return u, n_iter, residual


class Potentials(NamedTuple):
    """Two potentials: the plan is a_i exp(f_i + s_ij + g_j) b_j."""

    f: Array  #: (n,)
    g: Array  #: (m,)
    log_plan: Array  #: logarithm of the plan, (n, m)
    n_iter: int
    residual: float  #: L1 error of the row marginal; the column marginal is exact
    converged: bool


def sinkhorn(
    scores: ArrayLike,
    a: ArrayLike | None = None,
    b: ArrayLike | None = None,
    *,
    tol: float = 1e-9,
    max_iter: int = 20_000,
) -> Potentials:
    """The matrix a_i exp(f_i + s_ij + g_j) b_j with row sums a and column sums b.

    Alternating normalisation in the log domain. The temperature is lowered in factors of two
    from the range of the scores, so that large scores (small eps) start near their solution;
    where sweeps become slow, Newton steps on the dual take over.

    >>> plan = np.exp(sinkhorn([[1.0, -2.0], [0.5, 3.0]]).log_plan)
    >>> bool(np.allclose(plan.sum(axis=0), 0.5) and np.allclose(plan.sum(axis=1), 0.5))
    True
    """
    s = validate.array(scores, "scores", 2)
    if s.size == 0:
        raise ValueError(f"scores must not be empty, got shape {s.shape}")
    a, b = validate.weights(a, s.shape[0], "a"), validate.weights(b, s.shape[1], "b")
    tol = validate.positive(tol, "tol")
    max_iter = validate.count(max_iter, "max_iter")
    with np.errstate(divide="ignore"):  # equal totals, else no plan has both marginals
        log_a, log_b = np.log(a / a.sum()), np.log(b / b.sum())
    f, g = np.zeros(len(a)), np.zeros(len(b))
    residual, n_iter = np.inf, 0
    for temperature, level_tol, level_iter in _levels(s, tol, max_iter):
        kernel = s / temperature + log_a[:, None] + log_b  # log of the plan before scaling
        f, g, residual, used = _balance(
            kernel, log_a, log_b, f / temperature, g / temperature, level_tol, level_iter
        )
        f, g, n_iter = f * temperature, g * temperature, n_iter + used
    if not residual <= tol:
        warnings.warn(_slow("sinkhorn", n_iter, residual, tol), NotConverged, stacklevel=2)
    log_plan = f[:, None] + s + log_a[:, None] + (g + log_b)
    return Potentials(f, g, log_plan, n_iter, residual, residual <= tol)


def _balance(
    kernel: Array, log_a: Array, log_b: Array, f: Array, g: Array, tol: float, max_iter: int
) -> tuple[Array, Array, float, int]:
    """Potentials of one temperature: sweeps, and from NEWTON_AFTER on a Newton step before each.

    A Newton step that lowers neither the convex dual nor the residual is taken back and damped
    more, so that in the worst case what is left is plain alternating normalisation.
    """
    live = np.isfinite(log_a)
    damping, tried, sweep, best, lowest = 1e-3, False, f, np.inf, np.inf
    mass, demand = np.exp(log_a), np.exp(log_b)
    for n_iter in range(1, max_iter + 1):
        g = _normaliser(kernel.T, f, log_b)
        row = _normaliser(kernel, g, log_a)
        residual = float(mass[live] @ np.abs(np.expm1(np.minimum(f - row, 700.0)[live])))
        if residual <= tol:
            break
        dual = -float(demand @ g + mass @ f)
        if tried and residual > 1.001 * best and dual >= lowest:
            damping, f, tried = min(10.0 * damping, 1e9), sweep, False
            continue
        damping = max(damping / 4.0, 1e-15) if tried else damping
        best, lowest, f, sweep = residual, dual, row, row
        tried = n_iter >= NEWTON_AFTER and max(kernel.shape) <= NEWTON_SIZE
        if tried:
            f = f + _newton(kernel, log_a, log_b, f, damping)
    return f, g, residual, n_iter


def _normaliser(kernel: Array, g: Array, log_mass: Array) -> Array:
    """f with exp(f_i) sum_j exp(kernel_ij + g_j) = mass_i; 0 where there is no mass."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(log_mass), log_mass - logsumexp(kernel + g, axis=1), 0.0)


def _newton(kernel: Array, log_a: Array, log_b: Array, f: Array, damping: float) -> Array:
    """Newton's step in f for the row marginal, the columns having been eliminated.

    The matrix is the Laplacian of the graph in which rows i, k are joined by
    sum_j P_ij P_kj / b_j; its diagonal is summed from the other entries, so no digits cancel.
    """
    plan = np.exp(f[:, None] + kernel + _normaliser(kernel.T, f, log_b))  # columns exact
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = np.where(np.isfinite(log_b), plan / np.sqrt(np.exp(log_b)), 0.0)
    joint = scaled @ scaled.T  # (n, n)
    np.fill_diagonal(joint, 0.0)
    mass = np.exp(log_a)
    damped = np.diag(joint.sum(axis=1) + damping * mass + np.finfo(float).tiny) - joint
    step = np.linalg.solve(damped, mass - plan.sum(axis=1))
    return step - step[0]  # potentials are defined up to a constant


def _levels(s: Array, tol: float, max_iter: int) -> list[tuple[float, float, int]]:
    """Temperatures from the spread of the scores down to one, loosely solved but the last."""
    spread = float(s.max() - s.min()) / 8.0
    levels = max(0, int(np.ceil(np.log2(spread)))) if spread > 1 else 0
    coarse = [(2.0**k, 1e-3, 200) for k in range(levels, 0, -1)]
    return [*coarse, (1.0, tol, max_iter)]


def _slow(who: str, n_iter: int, residual: float, tol: float) -> str:
    return f"{who} stopped after {n_iter} sweeps with residual {residual:.1e} > tol {tol:.1e}"


def w2(x: ArrayLike, y: ArrayLike, a: ArrayLike | None = None, b: ArrayLike | None = None) -> float:
    """The 2-Wasserstein distance between two weighted point sets, exactly.

    In one dimension the monotone coupling is optimal; elsewhere POT's network simplex.

    >>> w2([[0.0], [1.0]], [[3.0], [2.0]])
    2.0
    """
    x_, y_ = validate.tokens(x), validate.tokens(y, "y")
    if x_.shape[1] != y_.shape[1]:
        raise ValueError(f"x and y must share a dimension, got {x_.shape[1]} and {y_.shape[1]}")
    a_, b_ = validate.weights(a, len(x_), "a"), validate.weights(b, len(y_), "b")
    a_, b_ = a_ / a_.sum(), b_ / b_.sum()
    size, (x_, y_) = _unit(x_, y_)
    if size == 0 or x_.shape[1] == 1:
        return size * _w2_line(x_[:, 0], y_[:, 0], a_, b_)
    import ot  # slow to import, and needed only here

    cost = cdist(x_, y_, "sqeuclidean")
    value, log = ot.emd2(a_, b_, cost, numItermax=10_000_000, log=True)
    if log["warning"]:
        raise ArithmeticError(f"POT's network simplex failed: {log['warning']}")
    return size * float(np.sqrt(max(float(value), 0.0)))


def _unit(x: Array, y: Array) -> tuple[float, tuple[Array, Array]]:
    """Both point sets moved and scaled into a box of size one, and the scale.

    Squares then neither overflow nor fall below the absolute tolerances of POT's simplex.
    """
    size = 1.0
    for about_first in (False, True):
        shift = x[0] if about_first else np.zeros(x.shape[1])
        reach = float(max(np.abs(x - shift).max(), np.abs(y - shift).max()))
        if reach == 0:
            return 0.0, (x, y)
        x, y, size = (x - shift) / reach, (y - shift) / reach, size * reach
    return size, (x, y)


def _w2_line(x: Array, y: Array, a: Array, b: Array) -> float:
    """Integrate |F^{-1} - G^{-1}|^2 over the union of both sets of quantile levels."""
    i, j = np.argsort(x), np.argsort(y)
    left, right = np.cumsum(a[i]), np.cumsum(b[j])
    left, right = left / left[-1], right / right[-1]
    levels = np.union1d(left, right)  # right ends of the pieces
    size = np.diff(levels, prepend=0.0)
    middle = levels - size / 2
    gap = x[i][np.searchsorted(left, middle)] - y[j][np.searchsorted(right, middle)]
    return float(np.sqrt(size @ gap**2))
