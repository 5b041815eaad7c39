r"""V of a layer, which decides where tokens go, and the eigenspace that grows fastest.

Several heads act on their average by :math:`V = \sum_h W_h V_h`. In the coordinates of the left
eigenvectors of its largest eigenvalue tokens cluster first (:cite:t:`geshkovski2023`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import schur

from attnflow import validate
from attnflow.attention import Attention, MultiHead
from attnflow.validate import Array

#: Eigenvalues this close, relative to the spectral radius, are one; wider if there is none so close.
SAME_EIGENVALUE = (1e-8, 1e-6, 1e-4, 1e-2)


def layer_value(attention: Attention | MultiHead, d: int) -> Array:
    r"""V of a layer, shape (d, d): that of its head, or :math:`\sum_h W_h V_h`.

    >>> from attnflow.attention import SoftmaxAttention
    >>> I = np.eye(2)
    >>> head = SoftmaxAttention(I, I, 3 * I)
    >>> layer_value(MultiHead([head, head], W=[I, -2 * I]), 2)
    array([[-3.,  0.],
           [ 0., -3.]])
    """
    V = np.sum([M for _, M in head_maps(attention)], axis=0)
    if V.shape != (d, d):
        raise ValueError(f"V must be square, {d} rows and columns, got shape {V.shape}")
    return V


def head_maps(attention: Attention | MultiHead) -> list[tuple[Attention, Array]]:
    """The heads of a layer, each with W_h V_h."""
    validate.instance(attention, "attention", (Attention, MultiHead))
    if not isinstance(attention, MultiHead):  # until every attention has heads
        return [(attention, attention.V)]
    return [(head, w @ head.V) for head, w in zip(attention.heads, attention.W, strict=True)]


def dominant(V: ArrayLike) -> Array:
    """An orthonormal basis, as rows, of the left eigenspace of the largest real part in V's spectrum.

    In these coordinates :cite:t:`geshkovski2023` see hyperplanes (a simple eigenvalue) or a polytope.

    >>> np.abs(dominant([[2.0, 1.0], [0.0, 1.0]])).round(4)
    array([[0.7071, 0.7071]])
    """
    V = validate.array(V, "V", 2)
    if V.shape[0] != V.shape[1] or not V.size:
        raise ValueError(f"V must be square, got shape {V.shape}")
    spectrum = np.linalg.eigvals(V)
    top, size = spectrum.real.max(), max(float(np.abs(spectrum).max()), np.finfo(float).tiny)
    for slack in SAME_EIGENVALUE:  # a defective matrix has its eigenvalues only to a few digits
        _, vectors, count = schur(
            V.T, output="real", sort=lambda re, im=0.0, edge=top - slack * size: re >= edge
        )
        if count:
            break
    return vectors[:, :count].T
