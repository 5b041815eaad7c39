"""Depth in a convex hull and support functions: brute force, linear programmes, closed forms."""

import numpy as np
import pytest
from hulls import SEEDS, depth_by_facets, rotation
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from tolerances import CONDITIONED, LINEAR_PROGRAMME, ROUNDING

from attnflow.geometry import hull_depth, support


def stretch(points, i, centre):
    """The largest t for which p_i + t (p_i - centre) is a convex combination of the points."""
    n = len(points)
    direction = points[i] - centre
    constraints = np.block([[points.T, -direction[:, None]], [np.ones((1, n)), np.zeros((1, 1))]])
    found = linprog(
        np.append(np.zeros(n), -1.0), A_eq=constraints, b_eq=np.append(points[i], 1.0),
        bounds=[(0, None)] * (n + 1),
    )  # fmt: skip
    assert found.success
    return -found.fun


@pytest.mark.parametrize(("n", "d"), [(3, 2), (4, 2), (9, 2), (4, 3), (8, 3), (14, 3), (6, 4)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_depth_is_the_distance_to_the_nearest_facet(n, d, seed):
    points = np.random.default_rng(seed).normal(size=(n, d))
    assert np.abs(hull_depth(points) - depth_by_facets(points)).max() <= CONDITIONED


@pytest.mark.parametrize("d", [2, 3, 4, 6])
@pytest.mark.parametrize("seed", [0, 1])
def test_depth_vanishes_exactly_where_a_linear_programme_cannot_go_farther_out(d, seed):
    points = np.random.default_rng(seed).normal(size=(3 * d, d))
    points[1] = (points[2] + points[3]) / 2  # inside, or on an edge
    centre, depth = points.mean(axis=0), hull_depth(points)
    for i in range(len(points)):
        t = stretch(points, i, centre)
        if depth[i] > 0:
            assert t > LINEAR_PROGRAMME
        else:
            assert t <= LINEAR_PROGRAMME


@settings(deadline=None, max_examples=40)
@given(SEEDS, st.integers(1, 4), st.integers(1, 12), st.integers(1, 4))
def test_depth_moves_with_the_points(seed, d, n, rank):
    """Rotations, shifts and orders change nothing; a factor scales. Flat clouds included."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, min(rank, d))) @ rotation(d, rng)[: min(rank, d)]
    order, turn, shift = rng.permutation(n), rotation(d, rng), rng.normal(size=d)
    want = hull_depth(points)
    assert want.shape == (n,)
    assert want.min() >= 0
    assert np.abs(hull_depth(points[order] @ turn + shift) - want[order]).max() <= CONDITIONED
    assert np.abs(hull_depth(1e6 * points) - 1e6 * want).max() <= 1e6 * CONDITIONED
    assert np.abs(hull_depth(1e-6 * points) - 1e-6 * want).max() <= 1e-6 * CONDITIONED


@pytest.mark.parametrize(
    ("points", "want"),
    [
        ([[3.0, -1.0]], [0.0]),
        ([[3.0, -1.0]] * 4, [0.0] * 4),
        ([[0.0, 0.0], [3.0, 4.0]], [0.0, 0.0]),
        ([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0], [1.5, 2.0]], [0.0, 5.0, 0.0, 2.5]),
        ([[-1.0], [0.5], [2.0]], [0.0, 1.5, 0.0]),
        ([-1.0, 0.5, 2.0], [0.0, 1.5, 0.0]),
        ([[0, 0, 7], [4, 0, 7], [0, 4, 7], [1, 1, 7], [2, 2, 7]], [0, 0, 0, 1, 0]),
        ([[1, 1], [1, -1], [-1, 1], [-1, -1], [0, 0], [0, 1], [0.5, 0]], [0, 0, 0, 0, 1, 0, 0.5]),
        ([[1, 0], [0, 1], [0, 0], [1, 0], [0.25, 0.25]], [0, 0, 0, 0, 0.25]),
    ],
    ids=[
        "one point", "one point, four times", "a segment's ends", "collinear", "on the line",
        "a vector", "coplanar in space", "a square", "a vertex twice",
    ],
)  # fmt: skip
def test_depth_in_hulls_of_every_dimension(points, want):
    assert np.abs(hull_depth(points) - want).max() <= ROUNDING


def test_a_cloud_that_is_flat_up_to_rounding_counts_as_flat():
    rng = np.random.default_rng(0)
    flat = np.c_[rng.normal(size=(12, 2)), np.zeros(12)] @ rotation(3, rng)
    noisy = flat + 1e-14 * rng.normal(size=flat.shape)
    assert hull_depth(flat).max() > 0.1
    assert np.abs(hull_depth(noisy) - hull_depth(flat)).max() <= CONDITIONED


@pytest.mark.parametrize("factor", [1e-150, 1e-30, 1e30, 1e150])
def test_depth_has_no_scale_of_its_own(factor):
    points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.25, 0.25]])
    assert np.abs(hull_depth(factor * points) / factor - [0, 0, 0, 0.25]).max() <= ROUNDING


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([[0.0, np.nan]], "points must be finite, got nan"),
        (np.zeros((0, 2)), r"points must hold at least one token, got shape \(0, 2\)"),
        (np.zeros((2, 2, 2)), r"points must have 2 axes, got shape \(2, 2, 2\)"),
        ("corners", "points must be an array of real numbers, got 'corners'"),
    ],
)
def test_depth_refuses_what_are_not_points(points, message):
    with pytest.raises(ValueError, match=message):
        hull_depth(points)


@settings(deadline=None, max_examples=30)
@given(SEEDS, st.integers(1, 3), st.integers(1, 6), st.integers(1, 3), st.integers(1, 4))
def test_support_is_the_largest_inner_product(seed, m, n, d, q):
    rng = np.random.default_rng(seed)
    states, directions = rng.normal(size=(m, n, d)), rng.normal(size=(q, d))
    found = support(states, directions)
    assert found.shape == (m, q)
    for k in range(m):
        for r in range(q):
            assert abs(found[k, r] - max(directions[r] @ x for x in states[k])) <= ROUNDING
    sums = support(states, directions + directions[:1])
    assert (sums <= found + found[:, :1] + ROUNDING).all()
    assert np.abs(support(states, 3 * directions) - 3 * found).max() <= ROUNDING
    turn = rotation(d, rng)
    assert np.abs(support(states @ turn, directions @ turn) - found).max() <= ROUNDING
    assert (support(states[:, rng.permutation(n)], directions) == found).all()


def test_support_of_more_tokens_is_larger():
    rng = np.random.default_rng(1)
    states, directions = rng.normal(size=(4, 9, 3)), rng.normal(size=(20, 3))
    assert (support(states[:, :5], directions) <= support(states, directions)).all()


@pytest.mark.parametrize(
    ("states", "directions", "message"),
    [
        (np.zeros((2, 3, 2)), [[1.0, 0.0, 0.0]], r"directions must have 2 columns, got shape \(1, 3\)"),
        (np.zeros((2, 3, 2)), [1.0, 0.0], r"directions must have 2 columns, got shape \(2, 1\)"),
        (np.zeros((3, 2)), [[1.0, 0.0]], r"states must have 3 axes, got shape \(3, 2\)"),
        (np.full((1, 1, 2), np.inf), [[1.0, 0.0]], "states must be finite, got inf"),
        (np.zeros((2, 3, 2)), np.zeros((0, 2)), "directions must hold at least one token"),
    ],
)  # fmt: skip
def test_support_refuses_shapes_that_do_not_fit(states, directions, message):
    with pytest.raises(ValueError, match=message):
        support(states, directions)


@pytest.mark.parametrize("factor", [1e-200, 1e200])
def test_depth_has_no_scale_at_all(factor):
    points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.25, 0.25]])
    assert np.abs(hull_depth(factor * points) / factor - [0, 0, 0, 0.25]).max() <= ROUNDING


@pytest.mark.parametrize("d", [2, 3, 4])
def test_points_on_a_facet_have_no_depth_at_all(d):
    """Combinations of d corners of a simplex, which rounding may put beside their facet."""
    rng = np.random.default_rng(d)
    corners = np.vstack([np.zeros(d), 1e3 * rng.normal(size=(d, d))])
    shares = rng.dirichlet(np.ones(d), size=40)
    points = np.vstack([corners, shares @ corners[1:], corners.mean(axis=0)])
    depth = hull_depth(points)
    assert not depth[:-1].any()
    assert depth[-1] > 0
