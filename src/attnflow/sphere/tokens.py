r"""Tokens on the sphere: their velocity, their flow, the clusters they form.

.. math:: \dot x_i = P_{x_i} \sum_j A_{ij} x_j, \qquad P_x = I - xx^\top,

with :math:`A_{ij} = e^{\beta\langle x_i,x_j\rangle}` divided by its row sum (SA) or by the number
of tokens (USA): :cite:t:`geshkovski2025`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import connected_components

from attnflow import validate
from attnflow.attention import SoftmaxAttention, UnnormalisedAttention
from attnflow.flows import Flow, sphere_ode
from attnflow.validate import Array


def velocity(x: ArrayLike, beta: float, normalised: bool = True, *, causal: bool = False) -> Array:
    r"""The velocity of every token, tangent to the sphere: SA, or USA if not `normalised`.

    .. math:: P_{x_i} \sum_j A_{ij} x_j

    :cite:p:`geshkovski2025`. With the mask of `causal` token i sees tokens 1..i alone.

    >>> velocity([[1.0, 0.0], [0.0, 1.0]], beta=0.0)
    array([[0. , 0.5],
           [0.5, 0. ]])
    """
    x = unit_tokens(x)
    v = _layer(beta, x.shape[1], normalised, causal).velocity(x)
    return tangent(x, v)


def flow(
    x0: ArrayLike, beta: float, times: ArrayLike, normalised: bool = True, *,
    causal: bool = False, rtol: float = 1e-10,
) -> Flow:  # fmt: skip
    """Tokens at increasing times from x0 at times[0]; norms are one up to rounding.

    The equation is that of :func:`velocity`. From almost every start all tokens tend to a single
    point :cite:p:`geshkovski2025`.

    >>> flow(np.eye(3), beta=1.0, times=[0.0, 50.0]).diameter[-1] < 1e-9
    np.True_
    """
    x, times = unit_tokens(x0), validate.times(times, longest=validate.LONGEST)
    return sphere_ode(_layer(beta, x.shape[1], normalised, causal), x, times, rtol=rtol)


def clusters(x: ArrayLike, delta: float) -> NDArray[np.int32]:
    r"""A cluster's number for every token: chains of tokens with inner products >= 1 - delta.

    >>> clusters([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], delta=1e-3)
    array([0, 1, 0], dtype=int32)
    """
    x = unit_tokens(x)
    return connected_components(
        x @ x.T >= 1 - validate.between_zero_and_one(delta, "delta"), directed=False
    )[1]


def uniform(n: int, d: int, rng: np.random.Generator) -> Array:
    """n tokens drawn from the uniform measure on the sphere of R^d, shape (n, d).

    >>> x = uniform(1000, 3, np.random.default_rng(0))
    >>> bool(np.allclose((x**2).sum(axis=1), 1)), (x.T @ x / 1000).trace().round(6)
    (True, np.float64(1.0))
    """
    validate.instance(rng, "rng", np.random.Generator)
    d = validate.count(d, "d", 2, validate.MOST_STORED)
    n = validate.count(n, "n", maximum=validate.MOST_STORED // d)
    return unit(rng.normal(size=(n, d)))


def unit(x: Array) -> Array:
    """Every token divided by its norm, shape (..., d).

    >>> unit(np.array([[3.0, 4.0]]))
    array([[0.6, 0.8]])
    """
    return x / np.sqrt(np.vecdot(x, x))[..., None]


def tangent(x: Array, v: Array) -> Array:
    """P_x v, the part of v that is orthogonal to x, token by token, shape (..., d).

    >>> tangent(np.array([[1.0, 0.0]]), np.array([[2.0, 3.0]]))
    array([[0., 3.]])
    """
    return v - np.vecdot(x, v)[..., None] * x


def unit_tokens(x: ArrayLike) -> Array:
    """Two unit vectors or more as rows, or a ``ValueError``.

    >>> unit_tokens([[1.0, 0.0]])
    Traceback (most recent call last):
    ValueError: x must hold at least two tokens, got 1
    """
    x = validate.on_sphere(x)
    if len(x) < 2:
        raise ValueError(f"x must hold at least two tokens, got {len(x)}")
    return x


def _layer(
    beta: float, d: int, normalised: bool, causal: bool
) -> SoftmaxAttention | UnnormalisedAttention:
    I = np.eye(d)  # noqa: E741
    kind = SoftmaxAttention if normalised else UnnormalisedAttention
    return kind(validate.beta(beta) * I, I, I, causal)
