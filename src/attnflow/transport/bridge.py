r"""Self-transport: the Schrödinger bridge of a measure to itself.

For tokens :math:`x_i` with masses :math:`w_i` the entropic plan

.. math:: \min_{\pi \in \Pi(w, w)} \tfrac12 \sum_{ij} \pi_{ij} |x_i - x_j|^2
          + \varepsilon\, \mathrm{KL}(\pi \,\|\, w \otimes w)

is :math:`\pi_{ij} = w_i a_i K_{ij} a_j w_j` with *one* scaling *a*, since both marginals are equal
(symmetric scaling: :cite:t:`knight2014`). The Gaussian kernel is positive semi-definite, so the damped update
:math:`a \leftarrow a\, r^{-\theta}`, :math:`r = a\, K(a w)`, has a linearisation with spectrum
in :math:`[1-2\theta, 1-\theta]`: with :math:`\theta = 2/3` errors shrink by 1/3 a sweep at
*every* temperature, where alternating normalisation slows down like :math:`1/\varepsilon`. A
spectrum that is known to lie in [-1/3, 1/3] invites Chebyshev's momentum, with which errors
shrink by :math:`3 - 2\sqrt2 = 0.17` a sweep.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from attnflow import validate
from attnflow.errors import NotConverged
from attnflow.kernels.blocked import BlockedKernel
from attnflow.kernels.dense import BLOCK_ENTRIES, DenseKernel, Kernel, squared_distances
from attnflow.kernels.fast import ACCURACIES, DENSE_BYTES, FastKernel, cheaper
from attnflow.softmax import softmax_rows
from attnflow.validate import Array

#: The damping that contracts fastest: |1 - theta| = |1 - 2 theta|, the radius of the spectrum.
THETA, RADIUS = 2.0 / 3.0, 1.0 / 3.0
#: The fast kernel's accuracy in units of `tol`: its noise stays below what a sweep can see.
FAST_SHARE = 0.01
#: Displacements with more noise than this, in units of sqrt(eps), are summed directly instead;
#: only tokens with next to no mass have them.
FAST_NOISE = 1e-3
#: So many tokens are worth a rough kernel of this accuracy for the first sweeps; it is left once a
#: residual falls to no less than this share.
MANY, ROUGH, STALLED = 20_000, 1e-5, 0.5
#: A scaling that is given is begun with if it leaves no more of the mass than this misplaced.
NEAR = 0.1
#: Rough steps to one accurate residual, which must fall to this share, or else all are accurate.
CORRECTIONS, CORRECTED = 6, 0.1
#: What a step of a correction leaves of an error, and the share of `tol` that is aimed at.
SHRINK, SPARE = 3 - 2 * np.sqrt(2), 0.1


class Bridge(NamedTuple):
    r"""The bridge of a weighted measure to itself, :math:`\pi_{ij} = w_i a_i K_{ij} a_j w_j`.

    >>> bridge = self_bridge([[0.0], [1.0]], eps=0.5)
    >>> bridge.converged, bridge.conditional_mean([[0.5]]).round(6)
    (True, array([[0.5]]))
    """

    x: Array  #: tokens, (n, d)
    eps: float  #: temperature
    weights: Array  #: masses, (n,)
    scaling: Array  #: a, (n,)
    iterations: int  #: sweeps, one kernel product each
    residual: float  #: the sum of ``w_i |r_i - 1|``, the L1 error of the marginal
    converged: bool  #: residual <= tol
    kernel: Kernel  #: the kernel the scaling was found with

    @property
    def n_iter(self) -> int:
        """`iterations`, as POT calls them."""
        return self.iterations

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
    start: ArrayLike | None = None,
) -> Bridge:
    r"""The Schrödinger bridge of the measure :math:`\sum_i w_i \delta_{x_i}` to itself.

    The plan of least relative entropy whose two marginals are this measure (:cite:t:`agarwal2024`),
    by symmetric scaling (:cite:t:`knight2014`).

    `tol` bounds the L1 error of the marginal. `method` is "dense" (the kernel matrix is stored,
    8 n^2 bytes), "fast" (:mod:`attnflow.kernels.fast`: d <= 3, linear in n) or "auto": the cheaper
    one, or the dense one in blocks where its matrix would be too large. `start` is a scaling to begin
    with, such as that of tokens near by; one that is no help costs a sweep and is left.

    >>> bridge = self_bridge([[0.0], [1.0], [3.0]], eps=0.5)
    >>> bool(np.allclose(bridge.plan().sum(axis=0), 1 / 3))
    True
    >>> bridge.barycentric().ravel().round(3)
    array([0.267, 0.764, 2.969])
    >>> bridge.iterations, self_bridge([[0.0], [1.0], [3.0]], 0.5, start=bridge.scaling).iterations
    (11, 2)
    """
    x = validate.tokens(x)
    eps = validate.positive(eps, "eps")
    w = validate.weights(weights, len(x))
    tol = validate.positive(tol, "tol")
    max_iter = validate.count(max_iter, "max_iter")
    validate.choice(method, "method", ("auto", "dense", "fast"))
    kernel = _kernel(x, eps, tol, method)
    begin = None if start is None or max_iter < 3 else _logarithm(start, w)
    log_a, iterations, residual = _scaled(kernel, w, tol, max_iter, begin)
    if not residual <= tol:
        advice = "increase max_iter, or tol"
        warnings.warn(
            NotConverged.after("self_bridge", iterations, residual, tol, advice), stacklevel=2
        )
    a = np.where(w > 0, np.exp(log_a), 0.0)
    return Bridge(x, eps, w, a, iterations, residual, residual <= tol, kernel)


def _kernel(x: Array, eps: float, tol: float, method: str) -> Kernel:
    accuracy = float(np.clip(FAST_SHARE * tol, *ACCURACIES))
    if method == "fast" or (method == "auto" and cheaper(x, eps, accuracy)):
        return FastKernel(x, eps, accuracy)
    if method == "auto" and 8 * len(x) ** 2 > DENSE_BYTES:
        return BlockedKernel(x, eps)
    return DenseKernel(x, eps)


def _logarithm(start: ArrayLike, w: Array) -> Array:
    """Of a scaling that is given; zero where there is no mass, as it means nothing there."""
    a = validate.array(start, "start", 1)
    if a.shape != w.shape or not (a[w > 0] > 0).all():
        raise ValueError(f"start must hold {len(w)} numbers, positive where the weights are")
    return np.log(np.where(w > 0, a, 1.0))


def _scaled(
    kernel: Kernel, w: Array, tol: float, max_iter: int, begin: Array | None
) -> tuple[Array, int, float]:
    """log a, the sweeps taken and the residual.

    A fast kernel is asked in its own order. Where tokens are many, a rough one, in single
    precision, takes the first sweeps, and solves for what residuals of the accurate one correct.
    """
    if not isinstance(kernel, FastKernel):
        u, done = _first(kernel.apply, w, begin)
        u, more, residual = _scale(kernel.apply, w, u, tol, max_iter - done)
        return u, done + more, residual
    order, residual = kernel.order, np.inf
    w, begin = w[order], None if begin is None else begin[order]
    many = len(w) >= MANY and kernel.accuracy < ROUGH and max_iter > 1
    rough = kernel.rough(ROUGH) if many else kernel.apply_sorted
    u, done = _first(rough, w, begin)
    if many:
        if u is None:
            u, more, _ = _scale(rough, w, u, max(tol, ROUGH), max_iter - done - 1, rough=True)
            done += more
        while done < max_iter:
            a, r = _defect(kernel.apply_sorted, w, u)
            last, residual, done = residual, float(w @ np.abs(r - 1.0)), done + 1
            if residual <= tol or residual > CORRECTED * last or done >= max_iter:
                break
            steps = min(_steps(residual, tol), max_iter - done - 1)  # a residual is the last
            u, done = u + _correction(rough, w, a, r, steps), done + steps
    if not residual <= tol and done < max_iter:
        u, more, residual = _scale(kernel.apply_sorted, w, u, tol, max_iter - done)
        done += more
    assert u is not None
    out = np.empty_like(u)
    out[order] = u
    return out, done, residual


def _first(
    apply: Callable[[Array], Array], w: Array, begin: Array | None
) -> tuple[Array | None, int]:
    """What to begin with, if anything, and the sweeps that it took to see."""
    if begin is None:
        return None, 0
    missing = float(w @ np.abs(_defect(apply, w, begin)[1] - 1.0))
    return (begin if missing <= NEAR else None), 1


def _defect(apply: Callable[[Array], Array], w: Array, u: Array) -> tuple[Array, Array]:
    """a, and r = a K(a w), which should be one."""
    a = np.exp(u)
    mass = a * w
    product = np.maximum(apply(mass), mass)  # K_ii = 1, whatever the noise
    return a, np.where(w > 0, a * product, 1.0)


def _steps(residual: float, tol: float) -> int:
    """How many steps of a correction lead from one to the other, with a digit to spare; CORRECTIONS at most."""
    return int(np.clip(np.ceil(np.log(SPARE * tol / residual) / np.log(SHRINK)), 1, CORRECTIONS))


def _correction(apply: Callable[[Array], Array], w: Array, a: Array, r: Array, steps: int) -> Array:
    """Newton's step for log a: (1 + M) x = -log r, where M = a K(a w .) / r has its spectrum in [0, 1].

    By Chebyshev's iteration: errors shrink by 0.17 a step, whatever the kernel's noise.
    """
    wanted, mass, scale = -np.log(r), a * w, np.where(w > 0, a / r, 0.0)
    middle, radius = 1.5, 0.5
    share = radius / middle
    x = step = wanted / middle
    for _ in range(steps):
        rest = wanted - x - scale * apply(mass * x)
        share, before = 1 / (2 * middle / radius - share), share
        step = share * before * step + 2 * share / radius * rest
        x = x + step
    return x


def _scale(
    apply: Callable[[Array], Array],
    w: Array,
    begin: Array | None,
    tol: float,
    max_iter: int,
    *,
    rough: bool = False,
) -> tuple[Array, int, float]:
    """log a, the sweeps taken and the residual, by Chebyshev's semi-iteration.

    With nothing to begin with the first step is the half step, exact where the measure is locally uniform. A sweep after
    which the residual has grown is followed by one without momentum. `Rough` products are left
    once the residual hardly falls: it is their noise.
    """
    u = np.zeros(len(w)) if begin is None else begin
    before = u  # log a, a sweep ago
    omega, residual = 2.0, np.inf
    for done in range(1, max_iter + 1):
        _, r = _defect(apply, w, u)
        last, residual = residual, float(w @ np.abs(r - 1.0))
        if residual <= tol:
            break
        if rough and residual > STALLED * last:
            break
        step = np.log(r) * (-0.5 if begin is None and done == 1 else -THETA)
        if done <= 2 or residual >= last:
            omega, before, u = 2.0, u, u + step
        else:
            omega = 1.0 / (1.0 - omega * RADIUS**2 / 4.0)
            before, u = u, before + omega * (u + step - before)
    return u, done, residual
