r"""Layers of equiangular tokens: a map of the cosine and the norm, exact for every step.

A layer turns :math:`\theta` into :math:`y = A\theta + Bm`, with numbers A and B of the
normalisation. Differences of tokens are multiplied by :math:`A+B\lambda`, so the gap
:math:`u = 1-\gamma` becomes

.. math:: u' = u\,\frac{(A+B\lambda)^2}{A^2+2ABs+B^2q^2},

and the norm, where nothing keeps it, becomes the root of the denominator (this book).
"""

from __future__ import annotations

from math import exp, inf, log, sqrt

import numpy as np
from scipy.special import digamma

from attnflow import validate
from attnflow.norms.clocks import Curve
from attnflow.norms.orbit import MOST_TOKENS, valid_gap
from attnflow.norms.tokens import ON_SPHERE, UNIT_MEAN, valid_norm, valid_radius, valid_step

#: More layers than anybody has.
MOST_LAYERS = 10**7


def equiangular_layers(
    norm: str, beta: float, n: int, depth: int, *, step: float = 1.0, radius: float = 1.0
) -> Curve:
    """Cosines and norms after 0..depth layers, from orthonormal tokens times `radius`.

    The layers are those of :func:`attnflow.norms.layers`, without tokens (this book).

    >>> from attnflow.norms import layers
    >>> x = layers("pre", np.eye(3), 2.0, 2).states[-1]
    >>> two = equiangular_layers("pre", 2.0, 3, 2)
    >>> bool(np.isclose(np.linalg.norm(x[0]), two.sizes[-1]))
    True
    """
    beta, n, h, r = _checked(norm, beta, n, step, radius)
    u, sizes, gaps = 1.0, [1.0], [1.0]
    first = r
    for _ in range(validate.count(depth, "depth", maximum=MOST_LAYERS)):
        u, r = _layer(norm, u, r, beta, n, h)
        sizes.append(r / first)
        gaps.append(u)
    kept = np.array(gaps)
    return Curve(
        h * np.arange(len(kept), dtype=float), 1 - kept, np.array(sizes), kept, len(kept) - 1
    )


def layers_to_meet(
    norm: str, beta: float, n: int, delta: float, *, step: float = 1.0, radius: float = 1.0,
    most: int = 10**6,
) -> float:  # fmt: skip
    """After how many layers the cosine is 1 - delta, with a fraction; inf beyond `most` layers.

    Between two layers log(1 - cosine) is taken to be straight (this book).

    >>> round(layers_to_meet("post", 4.0, 32, 1e-2), 3)
    9.995
    """
    beta, n, h, r = _checked(norm, beta, n, step, radius)
    delta, most = valid_gap(delta), validate.count(most, "most", maximum=MOST_LAYERS)
    u = 1.0
    for k in range(most):
        before = u
        u, r = _layer(norm, u, r, beta, n, h)
        if u <= delta:
            return k + (log(before / delta) / log(before / u) if u > 0 else 0.0)
    return inf


def layers_to_time(norm: str, *, step: float = 1.0, radius: float = 1.0) -> float:
    r"""Depth times step over meeting time, in the limit of a large beta for a fixed n.

    .. math:: 1+h\ \text{(post)}, \qquad 1\ \text{(nGPT)}, \qquad
        \frac{h}{r_0}\,e^{\psi(1+r_0/h)}\ \text{(pre, peri)}

    (this book), with the digamma function :math:`\psi`. At h = 1 it is 2, 1 and
    :math:`e^{1-\gamma_E}`.

    >>> [round(layers_to_time(norm), 4) for norm in ("post", "nGPT", "pre")]
    [2.0, 1.0, 1.5262]
    """
    h = valid_step(valid_norm(norm), step)
    rho = valid_radius(radius) / h
    if norm == "nGPT":
        return 1.0
    return 1 + h if norm == "post" else float(np.exp(digamma(1 + rho)) / rho)


def _checked(
    norm: str, beta: float, n: int, step: float, radius: float
) -> tuple[float, int, float, float]:
    h = valid_step(valid_norm(norm), step)
    r = valid_radius(radius)
    n = validate.count(n, "n", 2, MOST_TOKENS)
    return validate.beta(beta), n, h, 1.0 if norm in ON_SPHERE else r


def _layer(norm: str, u: float, r: float, beta: float, n: int, h: float) -> tuple[float, float]:
    """Gap and norm after one layer; plain numbers, since there may be a million of them."""
    much = exp(beta * u)
    a = 1 / (much + (n - 1))
    own = much * a
    s, q2 = 1 - (n - 1) * a * u, 1 - u * (n - 1) * a * (1 + own - a)
    A = 1 - h if norm == "nGPT" else r
    B = h / sqrt(q2) if norm in UNIT_MEAN else h
    squared = A * A + 2 * A * B * s + B * B * q2
    u = u * (A + B * (own - a)) ** 2 / squared
    return u, 1.0 if norm in ON_SPHERE else sqrt(squared)
