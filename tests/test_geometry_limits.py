"""What a state of rescaled tokens is called: point, polytope, hyperplanes, a product, or nothing."""

import numpy as np
import pytest
from hulls import SEEDS, depth_by_facets, rotation
from hypothesis import given, settings
from hypothesis import strategies as st
from layers import ID
from tolerances import CONDITIONED, ROUNDING
from value_matrices import (
    IDENTITY,
    LIMITS,
    PARANORMAL,
    SHEAR,
    SIMPLE,
    TRIANGLE,
    groups,
    same_partition,
    softmax,
)

from attnflow.attention import (
    L2Attention,
    MultiHead,
    SinkhornAttention,
    SoftmaxAttention,
    UnnormalisedAttention,
)
from attnflow.geometry import dominant, leaders, limit, support
from attnflow.geometry.limits import GAP


def at_levels(V, coordinates, rng):
    """Tokens with given coordinates (n, f) on the rows of dominant(V), well spread beside them."""
    n, basis = len(coordinates), dominant(V)
    beside = np.linalg.svd(basis)[2][len(basis) :]
    free = [rng.permutation(np.linspace(-2, 2, n)) for _ in beside]
    return coordinates @ basis + np.transpose(free) @ beside


def test_a_leader_takes_all_of_a_row_up_to_the_tolerance():
    P = np.array([[0.0, 0.0, 1.0], [1 - 1e-7, 1e-7, 0.0], [0.5, 0.5, 0.0], [2e-6, 1 - 2e-6, 0.0]])
    assert leaders(P).tolist() == [2, 0, -1, -1]
    assert leaders(P, 1e-5).tolist() == [2, 0, -1, 1]
    assert leaders(P, 1e-8).tolist() == [2, -1, -1, -1]


@settings(deadline=None, max_examples=30)
@given(SEEDS, st.integers(1, 6))
def test_leaders_of_a_map_are_the_map_whatever_the_order(seed, n):
    rng = np.random.default_rng(seed)
    f, rows = rng.integers(0, n, size=n), rng.permutation(n)
    P = np.eye(n)[f]
    assert (leaders(P) == f).all()
    assert (leaders(P[rows]) == f[rows]).all()
    assert len(set(leaders(P).tolist())) == np.linalg.matrix_rank(P)


@pytest.mark.parametrize("tol", [0.0, -0.1, 1.0, 2.0, np.nan, np.inf, "loose", None])
def test_a_tolerance_lies_between_zero_and_one(tol):
    with pytest.raises(ValueError, match="tol must"):
        leaders(ID, tol)
    with pytest.raises(ValueError, match="tol must"):
        limit(IDENTITY, TRIANGLE, tol=tol)


@pytest.mark.parametrize("P", [[1.0, 0.0], [[np.nan, 1.0]], "rows", np.ones((1, 2, 2))])
def test_leaders_refuse_what_is_no_matrix(P):
    with pytest.raises(ValueError, match="P must"):
        leaders(P)


def test_tokens_in_one_place_are_a_point():
    rng = np.random.default_rng(0)
    z, _ = groups([[0.3, -2.0]], 9, 1e-5, rng)
    found = limit(IDENTITY, z)
    assert found.kind == "point"
    assert np.abs(found.points - z.mean(axis=0)).max() <= ROUNDING
    assert (found.labels == 0).all()
    assert found.between == np.inf
    assert found.depth == 0
    assert found.within <= 1e-5
    assert limit(IDENTITY, z, tol=1e-7).kind == "undecided"


@pytest.mark.parametrize("copies", [[4, 3, 5], [2, 1, 1], [7, 1, 1]])
@pytest.mark.parametrize("width", [1e-4, 1e-9])
def test_tokens_at_vertices_are_a_polytope(copies, width):
    rng = np.random.default_rng(1)
    z, truth = groups(TRIANGLE, copies, width, rng)
    order = rng.permutation(len(z))
    found = limit(IDENTITY, z[order])
    assert found.kind == "polytope"
    assert same_partition(found.labels, truth[order])
    means = np.stack([z[truth == k].mean(axis=0) for k in range(3)])
    assert all(np.abs(means - p).max(axis=1).min() <= ROUNDING for p in found.points)
    assert np.abs(found.points[found.labels] - z[order]).max() <= width
    size, sides = (
        np.linalg.norm(z, axis=1).max(),
        np.linalg.norm(TRIANGLE - np.roll(TRIANGLE, 1, axis=0), axis=1),
    )
    assert found.within <= width / size
    assert abs(found.between - sides.min() / size) <= 2 * width / size
    assert abs(found.margin - found.between / found.within) <= ROUNDING * found.margin
    assert (found.basis == ID).all()
    assert np.isnan(found.growth)
    assert np.isnan(found.moved)


def test_positions_may_lie_at_zero_or_between_vertices():
    rng = np.random.default_rng(2)
    edge = (TRIANGLE[0] + 2 * TRIANGLE[1]) / 3
    z, truth = groups([*TRIANGLE, edge, [0.0, 0.0]], 3, 1e-6, rng)
    assert depth_by_facets([*TRIANGLE, [0.0, 0.0]])[3] > 0.1
    found = limit(IDENTITY, z)
    assert found.kind == "polytope"
    assert len(found.points) == 5
    assert same_partition(found.labels, truth)
    assert found.depth <= 1e-6


@pytest.mark.parametrize("inside", [0.99, 0.9, 0.1])
def test_a_position_inside_the_hull_is_no_polytope(inside):
    rng = np.random.default_rng(3)
    z, _ = groups([*TRIANGLE, inside * TRIANGLE[1]], 3, 1e-6, rng)
    assert limit(IDENTITY, z).kind == "undecided"
    assert limit(IDENTITY, z[:9]).kind == "polytope"


@pytest.mark.parametrize(("times_tol", "kind"), [(0.9, "polytope"), (1.1, "undecided")])
def test_depth_is_measured_against_the_tolerance(times_tol, kind):
    """A square of side 2 and size sqrt(2), and a position this deep under its upper side."""
    tol = 1e-2
    deep = times_tol * tol * np.sqrt(2)
    corners = [[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0], [0.2, 1 - deep]]
    found = limit(IDENTITY, np.repeat(corners, 2, axis=0), tol=tol)
    assert found.kind == kind
    if kind == "polytope":
        assert abs(found.depth - times_tol * tol) <= ROUNDING


@pytest.mark.parametrize("tol", [1e-3, 1e-6])
@pytest.mark.parametrize(("ratio", "clear"), [(0.99 * GAP, False), (1.01 * GAP, True)])
def test_groups_must_be_far_apart_compared_with_their_width(tol, ratio, clear):
    """Two pairs, each half a tolerance wide, `ratio` widths apart; the size is one."""
    w = tol / 2
    z = np.array([[1.0, 0.0], [1.0, w], [1.0, w + ratio * w], [1.0, 2 * w + ratio * w]])
    z *= 1 / np.linalg.norm(z, axis=1).max()
    found = limit(IDENTITY, z, tol=tol)
    assert (found.kind == "polytope") == clear
    if clear:
        assert abs(found.margin / ratio - 1) <= 1e-6
    else:
        assert found.kind == "undecided"


@pytest.mark.parametrize(("width", "clear"), [(0.9e-3, True), (1.1e-3, False)])
def test_groups_must_be_narrower_than_the_tolerance(width, clear):
    pair = np.array([[0.0, -width / 2], [0.0, width / 2]])
    east = np.array([1.0, 0.0])
    z = np.concatenate([pair + east, pair - east])
    assert limit(IDENTITY, z).kind == ("polytope" if clear else "undecided")


@pytest.mark.parametrize("n", [3, 8, 30])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_random_crowd_in_the_plane_is_undecided(n, seed):
    assert limit(IDENTITY, np.random.default_rng(seed).normal(size=(n, 2))).kind == "undecided"


@pytest.mark.parametrize("levels", [[0.7], [-1.0, 0.4], [-1.0, 0.0, 1.3]])
def test_levels_of_the_left_eigenvector_are_hyperplanes(levels):
    rng = np.random.default_rng(4)
    coordinates, truth = groups(np.array(levels)[:, None], 6, 1e-6, rng)
    z = at_levels(SIMPLE.V, coordinates, rng)
    found = limit(SIMPLE, z)
    assert found.kind == "hyperplanes"
    assert found.basis.shape == (1, 2)
    assert same_partition(found.labels, truth)
    assert len(found.points) == len(levels)
    line = np.sign(found.basis[0, 0]) * np.array([3.0, 2.0]) / np.sqrt(13)
    assert np.abs(found.basis[0] - line).max() <= ROUNDING
    assert np.abs(found.points[found.labels, 0] - z @ line).max() <= 1e-6


def test_levels_of_another_vector_are_nothing():
    """The right eigenvector, and the left one of the smaller eigenvalue."""
    rng = np.random.default_rng(5)
    coordinates, _ = groups([[-1.0], [0.4]], 6, 1e-6, rng)
    for direction in ([1.0, 0.0], [0.0, 1.0]):
        u = np.array(direction)
        z = coordinates * u + rng.normal(size=(12, 2)) @ (ID - np.outer(u, u))
        assert limit(SIMPLE, z).kind == "undecided"


def test_hyperplanes_that_are_points_are_a_polytope_first():
    rng = np.random.default_rng(6)
    z, _ = groups(TRIANGLE, 4, 1e-6, rng)
    assert limit(SIMPLE, z).kind == "polytope"


def test_a_polytope_times_a_subspace():
    rng = np.random.default_rng(7)
    coordinates, truth = groups(TRIANGLE, 4, 1e-6, rng)
    z = at_levels(PARANORMAL.V, coordinates, rng)
    found = limit(PARANORMAL, z)
    assert found.kind == "polytope x subspace"
    assert found.basis.shape == (2, 3)
    assert same_partition(found.labels, truth)
    assert np.abs(found.points[found.labels] - coordinates).max() <= 1e-6
    assert np.abs(found.basis @ SHEAR[:, 2]).max() <= CONDITIONED  # G is not seen


def test_an_interior_position_times_a_subspace_is_nothing():
    rng = np.random.default_rng(8)
    coordinates, _ = groups([*TRIANGLE, 0.5 * TRIANGLE[1]], 4, 1e-6, rng)
    assert limit(PARANORMAL, at_levels(PARANORMAL.V, coordinates, rng)).kind == "undecided"


@settings(deadline=None, max_examples=25)
@given(SEEDS, st.sampled_from(list(LIMITS)), st.floats(1e-3, 1e3))
def test_a_decision_does_not_depend_on_order_scale_or_axes(seed, kind, factor):
    rng = np.random.default_rng(seed)
    layer, centres = LIMITS[kind]
    coordinates, truth = groups(centres, 4, 1e-5, rng)
    whole = kind in ("point", "polytope")
    z = coordinates if whole else at_levels(layer.V, coordinates, rng)
    first = limit(layer, z)
    assert first.kind == kind
    assert same_partition(first.labels, truth)

    order, turn = rng.permutation(len(z)), rotation(len(layer.V), rng)
    again = limit(softmax(turn @ layer.V @ turn.T), factor * z[order] @ turn.T)
    assert again.kind == kind
    assert same_partition(again.labels, first.labels[order])
    for name in ("within", "depth"):
        assert abs(getattr(again, name) - getattr(first, name)) <= CONDITIONED
    assert kind == "point" or abs(again.between - first.between) <= CONDITIONED
    # positions agree as vectors of the tokens' space
    here = again.points[again.labels] @ again.basis @ turn
    assert np.abs(here - factor * (first.points[first.labels] @ first.basis)[order]).max() <= (
        factor * CONDITIONED
    )


def test_only_v_decides_and_heads_add_up():
    rng = np.random.default_rng(9)
    coordinates, truth = groups(TRIANGLE, 4, 1e-6, rng)
    V = PARANORMAL.V
    z = at_levels(V, coordinates, rng)
    Q, K = rng.normal(size=(2, 2, 3))
    narrow = rng.normal(size=(2, 3))  # heads of two dimensions, mapped back by W
    W = rng.normal(size=(3, 2))
    layers = {
        "l2": L2Attention(Q, K, V),
        "sinkhorn": SinkhornAttention(Q, K, V),
        "unnormalised": UnnormalisedAttention(Q, K, V),
        "causal": SoftmaxAttention(Q, K, V, causal=True),
        "two heads": MultiHead([SoftmaxAttention(Q, K, V), L2Attention(Q, K, V)], [0.3 * np.eye(3), 0.7 * np.eye(3)]),
        "heads of several sizes": MultiHead(
            [SoftmaxAttention(Q, K, narrow), SoftmaxAttention(Q, K, V - W @ narrow)],
            [W, np.eye(3)],
        ),
    }  # fmt: skip
    for name, layer in layers.items():
        found = limit(layer, z)
        assert found.kind == "polytope x subspace", name
        assert same_partition(found.labels, truth), name


def test_the_head_with_the_larger_value_does_not_decide_alone():
    """diag(2, 1) + diag(-1, 1) is dominated by the second coordinate."""
    rng = np.random.default_rng(10)
    both = MultiHead([softmax(np.diag([2.0, 1.0])), softmax(np.diag([-1.0, 1.0]))])
    levels, _ = groups([[-1.0], [1.0]], 5, 1e-6, rng)
    free = rng.normal(size=(10, 1))
    assert limit(both, np.c_[free, levels]).kind == "hyperplanes"
    assert limit(both, np.c_[levels, free]).kind == "undecided"


@pytest.mark.parametrize("n", [2, 3])
def test_few_tokens(n):
    far = TRIANGLE[:n]
    assert limit(IDENTITY, far).kind == "undecided"  # no group, no gap
    near = np.repeat([[1.0, 0.5]], n, axis=0) + 1e-6 * far
    assert limit(IDENTITY, near).kind == "point"
    assert limit(IDENTITY, np.concatenate([far, far + 1e-6])).kind == "polytope"


def test_limits_on_the_line():
    line = softmax([[2.0]])
    at = np.array([-1.0, -1.0, 0.0, 0.0, 1.5, 1.5]) + 1e-7 * np.arange(6)
    found = limit(line, at)
    assert found.kind == "polytope"
    assert len(found.points) == 3
    at[2:4] += 0.4  # no longer 0: inside the segment, but still three parallel hyperplanes
    assert limit(line, at).kind == "hyperplanes"


def test_a_twin_does_not_split_the_groups():
    """Three groups 1e-4 wide in which two tokens coincide are still three groups."""
    z, truth = groups(TRIANGLE, 5, 1e-4, np.random.default_rng(14))
    z[1] = z[0]
    found = limit(IDENTITY, z)
    assert found.kind == "polytope"
    assert same_partition(found.labels, truth)


@pytest.mark.parametrize("n", [10, 40])
def test_a_random_crowd_shows_no_hyperplanes(n):
    """Projections of independent tokens are a crowd on a line, never n - 1 levels."""
    kinds = [
        limit(SIMPLE, np.random.default_rng(seed).normal(size=(n, 2))).kind for seed in range(60)
    ]
    assert set(kinds) == {"undecided"}


def test_tokens_at_zero_are_a_point():
    assert limit(IDENTITY, np.zeros((4, 2))).kind == "point"


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: dominant(np.zeros((0, 0))), "V"),
        (lambda: support(np.zeros((2, 0, 2)), [[1.0, 0.0]]), "states"),
        (lambda: leaders(np.zeros((3, 0))), "P"),
    ],
)
def test_what_is_empty_is_refused_by_its_name(call, name):
    with pytest.raises(ValueError, match=f"{name} must"):
        call()


def test_tokens_on_two_lines_are_no_polytope():
    """All of them lie on the boundary of their hull, whatever their places along the lines."""
    kinds = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        u = dominant(SIMPLE.V)
        levels = rng.choice([-1.0, 0.8], size=(24, 1)) + 1e-7 * rng.normal(size=(24, 1))
        z = levels @ u + rng.normal(size=(24, 1)) @ np.linalg.svd(u)[2][1:]
        kinds.append(limit(SIMPLE, z).kind)
    assert set(kinds) == {"hyperplanes"}


def test_more_positions_than_half_the_tokens_need_a_clear_gap():
    """Eight tokens at five corners are a polytope; a near pair among tokens on a circle is none."""
    corners = np.array([[np.cos(a), np.sin(a)] for a in 2 * np.pi * np.arange(5) / 5])
    layer = SoftmaxAttention(np.eye(2), np.eye(2), np.eye(2))
    rng = np.random.default_rng(0)
    rested = corners[[0, 1, 2, 3, 4, 0, 1, 2]] + 1e-6 * rng.normal(size=(8, 2))
    found = limit(layer, rested)
    assert (found.kind, len(found.points)) == ("polytope", 5)
    apart = np.array([[np.cos(a), np.sin(a)] for a in 2 * np.pi * np.arange(7) / 7])
    pair = np.append(apart, apart[:1] + np.array([[9e-4, 0.0]]), axis=0)
    assert limit(layer, pair).kind == "undecided"


def test_two_tokens_at_zero_are_no_matrix_of_distances(recwarn):
    """scipy warns of square arrays that look like one."""
    limit(SoftmaxAttention(ID, ID, ID), np.zeros((2, 2)))
    assert not recwarn.list


@pytest.mark.parametrize(
    ("copies", "kind"), [([2, 2, 2, 1], "undecided"), ([2, 2, 2, 2], "hyperplanes")]
)
def test_four_levels_are_believed_where_they_are_half_as_many_as_tokens(
    copies: list[int], kind: str
) -> None:
    rng = np.random.default_rng(15)
    coordinates, _ = groups([[-1.2], [-0.3], [0.4], [1.5]], copies, 1e-6, rng)
    assert limit(SIMPLE, at_levels(SIMPLE.V, coordinates, rng)).kind == kind
