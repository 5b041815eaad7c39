r"""Where flows of covariances end: when they blow up, and the rank of what they tend to.

For softmax attention and V = I the inverse moves on a line, :math:`S^{-1} = S_0^{-1} - t(A + A^\top)`
(:cite:t:`castin2025`, who also observe low rank). Mirrored layers and the counts of ranks are the
book's own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from attnflow import validate
from attnflow.attention import SoftmaxAttention
from attnflow.gaussian.affine import refuse_misfits
from attnflow.gaussian.flow import gaussian_flow
from attnflow.matrices import covariance, inverse_root, root


def blow_up_time(
    Q: ArrayLike, K: ArrayLike, V: ArrayLike, cov0: ArrayLike, *, horizon: float = 1e3
) -> float:
    r"""When the covariance under softmax attention blows up; inf where it does not.

    For V = vI it is :math:`1/\lambda_{\max}(S_0^{1/2}v(A+A^\top)S_0^{1/2})`. Else the flow is
    followed for `horizon` times :math:`1/(|V||A||S_0|)`, and no blow-up until then counts as none
    (:cite:t:`castin2025`).

    >>> I = np.eye(2)
    >>> round(blow_up_time(I, I, I, [[1.0, 0.3], [0.3, 0.5]]), 8)
    0.43839941
    """
    Q, K, V = (np.atleast_2d(validate.real(m, name)) for m, name in ((Q, "Q"), (K, "K"), (V, "V")))
    horizon = validate.positive(horizon, "horizon")
    layer, S0 = SoftmaxAttention(Q, K, V), covariance(cov0, "cov0")
    refuse_misfits(layer, len(S0))
    A = layer.K.T @ layer.Q
    if np.array_equal(layer.V, layer.V[0, 0] * np.eye(len(S0))):
        half = root(S0)
        with np.errstate(over="ignore", invalid="ignore"):
            rate = half @ (layer.V[0, 0] * (A + A.T)) @ half
        top = np.linalg.eigvalsh(validate.finite(rate, "rates of growth"))[-1]
        return float(1 / top) if top > 0 else np.inf
    largest = float(np.abs(layer.V).max())
    if not largest:
        return np.inf
    # The time is that of V/c over c; a power of two leaves all digits as they are.
    unit = 1.0 if 1e-6 < largest < 1e6 else 2.0 ** np.floor(np.log2(largest))
    scaled = SoftmaxAttention(Q, K, V / unit)
    speed = float(np.prod([np.linalg.norm(m, 2) for m in (scaled.V, A, S0)]))
    if speed == 0:
        return np.inf
    found = gaussian_flow(scaled, S0, [0.0, horizon / speed], rtol=1e-11).blow_up
    with np.errstate(over="ignore"):
        return float(np.float64(found) / unit)


class Rank(NamedTuple):
    """How many eigenvalues stay, and by how much they stand above those that vanish.

    >>> limit_rank(np.diag([2.0, 1e-9]), np.eye(2)).rank
    1
    """

    rank: int
    margin: float  #: smallest kept over largest dropped; inf for full rank


def limit_rank(cov: ArrayLike, start: ArrayLike, *, tol: float = 1e-3) -> Rank:
    """The rank of a limit from a late covariance, in units of the covariance at the start.

    Eigenvalues of S relative to S0 below `tol` count as vanishing; the margin is the factor
    between the smallest that stays and the largest that goes, so that a reader sees how clear
    the decision was.

    >>> limit_rank([[1.0, 0.0], [0.0, 1e-6]], np.eye(2))
    Rank(rank=1, margin=1000000.0)
    """
    late = validate.array(cov, "cov", 2)
    first = covariance(start, "start")
    if late.shape != first.shape:
        raise ValueError(f"cov and start must share a shape, got {late.shape} and {first.shape}")
    if np.abs(late - late.T).max() > 1e-10 * np.abs(late).max():
        raise ValueError(f"cov must be symmetric, got a difference {np.abs(late - late.T).max()}")
    lowest = float(np.linalg.eigvalsh(late)[0])
    if lowest < -1e-10 * np.abs(late).max():
        raise ValueError(f"cov must be positive semi-definite, got an eigenvalue {lowest:.3g}")
    inverse = inverse_root(first)
    relative = inverse @ late @ inverse
    values = np.maximum(np.linalg.eigvalsh((relative + relative.T) / 2), np.finfo(float).tiny)
    rank = int((values > validate.between_zero_and_one(tol, "tol")).sum())
    d = len(values)
    if rank in (0, d):
        return Rank(rank, np.inf)
    with np.errstate(over="ignore"):
        return Rank(rank, float(values[d - rank] / values[d - rank - 1]))
