r"""How much a layer of attention can stretch: every bound, and configurations that reach for them.

Tokens lie in a ball of radius R, scores are :math:`\langle Ax_i, x_j\rangle` with
:math:`A = K^\top Q`, and changes are measured by :math:`|X|^2=\sum_i|x_i|^2`. The constant of the
layer on the ball is the largest *local* constant, the norm of the Jacobian, which
:mod:`attnflow.jacobian` computes. Kim, Papamakarios and Mnih (2021): it grows at least like
:math:`R^2`. Geshkovski et al. (2024): it is at most exponential in :math:`R^2`, whatever n.
Castin, Ablin and Peyré (2024): it is at most of order :math:`R^2\sqrt n` and at least of order
:math:`\sqrt n` until n is exponentially large in :math:`R^2`. Two leaders between which all others
are undecided show that the order :math:`R^2\sqrt n` is right in two dimensions and more, and that
:func:`tight_upper_bound` has the right constant. The lower bound of order :math:`\sqrt n` has a constant

.. math:: \gamma = \max(-\lambda_{\min}, \lambda_{\max}/8),

with the extreme eigenvalues of the symmetric part of A: the proof asks for nothing but
:math:`\langle Au, u\rangle` of one unit vector u.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from attnflow import validate
from attnflow.ascent import worse as worse
from attnflow.jacobian import jvp as jvp
from attnflow.jacobian import local_constant as local_constant
from attnflow.jacobian import vjp as vjp
from attnflow.validate import Array

#: Points along an axis of the grid on which the place of the two leaders is chosen.
GRID = 129
LARGEST_RADIUS = 1e75


def gamma(A: ArrayLike) -> float:
    """max(-lambda_min, lambda_max / 8) of the symmetric part of A.

    >>> gamma([[-2.0, 0.0], [0.0, 8.0]]), gamma(np.eye(3))
    (2.0, 0.125)
    """
    return _direction(A)[0]


def adversarial(A: ArrayLike, R: float, n: int) -> Array:
    """n tokens on a line through 0 whose local constant grows like sqrt(n).

    (Ru, -Ru, ..., -Ru) for the eigenvector of a negative eigenvalue, (Ru, Ru/2, ..., Ru/2) for that
    of a positive one, whichever gives the larger gamma.

    >>> adversarial(-np.eye(1), 2.0, 3).ravel()
    array([ 2., -2., -2.])
    """
    _, u, others = _direction(A)
    place = np.full(validate.count(n, "n", 2, validate.MOST_STORED), others)
    place[0] = 1.0
    return _radius(R) * np.outer(place, u)


def lower_bound(A: ArrayLike, R: float, n: int) -> float:
    """sqrt(n-1) / (1 + (n-1) exp(-2 gamma R^2)) for V = I, with a mask or without.

    >>> round(lower_bound(-2 * np.eye(2), 1.0, 8), 6)
    2.345089
    """
    _, p = _share(A, R, n)
    return float(np.sqrt(n - 1) * p)


def sharper_lower_bound(A: ArrayLike, R: float, n: int) -> float:
    """sqrt(n-1) p (1 + 2 gamma R^2 (1-p)) with p = 1 / (1 + (n-1) exp(-2 gamma R^2)), for V = I.

    What the adversarial tokens answer when the first moves along the line.

    >>> round(sharper_lower_bound(-2 * np.eye(2), 1.0, 8), 6)
    3.41107
    """
    g, p = _share(A, R, n)
    return float(np.sqrt(n - 1) * p * (1 + 2 * g * (1 - p)))


def upper_bound(A: ArrayLike, V: ArrayLike, R: float, n: int) -> float:
    """sqrt(3) |V| (|A|^2 R^4 (4n+1) + n)^(1/2), with a mask or without.

    >>> round(upper_bound(-2 * np.eye(2), np.eye(2), 1.0, 8), 4)
    20.4939
    """
    a, v, R = _norm(_square(A, V), "A"), _norm(V, "V"), _radius(R)
    n = validate.count(n, "n")
    if v == 0:
        return 0.0
    with np.errstate(over="ignore"):  # a bound beyond 1e308 is inf
        return float(np.sqrt(3) * v * np.sqrt(np.float64(a) ** 2 * R**4 * (4 * n + 1) + n))


def tight_upper_bound(A: ArrayLike, V: ArrayLike, R: float, n: int) -> float:
    """|V| (sqrt(n) + |A| R^2 (1 + sqrt(n/2))), with a mask or without; never above upper_bound.

    The three terms are the others' move, the change of the query, and that of the keys: a token's
    attention has mean zero around its own mean, so no more than two others can hold all of it.
    Two leaders reach it as n and R^2 / log n grow.

    >>> round(tight_upper_bound(-2 * np.eye(2), np.eye(2), 1.0, 8), 4)
    8.8284
    """
    g, v = _norm(_square(A, V), "A") * _radius(R) ** 2, _norm(V, "V")
    n = validate.count(n, "n")
    return float(v * (np.sqrt(n) + g * (1 + np.sqrt(n / 2))))


def multi_head_upper_bound(
    A: Sequence[ArrayLike], V: Sequence[ArrayLike], W: Sequence[ArrayLike], R: float, n: int
) -> float:
    """The sum over heads of |W_h| times the bound of the head.

    >>> I = np.eye(2)
    >>> round(multi_head_upper_bound([-2 * I, I], [I, I], [I, 0 * I], 1.0, 8), 4)
    20.4939
    """
    if not len(A) == len(V) == len(W) >= 1:
        raise ValueError(
            f"A, V and W must have one matrix per head, got {len(A)}, {len(V)} and {len(W)}"
        )
    heads = zip(A, V, W, strict=True)
    return sum(_norm(w, "W") * upper_bound(a, v, R, n) for a, v, w in heads)


def mean_field_upper(A: ArrayLike, V: ArrayLike, R: float) -> float:
    """|V| (1 + 3 |A| R^2) exp(2 |A| R^2), whatever the number of tokens; inf beyond 1e308."""
    g, v = _norm(_square(A, V), "A") * _radius(R) ** 2, _norm(V, "V")
    if v == 0:
        return 0.0
    with np.errstate(over="ignore"):
        return float(v * (1 + 3 * g) * np.exp(2 * g))


def mean_field_lower(A: ArrayLike, R: float) -> float:
    """(gamma/2) R^2 exp(gamma R^2), for V = I and n - 1 = exp(2 gamma R^2) tokens or more.

    >>> round(mean_field_lower(-np.eye(1), 2.0), 4)
    109.1963
    """
    g = gamma(A) * _radius(R) ** 2
    with np.errstate(over="ignore"):
        return float(g / 2 * np.exp(g))


def spread(A: ArrayLike, V: ArrayLike, R: float, n: int) -> Array:
    """One token at 0, the others half at Ru and half at -Ru: the local constant grows like R^2.

    u is the unit vector with the largest |Vu| |A^T u| among the singular directions of A and V.
    An odd one out stays at 0.
    """
    u, _ = _widest(A, V)
    pairs = (_several(n, 3) - 1) // 2
    place = np.repeat([0.0, 1.0, -1.0], [n - 2 * pairs, pairs, pairs])
    return _radius(R) * np.outer(place, u)


def spread_bound(A: ArrayLike, V: ArrayLike, R: float, n: int) -> float:
    """|V (CA + I/n)| with C = R^2 (2m/n) u u^T for m pairs: what the token at 0 answers when it moves.

    Its attention is uniform, so its answer to e is V C A e with the covariance C of the tokens, and
    V e / n since it sees itself. The first has size R^2 (2m/n) |Vu| |A^T u|; for a negative <Au, u>
    the second takes something away.

    >>> round(spread_bound(-np.eye(2), np.eye(2), 3.0, 3), 6)
    5.666667
    """
    u, _ = _widest(A, V)
    A, V = _square(A, V), validate.array(V, "V", 2)
    pairs = (_several(n, 3) - 1) // 2
    C = _radius(R) ** 2 * 2 * pairs / n * np.outer(u, u)
    return float(np.linalg.norm(V @ (C @ A + np.eye(len(A)) / n), 2))


def two_leaders(A: ArrayLike, V: ArrayLike, R: float, n: int) -> Array:
    """Two tokens between which all others are undecided: the constant grows like R^2 sqrt(n).

    The leaders stand at au + bw and au - bw, the others at ru, with w orthogonal to u and Au. If
    the leaders move along Au in opposite senses, the others change sides: see
    :func:`two_leaders_bound`, which the numbers a, b, r make as large as they can.
    """
    u, w, (a, b, r), _ = _leaders(A, V, R, n)
    rest = np.tile(r * u, (int(n) - 2, 1))
    return np.vstack([a * u + b * w, a * u - b * w, rest])


def two_leaders_bound(A: ArrayLike, V: ArrayLike, R: float, n: int) -> float:
    r"""sqrt((n-2)/2) p b |r| |Au| |Vw| with p = 1 / (1 + (n-2)/2 exp(-r <Au,u> (a-r))).

    What the undecided answer when the leaders move along Au in opposite senses, with a mask or
    without. For A = -I and R^2 large against log n it is R^2 sqrt((n-2)/2).

    >>> I = np.eye(2)
    >>> round(two_leaders_bound(-I, I, 6.0, 4), 6)
    36.0
    """
    return _leaders(A, V, R, n)[3]


class LargeRadius(NamedTuple):
    """What the local constant at r x tends to as r grows."""

    value: float  #: |V| sqrt(multiplicity)
    multiplicity: int  #: how many tokens attend to the most popular one
    leaders: Array  #: (n,) the token that each one attends to in the end
    margin: float  #: by how much a leader's score beats the next; the limit needs it positive


def large_radius(A: ArrayLike, V: ArrayLike, x: ArrayLike, *, causal: bool = False) -> LargeRadius:
    """Every token ends up attending to the one with the largest <A x_i, x_j>.

    >>> large_radius([[1.0]], [[3.0]], [[1.0], [2.0], [0.5], [-1.0]]).multiplicity
    3
    """
    A, x = _square(A, V), validate.tokens(x)
    if A.shape != (x.shape[1], x.shape[1]):
        raise ValueError(f"A must have shape {(x.shape[1],) * 2}, got {A.shape}")
    scores = x @ A.T @ x.T
    if causal:
        scores[np.triu_indices(len(x), 1)] = -np.inf
    leaders = scores.argmax(axis=1)
    ranked = np.sort(scores, axis=1)
    margin = (ranked[:, -1] - ranked[:, -2]).min() if len(x) > 1 else np.inf
    most = int(np.bincount(leaders).max())
    return LargeRadius(_norm(V, "V") * float(np.sqrt(most)), most, leaders, float(margin))


def _direction(A: ArrayLike) -> tuple[float, Array, float]:
    """gamma, its unit vector u, and where on the line through u the other tokens stand."""
    A = validate.array(A, "A", 2)
    if A.shape[0] != A.shape[1]:
        raise ValueError(f"A must be square, got shape {A.shape}")
    values, vectors = np.linalg.eigh(A / 2 + A.T / 2)
    negative = -values[0] >= values[-1] / 8
    u = vectors[:, 0 if negative else -1]
    u = u * np.sign(u[np.abs(u).argmax()])
    return float(max(-values[0], values[-1] / 8)) + 0.0, u, -1.0 if negative else 0.5


def _share(A: ArrayLike, R: float, n: int) -> tuple[float, float]:
    """gamma R^2, and the attention p that every other token pays to the first."""
    g = gamma(A) * _radius(R) ** 2
    return g, float(expit(2 * g - np.log(_several(n) - 1)))


def _widest(A: ArrayLike, V: ArrayLike) -> tuple[Array, float]:
    """The singular direction u of A or V with the largest |Vu| |A^T u|, and that product."""
    A, V = _square(A, V), validate.array(V, "V", 2)
    directions = np.hstack([np.linalg.svd(A)[0], np.linalg.svd(V)[2].T])
    sizes = np.linalg.norm(V @ directions, axis=0) * np.linalg.norm(A.T @ directions, axis=0)
    best = int(sizes.argmax())
    return directions[:, best], float(sizes[best])


def _leaders(
    A: ArrayLike, V: ArrayLike, R: float, n: int
) -> tuple[Array, Array, tuple[float, float, float], float]:
    """u, w, (a, b, r) and the bound, for the better of the two extreme eigenvectors u."""
    A, V, R = _square(A, V), validate.array(V, "V", 2), _radius(R)
    n = _several(n, 3)
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
        np.outer(u, u) + np.outer(A @ u, A @ u) / (_norm(A, "A") or 1) ** 2
    )
    free = vectors[:, values < 1e-12]
    if not free.size:
        raise ValueError(
            f"two leaders need a direction orthogonal to u and Au, got dimension {len(A)}"
        )
    return free @ np.linalg.svd(V @ free)[2][0]


def _square(A: ArrayLike, V: ArrayLike) -> Array:
    A, V = validate.array(A, "A", 2), validate.array(V, "V", 2)
    if A.shape[0] != A.shape[1] or V.shape[1] != len(A):
        raise ValueError(f"A must be square with as many columns as V, got {A.shape} and {V.shape}")
    return A


def _norm(M: ArrayLike, name: str) -> float:
    return float(np.linalg.norm(validate.array(M, name, 2), 2))


def _radius(R: float) -> float:
    """The radius of the ball; its fourth power is formed."""
    out = validate.positive(R, "R")
    if out > LARGEST_RADIUS:
        raise ValueError(f"R must be at most {LARGEST_RADIUS:g}, got {out:g}")
    return out


def _several(n: int, least: int = 2) -> int:
    return validate.count(n, "n", least)
