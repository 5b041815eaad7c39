r"""A search for tokens in a ball at which a layer stretches more."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from attnflow import validate
from attnflow.attention.head import SoftmaxLayer as Layer
from attnflow.jacobian import Linearised, local_constant
from attnflow.validate import Array

#: An ascent whose step has shrunk to this fraction of the radius has arrived.
SMALLEST_STEP = 1e-5


class Ascent(NamedTuple):
    """Tokens in a ball at which the local constant is locally as large as it gets."""

    x: Array
    value: float
    history: Array  #: the value after every accepted step, the start first
    iterations: int
    converged: bool  #: whether no step of relevant size goes up any more


def worse(layer: Layer, x: ArrayLike, R: float, *, steps: int = 200, tol: float = 1e-6) -> Ascent:
    r"""Climb from tokens x within the ball of radius R to a larger local constant.

    With unit singular vectors the gradient of :math:`\sigma(x) = \langle u, J(x) e\rangle` is that
    of the right side with u and e held. Steps follow it, are cut back to the ball, grow after a
    success and shrink after a failure. What it finds is a lower bound of the constant of the ball,
    whether or not its steps run out, which is therefore no cause for a warning.
    """
    x, R = validate.tokens(x), validate.positive(R, "R")
    steps, tol = validate.count(steps, "steps"), validate.positive(tol, "tol")
    x, step = _into_ball(x, R), 0.5 * R
    here = local_constant(layer, x, tol)
    history = [here.value]
    for done in range(1, steps + 1):
        slope = Linearised(layer, x).bend(here.left, here.right)
        longest = np.linalg.norm(slope, axis=1).max()
        while step > SMALLEST_STEP * R and longest > 0:
            there = _into_ball(x + step / longest * slope, R)
            found = local_constant(layer, there, tol)
            if found.value > here.value * (1 + tol):
                break
            step /= 2
        else:
            return Ascent(x, here.value, np.array(history), done, True)
        x, here, step = there, found, 2 * step
        history.append(here.value)
    return Ascent(x, here.value, np.array(history), steps, False)


def _into_ball(x: Array, R: float) -> Array:
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    return x * (R / np.maximum(norms, R))
