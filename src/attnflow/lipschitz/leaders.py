r"""Two leaders between which all others are undecided.

Followers stand at :math:`\rho x`, the leaders at :math:`\alpha\,Ax/|Ax| \pm \beta w` with unit vectors x and
:math:`w\perp Ax`. A follower scores :math:`\rho\alpha|Ax|` with either leader and
:math:`\rho^2\langle Ax, x\rangle` with the other followers. If the leaders move along Ax in opposite senses, all
followers change sides, and the answer is of order :math:`R^2\sqrt n`: the order of the upper bound of
:cite:t:`castin2024` is right in two dimensions and more, for every A. This is the book's own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from attnflow import validate
from attnflow.lipschitz.ball import pair, radius, several
from attnflow.lipschitz.sharp import sharp_constant
from attnflow.validate import Array

#: Points along an axis of the grid on which the place of the leaders is chosen, and how often the
#: grid is drawn again around its best point.
GRID, ZOOMS = 49, 6
#: Followers whose leaders are this much ahead of the crowd have decided, in double precision.
DECIDED = 40.0


class Places(NamedTuple):
    """Where two leaders and their followers stand, and what the followers answer."""

    first: Array  #: (d,), a leader
    second: Array  #: (d,), the other
    follower: Array  #: (d,), where all others are
    bound: (
        float  #: the answer of all followers to opposite moves of the leaders along ``A follower``
    )


class Ray(NamedTuple):
    """A direction of the followers, and where on it they and the leaders stand best."""

    x: Array  #: (d,), of the followers
    y: Array  #: (d,), of Ax
    cos: float  #: between the leaders and y
    rho: float  #: how far out the followers are, over R
    answer: float  #: of the followers, if V keeps lengths


def two_leaders(A: ArrayLike, V: ArrayLike, R: float, n: int) -> Array:
    r"""Two tokens between which all others are undecided: the constant grows like :math:`R^2\sqrt n`.

    Their places make :func:`two_leaders_bound` as large as can be found: the follower's direction is
    the one of :func:`attnflow.lipschitz.sharp_constant`, a singular direction, or one that leaves the
    best direction of V to the leaders.

    >>> x = two_leaders(-np.eye(2), np.eye(2), 3.0, 5)
    >>> scores = -x @ x[2]  # of a follower, A = -I
    >>> bool(abs(scores[0] - scores[1]) < 1e-9), bool(scores[0] > scores[2] + 8)
    (True, True)
    """
    found = places(A, V, R, validate.count(n, "n", 3, validate.MOST_STORED))
    rest = np.tile(found.follower, (int(n) - 2, 1))
    return np.vstack([found.first, found.second, rest])


def two_leaders_bound(A: ArrayLike, V: ArrayLike, R: float, n: int) -> float:
    r"""What the undecided answer when the leaders move along Ax in opposite senses.

    .. math:: \sqrt{\tfrac{n-2}2}\;p\,\beta\rho\,|Ax|\,|Vw|, \qquad
              p = \frac1{1 + \frac{n-2}2e^{\rho^2\langle Ax, x\rangle - \rho\alpha|Ax|}}

    With a mask or without. For A = -I and :math:`R^2` large against log n it is
    :math:`R^2\sqrt{(n-2)/2}`.

    >>> I = np.eye(2)
    >>> round(two_leaders_bound(-I, I, 6.0, 4), 6)
    36.0
    """
    return places(A, V, R, n).bound


def places(A: ArrayLike, V: ArrayLike, R: float, n: int) -> Places:
    """The best places that are found for two leaders and n - 2 followers.

    >>> round(places(-np.eye(2), np.eye(2), 6.0, 4).bound, 6)
    36.0
    """
    (A, V), R = pair(A, V), radius(R)
    n = several(n, 3)
    if len(A) < 2:
        raise ValueError("two leaders need a direction orthogonal to Ax, got dimension 1")
    rays = sorted((_ray(A, R, n, x) for x in _directions(A, V)), key=lambda ray: -ray.answer)
    most, found = float(np.linalg.norm(V, 2)), None
    for ray in rays:  # what V makes of w is at most its norm, so most rays need not be looked at
        if found is None or ray.answer * most > found.bound:
            placed = _placed(V, R, ray)
            found = placed if found is None or placed.bound > found.bound else found
    assert found is not None
    return found


def _directions(A: Array, V: Array) -> list[Array]:
    """Unit vectors x that may be good for followers."""
    turns = np.linalg.svd(A)[2]
    best = np.linalg.svd(V)[2][0]  # if leaders lie along it, Ax must be orthogonal to it
    aside = np.linalg.svd(A - np.outer(best, best @ A))[2][0]
    ends = np.linalg.eigh((A + A.T) / 2)[1].T[[0, -1]]
    sharp = sharp_constant(A).x
    size = np.linalg.norm(sharp)
    return [*turns, aside, *ends, *([sharp / size] if size else [])]


def _ray(A: Array, R: float, n: int, x: Array) -> Ray:
    """The best place on the rays of one direction of the followers, whatever V is."""
    y = A @ x
    size, score = _length(y), float(x @ y)
    y = y / size if size > np.finfo(float).tiny else np.eye(len(x))[0]
    crowd = np.log((n - 2) / 2)
    most = min(R**2 * (size + max(-score, 0.0)), crowd + DECIDED)
    ahead, along = (max(-(R**2) * max(score, 0.0), most - 2 * DECIDED), most), (0.0, 1.0)
    for _ in range(ZOOMS):
        leads, rhos = np.linspace(*ahead, GRID)[:, None], np.linspace(*along, GRID)
        with np.errstate(divide="ignore", invalid="ignore"):
            cos = (leads / (R**2 * rhos) + rhos * score) / size
        cos = np.where((rhos > 0) & (cos <= 1), np.maximum(cos, 0.0), np.nan)
        lead = R**2 * rhos * (cos * size - rhos * score)
        answer = np.nan_to_num(expit(lead - crowd) * np.sqrt(1 - cos**2) * rhos)
        i, j = np.unravel_index(int(answer.argmax()), answer.shape)
        cells = (leads[1, 0] - leads[0, 0], rhos[1] - rhos[0])
        ahead = max(leads[i, 0] - cells[0], ahead[0]), min(leads[i, 0] + cells[0], ahead[1])
        along = max(rhos[j] - cells[1], along[0]), min(rhos[j] + cells[1], along[1])
    best = np.sqrt((n - 2) / 2) * float(answer[i, j]) * R**2 * size
    return Ray(x, y, float(np.nan_to_num(cos[i, j])), float(rhos[j]), float(best))


def _placed(V: Array, R: float, ray: Ray) -> Places:
    """Leaders of a ray, apart in the direction orthogonal to Ax that V stretches most."""
    across = np.linalg.svd(ray.y[None])[2][1:].T  # (d, d - 1), an orthonormal basis
    w = across @ np.linalg.svd(V @ across)[2][0]
    a, b = R * ray.cos * ray.y, R * np.sqrt(1 - ray.cos**2) * w
    return Places(a + b, a - b, R * ray.rho * ray.x, ray.answer * _length(V @ w))


def _length(y: Array) -> float:
    """The norm of a vector, none of whose entries is too large to be squared."""
    largest = float(np.abs(y).max()) or 1.0
    return largest * float(np.linalg.norm(y / largest))
