"""Gaussian tokens for tests: covariances, layers, and the formulas written out one by one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import inv, sqrtm

from attnflow.attention import L2Attention, SinkhornAttention, SoftmaxAttention
from attnflow.gaussian import l2_variance, sinkhorn_variance, softmax_variance

ONE = np.eye(1)
S0 = np.array([[1.0, 0.3], [0.3, 0.5]])
KINDS = ("softmax", "L2", "sinkhorn")
ALL_KINDS = pytest.mark.parametrize("kind", KINDS)
GLOBAL_KINDS = pytest.mark.parametrize("kind", ["L2", "sinkhorn"])


def layer(kind, Q, K, V, eps=1.0):
    if kind == "sinkhorn":
        return SinkhornAttention(Q, K, V, eps=eps, tol=1e-12)
    return {"softmax": SoftmaxAttention, "L2": L2Attention}[kind](Q, K, V)


def spd(d, seed=0, low=0.3, high=1.2):
    """A covariance with drawn axes and eigenvalues in [low, high]."""
    rng = np.random.default_rng([seed, d])
    axes = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return (axes * rng.uniform(low, high, d)) @ axes.T


def matrices(d, seed=0, rows=None, size=0.6):
    """Q, K (rows, d) and V (d, d) with spectral norm `size`, so that short flows stay moderate."""
    rng = np.random.default_rng([seed, d, 7])
    out = [rng.normal(size=shape) for shape in ((rows or d, d), (rows or d, d), (d, d))]
    return [m * (size / np.linalg.norm(m, 2)) for m in out]


# the formulas, with inverses and roots taken one by one


def plain_affine(kind, A, K, V, S, mean, kappa=1.0):
    """B and c of Gamma(x) = B (x - mean) + c, for A that has an inverse."""
    d = len(S)
    if kind == "softmax":
        return V @ S @ A, V @ (np.eye(d) + S @ A) @ mean
    if kind == "L2":
        T = inv(inv(S) + 2 * K.T @ K)
        return 2 * V @ T @ A, V @ T @ (inv(S) + 2 * A) @ mean
    root = sqrtm(S).real
    middle = sqrtm(4 * kappa**2 * root @ A @ S @ A.T @ root + np.eye(d)).real
    C = (root @ middle @ inv(root) - np.eye(d)) / (2 * kappa)
    return V @ C @ inv(A).T @ inv(S), V @ mean


def plain_singular(A, V, S, kappa=1.0):
    """B of Sinkhorn attention for any A; the kernel depends on kappa A only."""
    root, A = sqrtm(S).real, kappa * A
    M = root @ A @ S @ A.T @ root
    inner = inv(np.eye(len(S)) + sqrtm(np.eye(len(S)) + 4 * M).real)
    return 2 * V @ root @ inner @ root @ A


def plain_flow(velocity, cov, mean, times):
    """S' = BS + SB^T and the mean's c, integrated in S itself; velocity(t, S, mean) gives B, c."""
    d = len(cov)

    def right(t, y):
        S, m = y[: d * d].reshape(d, d), y[d * d :]
        B, c = velocity(t, S, m)
        return np.concatenate([(B @ S + S @ B.T).ravel(), c])

    start = np.concatenate([cov.ravel(), mean])
    found = solve_ivp(
        right, (times[0], times[-1]), start, t_eval=times, method="DOP853", rtol=1e-12, atol=1e-14
    )
    return found.y.T[:, : d * d].reshape(-1, d, d), found.y.T[:, d * d :]


def relative(got, want):
    return np.abs(got - want).max() / np.abs(want).max()


def exact_variance(kind, t, var0, A, V, *, K=1.0, eps=1.0):
    if kind == "softmax":
        return softmax_variance(t, var0, A, V)
    if kind == "L2":
        return l2_variance(t, var0, A, V, K=K)
    return sinkhorn_variance(t, var0, A, V, eps=eps)
