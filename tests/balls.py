"""Score matrices, tokens in a ball, and the Jacobian of one head entry by entry."""

import numpy as np
from hypothesis import strategies as st

SEEDS = st.integers(0, 2**32 - 1)
I1, I2, I3 = (np.eye(d) for d in (1, 2, 3))
#: Symmetric part diag(2, 1, -3), and a part that is not symmetric.
SKEW = np.array([[2.0, 1.0, -0.5], [-1.0, 1.0, 0.7], [0.5, -0.7, -3.0]])
WIDE = np.array([[1.0, 2.0, 0.0], [0.0, -1.0, 3.0]])


def forward(A, V, x, causal=False, counts=None):
    """Rows of exp <A x_i, x_j> over their sums, for real or complex x; a token may count often."""
    scores = np.einsum("...ia,...ja->...ij", x @ A.T, x)
    seen = np.tri(x.shape[-2]) if causal else np.ones((x.shape[-2],) * 2)
    top = np.where(seen, scores.real, -np.inf).max(axis=-1, keepdims=True)
    mass = np.exp(np.where(seen, scores - top, 0)) * seen * (1 if counts is None else counts)
    return (mass / mass.sum(axis=-1, keepdims=True)) @ (x @ V.T)


def dense(A, V, x, causal=False):
    """The Jacobian by complex steps, shape (n, p, n, d)."""
    n, d = x.shape
    steps = x + 1e-30j * np.eye(n * d).reshape(-1, n, d)
    return np.moveaxis((forward(A, V, steps, causal).imag / 1e-30).reshape(n, d, n, -1), (0, 1), (2, 3))  # fmt: skip


def norm(A, V, x, causal=False):
    J = dense(A, V, x, causal)
    return np.linalg.norm(J.reshape(J.shape[0] * J.shape[1], -1), 2)


def problem(seed, least=1):
    """Matrices, a radius, and a number of tokens."""
    rng = np.random.default_rng(seed)
    d, p = int(rng.integers(least, 5)), int(rng.integers(1, 5))
    A = rng.normal(size=(d, d)) * rng.choice([0.1, 1.0, 3.0])
    if rng.integers(3) == 0:
        A = A @ A.T * rng.choice([-1, 1])
    return A, rng.normal(size=(p, d)), float(rng.choice([0.3, 1.0, 2.0])), int(rng.integers(3, 9))


def in_ball(n, d, R, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    inside = np.where(rng.integers(2, size=(n, 1)), 1.0, rng.uniform(size=(n, 1)))
    return R * inside * x / np.linalg.norm(x, axis=1, keepdims=True)
