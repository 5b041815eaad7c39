r"""Rescaled tokens z = exp(-tV) x, which stay where one can see them while x grows like exp(t).

Where :math:`\dot x_i = \sum_j P_{ij}Vx_j`, the rescaled tokens follow
:math:`\dot z_i = V(\sum_j P_{ij} z_j - z_i)` with P evaluated at :math:`e^{tV}z`
(:cite:t:`geshkovski2023`). Scores grow like :math:`e^{2\lambda t}`, so two things need care.

Overflow: scores may reach 1e300, and row maxima are subtracted before anything is exponentiated.

Rounding: tokens that follow one leader approach each other like :math:`e^{-\lambda t}`, and from
:math:`\lambda t = 36` on rounding alone would say who leads. If V is a multiple of the identity
that does not matter, since what they follow is the same point. For other V the remaining coordinates
do depend on it. Therefore tokens whose keys agree to `TIED` are grouped: how a row divides its
attention *within* a group is kept from the time when it could still be told, while how it divides
attention *between* groups goes on changing. Groups are looked for again often enough that no
difference falls from `TIED` to rounding unseen.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import expm
from scipy.sparse.csgraph import connected_components

from attnflow import validate
from attnflow.attention import Attention, L2Attention, Layer, SoftmaxAttention
from attnflow.flows import Flow, integrate
from attnflow.geometry.value import layer_value
from attnflow.kernels import squared_distances
from attnflow.softmax import exponentials, hide_future
from attnflow.validate import Array

#: Keys this close, relative to their size, are one group.
TIED = 1e-10
#: Growth lambda t before which no tokens can be tied, and decay e^-8 that separates two looks.
FIRST_LOOK, LOOK = 20.0, 8.0


def rescaled_flow(
    attention: Layer, z0: ArrayLike, times: ArrayLike, *, rtol: float = 1e-8,
    weights: ArrayLike | None = None,
) -> Flow:  # fmt: skip
    r"""Rescaled tokens z = exp(-tV) x at increasing times; x follows dx/dt = Gamma(x).

    .. math:: \dot z_i = V\Big(\sum_j P_{ij} z_j - z_i\Big), \qquad P \text{ at } e^{tV}z

    :cite:p:`geshkovski2023`. Times start at 0 or later; z0 are the rescaled tokens at times[0].
    Several heads share :math:`V = \sum_h W_h V_h`.

    >>> I = np.eye(1)
    >>> layer = SoftmaxAttention(I, I, I)
    >>> rescaled_flow(layer, [[-1.0], [0.5], [1.0]], [0.0, 100.0]).states[-1].ravel().round(6)
    array([-0.869541,  0.839422,  0.839422])
    """
    z = validate.tokens(z0, "z0")
    t = validate.times(times, start=0.0)
    V = layer_value(attention, z.shape[1])
    parts = zip(attention.heads, attention.W, strict=True)
    heads = [(_Grouped(head, len(z), weights), W @ head.V) for head, W in parts]
    several = len(heads) > 1

    def velocity(time: float, y: Array) -> Array:
        grow = expm(time * V)
        x, out = y @ grow.T, -y @ V.T
        for head, M in heads:
            if several:
                M = np.linalg.solve(grow, M @ grow)  # exp(-tV) W_h V_h exp(tV)
            out = out + (head.matrix(x) @ y) @ M.T
        return out

    looks = _looks(V, t, one_head=not several)
    knots = np.unique(np.concatenate([t, looks]))
    pieces, iterations = [z[None]], 0
    for start, end in zip([t[0], *looks], [*looks, t[-1]], strict=True):
        if start > t[0]:
            for head, _ in heads:
                head.look(pieces[-1][-1] @ expm(start * V).T)
        if end > start:
            leg = integrate(
                velocity, pieces[-1][-1], knots[(knots >= start) & (knots <= end)], rtol=rtol
            )
            pieces.append(leg.states[1:])
            iterations += leg.iterations
    states = np.concatenate(pieces)[np.searchsorted(knots, t)]
    masses = None if weights is None else validate.weights(weights, len(z))
    return Flow(t, states, iterations, masses, rtol)


def _looks(V: Array, t: Array, one_head: bool) -> Array:
    """The times at which groups are looked for: none where V is a multiple of the identity."""
    if one_head and np.array_equal(V, V[0, 0] * np.eye(len(V))):
        return np.empty(0)
    spectrum = np.linalg.eigvals(V).real
    growth = float(spectrum.max())
    if growth <= 0:
        return np.empty(0)
    step = LOOK / max(growth, growth - float(spectrum.min()))
    looks = np.arange(FIRST_LOOK / growth, t[-1], step)
    return looks[looks > t[0]]


class _Grouped:
    """A head whose rows share attention within groups of tied tokens as they once did."""

    def __init__(self, head: Attention, n: int, weights: ArrayLike | None) -> None:
        self.head, self.weights = head, weights
        self.log_mass = np.log(np.maximum(validate.weights(weights, n), 1e-300))
        self.groups = np.arange(n)
        self.within = np.ones((n, n))  # row i's share of token j in j's group
        self.careful = isinstance(head, SoftmaxAttention | L2Attention)

    def matrix(self, x: Array) -> Array:
        if len(np.unique(self.groups)) == len(self.groups):
            return self.head.matrix(x, self.weights)
        between = self._between(x)  # (n, g)
        return between[:, self.groups] / between.sum(axis=1, keepdims=True) * self.within

    def look(self, x: Array) -> None:
        """Merge groups whose keys agree, and keep how rows divide attention among them."""
        if not self.careful:
            return
        keys = x @ self.head.K.T
        size = np.linalg.norm(keys, axis=1)
        scale = max(float(size.max()), np.finfo(float).tiny)
        gap = np.sqrt(squared_distances(keys / scale, keys / scale))
        near = gap <= TIED * np.maximum(size, size[:, None]) / scale
        merged = connected_components(near | (self.groups == self.groups[:, None]), directed=False)[
            1
        ].astype(np.intp)
        logits = self._logits(x)
        for group in np.unique(merged):
            members = np.flatnonzero(merged == group)
            if len(np.unique(self.groups[members])) == 1:
                continue
            part = logits[:, members]
            top = part.max(axis=1, keepdims=True)  # -inf in rows that see none of the group
            share = np.exp(part - np.where(np.isfinite(top), top, 0.0))
            old, index = np.unique(self.groups[members], return_inverse=True)
            mass = share @ (index[:, None] == np.arange(len(old)))  # (n, old groups)
            total = np.maximum(mass.sum(axis=1, keepdims=True), np.finfo(float).tiny)
            self.within[:, members] *= (mass / total)[:, index]
        self.groups = merged

    def _between(self, x: Array) -> Array:
        """What every row gives to every group, up to a factor of the row."""
        share, _, _ = exponentials(self._logits(x))
        return share @ (self.groups[:, None] == np.arange(self.groups.max() + 1))

    def _logits(self, x: Array) -> Array:
        logits = self.head.scores(x, x) + self.log_mass
        if self.head.causal:
            hide_future(logits)
        return logits
