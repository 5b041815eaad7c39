r"""Several heads: what the constant of their sum is at most and at least.

The layer is :math:`\sum_hW_hf_h`. From above the bounds of the heads are added. From below all heads look
at the same tokens :math:`(Ru, -Ru, \dots, -Ru)`: what followers answer in each head when their leader moves
along u is added as vectors. Both after :cite:t:`castin2024`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from attnflow.lipschitz.ball import norm, pair, radius, several
from attnflow.lipschitz.bounds import followed, upper_bound
from attnflow.validate import Array, array


def multi_head_upper_bound(
    A: Sequence[ArrayLike], V: Sequence[ArrayLike], W: Sequence[ArrayLike], R: float, n: int
) -> float:
    r"""The sum over heads of :math:`|W_h|` times the :func:`attnflow.lipschitz.upper_bound` of the head.

    As in :cite:t:`castin2024`.

    >>> I = np.eye(2)
    >>> round(multi_head_upper_bound([-2 * I, I], [I, I], [I, 0 * I], 1.0, 8), 4)
    20.4939
    """
    _one_each(A, V, W)
    heads = zip(A, V, W, strict=True)
    return sum(norm(w, "W") * upper_bound(a, v, R, n) for a, v, w in heads)


def multi_head_lower_bound(
    A: Sequence[ArrayLike], V: Sequence[ArrayLike], W: Sequence[ArrayLike], R: float, n: int
) -> tuple[float, Array]:
    r"""What followers of one leader answer in all heads together, and the direction u they stand in.

    .. math:: \sqrt{n-1}\,\Big|\sum_hp_h\big(1 + 2\gamma_hR^2(1-p_h)\big)W_hV_hu\Big|, \qquad
              p_h = \frac1{1 + (n-1)e^{-2\gamma_hR^2}}, \quad \gamma_h = -\langle A_hu, u\rangle

    u is the best of the eigenvectors of the symmetric parts of all :math:`A_h` and of their mean.

    >>> I = np.eye(2)
    >>> bound, u = multi_head_lower_bound([-2 * I, -2 * I], [I, I], [I, I], 1.0, 8)
    >>> round(bound, 5)  # twice that of one head
    6.82214
    """
    _one_each(A, V, W)
    R, m = radius(R), several(n) - 1
    pairs = [pair(a, v) for a, v in zip(A, V, strict=True)]
    scores, outer = [a for a, _ in pairs], [array(w, "W", 2) for w in W]
    symmetric = [a / 2 + a.T / 2 for a in (*scores, np.mean(scores, axis=0))]
    best, where = -1.0, np.eye(len(scores[0]))[0]
    for u in np.vstack([np.linalg.eigh(s)[1].T for s in symmetric]):
        answers = [
            followed(m, -float(u @ a @ u) * R**2) * (w @ v @ u)
            for (a, v), w in zip(pairs, outer, strict=True)
        ]
        size = float(np.linalg.norm(sum(answers)))
        if size > best:
            best, where = size, u
    return best, where


def _one_each(A: Sequence[ArrayLike], V: Sequence[ArrayLike], W: Sequence[ArrayLike]) -> None:
    if not len(A) == len(V) == len(W) >= 1:
        raise ValueError(
            f"A, V and W must have one matrix per head, got {len(A)}, {len(V)} and {len(W)}"
        )
