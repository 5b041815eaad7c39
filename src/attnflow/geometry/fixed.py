r"""Layers that average at a fixed temperature: z <- z + V(Pz - z), with P evaluated at z itself.

The talk on doubly-stochastic attention prints this update below the change of variables
:math:`z = e^{-tV}x`. It is another system than :mod:`attnflow.geometry.rescaled`, where P is
evaluated at :math:`e^{tV}z` and attention becomes harder with every layer. With V = I a layer
replaces every token by its mean :math:`Pz`; with V = -I, Sinkhorn attention and
:math:`Q^\top K = I` it is the step :math:`2z - Pz` of the bridge scheme (:cite:t:`agarwal2024`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from attnflow import validate
from attnflow.attention import Attention
from attnflow.flows import Flow
from attnflow.geometry.value import layer_value


def averaging_layers(attention: Attention, z0: ArrayLike, depth: int) -> Flow:
    r"""`depth` layers :math:`z_i \mapsto z_i + V(\sum_j P_{ij}z_j - z_i)`, P at z; all depth + 1 states.

    The update that :cite:t:`agarwal2024`'s talk prints, for one head of any kind of attention.

    >>> from attnflow.attention import SinkhornAttention
    >>> I = np.eye(1)
    >>> near = [[-0.1], [0.1]]
    >>> bool(averaging_layers(SinkhornAttention(I, I, I), near, 4).diameter[-1] < 1e-9)
    True
    >>> averaging_layers(SinkhornAttention(I, I, -I), near, 1).states[-1].round(3).ravel()
    array([-0.199,  0.199])
    """
    z = validate.tokens(z0, "z0")
    depth = validate.depth(depth, z.size)
    validate.instance(attention, "attention", Attention)
    V = layer_value(attention, z.shape[1])
    states = [z]
    for _ in range(depth):
        z = z + (attention.matrix(z) @ z - z) @ V.T
        states.append(z)
    return Flow(np.arange(depth + 1.0), np.stack(states), iterations=depth)
