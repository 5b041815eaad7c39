r"""What rescaled tokens tend to: decided from the data, with the margin of the decision.

:cite:t:`geshkovski2023` follow :math:`z = e^{-tV}x` under softmax attention. Depending on V the tokens
tend to points on the boundary of a polytope or to 0 (V = I), to at most three parallel
hyperplanes (a simple dominant eigenvalue), or to a polytope times a subspace (V is
:math:`\lambda I` on F and smaller on a complement G). Nothing here presumes their theorems:

* positions are *clustered* where single linkage has a gap: distances inside groups fall below
  `tol` of the tokens' size, and distances between groups are at least `GAP` times larger
  (`CLEAR` times where there are many groups);
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
from scipy.spatial.distance import pdist

from attnflow import validate
from attnflow.attention import Layer
from attnflow.flows import Flow
from attnflow.geometry.hull import hull_depth
from attnflow.geometry.value import dominant, layer_value
from attnflow.validate import Array

#: Groups must be this much farther apart than they are wide.
GAP = 10.0
#: Growth of the largest norm over the second half of the horizon that counts as divergence.
GROWTH = 10.0
#: Few positions are these, or a simplex's corners, or half as many as tokens. Where there are more,
#: near tokens could pass for a group: a polytope then needs a gap that is `CLEAR`, and levels of a
#: projection, which need not lie on a hull, are not believed.
FEW_LEVELS = 3
CLEAR = 1000.0
#: What there is to decide between.
KINDS = (
    "point", "polytope", "hyperplanes", "polytope x subspace", "divergence", "frozen", "undecided",
)  # fmt: skip


class Limit(NamedTuple):
    """What the tokens tend to. Distances are relative to the tokens' size.

    >>> from attnflow.attention import SoftmaxAttention
    >>> I = np.eye(1)
    >>> found = limit(SoftmaxAttention(I, I, I), [[-1.0], [-1.0], [2.0], [2.0]])
    >>> found.kind, found.points.ravel().tolist(), bool(found.margin > GAP)
    ('polytope', [-1.0, 2.0], True)
    """

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


def limit(attention: Layer, z: ArrayLike | Flow, *, tol: float = 1e-3) -> Limit:
    """Decide what rescaled tokens tend to, from their last state or from a whole flow.

    A state alone can show a point, a polytope, hyperplanes or a polytope times a subspace;
    divergence and rest are properties of a flow, that of :func:`attnflow.geometry.rescaled_flow`.

    >>> from attnflow.attention import SoftmaxAttention
    >>> from attnflow.geometry import rescaled_flow
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
    if (rank := np.linalg.matrix_rank(V)) < len(V):
        raise ValueError(
            f"V must be invertible, got rank {rank} of {len(V)}: where it is singular, a token at rest "
            "tells nothing"
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
        if found is None:
            continue
        labels, within, between = found
        few = max(FEW_LEVELS, len(basis) + 1, len(y) // 2)
        levels = basis is not everything and len(basis) == 1
        if labels.max() >= few and (levels or between < CLEAR * within):
            continue
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


def leaders(P: ArrayLike, tol: float = 1e-6) -> NDArray[np.intp]:
    """For every row of an attention matrix the token that takes all of it, or -1.

    On the line, softmax attention with V > 0 tends to a matrix in which all rows but one follow one
    of two leaders :cite:p:`geshkovski2023`.

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
    tree = linkage(pdist(y), "single")
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
