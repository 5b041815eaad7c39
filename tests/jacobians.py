"""Layers with all that a head can have, and their Jacobians entry by entry."""

import numpy as np

from attnflow.lipschitz import Head


def layer(seed, *, n=None, causal=None, size=0.7):
    """Heads with all that a head can have, of different sizes, and tokens."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 8)) if n is None else n
    causal = bool(rng.integers(2)) if causal is None else causal
    d, D, count = (int(rng.integers(1, top)) for top in (6, 6, 4))
    heads = []
    for _ in range(count):
        half, p = (int(rng.integers(1, top)) for top in (3, 5))
        Q, K = rng.normal(size=(2, 2 * half, d)) * size
        V, W = rng.normal(size=(p, d)), rng.normal(size=(D, p))
        bq, bk = rng.normal(size=(2, 2 * half))
        angles = rng.uniform(-4, 4, size=(n + 2, half)) if rng.integers(3) else None
        has = rng.integers(2, size=2)
        heads.append(
            Head(Q, K, V, W, causal, bq if has[0] else None, bk if has[1] else None, angles)
        )
    return heads, rng.normal(size=(n, d))


def rotation(angles):
    """The matrix that multiplies y_c + i y_(c + k/2) by exp(i angles_c)."""
    half = len(angles)
    basis = np.eye(2 * half)
    turned = np.exp(1j * angles)[:, None] * (basis[:half] + 1j * basis[half:])
    return np.vstack([turned.real, turned.imag])


def softmax(scores, seen):
    """exp of the scores over the sums of their rows."""
    top = np.where(seen, scores.real, -np.inf).max(axis=-1, keepdims=True)
    mass = seen * np.exp(np.where(seen, scores - top, 0))
    return mass / mass.sum(axis=-1, keepdims=True)


def sigmoid(scores, seen):
    """1 / (1 + n exp(-score)), or exp(score) / (exp(score) + n) where that is below."""
    n, small = scores.shape[-1], np.exp(np.where(scores.real > 0, -scores, scores))
    return seen * np.where(scores.real > 0, 1 / (1 + n * small), small / (small + n))


def forward(heads, x, weights=softmax):
    """The layer, for real or complex tokens of shape (..., n, d)."""
    n, total = x.shape[-2], 0.0
    for head in heads:
        q = x @ head.Q.T + (0 if head.bq is None else head.bq)
        k = x @ head.K.T + (0 if head.bk is None else head.bk)
        if head.angles is not None:
            turns = np.array([rotation(head.angles[i]) for i in range(n)])
            q, k = (np.einsum("iab,...ib->...ia", turns, y) for y in (q, k))
        scores = np.einsum("...ia,...ja->...ij", q, k)
        seen = np.tri(n) if head.causal else np.ones((n, n))
        out = weights(scores, seen) @ (x @ head.V.T)
        total = total + (out if head.W is None else out @ head.W.T)
    return total


def dense(heads, x, weights=softmax):
    """The Jacobian (nD, nd) by complex steps, which round and do nothing else."""
    n, d = x.shape
    steps = x + 1e-30j * np.eye(n * d).reshape(-1, n, d)
    return (forward(heads, steps, weights).imag / 1e-30).reshape(n * d, -1).T


def change(heads, x, seed=0):
    """A change of the tokens and one of the answer."""
    rng = np.random.default_rng(seed)
    D = len(heads[0].V) if heads[0].W is None else len(heads[0].W)
    return rng.normal(size=x.shape), rng.normal(size=(len(x), D))
