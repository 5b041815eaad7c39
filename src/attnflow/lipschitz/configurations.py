r"""Tokens at which a layer of attention stretches much, and what it answers there.

One leader that all others follow (:func:`adversarial`) has a local constant of order
:math:`\sqrt n` :cite:p:`castin2024`; one token at the origin among tokens spread out
(:func:`spread`) one of order :math:`R^2` :cite:p:`kim2021`. Two leaders between which all others are
undecided (:func:`two_leaders`) show that the order :math:`R^2\sqrt n` of the upper bound is right in
two dimensions and more. Tokens that grow along a ray (:func:`large_radius`) end with the square root
of a whole number :cite:p:`castin2024`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from attnflow import validate
from attnflow.lipschitz.ball import norm, pair, radius, several
from attnflow.lipschitz.bounds import line
from attnflow.softmax import hide_future
from attnflow.validate import Array

#: Points along an axis of the grid on which the place of the two leaders is chosen.
GRID = 129


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
    u, _ = _widest(A, V)
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
    u, _ = _widest(A, V)
    A, V = pair(A, V)
    pairs = (several(n, 3) - 1) // 2
    C = radius(R) ** 2 * 2 * pairs / n * np.outer(u, u)
    return float(np.linalg.norm(V @ (C @ A + np.eye(len(A)) / n), 2))


def two_leaders(A: ArrayLike, V: ArrayLike, R: float, n: int) -> Array:
    r"""Two tokens between which all others are undecided: the constant grows like :math:`R^2\sqrt n`.

    The leaders stand at au + bw and au - bw, the others at ru, with w orthogonal to u and Au. If
    the leaders move along Au in opposite senses, the others change sides: see
    :func:`two_leaders_bound`, which the numbers a, b, r make as large as they can. This is the
    book's own.

    >>> x = two_leaders(-np.eye(2), np.eye(2), 3.0, 5)
    >>> (-x @ x.T)[2].round(6) + 0  # the scores of a follower, A = -I
    array([ 0.,  0., -9., -9., -9.])
    """
    u, w, (a, b, r), _ = _leaders(A, V, R, n)
    rest = np.tile(r * u, (int(n) - 2, 1))
    return np.vstack([a * u + b * w, a * u - b * w, rest])


def two_leaders_bound(A: ArrayLike, V: ArrayLike, R: float, n: int) -> float:
    r"""What the undecided answer when the leaders move along Au in opposite senses.

    .. math:: \sqrt{\tfrac{n-2}2}\;p\,b|r|\,|Au|\,|Vw|, \qquad
              p = \frac1{1 + \frac{n-2}2e^{-r(a-r)\langle Au, u\rangle}}

    With a mask or without. For A = -I and :math:`R^2` large against log n it is
    :math:`R^2\sqrt{(n-2)/2}`. This is the book's own.

    >>> I = np.eye(2)
    >>> round(two_leaders_bound(-I, I, 6.0, 4), 6)
    36.0
    """
    return _leaders(A, V, R, n)[3]


class LargeRadius(NamedTuple):
    """What the local constant at r x tends to as r grows."""

    value: float  #: the norm of V times the square root of the multiplicity
    multiplicity: int  #: how many tokens attend to the most popular one
    leaders: Array  #: (n,) the token that each one attends to in the end
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


def _widest(A: ArrayLike, V: ArrayLike) -> tuple[Array, float]:
    """The singular direction u of A or V with the largest ``|Vu| |A^T u|``, and that product."""
    A, V = pair(A, V)
    directions = np.hstack([np.linalg.svd(A)[0], np.linalg.svd(V)[2].T])
    sizes = np.linalg.norm(V @ directions, axis=0) * np.linalg.norm(A.T @ directions, axis=0)
    best = int(sizes.argmax())
    return directions[:, best], float(sizes[best])


def _leaders(
    A: ArrayLike, V: ArrayLike, R: float, n: int
) -> tuple[Array, Array, tuple[float, float, float], float]:
    """u, w, (a, b, r) and the bound, for the better of the two extreme eigenvectors u."""
    (A, V), R = pair(A, V), radius(R)
    n = several(n, 3)
    angle, along = np.meshgrid(np.linspace(0, np.pi / 2, GRID), np.linspace(-1, 1, GRID))
    a, b, r = R * np.cos(angle), R * np.sin(angle), R * along
    found = []
    for u in np.linalg.eigh((A + A.T) / 2)[1][:, [0, -1]].T:
        w = _across(A, V, u)
        lead = r * (u @ A @ u) * (a - r)
        p = expit(lead - np.log((n - 2) / 2))
        size = np.sqrt((n - 2) / 2) * p * b * np.abs(r)
        best = np.unravel_index(size.argmax(), size.shape)
        bound = size[best] * np.linalg.norm(A @ u) * np.linalg.norm(V @ w)
        found.append((u, w, (float(a[best]), float(b[best]), float(r[best])), float(bound)))
    return max(found, key=lambda row: row[3])


def _across(A: Array, V: Array, u: Array) -> Array:
    """The unit vector orthogonal to u and Au that V stretches most."""
    values, vectors = np.linalg.eigh(
        np.outer(u, u) + np.outer(A @ u, A @ u) / (norm(A, "A") or 1) ** 2
    )
    free = vectors[:, values < 1e-12]
    if not free.size:
        raise ValueError(
            f"two leaders need a direction orthogonal to u and Au, got dimension {len(A)}"
        )
    return free @ np.linalg.svd(V @ free)[2][0]
