r"""V of a layer, which decides where tokens go, and the eigenspace that grows fastest.

Several heads act on their average by :math:`V = \sum_h W_h V_h`. In the coordinates of the left
eigenvectors of its largest eigenvalue tokens cluster first (:cite:t:`geshkovski2023`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import schur

from attnflow import validate
from attnflow.attention import Layer
from attnflow.validate import Array

#: Eigenvalues this close, relative to the spectral radius, are one; wider if there is none so close.
SAME_EIGENVALUE = (1e-8, 1e-6, 1e-4, 1e-2)


def layer_value(attention: Layer, d: int) -> Array:
    r"""V of a layer that can carry tokens in d dimensions on, :math:`\sum_h W_h V_h`, shape (d, d).

    >>> from attnflow.attention import MultiHead, SoftmaxAttention
    >>> I = np.eye(2)
    >>> head = SoftmaxAttention(I, I, 3 * I)
    >>> layer_value(MultiHead([head, head], W=[I, -2 * I]), 2)
    array([[-3.,  0.],
           [ 0., -3.]])
    """
    validate.instance(attention, "attention", Layer)
    V = attention.value
    if V.shape != (d, d):
        raise ValueError(f"V must be square, {d} rows and columns, got shape {V.shape}")
    return V


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
