r"""The inner products of tokens on the sphere, which close on themselves.

With Q = K = V = I the Gram matrix :math:`G_{ik} = \langle x_i, x_k\rangle` of tokens that follow
:func:`attnflow.sphere.velocity` solves

.. math:: \dot G_{ik} = (AG)_{ik} + (AG)_{ki} - (s_i + s_k)\,G_{ik}, \qquad s_i = (AG)_{ii},

where A is the attention matrix, itself a function of G. The dimension does not enter.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from attnflow import validate
from attnflow.flows import integrate
from attnflow.softmax import hide_future, softmax_rows
from attnflow.validate import Array

#: Inner products of unit vectors leave [-1, 1] by rounding.
GRAM_SLACK = 1e-6


class GramFlow(NamedTuple):
    """Inner products along time.

    >>> GramFlow(np.array([0.0]), np.eye(2)[None], iterations=1).states.shape
    (1, 2, 2)
    """

    times: Array  #: (m,)
    states: Array  #: (m, n, n)
    iterations: int  #: how often the derivative was computed
    rtol: float = 0.0  #: the relative error allowed in every step

    @property
    def converged(self) -> bool:
        """True: a flow that does not reach its last time raises `FlowStopped` instead."""
        return True


def gram_flow(
    G0: ArrayLike, beta: float, times: ArrayLike, normalised: bool = True, *,
    causal: bool = False, rtol: float = 1e-10,
) -> GramFlow:  # fmt: skip
    """The inner products alone, shape (m, n, n): the cost does not depend on the dimension.

    The equation stands above, SA or USA if not `normalised` :cite:p:`geshkovski2025`. Where G0 has
    a rank d < n, errors feed other dimensions and grow like instabilities of the flow do; there
    :func:`attnflow.sphere.flow` is the one to trust at long times.

    >>> gram_flow(np.eye(4), 0.0, [0.0, 1.0]).states[-1][0, 1].round(6)  # gamma_0(1), n = 4
    np.float64(0.614979)
    """
    g0, times = _gram(G0), validate.times(times, longest=validate.LONGEST)
    beta, n = validate.beta(beta), len(g0)
    seen = np.arange(1.0, n + 1)[:, None] if causal else float(n)

    def derivative(_: float, g: Array) -> Array:
        scores = beta * g
        if causal:
            hide_future(scores)
        a = softmax_rows(scores) if normalised else np.exp(scores) / seen
        half = a @ g
        half -= half.diagonal()[:, None] * g  # exactly 0 on the diagonal, where g is 1
        return half + half.T

    found = integrate(derivative, g0, times, rtol=rtol)
    return GramFlow(found.times, found.states, found.iterations, found.rtol)


def _gram(G: ArrayLike) -> Array:
    g = validate.array(G, "G0", 2)
    if g.shape[0] != g.shape[1] or len(g) < 2:
        raise ValueError(f"G0 must be a square matrix of two tokens or more, got shape {g.shape}")
    gap = max(float(np.abs(g - g.T).max()), float(np.abs(np.diag(g) - 1).max()))
    if gap > GRAM_SLACK:
        raise ValueError(
            "G0 must be symmetric with ones on its diagonal, as unit vectors give it; "
            f"got a difference of {gap:.3g}"
        )
    lowest = float(np.linalg.eigvalsh(g)[0])
    if lowest < -GRAM_SLACK * len(g):
        raise ValueError(f"G0 must be positive semi-definite, got an eigenvalue {lowest:.3g}")
    g = (g + g.T) / 2
    np.fill_diagonal(g, 1.0)
    return g
