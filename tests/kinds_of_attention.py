"""Every kind of attention, as tests make it."""

import numpy as np
import pytest
from tolerances import (
    SOLVE_POTENTIALS,
    SOLVED_LAYER,
)

from attnflow.attention import (
    L2Attention,
    SinkhornAttention,
    SoftmaxAttention,
    UnnormalisedAttention,
)


def balanced(Q, K, V, causal=False):
    return SinkhornAttention(Q, K, V, causal, eps=0.8, tol=SOLVE_POTENTIALS)


def bridged(Q, K, V, causal=False):
    """Sinkhorn attention with Q = K, which one scaling solves."""
    return SinkhornAttention(Q, Q, V, causal, eps=0.8, tol=SOLVE_POTENTIALS)


KINDS = {
    "softmax": SoftmaxAttention,
    "l2": L2Attention,
    "unnormalised": UnnormalisedAttention,
    "sinkhorn": balanced,
    "sinkhorn with Q = K": bridged,
}


kinds = pytest.mark.parametrize("kind", KINDS)


def close(got, want, tol=SOLVED_LAYER):
    return got.shape == want.shape and np.abs(got - want).max() <= tol * (1 + np.abs(want).max())
