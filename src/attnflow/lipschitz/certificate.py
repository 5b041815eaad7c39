r"""What a random start proves about eigenvalues that it has not found.

Lanczos' method turns a symmetric matrix B and a unit vector :math:`v_1` into orthonormal vectors
:math:`v_{j+1} = p_j(B)v_1`, with polynomials :math:`p_j` of degree j that a recurrence of three terms
computes from the tridiagonal matrix. Let :math:`\lambda` be the largest eigenvalue of B and
:math:`\gamma` the component of :math:`v_1` along its eigenvector. That vector has length one, so

.. math:: \gamma^2\sum_{j\le k}p_j(\lambda)^2 \le 1 .

Beyond the largest Ritz value the sum increases. So :math:`\lambda` lies below the number t at which it
is :math:`1/\delta^2`, unless :math:`|\gamma| < \delta`; and how improbable that is for a random start is
known: :math:`\gamma^2` has the law :math:`\mathrm{Beta}(\frac12, \frac{N-1}2)` in N dimensions. This is a
bound of :cite:t:`hochstenbach2013`, with the sum over all polynomials in the place of one of them.
"""

from __future__ import annotations

import math

from scipy.special import betaincinv

from attnflow.validate import Array

#: Halvings of an interval down to rounding.
HALVINGS = 60


def unseen(size: int, failure: float) -> float:
    r"""The :math:`1/\delta^2` at which a random unit vector has :math:`|\gamma|<\delta` with this probability.

    >>> unseen(1, 1e-9)
    1.0
    >>> round(unseen(2, 0.5), 6)  # on a circle, |cos| < sqrt(1/2) half of the time
    2.0
    """
    return 1.0 if size == 1 else 1 / float(betaincinv(0.5, (size - 1) / 2, failure))


def reach(diagonal: Array, off: Array, t: float, most: float) -> float:
    r""":math:`\sum_jp_j(t)^2` for the polynomials of a tridiagonal matrix, or the first sum beyond `most`.

    `off` ends with the length of the vector that did not fit, so that the last polynomial has the
    Ritz values as its roots; t must lie beyond all of them. It is inf where that length is zero.

    >>> import numpy as np
    >>> reach(np.array([0.0]), np.array([1.0]), 3.0, 1e9)  # 1 and t
    10.0
    """
    before, here, total, last = 0.0, 1.0, 1.0, 0.0
    for a, b in zip(diagonal.tolist(), off.tolist(), strict=True):
        if total > most:
            break
        if b == 0:
            return math.inf
        before, here, last = here, ((t - a) * here - last * before) / b, b
        total += here * here
    return total


def ceiling(diagonal: Array, off: Array, top: float, most: float) -> float:
    """Where the sum of :func:`reach` is `most`, beyond the largest Ritz value `top`; inf if too far to tell.

    >>> import numpy as np
    >>> round(ceiling(np.array([0.0]), np.array([1.0]), 0.0, 10.0), 9)
    3.0
    """
    scale = max(abs(top), float(abs(off).max()))
    if scale == 0:
        return top
    step = 1e-15 * scale
    while reach(diagonal, off, top + step, most) < most:
        step *= 4
        if step > 1e30 * scale:
            return math.inf
    low, high = top + step / 4, top + step
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if reach(diagonal, off, middle, most) < most else (low, middle)
    return high
