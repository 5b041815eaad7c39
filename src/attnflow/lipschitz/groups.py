r"""The local constant where many tokens stand together, whatever their number.

Let group g hold :math:`m_g` tokens at :math:`x_g`, let :math:`P_{gh}` be the attention of one of them to all
of group h, :math:`\mu_g` the mean that it sees and :math:`C_g` the covariance around it. Changes that are the
same within each group, and changes whose sum over each group is zero, are answered apart. The second
are answered by :math:`VC_gA` alone; the first, in orthonormal coordinates, by the matrix of blocks

.. math:: \sqrt{\tfrac{m_g}{m_h}}\;V\Big(P_{gh}\big(I + (x_h-\mu_g)(Ax_g)^\top\big) + 1_{g=h}C_gA\Big),

which is as large as the number of groups, not of tokens. The norm of the Jacobian is the larger of
the norms of the two. This is the book's own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from attnflow import validate
from attnflow.lipschitz.ball import pair
from attnflow.softmax import softmax_rows
from attnflow.validate import Array


def grouped_constant(A: ArrayLike, V: ArrayLike, x: ArrayLike, counts: ArrayLike) -> float:
    r"""The norm of the Jacobian for `counts` tokens at each row of x; counts need not be whole.

    >>> x = [[1.0], [-1.0]]  # one leader, seven followers
    >>> round(grouped_constant([[-2.0]], [[1.0]], x, [1, 7]), 6)
    3.585446
    >>> round(grouped_constant([[-2.0]], [[1.0]], x, [1, 131071]), 3)
    1.248
    """
    (A, V), x = pair(A, V), validate.tokens(x)
    m = validate.array(counts, "counts", 1)
    if x.shape[1] != len(A) or m.shape != (len(x),) or (m <= 0).any():
        raise ValueError(
            f"x must have {len(A)} columns and a positive count a row, got {x.shape} and {m!r:.60}"
        )
    G, d = x.shape
    queries = x @ A.T
    P = softmax_rows(queries @ x.T + np.log(m))
    means = P @ x
    away = x[None] - means[:, None]  # (g, h, d)
    C = np.einsum("gh,gha,ghb->gab", P, away, away)
    block = np.einsum("gh,gha,gb->gahb", P, away, queries)
    block += P[:, None, :, None] * np.eye(d)[None, :, None, :]
    for g in range(G):
        block[g, :, g] += C[g] @ A
    block *= np.sqrt(m[:, None] / m)[:, None, :, None]
    together = np.einsum("pa,gahb->gphb", V, block).reshape(G * len(V), G * d)
    apart = [float(np.linalg.norm(V @ C[g] @ A, 2)) for g in range(G) if m[g] > 1]
    return max(float(np.linalg.norm(together, 2)), *apart, 0.0)


def grouped(x: ArrayLike, counts: ArrayLike) -> Array:
    """The tokens of :func:`grouped_constant` one by one, for whole counts.

    >>> grouped([[1.0], [-1.0]], [1, 2]).ravel()
    array([ 1., -1., -1.])
    """
    return np.repeat(validate.tokens(x), validate.array(counts, "counts", 1).astype(int), axis=0)
