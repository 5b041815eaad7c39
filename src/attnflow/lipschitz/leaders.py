r"""Two leaders between which all others are undecided.

Followers stand at :math:`\rho x`, the leaders at :math:`\alpha\,Ax/|Ax| \pm \beta w` with unit vectors x and
:math:`w\perp Ax`. A follower scores :math:`\rho\alpha|Ax|` with either leader and
:math:`\rho^2\langle Ax, x\rangle` with the other followers. If the leaders move along Ax in opposite senses, all
followers change sides, and the answer is of order :math:`R^2\sqrt n`: the order of the upper bound of
:cite:t:`castin2024` is right in two dimensions and more, for every A. This is the book's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import expit, log_expit

from attnflow import validate
from attnflow.lipschitz.ball import length, norm, pair, radius, several
from attnflow.lipschitz.dual import HALVINGS
from attnflow.validate import Array

#: Roots are found to rounding, relative to their size.
XTOL, RTOL = 1e-300, 4 * np.finfo(float).eps
#: Steps to a root: the range of numbers may have to be halved from end to end.
HALVED = 4000
#: Directions nearer than this are one: an answer near its largest changes by the square.
MET = 1e-9
#: Squares of scores are formed.
LARGEST_SCORE = 1e150


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

    Their places make :func:`two_leaders_bound` as large as it can be if V keeps lengths up to a factor.
    For other V the followers' direction is the best among that one, the singular directions and one
    that leaves the best direction of V to the leaders; on its ray the places are the best.

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
    """The best places for two leaders and n - 2 followers, as :func:`two_leaders` says.

    >>> round(places(-np.eye(2), np.eye(2), 6.0, 4).bound, 6)
    36.0
    """
    (A, V), R = pair(A, V), radius(R)
    n = several(n, 3)
    if len(A) < 2:
        raise ValueError("two leaders need a direction orthogonal to Ax, got dimension 1")
    if (most := norm(A, "A") * R**2) > LARGEST_SCORE:
        raise ValueError(f"|A| R^2 must be at most {LARGEST_SCORE:g}, got {most:g}")
    rays = sorted((_ray(A, R, n, x) for x in _directions(A, V, R, n)), key=lambda ray: -ray.answer)
    longest, found = norm(V, "V"), None
    for ray in rays:  # what V makes of w is at most its norm, so most rays need not be looked at
        if found is None or ray.answer * longest > found.bound:
            placed = _placed(V, R, ray)
            found = placed if found is None or placed.bound > found.bound else found
    assert found is not None
    return found


def _directions(A: Array, V: Array, R: float, n: int) -> list[Array]:
    """Unit vectors x that may be good for followers; the first is the best if V keeps lengths."""
    turns = np.linalg.svd(A)[2]
    best = np.linalg.svd(V)[2][0]  # if leaders lie along it, Ax must be orthogonal to it
    aside = np.linalg.svd(A - np.outer(best, best @ A))[2][0]
    ends = np.linalg.eigh(A / 2 + A.T / 2)[1].T[[0, -1]]
    return [_direction(A, R, n), *turns, aside, *ends]


def _direction(A: Array, R: float, n: int) -> Array:
    r"""The best direction of followers if V keeps lengths.

    The squared answer grows with :math:`|Ax|^2` and falls with :math:`\langle Ax, x\rangle`, and these pairs
    form a convex set (:mod:`attnflow.lipschitz.sharp`): the best x is a top eigenvector of
    :math:`A^\top A - 2\mu S`, S the symmetric part, where :math:`\mu` is :math:`|Ax|` times the cosine of
    the leaders.
    """
    size = norm(A, "A") or 1.0
    B, crowd = A / size, float(np.log((n - 2) / 2))
    gram, symmetric = B.T @ B, (B + B.T) / 2

    def top(mu: float) -> tuple[float, Array]:
        values, vectors = np.linalg.eigh(gram - 2 * mu * symmetric)
        return float(values[-1]), vectors[:, -1]

    def height(x: Array, placed: Callable[[float, float, float], tuple[float, float]]) -> float:
        """The cosine of the leaders times the length of B at the followers."""
        length, score = float(np.linalg.norm(B @ x)), float(x @ B @ x)
        cos, rho = placed(R**2 * size * length, R**2 * size * score, crowd)
        return cos * rho * length

    low, high = 0.0, 1.0
    near, far = top(low)[1], top(high)[1]
    for _ in range(HALVINGS):
        mu = (low + high) / 2
        value, x = top(mu)
        if value > 0 and height(x, _on_the_rim) > mu:
            low, near = mu, x
        else:
            high, far = mu, x
    far = far if near @ far >= 0 else -far
    while np.linalg.norm(near - far) > MET:  # two eigenvalues cross: the best is on the arc between
        x = (near + far) / np.linalg.norm(near + far)
        near, far = (x, far) if height(x, _on_the_ray) > mu else (near, x)
    return near


def _on_the_rim(g: float, h: float, crowd: float) -> tuple[float, float]:
    """The best cosine of the leaders if the followers are at the rim: the root of a falling function.

    `g` is R^2 |Ax| and `h` is R^2 <Ax, x>. The logarithm of p times the sine is concave in the cosine.
    """
    rest = h + crowd

    def slope(cos: float) -> float:
        return (1 - cos**2) * g * float(expit(rest - g * cos)) - cos

    return (
        float(brentq(slope, 0.0, 1.0, xtol=XTOL, rtol=RTOL, maxiter=HALVED))
        if slope(0.0) > 0
        else 0.0
    ), 1.0


def _on_the_ray(g: float, h: float, crowd: float) -> tuple[float, float]:
    r"""The best cosine of the leaders and the best place of the followers on their ray, over R.

    In :math:`u=\rho\cos` and :math:`\rho^2` the logarithm of the answer is concave. Inside the ball the best u is
    g/2h, and :math:`\tau=2h(\rho^2-u^2)` is the root of a growing function; else followers are at the rim.
    """
    if 0 < g < 2 * h:
        u, ahead = g / (2 * h), crowd - g / (2 * h) * g / 2

        def slope(tau: float) -> float:
            return float(np.log(tau) + log_expit(ahead + tau / 2))

        tau = float(brentq(slope, 1.0, 2 + 2 * max(-ahead, 0.0), rtol=RTOL, maxiter=HALVED))
        if (rho := np.sqrt(u**2 + tau / (2 * h))) < 1:
            return float(u / rho), float(rho)
    return _on_the_rim(g, h, crowd)


def _ray(A: Array, R: float, n: int, x: Array) -> Ray:
    """The best place on the rays of one direction of the followers, whatever V is."""
    y = A @ x
    size, score, crowd = length(y), float(x @ y), float(np.log((n - 2) / 2))
    y = y / size if size > np.finfo(float).tiny else np.eye(len(x))[0]
    cos, rho = _on_the_ray(R**2 * size, R**2 * score, crowd)
    p = float(expit(R**2 * rho * (cos * size - rho * score) - crowd))
    answer = np.sqrt((n - 2) / 2) * p * np.sqrt(1 - cos**2) * rho * R**2 * size
    return Ray(x, y, cos, rho, float(answer))


def _placed(V: Array, R: float, ray: Ray) -> Places:
    """Leaders of a ray, apart in the direction orthogonal to Ax that V stretches most."""
    across = np.linalg.svd(ray.y[None])[2][1:].T  # (d, d - 1), an orthonormal basis
    w = across @ np.linalg.svd(V @ across)[2][0]
    a, b = R * ray.cos * ray.y, R * np.sqrt(1 - ray.cos**2) * w
    return Places(a + b, a - b, R * ray.rho * ray.x, ray.answer * length(V @ w))
