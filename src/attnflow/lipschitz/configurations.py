r"""Tokens at which a layer of attention stretches much, and what it answers there.

One leader that all others follow (:func:`adversarial`) has a local constant of order
:math:`\sqrt n` :cite:p:`castin2024`; one token at the origin among tokens spread out
(:func:`spread`) one of order :math:`R^2` :cite:p:`kim2021`; for both orders at once see
:mod:`attnflow.lipschitz.leaders`. Tokens that grow along a ray (:func:`large_radius`) end with the
square root of a whole number :cite:p:`castin2024`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnflow import validate
from attnflow.lipschitz.ball import norm, pair, radius, several
from attnflow.lipschitz.bounds import line
from attnflow.softmax import hide_future
from attnflow.validate import Array


def adversarial(A: ArrayLike, R: float, n: int) -> Array:
    r"""n tokens on a line through 0 whose local constant grows like :math:`\sqrt n`.

    :math:`(Ru, -Ru, \dots, -Ru)` for the eigenvector of a negative eigenvalue,
    :math:`(Ru, Ru/2, \dots, Ru/2)` for that of a positive one, whichever gives the larger gamma. They
    are those of the lower bound of :cite:t:`castin2024`.

    >>> adversarial(-np.eye(1), 2.0, 3).ravel()
    array([ 2., -2., -2.])
    """
    _, u, others = line(A)
    place = np.full(validate.count(n, "n", 2, validate.MOST_STORED), others)
    place[0] = 1.0
    return radius(R) * np.outer(place, u)


def spread(A: ArrayLike, V: ArrayLike, R: float, n: int) -> Array:
    r"""One token at 0, the others half at Ru and half at -Ru: the constant grows like :math:`R^2`.

    u is the unit vector with the largest :math:`|Vu||A^\top u|` among the singular directions of A and
    V. An odd one out stays at 0. After :cite:t:`kim2021`.

    >>> np.abs(spread([[1.0]], [[1.0]], 2.0, 4)).ravel()
    array([0., 0., 2., 2.])
    """
    u = _widest(A, V)
    pairs = (several(n, 3) - 1) // 2
    place = np.repeat([0.0, 1.0, -1.0], [n - 2 * pairs, pairs, pairs])
    return radius(R) * np.outer(place, u)


def spread_bound(A: ArrayLike, V: ArrayLike, R: float, n: int) -> float:
    r"""What the token at 0 answers when it moves, for m pairs of :func:`spread` tokens.

    .. math:: \left|V\left(CA + \tfrac1nI\right)\right|, \qquad C = \tfrac{2m}nR^2uu^\top

    Its attention is uniform, so its answer to e is VCAe with the covariance C of the tokens, and
    Ve/n since it sees itself. The first has size :math:`\frac{2m}nR^2|Vu||A^\top u|`; for a negative
    :math:`\langle Au, u\rangle` the second takes something away. After :cite:t:`kim2021`.

    >>> round(spread_bound(-np.eye(2), np.eye(2), 3.0, 3), 6)
    5.666667
    """
    u = _widest(A, V)
    A, V = pair(A, V)
    pairs = (several(n, 3) - 1) // 2
    C = radius(R) ** 2 * 2 * pairs / n * np.outer(u, u)
    return float(np.linalg.norm(V @ (C @ A + np.eye(len(A)) / n), 2))


class LargeRadius(NamedTuple):
    """What the local constant at r x tends to as r grows."""

    value: float  #: the norm of V times the square root of the multiplicity
    multiplicity: int  #: how many tokens attend to the most popular one
    leaders: NDArray[np.intp]  #: (n,) the token that each one attends to in the end
    margin: float  #: by how much a leader's score beats the next; the limit needs it positive


def large_radius(A: ArrayLike, V: ArrayLike, x: ArrayLike, *, causal: bool = False) -> LargeRadius:
    r"""Every token ends up attending to the one with the largest :math:`\langle Ax_i, x_j\rangle`.

    So the local constant at rx tends to :math:`|V|\sqrt{\max_j\#\{i: m_i = j\}}`, where
    :math:`m_i` is the one that i attends to, if all are unique :cite:p:`castin2024`.

    >>> large_radius([[1.0]], [[3.0]], [[1.0], [2.0], [0.5], [-1.0]]).multiplicity
    3
    """
    (A, V), x = pair(A, V), validate.tokens(x)
    if A.shape != (x.shape[1], x.shape[1]):
        raise ValueError(f"A must have shape {(x.shape[1],) * 2}, got {A.shape}")
    scores = x @ A.T @ x.T
    if causal:
        hide_future(scores)
    leaders = scores.argmax(axis=1)
    ranked = np.sort(scores, axis=1)
    margin = (ranked[:, -1] - ranked[:, -2]).min() if len(x) > 1 else np.inf
    most = int(np.bincount(leaders).max())
    return LargeRadius(norm(V, "V") * float(np.sqrt(most)), most, leaders, float(margin))


def _widest(A: ArrayLike, V: ArrayLike) -> Array:
    """The singular direction u of A or V with the largest ``|Vu| |A^T u|``."""
    A, V = pair(A, V)
    directions = np.hstack([np.linalg.svd(A)[0], np.linalg.svd(V)[2].T])
    sizes = np.linalg.norm(V @ directions, axis=0) * np.linalg.norm(A.T @ directions, axis=0)
    return directions[:, int(sizes.argmax())]
