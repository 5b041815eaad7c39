"""Layers of every kind with a fast path, and the definition."""

import numpy as np
import pytest

from attnflow.attention import (
    L2Attention,
    SinkhornAttention,
    SoftmaxAttention,
)
from attnflow.attention import fast as fast_module

KINDS = ("softmax", "L2", "sinkhorn")


ALL_KINDS = pytest.mark.parametrize("kind", KINDS)


class FastLayer:
    """A layer whose method is "fast"; `direct` counts the rows that were summed directly."""

    def __init__(self, attention, tol=1e-8):
        self.layer = attention.using("fast", tol)
        self.direct = 0

    def velocity(self, x, weights=None):
        with pytest.MonkeyPatch.context() as patch:
            for name in ("averages", "balanced", "balanced_pair"):
                patch.setattr(fast_module, name, self.counted(getattr(fast_module, name)))
            return self.layer.velocity(x, weights)

    def counted(self, function):
        def called(*args):
            found = function(*args)
            self.direct = 0 if found is None else found.direct
            return found

        return called


def cloud(n, d, seed=0):
    return np.random.default_rng([seed, d]).normal(size=(n, d))


def layer(kind, d, seed=0, size=1.0, out=None):
    """General Q, K and V; Sinkhorn attention needs Q^T K positive semi-definite."""
    rng = np.random.default_rng([seed, d, 3])
    Q, K = rng.normal(size=(2, d, d))
    Q, K = size * Q / np.linalg.norm(Q, 2), size * K / np.linalg.norm(K, 2)
    V = rng.normal(size=(out or d, d))
    if kind == "sinkhorn":
        return SinkhornAttention(Q, Q, V, eps=0.7, tol=1e-13)
    return {"softmax": SoftmaxAttention, "L2": L2Attention}[kind](Q, K, V)


def brute(attention, x, w):
    """The definition for softmax and L2, a row at a time, in the log domain."""
    live = w > 0  # the others are not seen
    y, sent, out = x[live] @ attention.K.T, x[live] @ attention.V.T, []
    for z in x @ attention.Q.T:
        scores = -((z - y) ** 2).sum(axis=1) if isinstance(attention, L2Attention) else y @ z
        logs = scores + np.log(w[live])
        e = np.exp(logs - logs.max())
        out.append(e @ sent / e.sum())
    return np.array(out)


def error(fast, attention, x, w=None):
    """The largest error of a velocity in units of the largest |V y|, as tol is measured."""
    got = fast.velocity(x, w)
    w = np.full(len(x), 1 / len(x)) if w is None else np.asarray(w)
    if isinstance(attention, SinkhornAttention):
        want = attention.velocity(x, w)
    else:
        want = brute(attention, x, w)
    assert got.shape == want.shape
    assert np.isfinite(got).all()
    return (
        np.linalg.norm(got - want, axis=1).max() / np.linalg.norm(x @ attention.V.T, axis=1).max()
    )
