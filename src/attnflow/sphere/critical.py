r"""Where the flow on the sphere can rest, and which of these places it leaves.

Both flows, SA and USA, rest where the energy

.. math:: E(x) = \frac1{2\beta n^2}\sum_{i,j} e^{\beta\langle x_i,x_j\rangle}

is critical on :math:`(\mathbb S^{d-1})^n`. Rest at almost no start but one cluster means: every other
critical point is a *strict saddle*, its Hessian has a positive direction (:cite:t:`geshkovski2025`).
:func:`critical_points` looks for critical points, :func:`field_jacobian` has their Hessians.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import least_squares

from attnflow import validate
from attnflow.softmax import softmax_rows
from attnflow.sphere.tokens import clusters, tangent, uniform, unit, unit_tokens
from attnflow.validate import Array

#: A critical point: the largest pull on a token, over the sum of the weights of the others.
AT_REST = 1e-9
#: Tokens with inner products above 1 - this are one.
TOGETHER = 1e-6
#: Coordinates of tokens whose critical points are looked for: a matrix of their number is formed
#: at every step, by differences.
MOST_COORDINATES = 1000
#: Random starts; a million of them take an hour.
MOST_DRAWS = 10**6


class Critical(NamedTuple):
    """A critical point of the energy, and how it is left by groups that stay together.

    >>> point = Critical(np.array([[1.0, 0.0], [-1.0, 0.0]]), 0.0, np.array([0.0, 1.0]), 2)
    >>> point.highest
    1.0
    """

    x: Array  #: (n, d)
    residual: float  #: the largest pull on a token, over the weights of the others
    eigenvalues: Array  #: of the unnormalised flow of the groups, increasing, (groups (d - 1),)
    groups: int  #: of tokens in one place
    iterations: int = 0  #: how often the pull was computed on the way there

    @property
    def converged(self) -> bool:
        """Whether tokens are at rest there, to rounding."""
        return self.residual <= AT_REST

    @property
    def highest(self) -> float:
        """The largest eigenvalue. It is one of n times the Hessian: positive at a strict saddle."""
        return float(self.eigenvalues[-1])


def tangent_bases(x: ArrayLike) -> Array:
    """An orthonormal basis of every token's tangent space as rows, shape (n, d - 1, d).

    >>> tangent_bases([[1.0, 0.0], [0.0, 1.0]]).round(9) ** 2
    array([[[0., 1.]],
    <BLANKLINE>
           [[1., 0.]]])
    """
    x = unit_tokens(x)
    full = np.linalg.svd(x[:, None, :])[2]  # (n, d, d): the first row is the token
    return np.asarray(full[:, 1:, :])


def field_jacobian(
    x: ArrayLike, beta: float, normalised: bool = True, *, weights: ArrayLike | None = None
) -> Array:
    r"""The covariant derivative of the velocity in orthonormal tangent bases, (n(d-1), n(d-1)).

    With rows :math:`B_i` of :func:`tangent_bases`, masses :math:`w_j` (1/n unless given),
    :math:`e_{ij}=w_je^{\beta\langle x_i,x_j\rangle}` and :math:`b_{ij}=B_ix_j`, the unnormalised flow has the blocks

    .. math:: e_{ij}(B_iB_j^\top+\beta\,b_{ij}b_{ji}^\top)
        + \delta_{ij}\sum_k e_{ik}(\beta\,b_{ik}b_{ik}^\top-\langle x_i,x_k\rangle I).

    For equal masses this is n times the Hessian of the energy :cite:p:`geshkovski2025`, and symmetric.
    SA divides by :math:`Z_i=\sum_je_{ij}`, which adds :math:`-v_i\,\nabla\log Z_i`. The result is not
    symmetric: SA is no gradient for the metric of the sphere.

    >>> J = field_jacobian(np.eye(3), 1.0, normalised=False)
    >>> bool(np.abs(J - J.T).max() < 1e-12)
    True
    """
    x, beta = unit_tokens(x), validate.beta(beta)
    n, d = x.shape
    w = validate.weights(weights, n)
    G = x @ x.T
    every = np.exp(beta * G) * w
    e = every - np.diag(np.diag(every))  # a token's own term cancels, and is left out
    B = tangent_bases(x)
    b = np.einsum("iad,jd->ija", B, x)  # (n, n, d - 1)
    J = e[:, None, :, None] * np.einsum("iad,jbd->iajb", B, B)
    J += beta * e[:, None, :, None] * np.einsum("ija,jib->iajb", b, b)
    own = beta * np.einsum("ik,ika,ikb->iab", e, b, b)
    own -= (e * G).sum(axis=1)[:, None, None] * np.eye(d - 1)
    at = np.arange(n)
    J[at, :, at, :] += own
    if normalised:
        Z = every.sum(axis=1)
        v = np.einsum("ij,ija->ia", e, b) / Z[:, None]  # SA, in the bases
        slope = beta * e[:, :, None] * np.swapaxes(b, 0, 1)  # of Z_i by token j, (n, n, d - 1)
        slope[at, at] += beta * np.einsum("ij,ija->ia", e, b)
        J = J / Z[:, None, None, None]
        J -= v[:, :, None, None] * (slope / Z[:, None, None])[:, None]
    return np.asarray(J.reshape(n * (d - 1), n * (d - 1)))


def saddle_bound(x: ArrayLike, beta: float) -> float:
    r"""A lower bound of the highest eigenvalue of n times the Hessian, at any tokens.

    .. math:: \frac{1}{(d-1)n^2}\sum_{i,j} e^{\beta g_{ij}}(1-g_{ij})\bigl(d-2-g_{ij}+\beta(1-g_{ij}^2)\bigr),
        \qquad g_{ij}=\langle x_i,x_j\rangle:

    the mean of the quadratic form over the common directions :math:`a_i=P_{x_i}v`, v uniform. For
    :math:`d\ge3` it is positive unless all tokens are one. Two opposite clusters of equal mass
    attain it, with :math:`e^{-\beta}`.

    >>> bool(np.isclose(saddle_bound([[1.0, 0, 0], [-1.0, 0, 0]], 2.0), np.exp(-2.0)))
    True
    """
    x, beta = unit_tokens(x), validate.beta(beta)
    d = x.shape[1]
    g = np.clip(x @ x.T, -1.0, 1.0)
    form = np.exp(beta * g) * (1 - g) * (d - 2 - g + beta * (1 - g**2))
    return float(form.mean() / (d - 1))


def critical_points(
    n: int, d: int, beta: float, draws: int, rng: np.random.Generator
) -> list[Critical]:
    r"""What is found of the energy's critical points, from `draws` random starts.

    Every start is moved to a zero of :math:`P_{x_i}\sum_{j\ne i}e^{\beta\langle x_i,x_j\rangle}x_j`, divided by the
    sum of its weights, by the method of Levenberg and Marquardt, which is drawn to saddles as much
    as to maxima. Starts that end elsewhere than at rest (:data:`AT_REST`) are left out, so the list
    may be shorter than `draws`.

    >>> found = critical_points(3, 2, 1.0, 8, np.random.default_rng(0))
    >>> all(p.highest > 0 for p in found if p.groups > 1)
    True
    """
    n, d = validate.count(n, "n", 2), validate.count(d, "d", 2)
    if n * d > MOST_COORDINATES:
        raise ValueError(f"n times d must be at most {MOST_COORDINATES}, got {n} times {d}")
    beta, draws = validate.beta(beta), validate.count(draws, "draws", maximum=MOST_DRAWS)
    found = []
    for _ in range(draws):
        start = uniform(n, d, rng)
        end = least_squares(
            lambda y: _pull(unit(y.reshape(n, d)), beta).ravel(),
            start.ravel(), method="lm", xtol=1e-15, ftol=1e-15, gtol=1e-15, max_nfev=20 * n * d,
        )  # fmt: skip
        point = described(unit(end.x.reshape(n, d)), beta)
        if point.converged:
            found.append(point._replace(iterations=int(end.nfev)))
    return found


def described(x: ArrayLike, beta: float) -> Critical:
    """A critical point with its groups, and the spectrum of their flow.

    >>> point = described([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]], 1.0)
    >>> point.groups, round(point.highest * np.e, 9)
    (2, 1.0)
    """
    x, beta = unit_tokens(x), validate.beta(beta)
    residual = float(np.sqrt((_pull(x, beta) ** 2).sum(axis=1).max()))
    names = clusters(x, TOGETHER)
    groups = int(names.max()) + 1
    if groups == 1:
        return Critical(x, residual, np.zeros(x.shape[1] - 1), 1)
    places = unit(np.stack([x[names == k].mean(axis=0) for k in range(groups)]))
    mass = np.bincount(names) / len(x)
    J = field_jacobian(places, beta, normalised=False, weights=mass)
    root = np.repeat(np.sqrt(mass), x.shape[1] - 1)
    even = root[:, None] * J / root  # symmetric
    return Critical(x, residual, np.linalg.eigvalsh((even + even.T) / 2), groups)


def _pull(x: Array, beta: float) -> Array:
    """What the other tokens pull at, over the sum of their weights."""
    scores = beta * (x @ x.T)
    np.fill_diagonal(scores, -np.inf)
    return tangent(x, softmax_rows(scores) @ x)
