r"""How a start that is nearly orthogonal strays from the common curve, to first order.

Let the inner products start at :math:`I + E` with a small symmetric E. Tokens are alike, so to first
order the deviation from :math:`\gamma_\beta(t)` of :mod:`attnflow.sphere.orthogonal` has three
coefficients,

.. math:: G_{ij}(t) - \gamma_\beta(t) = a\,E_{ij} + b\sum_{k\ne i,j}(E_{ik}+E_{jk})
    + c\sum_{\{k,l\}\cap\{i,j\}=\emptyset} E_{kl}.

Uniform tokens of :math:`\mathbb R^d` have entries of mean zero and variance 1/d, uncorrelated, so
that a deviation has the standard deviation :math:`\sigma_t/\sqrt d`,
:math:`\sigma_t^2 = a^2 + 2(n-2)b^2 + \binom{n-2}2c^2`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from attnflow import validate
from attnflow.sphere.gram import gram_flow
from attnflow.validate import Array

#: Half the step of the central difference, whose error is its square.
STEP = 1e-4
#: Matrices of inner products are followed, a dozen of them at a time.
MOST_TOKENS = 2000


class Response(NamedTuple):
    """The three coefficients along time.

    >>> Response(np.zeros(1), np.ones(1), np.zeros(1), np.zeros(1), n=4).spread
    array([1.])
    """

    times: Array  #: (m,)
    same: Array  #: a, from the pair itself
    shared: Array  #: b, from every pair that shares a token with it
    apart: Array  #: c, from every pair that shares none
    n: int

    @property
    def spread(self) -> Array:
        """The standard deviation of a deviation for uniform tokens, times the root of d."""
        n = self.n
        return np.sqrt(
            self.same**2 + 2 * (n - 2) * self.shared**2 + (n - 2) * (n - 3) / 2 * self.apart**2
        )

    def deviations(self, E: ArrayLike) -> Array:
        """What E adds to the inner products, shape (m, n, n); diagonals stay as they are."""
        e = validate.array(E, "E", 2)
        if e.shape != (self.n, self.n):
            raise ValueError(f"E must have shape {(self.n, self.n)}, got {e.shape}")
        e = e - np.diag(np.diag(e))
        rows = e.sum(axis=1)
        shared = rows[:, None] + rows - 2 * e
        apart = e.sum() / 2 - shared - e
        a, b, c = (v[:, None, None] for v in (self.same, self.shared, self.apart))
        return (a * e + b * shared + c * apart) * (1 - np.eye(self.n))


def response(beta: float, n: int, times: ArrayLike, normalised: bool = True) -> Response:
    """The coefficients at increasing times from 0, by differences of :func:`gram_flow`.

    The equation is that of :cite:t:`geshkovski2025`. Where no pairs share a token or are apart
    (n < 3, n < 4) their coefficients are zero.

    >>> found = response(0.0, 4, [0.0, 1.0])
    >>> found.same.round(6)[0], found.shared.round(6)[0]
    (np.float64(1.0), np.float64(0.0))
    """
    n = validate.count(n, "n", 2, MOST_TOKENS)
    E = np.zeros((n, n))
    E[0, 1] = E[1, 0] = STEP
    up, down = (gram_flow(np.eye(n) + s * E, beta, times, normalised, rtol=1e-11) for s in (1, -1))
    slope = (up.states - down.states) / (2 * STEP)
    none = np.zeros(len(slope))
    shared, apart = (slope[:, 0, 2] if n > 2 else none), (slope[:, 2, 3] if n > 3 else none)
    return Response(up.times, slope[:, 0, 1], shared, apart, n)
