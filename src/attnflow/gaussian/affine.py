r"""The velocity that attention gives to Gaussian tokens: an affine map.

For :math:`x \sim N(\alpha, S)` each kind of attention has :math:`\Gamma(x) = B\,(x-\alpha) + c`
(:cite:t:`castin2025`). With :math:`A = K^\top Q`:

* softmax: :math:`B = VSA`, :math:`c = V(I + SA)\alpha`;
* L2: :math:`B = 2VTA`, :math:`c = VT(S^{-1} + 2A)\alpha`, :math:`T = (S^{-1} + 2K^\top K)^{-1}`;
* Sinkhorn with kernel :math:`e^{\kappa\langle Ax,y\rangle}`, :math:`\kappa = 1/\varepsilon`:
  :math:`B = 2\kappa\, V S^{1/2}(I + (I+4\kappa^2 M)^{1/2})^{-1}S^{1/2}A`,
  :math:`M = S^{1/2}ASA^\top S^{1/2}`, :math:`c = V\alpha`. No inverse is taken: A may be singular.

Several heads add up. All is computed from a factor F of :math:`S = FF^\top`, so that small
eigenvalues keep their digits beside large ones, and B comes as a product: for one head
:math:`B = (VFN)(F^\top A)` with a positive N. What F itself is sent to must be computed as
:math:`(VFN)(F^\top AF)`: where S is large its velocity is small only since :math:`F^\top AF` is, and
in B that is lost to rounding.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from attnflow import validate
from attnflow.attention.kinds import L2Attention, SinkhornAttention, SoftmaxAttention
from attnflow.attention.layer import Attention, Layer
from attnflow.matrices import covariance
from attnflow.validate import Array


def affine_velocity(attention: Layer, cov: ArrayLike, mean: ArrayLike) -> tuple[Array, Array]:
    r"""B and c with :math:`\Gamma(x) = B\,(x - \alpha) + c` for :math:`N(\alpha, S)`.

    The formulas are at the head of this module; they are those of :cite:t:`castin2025`.

    >>> I = np.eye(1)
    >>> affine_velocity(SoftmaxAttention(I, I, I), 2 * I, np.ones(1))
    (array([[2.]]), array([3.]))
    """
    S = covariance(cov)
    alpha = read_mean(mean, len(S))
    refuse_misfits(attention, len(S))
    left, right, c = factors_and_shift(attention, np.asarray(np.linalg.cholesky(S)), alpha)
    return left @ right, c


def factors_and_shift(attention: Layer, F: Array, mean: Array) -> tuple[Array, Array, Array]:
    """Left and right with B = left right, and c, for the covariance F F^T, which may be singular.

    With h heads left has shape (d, h d) and right (h d, d). Arguments are not checked.

    >>> I = np.eye(1)
    >>> factors_and_shift(SoftmaxAttention(I, I, 5 * I), 2 * I, np.zeros(1))
    (array([[10.]]), array([[2.]]), array([0.]))
    """
    pairs = zip(attention.heads, attention.values, strict=True)
    parts = [_of_head(head, value, F, mean) for head, value in pairs]
    if len(parts) == 1:
        return parts[0]
    lefts, rights, shifts = zip(*parts, strict=True)
    return np.hstack(lefts), np.vstack(rights), np.sum(shifts, axis=0)


def _of_head(head: Attention, V: Array, F: Array, mean: Array) -> tuple[Array, Array, Array]:
    A = head.K.T @ head.Q
    if isinstance(head, SoftmaxAttention):
        left, right = V @ F, F.T @ A
        return left, right, V @ mean + left @ (right @ mean)
    if isinstance(head, L2Attention):
        # T = F (I + 2 F^T K^T K F)^{-1} F^T = X X^T, where K F = U m W^T is not squared;
        # T S^{-1} = I - 2 T K^T K
        _, m, W = np.linalg.svd(head.K @ F)
        stretch = np.ones(len(F))
        stretch[: len(m)] += 2 * m**2
        X = F @ W.T / np.sqrt(stretch)
        left, right = 2 * V @ X, X.T @ A
        seen = mean - 2 * X @ (X.T @ (head.K.T @ (head.K @ mean)))
        return left, right, V @ seen + left @ (right @ mean)
    if isinstance(head, SinkhornAttention):
        right = F.T @ A / head.eps
        U, m, _ = np.linalg.svd(right @ F)
        shrink = (U * (2 / (1 + np.sqrt(1 + 4 * m**2)))) @ U.T
        return V @ F @ shrink, right, V @ mean
    raise ValueError(f"attention must be softmax, L2 or Sinkhorn, got {type(head).__name__}")


def refuse_misfits(attention: Layer, d: int) -> None:
    """A layer must map d coordinates to d, and let every token see the whole measure.

    >>> refuse_misfits(SoftmaxAttention(np.eye(2), np.eye(2), np.eye(2)), 3)
    Traceback (most recent call last):
    ValueError: Q, K and V must map 3 coordinates as cov0 has, got Q (2, 2) and 2 outputs
    """
    validate.instance(attention, "attention", Layer)
    for head, value in zip(attention.heads, attention.values, strict=True):
        if head.causal:
            raise ValueError("a causal layer has no flow of covariances: tokens see other measures")
        if head.Q.shape[1] != d or len(value) != d:
            raise ValueError(
                f"Q, K and V must map {d} coordinates as cov0 has, got Q {head.Q.shape} "
                f"and {len(value)} outputs"
            )


def read_mean(value: ArrayLike, d: int, name: str = "mean") -> Array:
    """A mean with d entries; a number is read as one.

    >>> read_mean(3, 1)
    array([3.])
    """
    out = validate.array(np.atleast_1d(validate.real(value, name)), name, 1)
    if out.shape != (d,):
        raise ValueError(f"{name} must have {d} entries, one per coordinate, got shape {out.shape}")
    return out
