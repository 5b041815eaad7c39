"""W_p: against quantiles, assignments and the properties of a distance."""

import itertools

import numpy as np
import pytest
from clouds import cloud, masses
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from scipy.stats import wasserstein_distance
from tolerances import (
    DISTANCE,
    ROUNDED_MASS,
    SOLVED,
)

from attnflow import transport
from attnflow.errors import SolverFailed
from attnflow.meanfield import (
    Measure,
    measure,
    wasserstein,
)


def monotone(mu, nu, p):
    """The integral of |F^-1 - G^-1|^p over the levels between all jumps."""
    (x, a), (y, b) = ((m.points[:, 0], m.weights) for m in (mu, nu))
    i, j = np.argsort(x), np.argsort(y)
    left, right = np.cumsum(a[i]), np.cumsum(b[j])
    left[-1] = right[-1] = 1.0
    total, last = 0.0, 0.0
    for level in np.sort(np.concatenate([left, right])):
        middle = (last + level) / 2
        gap = abs(x[i][np.searchsorted(left, middle)] - y[j][np.searchsorted(right, middle)])
        total, last = total + (level - last) * gap**p, level
    return total ** (1 / p)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    n=st.integers(1, 12), m=st.integers(1, 12), seed=st.integers(0, 99), p=st.sampled_from([1, 2, 3])
)  # fmt: skip
def test_on_the_line_the_distance_is_that_of_the_quantiles(n, m, seed, p):
    mu, nu = measure(cloud(n, 1, seed), masses(n, seed)), measure(cloud(m, 1, seed + 1), masses(m))
    got = wasserstein(mu, nu, p)
    assert abs(got - monotone(mu, nu, p)) <= ROUNDED_MASS
    if p == 1:
        x, y = mu.points[:, 0], nu.points[:, 0]
        assert abs(got - wasserstein_distance(x, y, mu.weights, nu.weights)) <= SOLVED


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0, 7.0])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_equal_weights_are_matched_one_to_one(p, d):
    x, y = cloud(9, d, 1), cloud(9, d, 2)
    cost = np.array([[np.linalg.norm(a - b) ** p for b in y] for a in x])
    rows, columns = linear_sum_assignment(cost)
    want = cost[rows, columns].mean() ** (1 / p)
    assert abs(wasserstein(measure(x), measure(y), p) - want) <= SOLVED


@pytest.mark.parametrize("d", [1, 2, 3])
def test_for_p_two_it_is_the_distance_of_transport(d):
    mu, nu = measure(cloud(20, d, 1), masses(20, 1)), measure(cloud(15, d, 2), masses(15, 2))
    want = transport.w2(mu.points, nu.points, mu.weights, nu.weights)
    assert abs(wasserstein(mu, nu) - want) <= SOLVED


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_a_translation_costs_its_length_and_scaling_scales(p):
    mu, nu = measure(cloud(8, 2, 1), masses(8, 1)), measure(cloud(6, 2, 2), masses(6, 2))
    v = np.array([3.0, -4.0])
    assert abs(wasserstein(mu, Measure(mu.points + v, mu.weights), p) - 5) <= SOLVED
    both = wasserstein(mu, nu, p)
    for factor in (1e-6, 0.5, 1e6):
        scaled = [Measure(factor * m.points, m.weights) for m in (mu, nu)]
        assert abs(wasserstein(*scaled, p) / factor - both) <= SOLVED
    moved = [Measure(m.points + 100 * v, m.weights) for m in (mu, nu)]
    assert abs(wasserstein(*moved, p) - both) <= SOLVED


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_it_is_a_distance_of_measures(p):
    """Symmetric, zero for the same measure however it is written down, and triangular."""
    a, b, c = (measure(cloud(7, 2, seed), masses(7, seed)) for seed in range(3))
    assert abs(wasserstein(a, b, p) - wasserstein(b, a, p)) <= SOLVED
    assert wasserstein(a, c, p) <= wasserstein(a, b, p) + wasserstein(b, c, p) + SOLVED
    split = Measure(np.repeat(a.points, 2, axis=0)[::-1], np.repeat(a.weights / 2, 2)[::-1])
    assert wasserstein(a, split, p) <= ROUNDED_MASS ** min(1, 2 / p)
    assert wasserstein(a, a, p) == 0
    assert wasserstein(measure([1.0, 1.0]), measure([1.0]), p) == 0


def test_distances_grow_with_p():
    mu, nu = measure(cloud(8, 2, 1)), measure(cloud(8, 2, 2))
    found = [wasserstein(mu, nu, p) for p in (1, 1.5, 2, 3, 10)]
    assert all(a <= b + SOLVED for a, b in itertools.pairwise(found))


def test_points_without_mass_cost_nothing():
    mu = measure([[0.0, 0.0], [50.0, 0.0]], [1.0, 0.0])
    assert abs(wasserstein(mu, measure([[3.0, 4.0]]), 3) - 5) <= DISTANCE


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize(("far", "p"), [(1e2, 3), (1e4, 3), (1e6, 2), (1e2, 6)])
def test_a_common_point_far_away_does_not_hide_the_distance_of_the_others(d, far, p):
    x, y = cloud(30, d, 1), cloud(30, d, 2)
    cost = np.linalg.norm(x[:, None] - y, axis=2) ** p
    rows, columns = linear_sum_assignment(cost)
    want = (cost[rows, columns].sum() / 31) ** (1 / p)
    both = [measure(np.vstack([z, np.full(d, far)])) for z in (x, y)]
    assert abs(wasserstein(*both, p) - want) <= ROUNDED_MASS


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("change", [0.1, 1e-3, 1e-6])
def test_small_changes_of_the_weights_move_small_masses_the_cheapest_way(p, change):
    """Neighbours hand on the excess, 1 + 2 + 1 times `change` by a gap each, if p > 1."""
    x, more = np.array([0.0, 100.0, 200.0, 300.0]), np.array([1.0, 1.0, -1.0, -1.0])
    mu, nu = measure(x, 0.25 + change * more), measure(x)
    want = 100 * (4 * change) ** (1 / p)
    assert abs(wasserstein(mu, nu, p) / want - 1) <= ROUNDED_MASS
    plane = [Measure(m.points @ [[0.6, 0.8]], m.weights) for m in (mu, nu)]
    assert abs(wasserstein(*plane, p) / want - 1) <= ROUNDED_MASS


def test_weights_that_miss_one_by_their_rounding_are_no_obstacle():
    mu, nu = measure([0.0, 1.0, 2.0], [0.2, 0.3, 0.5 - 5e-9]), measure([0.0, 4.0])
    assert abs(wasserstein(mu, nu, 1) - (0.3 * 1 + 0.5 * 2)) <= ROUNDED_MASS


@pytest.mark.parametrize("p", [0.5, 0.0, -1.0])
def test_a_power_below_one_is_refused(p):
    with pytest.raises(ValueError, match="p must be at least 1, got "):
        wasserstein(measure([0.0]), measure([1.0]), p)


def test_other_powers_and_dimensions_are_refused():
    for p in (np.nan, np.inf, "two", None):
        with pytest.raises(ValueError, match="p must be a finite number, got "):
            wasserstein(measure([0.0]), measure([1.0]), p)
    with pytest.raises(ValueError, match="measures must share a dimension, got 1 and 2"):
        wasserstein(measure([0.0]), measure([[1.0, 2.0]]))


def test_arrays_are_points_of_equal_weight():
    x, y, w = cloud(5, 2), cloud(5, 2, seed=1), masses(5)
    both = wasserstein(measure(x), measure(y))
    assert wasserstein(x, y) == wasserstein(measure(x), y) == both
    assert wasserstein(x.tolist(), measure(y, w)) == wasserstein(measure(x), measure(y, w))
    assert abs(wasserstein([0.0, 1.0], [2.0, 3.0], 1) - 2) <= DISTANCE  # a vector is a line
    with pytest.raises(ValueError, match="points must be finite"):
        wasserstein(x, np.full((2, 2), np.nan))


def test_a_solver_that_gives_up_says_what_to_do(monkeypatch):
    failed = (np.eye(2) / 2, {"warning": "it took too long"})
    monkeypatch.setattr("ot.emd", lambda *given, **options: failed)
    with pytest.raises(SolverFailed, match="simplex failed: it took too long; take fewer points"):
        wasserstein([0.0, 1.0], [2.0, 3.0])
