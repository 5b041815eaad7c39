r"""Tokens under four normalisations: one layer, many layers, and the flow of thin layers.

A layer reads unit vectors :math:`\theta_i = x_i/|x_i|` and forms the means
:math:`m_i = \sum_j A_{ij}\theta_j`. *Post* and *nGPT* normalise what they write, so that tokens stay
on the sphere; *peri* and *nGPT* normalise the mean; *pre* normalises only what it reads.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from attnflow import validate
from attnflow.attention import SoftmaxAttention
from attnflow.flows import Flow, integrate, unit_rows
from attnflow.validate import Array

#: Where the normalisation stands.
NORMS = ("post", "pre", "peri", "nGPT")
#: Those that keep tokens on the sphere, and those that normalise the mean.
ON_SPHERE, UNIT_MEAN = ("post", "nGPT"), ("peri", "nGPT")


def velocity(norm: str, x: ArrayLike, beta: float) -> Array:
    r"""The velocity of every token: the limit of a layer of step h, less x, over h.

    .. math:: P_x m\ \text{(post)}, \quad m\ \text{(pre)}, \quad \frac m{|m|}\ \text{(peri)},
        \quad P_x\frac m{|m|}\ \text{(nGPT)}

    with :math:`m_i = \sum_j A_{ij}\,x_j/|x_j|` :cite:p:`karagodin2025`.

    >>> velocity("pre", [[2.0, 0.0], [0.0, 2.0]], beta=0.0)
    array([[0.5, 0.5],
           [0.5, 0.5]])
    >>> velocity("post", [[1.0, 0.0], [0.0, 1.0]], beta=0.0)
    array([[0. , 0.5],
           [0.5, 0. ]])
    """
    x = _tokens(norm, x)
    return _velocity(norm, x, _layer(beta, x))


def flow(norm: str, x0: ArrayLike, beta: float, times: ArrayLike, *, rtol: float = 1e-10) -> Flow:
    """Tokens at increasing times from x0 at times[0]: the equation of :func:`velocity`.

    The limit of thin layers :cite:p:`karagodin2025`.

    >>> x = flow("pre", np.eye(3), 1.0, [0.0, 20.0]).states[-1]
    >>> bool(np.linalg.norm(x[0]) > 15), bool(np.linalg.norm(x[0] - x[1]) < 3)
    (True, True)
    """
    x, times = _tokens(norm, x0), validate.times(times, longest=validate.LONGEST)
    layer = _layer(beta, x)
    if norm not in ON_SPHERE:
        return integrate(lambda _, y: _velocity(norm, y, layer), x, times, rtol=rtol)
    found = integrate(lambda _, y: _velocity(norm, unit_rows(y), layer), x, times, rtol=rtol)
    return found._replace(states=unit_rows(found.states))


def layers(norm: str, x0: ArrayLike, beta: float, depth: int, *, step: float = 1.0) -> Flow:
    r"""`depth` layers, all depth + 1 states; the times are multiples of the step h.

    .. math:: N(x+hm)\ \text{(post)}, \quad x+hm\ \text{(pre)}, \quad x+hN(m)\ \text{(peri)},
        \quad N(x+h(N(m)-x))\ \text{(nGPT)}

    (:cite:t:`xiong2020`, :cite:t:`kim2025`, :cite:t:`loshchilov2025`, whose step is at most 1).

    >>> layers("peri", np.eye(2), 0.0, 1).states[-1].round(3)
    array([[1.707, 0.707],
           [0.707, 1.707]])
    """
    x = _tokens(norm, x0)
    depth = validate.depth(depth, x.size)
    h, layer = valid_step(norm, step), _layer(beta, x)
    states = [x]
    for _ in range(depth):
        m = layer.velocity(unit_rows(x))
        keep = 1 - h if norm == "nGPT" else 1.0
        x = keep * x + h * (unit_rows(m) if norm in UNIT_MEAN else m)
        states.append(x := unit_rows(x) if norm in ON_SPHERE else x)
    return Flow(h * np.arange(depth + 1.0), np.stack(states), iterations=depth)


def valid_step(norm: str, step: float) -> float:
    """The step of a layer: a number in [1e-100, 1e100], and for nGPT at most 1.

    >>> valid_step("nGPT", 2.0)
    Traceback (most recent call last):
    ValueError: step must be at most 1 for nGPT, got 2.0
    """
    h = validate.positive(step, "step")
    if not 1e-100 <= h <= 1e100:
        raise ValueError(f"step must lie in [1e-100, 1e100], got {step}")
    if norm == "nGPT" and h > 1:
        raise ValueError(f"step must be at most 1 for nGPT, got {step}")
    return h


def valid_norm(norm: str) -> str:
    """One of :data:`NORMS`.

    >>> valid_norm("batch")
    Traceback (most recent call last):
    ValueError: norm must be one of post, pre, peri, nGPT, got 'batch'
    """
    return validate.choice(norm, "norm", NORMS)


def valid_radius(radius: float) -> float:
    """The common norm of tokens at the start: a number in [1e-6, 1e6].

    >>> valid_radius(1e-9)
    Traceback (most recent call last):
    ValueError: radius must lie in [1e-6, 1e6], got 1e-09
    """
    out = validate.positive(radius, "radius")
    if not 1e-6 <= out <= 1e6:
        raise ValueError(f"radius must lie in [1e-6, 1e6], got {radius}")
    return out


def _velocity(norm: str, x: Array, layer: SoftmaxAttention) -> Array:
    theta = unit_rows(x)
    m = layer.velocity(theta)
    if norm in UNIT_MEAN:
        m = unit_rows(m)
    return m - np.vecdot(theta, m)[:, None] * theta if norm in ON_SPHERE else m


def _tokens(norm: str, x: ArrayLike) -> Array:
    if valid_norm(norm) in ON_SPHERE:
        return validate.on_sphere(x)
    out = validate.tokens(x)
    unit_rows(out)
    return out


def _layer(beta: float, x: ArrayLike) -> SoftmaxAttention:
    I = np.eye(np.shape(x)[1])  # noqa: E741
    return SoftmaxAttention(validate.beta(beta) * I, I, I)
