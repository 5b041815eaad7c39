r"""The convex hull of tokens: how deep they lie in it, and how far it reaches.

A point is as deep as :math:`\min_{|u|=1}\bigl(\max_i\langle u, z_i\rangle - \langle u, z\rangle\bigr)` says. Where V = I the hull of the rescaled tokens only shrinks, and they end on the boundary of a polytope
or at 0 (:cite:t:`geshkovski2023`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import ConvexHull

from attnflow import validate
from attnflow.validate import Array

#: Singular values this small beside the largest are rounding: the cloud is flat there.
FLAT = 1e-9
#: Depths this small beside the largest coordinate are rounding: the point is on the boundary.
ON_BOUNDARY = 1e-14


def hull_depth(points: ArrayLike) -> Array:
    """How far each point lies inside the convex hull of all of them; 0 on its boundary.

    Points that span less than the whole space are seen within the space they span.

    >>> hull_depth([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [1.0, 1.0]]).round(6)
    array([0., 0., 0., 1.])
    """
    p = validate.tokens(points, "points")
    scale = float(np.abs(p).max()) or 1.0
    centred = p / scale - (p / scale).mean(axis=0)
    _, sizes, axes = np.linalg.svd(centred, full_matrices=False)
    rank = int((sizes > FLAT * max(sizes.max(initial=0.0), 1e-300)).sum())
    y = centred @ axes[:rank].T
    if rank == 0:
        return np.zeros(len(p))
    if rank == 1:
        return scale * np.minimum(y - y.min(), y.max() - y).ravel()
    facets = ConvexHull(y).equations  # (facets, rank + 1): normal . y + offset <= 0 inside
    depth = -(y @ facets[:, :-1].T + facets[:, -1]).max(axis=1)
    return scale * np.where(depth > ON_BOUNDARY, depth, 0.0)


def support(states: ArrayLike, directions: ArrayLike) -> Array:
    r"""The support function of the hull of every state (m, n, d), shape (m, q).

    .. math:: h(u) = \max_i \langle u, z_i\rangle

    A hull that shrinks has support functions that never grow.

    >>> support([[[1.0, 0.0], [0.0, 2.0]]], [[0.0, 1.0], [-1.0, 0.0]])
    array([[2., 0.]])
    """
    s, u = validate.array(states, "states", 3), validate.tokens(directions, "directions")
    if not s.size:
        raise ValueError(f"states must hold at least one token, got shape {s.shape}")
    if s.shape[2] != u.shape[1]:
        raise ValueError(f"directions must have {s.shape[2]} columns, got shape {u.shape}")
    return np.einsum("mnd,qd->mnq", s, u).max(axis=1)
