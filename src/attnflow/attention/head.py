"""A softmax head with everything that trained ones have: output matrix, biases, rotations, mask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from attnflow import validate
from attnflow.attention.kinds import SoftmaxAttention
from attnflow.attention.layer import Attention, Layer
from attnflow.validate import Array


class Head(NamedTuple):
    """A softmax head as trained transformers have it.

    Scores are :math:`\\langle R_i(Qx_i + b_q), R_j(Kx_j + b_k)\\rangle` with no hidden factor:
    :math:`1/\\sqrt k` belongs into Q and b_q. The bias of values only shifts the output and has no
    place in a derivative.

    >>> I = np.eye(2)
    >>> Head(I, I, I).causal
    False
    """

    Q: Array  #: (k, d)
    K: Array  #: (k, d)
    V: Array  #: (p, d)
    W: Array | None = None  #: (D, p), applied to the output of the head; None for the identity
    causal: bool = False
    bq: Array | None = None  #: (k,)
    bk: Array | None = None  #: (k,)
    angles: Array | None = (
        None  #: (positions, k/2): R_i turns coordinates c and c + k/2 by angles[i, c]
    )


#: What has a Jacobian here: a layer of softmax attention, or the heads of a trained one.
SoftmaxLayer = Layer | Sequence[Head]


def checked(layer: SoftmaxLayer, n: int, d: int) -> tuple[Head, ...]:
    """The heads of a layer, for n tokens in dimension d."""
    if isinstance(layer, Layer):
        heads = [_plain(head, W) for head, W in zip(layer.heads, layer.W, strict=True)]
    elif isinstance(layer, Sequence):
        heads = [_valid(head, i) for i, head in enumerate(layer)]
    else:
        raise ValueError(f"a layer must be softmax attention or heads, got {type(layer).__name__}")
    if not heads:
        raise ValueError("a layer must have at least one head, got none")
    answer = [len(head.V) if head.W is None else len(head.W) for head in heads]
    for i, head in enumerate(heads):
        if head.Q.shape[1] != d:
            raise ValueError(f"x must have {head.Q.shape[1]} columns, got {d}")
        if head.angles is not None and len(head.angles) < n:
            raise ValueError(
                f"head {i} has angles for {len(head.angles)} positions, got {n} tokens"
            )
        if answer[i] != answer[0]:
            raise ValueError(f"heads must answer in one dimension, got {answer[0]} and {answer[i]}")
    return tuple(heads)


def _plain(head: Attention, W: Array) -> Head:
    if not isinstance(head, SoftmaxAttention):
        raise ValueError(f"the Jacobian is that of softmax attention, got {type(head).__name__}")
    return Head(head.Q, head.K, head.V, W, head.causal)


def _valid(head: Head, i: int) -> Head:
    if not isinstance(head, Head):
        raise ValueError(f"a layer must be softmax attention or heads, got {type(head).__name__}")
    axes = {"Q": 2, "K": 2, "V": 2, "W": 2, "bq": 1, "bk": 1, "angles": 2}
    given: dict[str, Any] = {f: getattr(head, f) for f in axes if getattr(head, f) is not None}
    for f in "QKV":
        if not np.size(given.get(f, ())):
            raise ValueError(f"{f} of head {i} must be a matrix with entries, got none")
    for f, M in given.items():
        given[f] = validate.array(M, f"{f} of head {i}", axes[f])
    head = head._replace(**given)
    k, d = head.Q.shape
    wanted = {"K": (k, d), "V": (len(head.V), d), "bq": (k,), "bk": (k,)}
    if head.W is not None:
        wanted["W"] = (len(head.W), len(head.V))
    if head.angles is not None:
        if k % 2:
            raise ValueError(f"heads that rotate pairs must have an even size, got {k}")
        wanted["angles"] = (len(head.angles), k // 2)
    for f in set(given) & set(wanted):
        if getattr(head, f).shape != wanted[f]:
            raise ValueError(
                f"{f} of head {i} must have shape {wanted[f]}, got {getattr(head, f).shape}"
            )
    return head
