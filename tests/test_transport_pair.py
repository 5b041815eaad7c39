"""Two measures: the fast bridge is the dense one, at the accuracy that it states."""

import sys

import numpy as np
import pytest
from clouds import cloud, drawn_masses, masses
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tolerances import DEFAULT_TOL, EXPONENTIAL, ROUNDING, SIX_SINGLE_DIGITS, SOLVED

from attnflow import transport
from attnflow.errors import NotConverged
from attnflow.kernels import FastPair, squared_distances
from attnflow.transport import pair
from attnflow.transport.aligned import aligned
from attnflow.transport.rough import Rough


def another(n, d, seed=1):
    """A normal cloud elsewhere, of another shape."""
    return 0.5 + cloud(n, d, seed) * np.linspace(0.7, 1.3, d)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("eps", [0.3, 1.0, 30.0])
def test_the_fast_bridge_is_the_dense_one(d, eps):
    x, y, a, b = cloud(300, d), another(200, d), masses(300), masses(200, 1)
    fast = transport.pair_bridge(x, y, eps, a, b, method="fast")
    dense = transport.pair_bridge(x, y, eps, a, b, method="dense")
    assert (fast.method, dense.method) == ("fast", "dense")
    assert fast.converged
    assert np.abs(fast.plan().sum(axis=1) - a).sum() <= DEFAULT_TOL
    assert np.abs(fast.plan().sum(axis=0) - b).sum() <= DEFAULT_TOL
    assert np.abs(fast.plan() - dense.plan()).sum() <= 10 * SOLVED


@pytest.mark.parametrize("eps", [0.3, 1.0])
def test_the_stated_residual_bounds_the_true_one(eps):
    x, y = cloud(400, 2), another(300, 2)
    found = transport.pair_bridge(x, y, eps, method="fast", tol=1e-6)
    assert np.abs(found.plan().sum(axis=1) - 1 / 400).sum() <= found.residual + EXPONENTIAL
    assert found.residual <= 1e-6


def test_a_translation_and_a_stretch_are_gaussian_and_cost_nothing():
    """The same cloud moved by a linear map is the same measure in aligned coordinates."""
    x, w = cloud(200, 2), masses(200)
    moved = x @ np.array([[2.0, 0.3], [0.3, 0.5]]) + [40.0, -3.0]
    points = aligned(x, moved, w, w)
    assert np.abs(points.z - points.y).max() <= 1e-2  # up to the ridge of thin directions
    found = transport.pair_bridge(x, moved, 0.5, w, w, method="fast")
    assert np.abs(found.plan().sum(axis=1) - w).sum() <= DEFAULT_TOL


@settings(max_examples=40, deadline=None, derandomize=True)
@given(data=st.data(), d=st.integers(1, 3), size=st.sampled_from([1e-6, 1.0, 1e3]))
def test_aligned_points_have_the_scores_they_came_from(data, d, size):
    place = arrays(np.float64, (4, d), elements=st.floats(-2, 2, allow_subnormal=False))
    z, y, w = size * data.draw(place), data.draw(place), data.draw(drawn_masses(4, 1))
    points = aligned(z, y, w, w)
    kernel = -squared_distances(points.z, points.y, 2.0) + points.p[:, None] + points.q
    scale = max(np.abs(points.p).max(), np.abs(points.q).max(), (points.z**2).max(), 1e-300)
    assert np.abs(kernel - z @ y.T).max() <= 100 * ROUNDING * scale


@settings(max_examples=30, deadline=None, derandomize=True)
@given(data=st.data(), d=st.integers(1, 2), eps=st.sampled_from([0.5, 5.0, 1e4]))
def test_small_measures_with_ties_and_empty_tokens(data, d, eps):
    n, m = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 6))
    whole = st.integers(-2, 2).map(float)
    x = data.draw(arrays(np.float64, (n, d), elements=whole))
    y = data.draw(arrays(np.float64, (m, d), elements=whole))
    a, b = data.draw(drawn_masses(n)), data.draw(drawn_masses(m))
    found = transport.pair_bridge(x, y, eps, a, b, method="fast")
    assert found.converged
    assert np.abs(found.plan().sum(axis=1) - a).sum() <= 2 * DEFAULT_TOL
    assert np.abs(found.plan().sum(axis=0) - b).sum() <= 2 * DEFAULT_TOL
    assert not found.plan()[a == 0].any()


def test_where_potentials_range_too_widely_fast_says_so_and_auto_is_dense():
    x, y = cloud(3000, 2), np.random.default_rng(1).uniform(-2, 2, size=(3000, 2))
    with pytest.raises(ValueError, match="range too widely for its accuracy"):
        transport.pair_bridge(x, y, 0.02, method="fast")
    found = transport.pair_bridge(x[:300], y[:300], 0.02)
    assert (found.method, found.converged) == ("dense", True)


def test_too_many_tokens_for_either_are_refused_before_memory_is():
    x = np.random.default_rng(0).normal(size=(20_000, 4))
    with pytest.raises(ValueError, match="20000 and 20000 tokens, too many for a matrix"):
        transport.pair_bridge(x, x, 1.0)


def test_it_takes_the_fast_way_by_itself():
    x, y = cloud(20_000, 2), another(20_000, 2)
    found = transport.pair_bridge(x, y, 1.0)
    assert (found.method, found.converged) == ("fast", True)
    some = slice(0, 20)
    rows = np.exp(found.f[some, None] - squared_distances(x[some], y, 2.0) + found.g).mean(axis=1)
    assert np.abs(rows - 1).max() <= 1e-7  # one row of 20,000 may err by that much


def test_its_conditional_mean_is_the_plans():
    x, y, a, b = cloud(50, 2), another(40, 2), masses(50), masses(40, 1)
    found = transport.pair_bridge(x, y, 0.5, a, b)
    want = found.plan() @ y / found.plan().sum(axis=1)[:, None]
    assert np.abs(found.conditional_mean(x) - want).max() <= SOLVED
    with pytest.raises(ValueError, match=r"points must have 2 columns, got shape \(1, 3\)"):
        found.conditional_mean([[0.0, 0.0, 0.0]])


def test_it_warns_where_it_does_not_converge():
    with pytest.warns(NotConverged, match="pair_bridge stopped after"):
        found = transport.pair_bridge(cloud(80, 2), another(80, 2), 0.3, method="fast", max_iter=2)
    assert not found.converged


def test_two_dimensions_are_refused():
    with pytest.raises(ValueError, match="x and y must have one dimension, got 1 and 2"):
        transport.pair_bridge([[0.0]], [[0.0, 0.0]], 1.0)


# products


@pytest.mark.parametrize("accuracy", [1e-3, 1e-5, 1e-8, 1e-12])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_a_pair_errs_by_no_more_than_its_accuracy(d, accuracy):
    x, y = cloud(70, d), another(90, d)
    pair, dense = FastPair(x, y, 0.4, accuracy), np.exp(-squared_distances(x, y, 0.8))
    v, u = masses(90)[:, None] * [1.0, -1.0, 0.5], masses(70)[:, None] * [1.0, 2.0, 0.5]
    bound = accuracy * 2.0
    assert np.abs(pair.times(v) - dense @ v).max() <= bound
    assert np.abs(pair.transposed(u) - dense.T @ u).max() <= bound


@pytest.mark.parametrize(("eps", "sparse"), [(1.0, False), (1e-3, True)])
def test_rough_products_have_six_digits(eps, sparse):
    x = cloud(400, 2)
    kernel = np.exp(-squared_distances(x, x, 2 * eps)) / 400
    b = kernel.sum(axis=0)
    rough = Rough(kernel, np.ones(400), np.ones(400), b)
    p = np.random.default_rng(0).normal(size=400)
    assert rough.sparse is sparse
    size = np.abs(kernel) @ np.abs(p)
    assert (np.abs(rough.times(p) - kernel @ p) <= SIX_SINGLE_DIGITS * (size + b)).all()
    assert (np.abs(rough.transposed(p) - p @ kernel) <= SIX_SINGLE_DIGITS * (size + b)).all()


def test_rough_products_of_other_scales_are_made_anew_only_where_entries_were_left_out():
    kernel = np.exp(-squared_distances(cloud(300, 2), cloud(300, 2), 2e-3))
    kernel += np.eye(300)
    one = np.ones(300)
    near, far = np.exp(0.5) * one, np.exp(9.0) * one
    rough = Rough(kernel, one, one, kernel.sum(axis=0))
    assert rough.sparse
    assert not rough.stale(near, one)
    assert rough.stale(far, one)
    full = Rough(np.ones((4, 4)), np.ones(4), np.ones(4), np.full(4, 4.0))
    assert not full.stale(np.exp(9.0) * np.ones(4), np.ones(4))


@pytest.mark.parametrize("n", [1500, 3000])
def test_large_problems_find_the_marginals_with_rough_products(n):
    x, y = cloud(n, 2), another(n, 2)
    s = -squared_distances(x, y, 0.04)
    found = transport.sinkhorn(s)
    assert found.converged
    plan = found.plan()
    assert np.abs(plan.sum(axis=1) - 1 / n).sum() <= DEFAULT_TOL + EXPONENTIAL
    assert np.abs(plan.sum(axis=0) - 1 / n).sum() <= DEFAULT_TOL + EXPONENTIAL


def test_without_transforms_it_is_dense_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "finufft", None)
    found = transport.pair_bridge(cloud(30, 2), another(20, 2), 1.0)
    assert (found.method, found.converged) == ("dense", True)


def test_where_measures_lie_does_not_choose_the_method() -> None:
    x, y = cloud(3000, 2), another(3000, 2)
    for place in (1e-6, 0.3, 1e3):
        assert pair._cheaper(x, y - y.mean(axis=0) + place, 1.0)
        assert pair._cheaper(x - x.mean(axis=0) + place, y, 1.0)


def test_a_fast_bridge_that_comes_to_a_halt_is_refused() -> None:
    """A cloud to two narrow clusters: more of the same steps would not lead anywhere."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(30, 1))
    y = 0.1 * rng.normal(size=(30, 1)) + np.repeat([-2.0, 2.0], 15)[:, None]
    with pytest.raises(ValueError, match="range too widely for its accuracy"):
        transport.pair_bridge(x, y, 0.1, method="fast", max_iter=200)
    found = transport.pair_bridge(x, y, 0.1)
    assert (found.method, found.converged) == ("dense", True)
