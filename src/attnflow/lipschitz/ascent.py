r"""A search for tokens in a ball at which a layer stretches more.

The local constant :math:`\sigma` is the largest value of :math:`\langle u, J(x)e\rangle` over unit u and
e. So its gradient is that of the right side with the singular vectors held, which
:meth:`attnflow.lipschitz.Linearised.bend` computes. The search is the book's own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from attnflow import validate
from attnflow.attention.head import SoftmaxLayer
from attnflow.flows import unit_rows
from attnflow.lipschitz.ball import radius
from attnflow.lipschitz.jacobian import Linearised
from attnflow.lipschitz.lanczos import local_constant
from attnflow.validate import Array

#: An ascent whose step has shrunk to this fraction of the radius has arrived.
SMALLEST_STEP = 1e-5
#: Tokens with an entry beyond it are outside every ball; their squares may be no numbers.
FAR = 1e100


class Ascent(NamedTuple):
    """Tokens in a ball at which the local constant is locally as large as it gets."""

    x: Array  #: (n, d)
    value: float  #: the local constant there
    history: Array  #: the value after every accepted step, the start first
    iterations: int  #: steps that were tried
    residual: float  #: the length of the next step to try, over R; 0 where there is no slope
    converged: bool  #: whether no step of relevant size goes up any more


def worse(
    layer: SoftmaxLayer, x: ArrayLike, R: float, *, max_iter: int = 200, tol: float = 1e-6
) -> Ascent:
    """Climb from tokens x within the ball of radius R to a larger local constant.

    Steps follow the gradient, are cut back to the ball, grow after a success and shrink after a
    failure. What it finds is a lower bound of the constant of the ball, whether or not its steps
    run out, which is therefore no cause for a warning.

    >>> from attnflow.attention import SoftmaxAttention
    >>> I = np.eye(1)
    >>> end = worse(SoftmaxAttention(-I, I, I), [[0.5], [0.0], [-0.2]], 1.0)
    >>> bool((np.diff(end.history) > 0).all()), end.converged
    (True, True)
    """
    x, R = validate.tokens(x), radius(R)
    max_iter, tol = validate.count(max_iter, "max_iter"), validate.positive(tol, "tol")
    x, step = _into_ball(x, R), 0.5 * R
    here = local_constant(layer, x, tol)
    history = [here.value]
    for done in range(1, max_iter + 1):
        slope = Linearised(layer, x).bend(here.left, here.right)
        slope = np.ldexp(slope, -np.frexp(np.abs(slope).max())[1])  # its direction alone matters
        longest = np.linalg.norm(slope, axis=1).max()
        while step > SMALLEST_STEP * R and longest > 0:
            there = _into_ball(x + step / longest * slope, R)
            found = local_constant(layer, there, tol)
            if found.value > here.value * (1 + tol):
                break
            step /= 2
        else:
            residual = step / R if longest > 0 else 0.0
            return Ascent(x, here.value, np.array(history), done, residual, True)
        x, here, step = there, found, 2 * step
        history.append(here.value)
    return Ascent(x, here.value, np.array(history), max_iter, step / R, False)


def _into_ball(x: Array, R: float) -> Array:
    far = np.abs(x).max(axis=1) > FAR
    if far.any():
        x = x.copy()
        x[far] = R * unit_rows(x[far])
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    return x * (R / np.maximum(norms, R))
