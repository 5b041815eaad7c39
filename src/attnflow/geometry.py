r"""What rescaled tokens tend to: decided from the data, with the margin of the decision.

Geshkovski, Letrouit, Polyanskiy and Rigollet (The emergence of clusters in self-attention
dynamics, 2023) follow :math:`z = e^{-tV}x` under softmax attention. Depending on V the tokens
tend to points on the boundary of a polytope or to 0 (V = I), to at most three parallel
hyperplanes (a simple dominant eigenvalue), or to a polytope times a subspace (V is
:math:`\lambda I` on F and smaller on a complement G). Nothing here presumes their theorems:

* positions are *clustered* where single linkage has a gap: distances inside groups fall below
  `tol` of the tokens' size, and distances between groups are at least `GAP` times larger;
* a polytope asks in addition that every position lies on the boundary of the hull of all, or
  at 0, to within `tol`;
* first all coordinates are tried, then the projections on the left eigenvectors of V that
  belong to its dominant eigenvalue, which are the coordinates on F along G;
* what is not clustered has diverged, is frozen (at rest, tokens apart) or is undecided.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.linalg import schur
from scipy.spatial import ConvexHull

from attnflow import validate
from attnflow.attention import Attention, MultiHead
from attnflow.flows import Flow
from attnflow.rescaled import layer_value, rescaled_flow
from attnflow.validate import Array

__all__ = ["Limit", "dominant", "hull_depth", "leaders", "limit", "rescaled_flow", "support"]

#: Groups must be this much farther apart than they are wide.
GAP = 10.0
#: Growth of the largest norm over the second half of the horizon that counts as divergence.
GROWTH = 10.0
#: Clustered tokens take few positions: these, or a simplex's corners, or half as many as tokens.
FEW_LEVELS = 3
#: Eigenvalues this close, relative to the spectral radius, are one; wider if there is none so close.
SAME_EIGENVALUE = (1e-8, 1e-6, 1e-4, 1e-2)
KINDS = (
    "point", "polytope", "hyperplanes", "polytope x subspace", "divergence", "frozen", "undecided",
)  # fmt: skip


class Limit(NamedTuple):
    """What the tokens tend to. Distances are relative to the tokens' size."""

    kind: str  #: one of KINDS
    points: Array  #: (k, f) the distinct positions, in the coordinates z @ basis.T
    labels: NDArray[np.intp]  #: (n,) which of them each token is at
    basis: Array  #: (f, d)
    within: float  #: the largest distance inside a group
    between: float  #: the smallest distance between groups (inf for one group)
    depth: (
        float  #: how far a position other than 0 lies inside the hull of all (0: on its boundary)
    )
    growth: float  #: of the largest norm over the second half of the times; nan without times
    moved: float  #: how far a token went over the last tenth of the times; nan without times

    @property
    def margin(self) -> float:
        """How much wider the gaps are than the groups; a decision needs `GAP`."""
        return self.between / max(self.within, np.finfo(float).tiny)


def limit(attention: Attention | MultiHead, z: ArrayLike | Flow, *, tol: float = 1e-3) -> Limit:
    """Decide what rescaled tokens tend to, from their last state or from a whole flow.

    A state alone can show a point, a polytope, hyperplanes or a polytope times a subspace;
    divergence and rest are properties of a flow (:func:`rescaled_flow`).

    >>> from attnflow.attention import SoftmaxAttention
    >>> I = np.eye(2)
    >>> layer = SoftmaxAttention(I, I, I)
    >>> z0 = [[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0], [0.2, 0.1]]
    >>> found = limit(layer, rescaled_flow(layer, z0, [0.0, 20.0]))
    >>> found.kind, len(found.points), found.labels[0] == found.labels[3]
    ('polytope', 3, np.True_)
    """
    flow = z if isinstance(z, Flow) else None
    state = validate.tokens(flow.states[-1] if flow else z, "z")  # type: ignore[arg-type]
    tol = validate.between_zero_and_one(tol, "tol")
    if len(state) < 2:
        raise ValueError(f"z must hold at least two tokens, got {len(state)}")
    V = layer_value(attention, state.shape[1])
    if np.linalg.matrix_rank(V) < len(V):
        raise ValueError(
            "V must be invertible: where it is singular, a token at rest tells nothing"
        )
    start = flow.states[0] if flow else state
    moved = _moved(flow)
    everything = np.eye(len(V))
    for basis in (everything, dominant(V)):
        with np.errstate(over="ignore", invalid="ignore"):
            norms = validate.finite(np.linalg.norm(start @ basis.T, axis=1), "norms of tokens")
        size = float(norms.max()) or 1.0
        y = state @ basis.T / size
        if _growth(flow, basis) >= GROWTH:
            continue
        found = _groups(y, tol)
        few = max(FEW_LEVELS, len(basis) + 1, len(y) // 2)
        if found is None or found[0].max() >= few:
            continue
        labels, within, between = found
        points = np.stack([y[labels == k].mean(axis=0) for k in range(labels.max() + 1)])
        depth = float(hull_depth(points)[np.linalg.norm(points, axis=1) > tol].max(initial=0.0))
        if basis is everything:
            kind = "point" if len(points) == 1 else "polytope"
        else:
            kind = "hyperplanes" if len(basis) == 1 else "polytope x subspace"
        if kind.startswith("polytope") and depth > tol:
            continue
        growth = _growth(flow, basis)
        return Limit(kind, size * points, labels, basis, within, between, depth, growth, moved)
    growth = _growth(flow, everything)
    kind = "divergence" if growth >= GROWTH else "frozen" if moved <= tol else "undecided"
    nan, alone = float("nan"), np.arange(len(state))
    return Limit(kind, state, alone, everything, nan, nan, nan, growth, moved)


def dominant(V: ArrayLike) -> Array:
    """An orthonormal basis, as rows, of the left eigenspace of the largest real part in V's spectrum.

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
    rank = int((sizes > 1e-9 * max(sizes.max(initial=0.0), 1e-300)).sum())
    y = centred @ axes[:rank].T
    if rank == 0:
        return np.zeros(len(p))
    if rank == 1:
        return scale * np.minimum(y - y.min(), y.max() - y).ravel()
    facets = ConvexHull(y).equations  # (facets, rank + 1): normal . y + offset <= 0 inside
    return scale * np.maximum(-(y @ facets[:, :-1].T + facets[:, -1]).max(axis=1), 0.0)


def support(states: ArrayLike, directions: ArrayLike) -> Array:
    """The support function max_i <u, z_i> of the hull of every state (m, n, d), shape (m, q).

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


def leaders(P: ArrayLike, tol: float = 1e-6) -> NDArray[np.intp]:
    """For every row of an attention matrix the token that takes all of it, or -1.

    >>> leaders([[1.0, 0.0], [0.5, 0.5]])
    array([ 0, -1])
    """
    P = validate.array(P, "P", 2)
    if not P.size:
        raise ValueError(f"P must not be empty, got shape {P.shape}")
    top = P.argmax(axis=1)
    return np.where(P.max(axis=1) >= 1 - validate.between_zero_and_one(tol, "tol"), top, -1)


def _groups(y: Array, tol: float) -> tuple[NDArray[np.intp], float, float] | None:
    """Labels, the width of groups and the gap between them; None where there is no clear gap."""
    tree = linkage(y, "single")
    heights = tree[:, 2]  # n - 1 distances at which groups merge, ascending
    narrow = int((heights <= tol).sum())
    if narrow == 0:
        return None
    within, between = float(heights[narrow - 1]), float(np.append(heights, np.inf)[narrow])
    if between < GAP * within:
        return None
    return fcluster(tree, within, "distance").astype(np.intp) - 1, within, between


def _growth(flow: Flow | None, basis: Array) -> float:
    """Of the largest norm in the coordinates z @ basis.T, over the second half of the times."""
    if flow is None:
        return float("nan")
    y = flow.states @ basis.T
    unit = float(np.abs(y).max()) or 1.0  # squares of what has diverged may overflow
    t, radius = flow.times, np.linalg.norm(y / unit, axis=2).max(axis=1)
    middle = np.searchsorted(t, (t[0] + t[-1]) / 2, side="right")
    return float(radius[-1] / max(radius[:middle].max(), np.finfo(float).tiny))


def _moved(flow: Flow | None) -> float:
    """The largest move of a token in the last tenth of the times, relative to its first size."""
    if flow is None:
        return float("nan")
    t = flow.times
    late = min(int(np.searchsorted(t, t[-1] - 0.1 * (t[-1] - t[0]))), len(t) - 2)
    move = flow.states[-1] - flow.states[late]
    unit = float(np.abs(move).max()) or 1.0
    size = max(float(np.linalg.norm(flow.states[0], axis=1).max()), np.finfo(float).tiny)
    return float(unit * (np.linalg.norm(move / unit, axis=1).max() / size))
