r"""The coalescing model of clusters on the circle: when they merge, and where.

Two clusters of masses :math:`m_1, m_2` at an angle :math:`\varphi` see each other with the weight
:math:`w = e^{-\beta(1-\cos\varphi)}`. Under (SA) cluster 1 moves at
:math:`m_2 w\sin\varphi/(m_1+m_2w)`, and so the time to merge and the place are integrals of one
variable (:func:`pair_log_time`, :func:`pair_place`). In the limit of low temperature the time is
:math:`e^{\beta(1-\cos\varphi)}` to leading order and the place is the mean *by squared masses*.

Many clusters merge pair by pair, the smallest gap first: :func:`coalesce`. In the clock
:math:`s = (\log t)/\beta` the k-th merge is at the barrier :math:`1-\cos` of the k-th smallest gap.
This is the book's own; :cite:t:`geshkovski2024` illustrate the staircase of the energy.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import quad

from attnflow import validate
from attnflow.sphere.circle import circle_angles, circle_masses, relative
from attnflow.validate import Array

#: Two clusters count as one when they are as near as this.
NEAR = 1e-6
#: Integrals over shorter intervals have no nodes with all their digits.
SMALLEST_ANGLE = 1e-300


def pair_log_time(beta: float, angle: float, m1: float, m2: float, near: float = NEAR) -> float:
    r"""The logarithm of the time from `angle` in (0, pi) down to `near`, by SA.

    .. math:: T = \int_{\mathrm{near}}^{\mathrm{angle}} \frac{d\varphi}{w\sin\varphi}
        \Bigl(\frac{m_2}{m_1+m_2w} + \frac{m_1}{m_2+m_1w}\Bigr)^{-1},
        \qquad w = e^{-\beta(1-\cos\varphi)}

    For equal masses it is :func:`attnflow.sphere.merge_time`, which has a closed form.

    >>> from attnflow.sphere import merge_time
    >>> bool(np.isclose(np.exp(pair_log_time(9.0, 1.0, 2.0, 2.0, 0.01)), merge_time(9.0, 1.0, 0.01)))
    True
    """
    beta, angle, m1, m2 = _pair(beta, angle, m1, m2)
    near = validate.positive(near, "near")
    if near >= angle:
        raise ValueError(f"near must be below the angle, {angle:.6g}, got {near}")

    def slowness(phi: float) -> float:
        """The integrand, over e^{beta(1 - cos angle)}."""
        w = np.exp(-2 * beta * np.sin(phi / 2) ** 2)
        rate = m2 / (m1 + m2 * w) + m1 / (m2 + m1 * w)
        # cos(phi) - cos(angle), without cancellation
        ahead = 2 * np.sin((angle + phi) / 2) * np.sin((angle - phi) / 2)
        return float(np.exp(-beta * ahead) / (rate * np.sin(phi)))

    height = 2 * beta * np.sin(angle / 2) ** 2
    return float(height + np.log(_over(slowness, near, angle, beta)))


def pair_log_limit(beta: float, angle: float, m1: float, m2: float) -> float:
    r"""The same to leading order as beta grows, without its correction of order 1/beta.

    .. math:: \log T \approx \beta(1-\cos\varphi)
        - \log\Bigl(\beta\sin^2\varphi\,\frac{m_1^2+m_2^2}{m_1m_2}\Bigr)

    >>> gap = [pair_log_time(b, 1.0, 1.0, 3.0) - pair_log_limit(b, 1.0, 1.0, 3.0) for b in (99, 198)]
    >>> round(gap[0] / gap[1], 1)
    2.0
    """
    beta, angle, m1, m2 = _pair(beta, angle, m1, m2)
    if not beta:
        raise ValueError(f"beta must be > 0 for its asymptotics, got {beta:g}")
    ratio = m1 / m2 + m2 / m1
    return float(2 * beta * np.sin(angle / 2) ** 2 - np.log(beta * np.sin(angle) ** 2 * ratio))


def pair_place(beta: float, angle: float, m1: float, m2: float, normalised: bool = True) -> float:
    r"""How far cluster 1 has turned towards cluster 2 when they meet, in [0, angle].

    .. math:: \int_0^{\mathrm{angle}} \frac{m_2^2+m_1m_2w}{m_1^2+m_2^2+2m_1m_2w}\,d\varphi
        \text{ (SA)}, \qquad \frac{m_2}{m_1+m_2}\,\mathrm{angle} \text{ (USA)}

    with :math:`w = e^{-\beta(1-\cos\varphi)}`; `beta` may be infinite, where SA has the mean by
    squared masses.

    >>> pair_place(np.inf, 1.0, 1.0, 2.0), round(pair_place(np.inf, 0.9, 1.0, 2.0, False), 12)
    (0.8, 0.6)
    """
    cold = _is_infinite(beta)
    beta, angle, m1, m2 = _pair(1.0 if cold else beta, angle, m1, m2)
    if not normalised:
        return m2 / (m1 + m2) * angle
    squares, product = m1**2 + m2**2, m1 * m2
    if cold:
        return m2**2 / squares * angle

    def beyond(phi: float) -> float:
        w = np.exp(-2 * beta * np.sin(phi / 2) ** 2)
        return float(w / (squares + 2 * product * w))

    shift = product * (m1**2 - m2**2) / squares * _over(beyond, 0.0, angle, beta)
    return float(m2**2 / squares * angle + shift)


def place_shift(m1: float, m2: float) -> float:
    r"""The constant c in :func:`pair_place` = (squared masses) + c / sqrt(beta) + O(1/beta^{3/2}).

    .. math:: c = \frac{m_1^2-m_2^2}{2(m_1^2+m_2^2)}\int_0^\infty\frac{q\,du}{e^{u^2/2}+q},
        \qquad q = \frac{2m_1m_2}{m_1^2+m_2^2}

    >>> shift = pair_place(400.0, 1.0, 3.0, 1.0) - pair_place(np.inf, 1.0, 3.0, 1.0)
    >>> round(20 * shift, 3), round(place_shift(3.0, 1.0), 3)
    (0.215, 0.214)
    """
    _, _, m1, m2 = _pair(1.0, 1.0, m1, m2)
    squares = m1**2 + m2**2
    q = 2 * m1 * m2 / squares
    integral = quad(lambda u: q / (np.exp(u * u / 2) + q), 0, 12, epsabs=0, epsrel=1e-12)[0]
    return float((m1**2 - m2**2) / (2 * squares) * integral)


class Staircase(NamedTuple):
    """What the coalescing model says: n - 1 merges of n clusters.

    >>> steps = coalesce([0.0, 0.5, 2.0])
    >>> steps.levels.round(4), steps.heights.round(4)
    (array([0.1224, 1.1782]), array([0.3333, 0.5556, 1.    ]))
    """

    levels: Array  #: (n - 1,) (log t) / beta of every merge
    kept: NDArray[np.int_]  #: (n - 1,) the smallest number of a token of the new cluster
    lost: NDArray[np.int_]  #: (n - 1,) that of the other one
    gaps: Array  #: (n - 1,) the angle that closes
    places: Array  #: (n - 1,) the angle of the new cluster, in [0, 2 pi)
    heights: Array  #: (n,) the energy over its maximum before, between and after the merges
    margins: Array  #: (n - 1,) how far on the clock the next pair was behind; the last is infinite

    def energy(self, levels: ArrayLike) -> Array:
        """The energy over its maximum, in the limit of low temperature, at clock times.

        >>> coalesce([0.0, 0.5, 2.0]).energy([0.1, 0.2, 1.2]).round(4)
        array([0.3333, 0.5556, 1.    ])
        """
        s = validate.array(levels, "levels", 1)
        return self.heights[np.searchsorted(self.levels, s, side="right")]


def coalesce(
    angles: ArrayLike, masses: ArrayLike | None = None, beta: float = np.inf, *,
    normalised: bool = True, near: float = NEAR,
) -> Staircase:  # fmt: skip
    r"""Merge neighbours pair by pair, that with the smallest time first.

    At infinite `beta` the clock of a pair is its barrier :math:`1-\cos` of the gap. At a finite one
    (SA alone) a pair whose gap last changed at time t needs until t + T, T of
    :func:`pair_log_time`, and meets at :func:`pair_place`: what is left out is the pull of others.

    >>> coalesce([0.0, 1.0, 3.0], beta=60.0).levels.round(3)
    array([0.386, 1.734])
    """
    theta, beta = circle_angles(angles), beta if _is_infinite(beta) else validate.beta(beta)
    given = circle_masses(masses, len(theta))
    if not beta or (np.isfinite(beta) and not normalised):
        raise ValueError(f"beta must be > 0, and infinite for (USA), got {beta:g}")
    ring = list(np.argsort(theta % (2 * np.pi)))
    at, m, total = dict(enumerate(theta % (2 * np.pi))), dict(enumerate(given)), given.sum()
    first = {int(i): int(i) for i in ring}  # the smallest token of a cluster

    def due(k: int, since: float) -> tuple[float, float]:
        """The clock of the gap after the k-th of the ring, and the gap."""
        i, j = ring[k], ring[(k + 1) % len(ring)]
        gap = (at[j] - at[i]) % (2 * np.pi)
        if gap >= np.pi:
            return np.inf, gap
        if np.isinf(beta):
            return 2 * np.sin(gap / 2) ** 2, gap
        own = pair_log_time(beta, gap, m[i], m[j], near) if gap > near else -np.inf
        return float(np.logaddexp(since, own)), gap

    clocks = [due(k, -np.inf) for k in range(len(ring))]
    rows, heights = [], [sum(v**2 for v in m.values()) / total**2]
    while len(ring) > 1:
        k = int(np.argmin([clock for clock, _ in clocks]))
        clock, gap = clocks[k]
        behind = sorted(other for other, _ in clocks)[1] - clock
        if np.isinf(clock):
            raise ValueError("two clusters must not be opposite each other, got a gap of pi")
        i, j = ring[k], ring[(k + 1) % len(ring)]
        at[i] = (at[i] + pair_place(beta, gap, m[i], m[j], normalised)) % (2 * np.pi)
        heights.append(heights[-1] + 2 * m[i] * m[j] / total**2)
        m[i] += m[j]
        low, high = sorted((first[i], first[j]))
        first[i] = low
        unit = 1.0 if np.isinf(beta) else beta
        rows.append((clock / unit, low, high, gap, at[i], behind / unit))
        gone = (k + 1) % len(ring)
        del ring[gone], clocks[gone]
        k -= gone < k
        if len(ring) > 1:
            clocks[k], clocks[k - 1] = due(k, clock), due(k - 1, clock)
    levels, kept, lost, gaps, places, margins = map(np.array, zip(*rows, strict=True))
    return Staircase(
        levels, kept.astype(int), lost.astype(int), gaps, places, np.array(heights), margins
    )


def _over(f: Callable[[float], float], low: float, high: float, beta: float) -> float:
    """The integral of f, whose scales are 1, 1/beta at the far end and 1/sqrt(beta) at 0."""
    scale = 1 / np.sqrt(max(beta, 1.0))
    marks = {*(low + c * scale for c in (0.01, 0.3, 2.0, 6.0)), *(10.0**-k for k in range(1, 12))}
    marks |= {high - c / max(beta, 1.0) / max(np.sin(high), scale) for c in (0.3, 3.0, 30.0)}
    knots = [low, *sorted(v for v in marks if low < v < high), high]
    parts = [
        quad(f, a, b, epsabs=0.0, epsrel=1e-11, limit=200)[0] for a, b in itertools.pairwise(knots)
    ]
    return float(sum(parts))


def _is_infinite(beta: float) -> bool:
    """What is no number at all is left to `validate`."""
    return isinstance(beta, float) and beta == np.inf


def _pair(beta: float, angle: float, m1: float, m2: float) -> tuple[float, float, float, float]:
    angle = validate.positive(angle, "angle")
    if angle >= np.pi:
        raise ValueError(f"the angle must be below pi, got {angle}")
    if angle < SMALLEST_ANGLE:
        raise ValueError(f"the angle must be at least {SMALLEST_ANGLE:g}, got {angle:g}")
    both = np.array([validate.positive(m1, "m1"), validate.positive(m2, "m2")])
    first, second = relative(both, "m1 and m2")
    return validate.beta(beta), angle, float(first), float(second)
