r"""Layers for 10^5 tokens in at most three dimensions: velocities without an (n, n) matrix.

All three kinds are Gaussian kernels in disguise:

* L2: :math:`e^{-|Qx-Ky|^2}` is one, between the points Qx and Ky;
* softmax: :math:`e^{\langle u,v\rangle} = e^{|u|^2/2}\,e^{|v|^2/2}\,e^{-|u-v|^2/2}` with
  :math:`\langle u, v\rangle = \langle Ax,y\rangle` split evenly between x and y; the first factor
  is cancelled by the row normalisation, the second is a weight of y;
* Sinkhorn with :math:`Q^\top K` positive semi-definite: the bridge of :mod:`attnflow.transport`.

The fast kernel's error is absolute. A row is taken from it only where its own sum is so large that
the relative error of the velocity is certified to stay below `tol`; the other rows are summed
directly, block by block. :attr:`FastLayer.direct` says how many those were.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnflow import validate
from attnflow.attention import Attention, L2Attention, SinkhornAttention, SoftmaxAttention
from attnflow.kernels import squared_distances
from attnflow.nufft import FastKernel
from attnflow.transport import self_bridge
from attnflow.validate import Array

#: The fast kernel's accuracy in units of `tol`, and the most it can give.
HEADROOM, FINEST = 1e-3, 1e-13
#: Entries of a block of directly summed rows.
BLOCK = 4_000_000
#: Weights e^{|Ky|^2/2} beyond this range leave the far tokens without digits.
LARGEST_EXPONENT = 600.0


class FastLayer:
    """The same velocities as `attention.velocity`, to a relative error of `tol`.

    The error is measured against the largest |V y|, which every velocity is an average of.

    >>> I = np.eye(2)
    >>> layer = SoftmaxAttention(I, I, I)
    >>> x = np.random.default_rng(0).normal(size=(500, 2))
    >>> bool(np.abs(FastLayer(layer).velocity(x) - layer.velocity(x)).max() < 1e-7)
    True
    """

    def __init__(self, attention: Attention, tol: float = 1e-8) -> None:
        kinds = (SoftmaxAttention, L2Attention, SinkhornAttention)
        if not isinstance(attention, kinds) or attention.causal:
            raise ValueError("attention must be softmax, L2 or Sinkhorn, without a mask")
        if isinstance(attention, SinkhornAttention) and attention.root is None:
            raise ValueError("fast Sinkhorn attention needs Q^T K symmetric positive semi-definite")
        self.attention, self.tol = attention, validate.positive(tol, "tol")
        self.accuracy = max(HEADROOM * self.tol, FINEST)
        self.direct = 0  #: rows of the last velocity that were summed directly

    def velocity(self, x: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """(n, d) -> (n, p)."""
        x = validate.tokens(x)
        w = validate.weights(weights, len(x))
        if x.shape[1] != self.attention.Q.shape[1]:
            raise ValueError(
                f"x must have {self.attention.Q.shape[1]} columns, got shape {x.shape}"
            )
        if isinstance(self.attention, SinkhornAttention):
            return self._sinkhorn(x, w)
        return self._rows(x, w)

    def _rows(self, x: Array, w: Array) -> Array:
        z, y = x @ self.attention.Q.T, x @ self.attention.K.T
        sent = x @ self.attention.V.T
        if isinstance(self.attention, L2Attention):
            eps, log_mass = 0.5, np.zeros(len(x))
        else:
            z, y = _balanced(self.attention.K.T @ self.attention.Q, x)
            eps, log_mass = 1.0, (y**2).sum(axis=1) / 2
            if np.ptp(log_mass) > LARGEST_EXPONENT:
                raise ValueError(
                    f"softmax tokens must keep |A^(1/2) y|^2/2 within {LARGEST_EXPONENT:g} of each other for "
                    f"the fast kernel, got a range of {np.ptp(log_mass):.3g}: use the dense layer"
                )
        mass = w * np.exp(log_mass - log_mass.max())
        same = np.array_equal(z, y)
        points = y if same else np.concatenate([y, z])
        kernel = FastKernel(points, eps, self.accuracy)
        at = slice(0, len(x)) if same else slice(len(x), None)

        def product(v: Array) -> Array:
            return kernel.apply(v if same else np.concatenate([v, np.zeros(len(x))]))[at]

        total = product(mass)
        sums = np.stack([product(mass * column) for column in sent.T], axis=1)
        return self._certified(total, sums, mass.sum(), (z, y, eps), w, log_mass, sent)

    def _certified(
        self, total: Array, sums: Array, size: float, kernel: tuple[Array, Array, float], w: Array,
        log_mass: Array, sent: Array,
    ) -> Array:  # fmt: skip
        """sums / total where that is certain; both err by at most accuracy times `size`."""
        certain = total * self.tol > 2 * self.accuracy * size
        out = np.empty_like(sums)
        out[certain] = sums[certain] / total[certain, None]
        rest = np.flatnonzero(~certain)
        self.direct = len(rest)
        z, y, eps = kernel
        with np.errstate(divide="ignore"):
            log_weight = np.log(w) + log_mass
        for rows in _blocks(rest, len(w)):
            logits = log_weight - squared_distances(z[rows], y, 2 * eps)
            P = np.exp(logits - logits.max(axis=1, keepdims=True))
            out[rows] = (P @ sent) / P.sum(axis=1, keepdims=True)
        return out

    def _sinkhorn(self, x: Array, w: Array) -> Array:
        assert isinstance(self.attention, SinkhornAttention)
        assert self.attention.root is not None
        eps, y = self.attention.eps, x @ self.attention.root
        bridge = self_bridge(y, eps, w, tol=max(HEADROOM * self.tol, FINEST))
        a, sent = bridge.scaling, x @ self.attention.V.T
        total = bridge.kernel.apply(a * w)
        sums = np.stack([bridge.kernel.apply(a * w * column) for column in sent.T], axis=1)
        if not isinstance(bridge.kernel, FastKernel):
            out = self._certified(total, sums, 0.0, (y, y, eps), a * w, np.zeros(len(x)), sent)
            self.direct = len(x)
            return out
        size = float((a * w).sum())
        a = a.copy()
        lonely = np.flatnonzero(total * self.tol < 2 * self.accuracy * size)
        for rows in _blocks(lonely, len(x)):  # their scaling is lost in the fast kernel's error
            near = np.exp(-squared_distances(y[rows], y, 2 * eps))
            near[np.arange(len(rows)), rows] = 0.0
            others = near @ (a * w)
            a[rows] = 2 / np.maximum(others + np.sqrt(others**2 + 4 * w[rows]), 1e-300)
        return self._certified(total, sums, size, (y, y, eps), a * w, np.zeros(len(x)), sent)


def _blocks(rows: NDArray[np.intp], n: int) -> list[NDArray[np.intp]]:
    """Rows in blocks of at most BLOCK entries of an (m, n) matrix."""
    if not len(rows):
        return []
    return np.array_split(rows, -(-len(rows) * n // BLOCK))


def _balanced(A: Array, x: Array) -> tuple[Array, Array]:
    """u and v, (n, d) each, with <u_i, v_j> = <A x_i, x_j>, one array if A is a covariance."""
    if np.array_equal(A, A.T):
        values, vectors = np.linalg.eigh(A)
        if values.min() >= 0:
            both = x @ (vectors * np.sqrt(values))
            return both, both
    left, sizes, right = np.linalg.svd(A)
    root = np.sqrt(sizes)
    return x @ (root[:, None] * right).T, x @ (left * root)
