r"""What it means that a covariance has grown beyond bounds: blow-up, or growth that takes for ever.

Whether a flow blows up is read from the flow. Let :math:`\rho = \frac{d}{dt}\log|F|` be its rate of growth.
A flow that grows exponentially has a constant rate. One that blows up like
:math:`|F| \sim (T-t)^{-p}` has :math:`\rho = p/(T-t)`: the rate grows like the *power* 1/p of the size,
and the time that is left is :math:`1/(\rho\cdot\text{power})`. Under softmax attention
:math:`|S|' \sim |S|^2`, so the power is 2. L2 attention saturates in the directions that its keys see,
where the power is 0; in directions that K sends to 0 it need not, and can blow up too.
"""

from __future__ import annotations

import numpy as np

from attnflow.gaussian.system import System
from attnflow.validate import Array

#: Growth of the covariance at which a flow is asked whether it blows up.
LARGE = 1e10
#: Growth at which it has diverged.
HUGE = 1e100
#: Growth and condition number that together count as divergence, since rounding would soon decide
#: about the smaller eigenvalues. Sinkhorn attention forms F^T A F, where they differ twice as much.
UNEQUAL, UNEQUAL_SINKHORN = (1e12, 1e14), (1e8, 1e10)
#: The least power that counts as blow-up, (T - t)^-5 for F. Exponential growth has 0.
SUPERLINEAR = 0.2
#: The time elapsed is this many times what is left before a blow-up. Growth by LARGE at a constant
#: rate takes 12 units of its time.
EXPLOSIVE = 1e4
#: How much of the power must be left if the cloud were much larger: what saturates has lost it.
PERSISTENT = 0.8
#: How much larger: the same cloud, scaled; and one that went straight on, which is as far as
#: rounding lets the direction be known.
SCALE, STRAIGHT_ON = 1e20, 1e6
#: Part of the growth's own time over which the power is measured, to its square.
NEARBY = 1e-4

BLOW_UP, DIVERGENCE = "blow-up", "divergence"


def is_large(system: System, y: Array) -> bool:
    """Has the covariance grown so far that it may blow up?"""
    return bool(np.linalg.norm(system.factor(y)) > np.sqrt(LARGE) * system.width)


def is_beyond(system: System, y: Array) -> bool:
    """Has the flow grown beyond what doubles resolve?"""
    if np.abs(system.mean(y)).max() > HUGE * system.reach:
        return True
    least, condition = UNEQUAL_SINKHORN if system.sinkhorn else UNEQUAL
    if np.linalg.norm(system.factor(y)) < np.sqrt(least) * system.width:
        return False
    grown, unequal = system.growth(y)
    return grown > HUGE or (grown > least and unequal > condition)


def time_left(system: System, elapsed: float, y: Array, *, last_word: bool) -> float:
    """The time before the blow-up, inf where there is none in sight.

    Where the flow can be followed further, only a power that is the same at every scale decides.
    The last word is had where it cannot: then the power must last if the cloud goes straight on.
    """
    with np.errstate(all="ignore"):
        rate = system.rate(elapsed, y)
        if not 0 < rate < np.inf:
            return np.inf
        steep = power(system, elapsed, y, rate)
        if not steep > SUPERLINEAR:
            return np.inf
        left = 1 / (rate * steep)
        if left * EXPLOSIVE > elapsed:
            return np.inf
        lasts = PERSISTENT * steep
        if average_power(system, elapsed, y, (SCALE - 1) * y) > lasts:
            return left
        ahead = STRAIGHT_ON * system.velocity(elapsed, y) / rate
        if last_word and average_power(system, elapsed, y, ahead) > lasts:
            return left
    return np.inf


def power(system: System, elapsed: float, y: Array, rate: float) -> float:
    """d log(rate) / d log(size) along the flow, by a central difference."""
    step = NEARBY / rate
    move = step * system.velocity(elapsed, y)
    return _slope(system, (elapsed - step, y - move), (elapsed + step, y + move))


def average_power(system: System, elapsed: float, y: Array, move: Array) -> float:
    """The same from y to y + move, which is far away."""
    return _slope(system, (elapsed, y), (elapsed, y + move))


def _slope(system: System, first: tuple[float, Array], second: tuple[float, Array]) -> float:
    rates = [system.rate(*at) for at in (first, second)]
    sizes = [np.linalg.norm(system.factor(y)) for _, y in (first, second)]
    return float(np.diff(np.log(rates))[0] / np.diff(np.log(sizes))[0])
