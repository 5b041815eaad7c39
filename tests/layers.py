"""A layer of every kind in the plane, and tokens with weights that it moves."""

import numpy as np

from attnflow.attention import (
    L2Attention,
    MultiHead,
    SinkhornAttention,
    SoftmaxAttention,
    UnnormalisedAttention,
)

ID = np.eye(2)
_RNG = np.random.default_rng(7)
Q, K = 0.5 * _RNG.normal(size=(2, 2, 2))
V = np.array([[-0.5, 1.0], [-1.0, -0.5]])
X0 = _RNG.uniform(-1, 1, size=(5, 2))
W = np.array([0.1, 0.3, 0.2, 0.15, 0.25])
#: What is no x0 of tokens in the plane, and the words it is refused with.
NOT_TOKENS = (
    ([[np.nan, 0.0]], "x0 must be finite, got nan"),
    (np.empty((0, 2)), "x0 must hold at least one token"),
    ("tokens", "x0 must be an array of real numbers"),
)

LAYERS = {
    "softmax": SoftmaxAttention(Q, K, V),
    "l2": L2Attention(Q, K, V),
    "unnormalised": UnnormalisedAttention(Q, K, V),
    "sinkhorn": SinkhornAttention(Q, K, V),
    "sinkhorn with Q = K": SinkhornAttention(Q, Q, V),
    "causal softmax": SoftmaxAttention(Q, K, V, causal=True),
    "causal sinkhorn": SinkhornAttention(Q, Q, V, causal=True),
    "two heads": MultiHead([SoftmaxAttention(Q, K, V), L2Attention(K, Q, V)], [ID, 0.5 * ID]),
    "two causal heads": MultiHead(
        [SoftmaxAttention(Q, K, V, causal=True), L2Attention(K, Q, V, causal=True)]
    ),
}
