r"""How a layer of sigmoid attention answers a small change of its tokens.

Sigmoid attention :cite:p:`ramapuram2025` weighs every pair of tokens by itself,

.. math:: P_{ij} = \sigma(s_{ij} - \log n), \qquad \sigma(s) = \frac1{1+e^{-s}}, \qquad
          \Gamma(x)_i = \sum_jP_{ij}Vx_j,

with the scores of softmax attention and no division: a row of P need not add up to one. With S the
change of the scores, as in :mod:`attnflow.lipschitz.jacobian`,

.. math:: J(E) = (P\circ(1-P)\circ S)\,v + P\,EV^\top.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from attnflow.lipschitz.jacobian import Linearised, Part, beside
from attnflow.validate import Array


class SigmoidPart(Part):
    """One head at its tokens. Its rows see keys and values themselves, not only differences."""

    __slots__ = ()

    @staticmethod
    def placed(y: Array) -> Array:
        """Keys or values as they are."""
        return y

    @staticmethod
    def weights(scores: Array, n: int) -> Array:
        """Sigmoids of scores less log n, in place."""
        scores -= np.log(n)
        expit(scores, out=scores)
        return scores

    def push(self, z: Array) -> Array:
        """From changes of queries, keys and values, (..., n, 2k + p), to the answer of the head."""
        eq, ek, ev = self.turned(z)
        left, right = beside(eq, self.q), beside(self.k, ek)
        out = np.empty_like(self.mean)
        for row, seen in self.blocks():
            P = self.P[..., row, seen]
            S = left[..., row, :] @ right[..., seen, :].mT
            S *= P * (1 - P)
            out[..., row, :] = S @ self.v[..., seen, :] + P @ ev[..., seen, :]
        return out

    def pull(self, g: Array) -> Array:
        """The transpose of push."""
        dq, dk, dv = (np.zeros_like(y, g.dtype) for y in (self.q, self.k, self.v))
        for row, seen in self.blocks():
            P, g_row = self.P[..., row, seen], g[..., row, :]
            G = g_row @ self.v[..., seen, :].mT
            G *= P * (1 - P)
            dq[..., row, :] = G @ self.k[..., seen, :]
            dk[..., seen, :] += G.mT @ self.q[..., row, :]
            dv[..., seen, :] += P.mT @ g_row
        return self.returned(dq, dk, dv)

    def bend(self, g: Array, z: Array) -> Array:
        """<g, push(z)> is the sum of P' S M + P N, M = g v^T, N = g (E V^T)^T, P' = P (1 - P)."""
        eq, ek, ev = self.turned(z)
        left, right = beside(eq, self.q), beside(self.k, ek)
        dq, dk, dv = (np.zeros_like(y) for y in (self.q, self.k, self.v))
        for row, seen in self.blocks():
            P = self.P[row, seen]
            slope = P * (1 - P)
            S, M = left[row] @ right[seen].T, g[row] @ self.v[seen].T
            dL = slope * ((1 - 2 * P) * S * M + g[row] @ ev[seen].T)
            dS, dM = slope * M, slope * S
            dq[row] = dL @ self.k[seen] + dS @ ek[seen]
            dk[seen] += dL.T @ self.q[row] + dS.T @ eq[row]
            dv[seen] += dM.T @ g[row]
        return self.returned(dq, dk, dv)


class SigmoidLinearised(Linearised):
    r"""The Jacobian at tokens x of a layer with sigmoids of :math:`s_{ij} - \log n` for its softmax.

    The layer gives the scores: its queries and keys with their biases, rotations and mask. n counts all
    tokens, with a mask too. A bias of values would be no mere shift, and there is none.

    >>> from attnflow.attention import SoftmaxAttention
    >>> from attnflow.lipschitz import local_constant
    >>> one = SoftmaxAttention([[0.0]], [[0.0]], [[2.0]])
    >>> J = SigmoidLinearised(one, [[1.0], [3.0]])  # all weights are 1/3
    >>> J.jvp([[1.0], [0.0]]).ravel().round(6)
    array([0.666667, 0.666667])
    >>> found = local_constant(one, [[1.0], [3.0]], linearised=SigmoidLinearised)
    >>> round(found.value, 6)
    1.333333
    """

    _part = SigmoidPart
