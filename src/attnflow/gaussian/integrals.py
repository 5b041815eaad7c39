r"""Flows of covariances that can be solved: layers that mirror.

Let A be symmetric with :math:`A^2 = I`, a reflection, and :math:`V = -A`. Write :math:`P = ASA` for the
mirror image of the covariance. Under softmax and Sinkhorn attention S and P have the same derivative,
so

.. math:: D = S - ASA

is conserved. The flow ends where :math:`SP = 0`, and there is one way to write a symmetric D as a
difference of two positive semi-definite matrices whose product is 0: its positive and negative parts.
Hence :math:`S(\infty) = D_+`. Under softmax attention :math:`U = S + P` follows the Riccati equation
:math:`\dot U = D^2 - U^2`, and S is known at all times. This is the book's own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from attnflow import validate
from attnflow.matrices import covariance, spectral
from attnflow.validate import Array

#: Relative defect of a reflection that rounding explains.
MIRROR_SLACK = 1e-10


def reflection(A: ArrayLike, d: int | None = None) -> Array:
    """A symmetric matrix whose square is the identity.

    >>> reflection([[0.0, 1.0], [1.0, 0.0]])
    array([[0., 1.],
           [1., 0.]])
    """
    out = validate.array(A, "A", 2)
    n = len(out) if d is None else d
    if out.shape != (n, n) or not out.size:
        raise ValueError(f"A must be square, {n} by {n}, got shape {out.shape}")
    with np.errstate(over="ignore", invalid="ignore"):
        defect = max(np.abs(out - out.T).max(), np.abs(out @ out - np.eye(n)).max())
    if not defect <= MIRROR_SLACK * n:
        raise ValueError(f"A must be symmetric with A^2 = I, got a defect of {defect:.3g}")
    return (out + out.T) / 2


def mirror_difference(A: ArrayLike, cov: ArrayLike) -> Array:
    r"""What a mirror layer conserves, :math:`D = S - ASA`.

    >>> mirror_difference(np.diag([1.0, -1.0]), [[1.0, 0.3], [0.3, 0.5]])
    array([[0. , 0.6],
           [0.6, 0. ]])
    """
    S = covariance(cov)
    mirror = reflection(A, len(S))
    return S - mirror @ S @ mirror


def mirror_limit(A: ArrayLike, cov0: ArrayLike) -> Array:
    r"""The limit of the covariance for :math:`V = -A`, :math:`A^2 = I`: the positive part of D.

    It holds under softmax and Sinkhorn attention. In a basis of eigenvectors of A the matrix D has
    only the block of correlations between the eigenspaces of 1 and -1, doubled. So the rank of the
    limit is the rank of that block, and its trace is twice the block's nuclear norm.

    >>> mirror_limit(np.diag([1.0, -1.0]), [[1.0, 0.3], [0.3, 0.5]])
    array([[0.3, 0.3],
           [0.3, 0.3]])
    """
    return spectral(lambda s: np.maximum(s, 0.0), mirror_difference(A, cov0))


def mirror_covariance(A: ArrayLike, cov0: ArrayLike, t: float) -> Array:
    r"""The covariance at time t under softmax attention with :math:`V = -A`, :math:`A^2 = I`.

    .. math:: S(t) = D_+ + e^{-t|D|} E \left(I + N_t E\right)^{-1} e^{-t|D|},
        \qquad E = S_0 - D_+, \quad N_t = \frac{I - e^{-2t|D|}}{|D|},

    with :math:`N_t = 2t` where D vanishes. What is not conserved dies exponentially in the range of D
    and like 1/2t outside.

    >>> mirror_covariance([[1.0]], [[0.5]], 2.0)  # 0.5 / (1 + 2 t 0.5)
    array([[0.16666667]])
    """
    D, S0 = mirror_difference(A, cov0), covariance(cov0)
    t = validate.number(t, "t")
    if t < 0:
        raise ValueError(f"t must not be negative, got {t}")
    limit = spectral(lambda s: np.maximum(s, 0.0), D)
    decay = spectral(lambda s: np.exp(-t * np.abs(s)), D)

    def gathered(s: Array) -> Array:
        """(1 - e^{-2ts})/s for s = |eigenvalue|, and 2t at 0."""
        size = np.abs(s)
        safe = np.where(size > 0, size, 1.0)
        return np.where(size > 0, -np.expm1(-2 * t * safe) / safe, 2 * t)

    E = S0 - limit
    middle = np.linalg.solve(np.eye(len(D)) + E @ spectral(gathered, D), E)
    return limit + decay @ (middle + middle.T) @ decay / 2
