"""Many small bridges in one compiled loop: see :mod:`attnflow.transport.batch`.

This module needs numba, which compiles it at the first call and keeps the result on disk.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from attnflow.validate import Array

#: What the compiler may do to sums; infinities and NaN stay what they are.
_FAST = {"reassoc", "contract", "arcp", "nsz"}


@njit(cache=True, nogil=True, fastmath=_FAST)
def _kernel(x: Array, eps: float, out: Array) -> None:
    n, d = x.shape
    for i in range(n):
        out[i, i] = 1.0
        for j in range(i):
            square = 0.0
            for k in range(d):
                square += (x[i, k] - x[j, k]) ** 2
            out[i, j] = out[j, i] = np.exp(-square / (2.0 * eps))


@njit(cache=True, nogil=True, fastmath=_FAST)
def _product(kernel: Array, v: Array, out: Array) -> None:
    for i in range(len(v)):
        total = 0.0
        for j in range(len(v)):
            total += kernel[i, j] * v[j]
        out[i] = total


@njit(cache=True, nogil=True, fastmath=_FAST)
def _displacement(kernel: Array, x: Array, a: Array, w: Array, out: Array) -> None:
    """x_i + a_i sum_j K_ij a_j w_j (x_j - x_i)."""
    n, d = x.shape
    for i in range(n):
        for k in range(d):
            moved = 0.0
            for j in range(n):
                moved += kernel[i, j] * a[j] * w[j] * (x[j, k] - x[i, k])
            out[i, k] = x[i, k] + a[i] * moved


@njit(cache=True, nogil=True)
def balance_all(
    x: Array, w: Array, eps: Array, tol: float, most: int, theta: float, radius: float,
    scaling: Array, moved: Array, sweeps: Array, residuals: Array,
) -> None:  # fmt: skip
    """Every problem by Chebyshev's semi-iteration, as one bridge is balanced."""
    problems, n, _ = x.shape
    kernel, a, mass, product = np.empty((n, n)), np.empty(n), np.empty(n), np.empty(n)
    u, before = np.empty(n), np.empty(n)
    for p in range(problems):
        _kernel(x[p], eps[p], kernel)
        u[:] = 0.0
        before[:] = 0.0
        omega, residual, done = 2.0, np.inf, 0
        while done < most:
            done += 1
            for i in range(n):
                a[i] = np.exp(u[i])
                mass[i] = a[i] * w[p, i]
            _product(kernel, mass, product)
            last, residual = residual, 0.0
            for i in range(n):
                residual += w[p, i] * abs(a[i] * product[i] - 1.0)
            if residual <= tol:
                break
            plain = done <= 2 or residual >= last
            share = -0.5 if done == 1 else -theta
            omega = 2.0 if plain else 1.0 / (1.0 - omega * radius**2 / 4.0)
            for i in range(n):
                step = share * np.log(a[i] * product[i]) if w[p, i] > 0.0 else 0.0
                new = u[i] + step
                if not plain:
                    new = before[i] + omega * (new - before[i])
                before[i], u[i] = u[i], new
        for i in range(n):
            a[i] = np.exp(u[i]) if w[p, i] > 0.0 else 0.0
            scaling[p, i] = a[i]  # one by one: whole rows take the compiler a second more
        _displacement(kernel, x[p], a, w[p], moved[p])
        sweeps[p], residuals[p] = done, residual
