r"""How rough a layer of attention can be *at these tokens*: bounds from numbers that one forward pass has.

The bounds of :mod:`attnflow.lipschitz.bounds` know the radius of the tokens and the norms of the
matrices, and nothing else. At given tokens every factor of their proof is known. With P the attention
matrix of a head, v the values, :math:`m_i = \sum_jP_{ij}v_j` and :math:`a_{ij}` the gradient of the
score (i, j) with respect to token j, the answer of token i to a change of token j is at most

.. math:: b_{ij} = \sum_h P_{ij}\big(|WV| + |W(v_j - m_i)|\,|a_{ij}|\big),

and its own query adds :math:`c_i = \sum_h|W C_i Q|`, :math:`C_i` the covariance of values and keys under
:math:`P_i`. So the local constant is at most :math:`|b| + \max_ic_i`: this book's.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from attnflow import validate
from attnflow.attention.head import SoftmaxLayer
from attnflow.lipschitz.ball import product_norm
from attnflow.lipschitz.jacobian import Linearised, Part
from attnflow.rotation import rotate
from attnflow.validate import Array

#: Halvings of an interval, after which its length is below one rounding.
HALVINGS = 60
ROWS = 64  #: of (rows, n, k) arrays that are formed at a time


class Certificate(NamedTuple):
    """An upper bound of a local constant, and the two terms it is the sum of."""

    value: float
    others: float  #: the norm of b: what tokens do to each other
    query: float  #: the largest c_i: what a token does to itself by asking differently


def certificate(layer: SoftmaxLayer, x: ArrayLike) -> Certificate:
    """An upper bound of the local constant of a layer at tokens x, from one forward pass.

    >>> from attnflow.attention import SoftmaxAttention
    >>> I = np.eye(1)
    >>> bound = certificate(SoftmaxAttention(-2 * I, I, I), [[1.0]] + 7 * [[-1.0]])
    >>> round(bound.value, 4)
    4.2565
    """
    parts = Linearised(layer, x).parts
    shared = float(np.linalg.norm(np.hstack([np.linalg.qr(p.W)[0] for p in parts]), 2))
    b = np.array([_others(part) for part in parts])  # (heads, n, n)
    c = np.array([_query(part) for part in parts])  # (heads, n)
    apart = np.sqrt(np.linalg.eigvalsh(np.einsum("hij,hik->jk", b, b, optimize=True))[-1])
    others = min(float(np.linalg.norm(b.sum(axis=0), 2)), shared * float(apart))
    query = min(float(c.sum(axis=0).max()), shared * float(np.sqrt((c**2).sum(axis=0)).max()))
    return Certificate(others + query, others, query)


def softmax_bound(layer: SoftmaxLayer, x: ArrayLike, *, softmax: float | None = None) -> float:
    r"""A coarser bound at tokens x, through the norm of softmax alone.

    .. math:: \sum_h |P||WV| + \max_i\sigma(P_i)\,\big(|Q||k| + |K||q|\big)\,|vW^\top|,

    with :math:`\sigma(p)` the norm of :math:`\mathrm{diag}(p) - pp^\top`, on which :cite:t:`yudin2025` build a
    local bound; k and v are keys and values less their means, which softmax does not see. `softmax` stands in for all :math:`\sigma(P_i)` if given, such as the 1/2 that
    :cite:t:`nair2025` prove for every p.

    >>> from attnflow.attention import SoftmaxAttention
    >>> I = np.eye(1)
    >>> round(softmax_bound(SoftmaxAttention(0 * I, I, I), [[1.0], [1.0]]), 4)
    1.0
    """
    out = 0.0
    for p in Linearised(layer, x).parts:
        sigma = float(softmax_norms(p.P).max()) if softmax is None else softmax
        k = p.q.shape[1]
        Q, K, q, keys, P = (
            float(np.linalg.norm(y, 2)) for y in (p.M[:k], p.M[k : 2 * k], p.q, p.k, p.P)
        )
        V, v = product_norm(p.W, p.M[2 * k :]), product_norm(p.v, p.W.T)
        out += P * V + sigma * (Q * keys + K * q) * v
    return out


def softmax_norms(P: ArrayLike) -> Array:
    r"""The norm of :math:`\mathrm{diag}(p) - pp^\top`, the derivative of softmax, for every row p.

    It is the root of :math:`\sum_jp_j^2/(p_j-\lambda)=1` between the two largest entries.

    >>> softmax_norms([[0.5, 0.5, 0.0], [0.8, 0.1, 0.1]]).round(4)
    array([0.5 , 0.24])
    """
    P = validate.array(P, "P", 2)
    if P.shape[1] < 2:
        return np.zeros(len(P))
    ordered = np.sort(P, axis=1)
    high, low = ordered[:, -1].copy(), ordered[:, -2].copy()
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            terms = np.where(P > 0, P**2 / (P - middle[:, None]), 0.0)
            above = np.nan_to_num(terms, nan=0.0, posinf=1e300, neginf=-1e300).sum(axis=1) > 1
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.asarray(high)


def _others(part: Part) -> Array:
    """(n, n), what a token's change does to another's answer at most."""
    k, n = part.q.shape[1], len(part.P)
    K = part.M[k : 2 * k]
    out = np.empty_like(part.P)
    v, mean = part.v @ part.W.T, part.mean @ part.W.T
    squares = np.sum(v**2, axis=1)
    gram = K @ K.T
    own = product_norm(part.W, part.M[2 * k :])
    for start in range(0, n, ROWS):
        row = slice(start, min(start + ROWS, n))
        apart = squares - 2 * mean[row] @ v.T + np.sum(mean[row] ** 2, axis=1)[:, None]
        pull = np.sqrt(np.einsum("ic,cd,id->i", part.q[row], gram, part.q[row]))[:, None]
        if part.turn is not None:
            pull = _turned_pull(part, row, gram)
        out[row] = part.P[row] * (own + np.sqrt(np.maximum(apart, 0)) * pull)
    return out


def _turned_pull(part: Part, row: slice, gram: Array) -> Array:
    """|K^T R_j^T q_i| for a few i and all j, (rows, n)."""
    assert part.turn is not None
    q = np.broadcast_to(part.q[row][:, None, :], (row.stop - row.start, *part.q.shape))
    back = rotate(q, part.turn.back)  # (rows, n, k)
    return np.asarray(np.sqrt(np.maximum(np.einsum("ijc,ijc->ij", back @ gram, back), 0)))


def _query(part: Part) -> Array:
    """(n,), the norm of W C_i R_i Q."""
    k = part.q.shape[1]
    C = np.einsum("ij,ja,jb->iab", part.P, part.v, part.k, optimize=True)
    C -= np.einsum("ia,ib->iab", part.mean, part.P @ part.k)
    if part.turn is not None:  # (C R_i): the transpose turns the rows of C back
        C = np.stack([rotate(C[:, a], part.turn.back) for a in range(C.shape[1])], axis=1)
    W, Q = np.linalg.qr(part.W)[1], np.linalg.qr(part.M[:k].T)[1].T
    M = W @ C @ Q
    largest = np.linalg.eigvalsh(M @ M.swapaxes(1, 2))[:, -1]
    return np.asarray(np.sqrt(np.maximum(largest, 0)))
