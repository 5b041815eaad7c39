r"""What a token that everybody attends to costs: bounds of a layer's local constant from below.

An attention sink :cite:p:`xiao2024` is a token that most others attend to, whatever it says. Move it along a
direction that no key sees, and no score changes: every other token answers by its share of attention
times the change of the value. With one token moved alone, the layer's constant splits in two.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy.linalg import null_space

from attnflow import validate
from attnflow.attention.head import SoftmaxLayer
from attnflow.lipschitz.jacobian import Linearised
from attnflow.lipschitz.lanczos import local_constant


def unseen_bound(layer: SoftmaxLayer, x: ArrayLike, place: int = 0) -> float:
    r"""What the local constant at x is at least, by moving one token where no key sees it.

    .. math:: \max_{|e|=1,\ K_he=0\ \forall h}
              \Big(\sum_{i\ne s}\Big|\sum_hP^h_{is}W_hV_he\Big|^2\Big)^{1/2},

    s being `place`. It is 0 where the keys of all heads together see every direction. The book's own.

    >>> from attnflow.attention import SoftmaxAttention
    >>> sees_first = np.diag([1.0, 0.0])
    >>> layer = SoftmaxAttention(sees_first, sees_first, np.eye(2))
    >>> round(unseen_bound(layer, [[9.0, 0.0]] + 3 * [[1.0, 0.0]]), 4)
    1.7303
    """
    parts = Linearised(layer, x).parts
    n = len(parts[0].P)
    place = validate.count(place, "place", 0, n - 1)
    unseen = null_space(np.vstack([p.M[p.q.shape[1] : 2 * p.q.shape[1]] for p in parts]))
    if not unseen.shape[1]:
        return 0.0
    columns = np.array([np.delete(p.P[:, place], place) for p in parts])  # (heads, n - 1)
    root = np.linalg.qr(columns.T)[1]  # (heads, heads): columns' own geometry
    moves = np.array([p.W @ (p.M[2 * p.q.shape[1] :] @ unseen) for p in parts])
    answers = np.tensordot(root, moves, axes=1).reshape(-1, unseen.shape[1])
    return float(np.sqrt(max(np.linalg.eigvalsh(answers.T @ answers)[-1], 0.0)))


class Split(NamedTuple):
    """The local constant when some tokens move, when the others do, and when all may."""

    some: float
    others: float
    every: float


def split(
    layer: SoftmaxLayer,
    x: ArrayLike,
    some: tuple[int, ...] = (0,),
    tol: float = 1e-3,
    *,
    dtype: DTypeLike = np.float64,
) -> Split:
    r"""The columns of the Jacobian that belong to `some` tokens, and the rest.

    As columns of one matrix they satisfy
    :math:`\max(s, o) \le e \le \sqrt{s^2 + o^2}` for some, others and every.

    >>> from attnflow.attention import SoftmaxAttention
    >>> I = np.eye(1)
    >>> parts = split(SoftmaxAttention(-2 * I, I, I), [[1.0]] + 7 * [[-1.0]], tol=1e-6)
    >>> [round(v, 4) for v in parts]
    [3.4112, 1.1594, 3.5854]
    """
    n = len(validate.tokens(x))
    moved = {validate.count(i, "some", 0, n - 1) for i in some}
    if not 0 < len(moved) < n:
        raise ValueError(f"some must be at least one token and not all {n}, got {len(moved)}")
    rest = [i for i in range(n) if i not in moved]

    def found(held: list[int]) -> float:
        return local_constant(layer, x, tol, dtype=dtype, held=held).value

    return Split(found(rest), found(sorted(moved)), found([]))
