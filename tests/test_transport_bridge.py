"""The bridge of a measure to itself: against POT, its equations, its invariances, what is refused."""

import warnings

import numpy as np
import ot
import pytest
from drawn_measures import clouds, half_squared_distances, measures
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import answer
from tolerances import (
    CONTRACTION,
    DEFAULT_TOL,
    EXPONENTIAL,
    GAUSSIAN_MAP,
    ROUNDING,
    SOLVE_TIGHTLY,
    SOLVED,
    SWEEPS,
)

from attnflow import transport
from attnflow.errors import NotConverged
from attnflow.kernels import squared_distances

TEMPERATURES = st.sampled_from([0.05, 0.3, 1.0, 10.0])


def separated(n, d, seed):
    """Tokens on a jittered lattice: no two closer than half a unit."""
    rng = np.random.default_rng(seed)
    grid = np.stack(np.meshgrid(*[np.arange(n ** (1 / d))] * d), -1).reshape(-1, d)[:n]
    return grid + rng.uniform(-0.25, 0.25, size=grid.shape)


# the bridge


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("eps", [0.3, 1.0, 5.0])
def test_the_bridge_is_the_plan_that_pot_finds(d, eps):
    x = separated(9, d, seed=d)
    w = np.random.default_rng(1).dirichlet(np.full(len(x), 5.0))
    want = ot.sinkhorn(
        w,
        w,
        half_squared_distances(x),
        reg=eps,
        method="sinkhorn_log",
        stopThr=1e-13,
        numItermax=100_000,
    )
    got = transport.self_bridge(x, eps, w, tol=SOLVE_TIGHTLY)
    assert np.abs(got.plan() - want).max() <= SOLVED
    assert np.abs(got.barycentric() - (want / want.sum(1)[:, None]) @ x).max() <= SOLVED


@settings(max_examples=60, deadline=None, derandomize=True)
@given(measure=measures(minimum=1), eps=st.sampled_from([0.3, 1.0, 10.0]))
def test_the_plan_satisfies_the_first_order_conditions(measure, eps):
    """Feasible, and log(pi/(w w)) + c/eps is f_i + f_j: that is the minimiser, by convexity."""
    x, w = measure
    plan = transport.self_bridge(x, eps, w, tol=SOLVE_TIGHTLY).plan()
    assert np.abs(plan.sum(0) - w).max() <= SOLVED
    assert np.abs(plan.sum(1) - w).max() <= SOLVED
    total = np.log(plan / np.outer(w, w)) + half_squared_distances(x) / eps
    f = np.diag(total) / 2
    assert np.abs(total - f[:, None] - f[None, :]).max() <= EXPONENTIAL * (1 + np.abs(total).max())


@pytest.mark.parametrize("eps", [0.01, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("variance", [0.5, 1.0])
def test_the_bridge_of_a_gaussian_is_linear_with_the_known_slope(eps, variance):
    x = np.arange(-8, 8 + 1e-12, np.sqrt(eps) / 4)
    w = np.exp(-(x**2) / (2 * variance))
    bridge = transport.self_bridge(x, eps, w / w.sum(), tol=SOLVE_TIGHTLY)
    slope = np.exp(-np.arcsinh(eps / (2 * variance)))
    middle = np.abs(x) <= 2 * np.sqrt(variance)
    error = bridge.barycentric()[middle, 0] - slope * x[middle]
    assert np.abs(error).max() <= GAUSSIAN_MAP


@pytest.mark.parametrize("eps", [1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0])
@pytest.mark.parametrize("d", [1, 2, 20])
def test_the_number_of_sweeps_does_not_grow_as_the_temperature_falls(eps, d):
    rng = np.random.default_rng(d)
    x = np.concatenate([rng.normal(size=(40, d)), np.zeros((3, d))])
    for w in (None, rng.dirichlet(np.full(len(x), 0.5))):
        bridge = transport.self_bridge(x, eps, w)
        assert bridge.converged
        assert bridge.iterations <= SWEEPS
        assert np.abs(bridge.plan().sum(0) - bridge.weights).sum() <= DEFAULT_TOL


def residuals(x, eps, sweeps):
    out = []
    for max_iter in range(1, sweeps + 1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConverged)
            out.append(transport.self_bridge(x, eps, tol=1e-300, max_iter=max_iter).residual)
    return np.array(out)


@pytest.mark.parametrize("eps", [1e-3, 1e-2, 0.1, 1.0, 10.0])
def test_one_sweep_shrinks_the_residual_by_more_than_the_plain_map_can(eps):
    x = np.random.default_rng(0).normal(size=(60, 1))
    late = residuals(x, eps, 13)[3:]
    assert ((late[6:] / late[:-6]) ** (1 / 6)).max() <= CONTRACTION


@settings(max_examples=60, deadline=None, derandomize=True)
@given(measure=measures(), eps=TEMPERATURES)
def test_the_plan_is_symmetric_and_has_both_marginals(measure, eps):
    x, w = measure
    bridge = transport.self_bridge(x, eps, w)
    plan = bridge.plan()
    assert bridge.converged
    assert bridge.residual <= DEFAULT_TOL
    assert (plan >= 0).all()
    assert np.abs(plan - plan.T).max() <= ROUNDING
    assert np.abs(plan.sum(0) - w).sum() <= DEFAULT_TOL + ROUNDING


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    measure=measures(),
    eps=TEMPERATURES,
    shift=st.floats(-100, 100, allow_subnormal=False),
)
def test_translation_moves_the_barycentric_map_and_leaves_the_plan(measure, eps, shift):
    x, w = measure
    here = transport.self_bridge(x, eps, w, tol=SOLVE_TIGHTLY)
    there = transport.self_bridge(x + shift, eps, w, tol=SOLVE_TIGHTLY)
    assert np.abs(there.plan() - here.plan()).max() <= SOLVED
    assert np.abs(there.barycentric() - shift - here.barycentric()).max() <= SOLVED


@settings(max_examples=40, deadline=None, derandomize=True)
@given(measure=measures(), eps=TEMPERATURES, data=st.data())
def test_the_plan_follows_a_permutation_of_the_tokens(measure, eps, data):
    x, w = measure
    p = np.array(data.draw(st.permutations(range(len(x)))))
    here = transport.self_bridge(x, eps, w, tol=SOLVE_TIGHTLY).plan()
    there = transport.self_bridge(x[p], eps, w[p], tol=SOLVE_TIGHTLY).plan()
    assert np.abs(there - here[np.ix_(p, p)]).max() <= SOLVED


@settings(max_examples=40, deadline=None, derandomize=True)
@given(x=clouds(max_tokens=4), eps=TEMPERATURES, data=st.data())
def test_repeating_a_token_is_the_same_as_weighting_it(x, eps, data):
    times = np.array(data.draw(st.lists(st.integers(1, 3), min_size=len(x), max_size=len(x))))
    owner = np.repeat(np.arange(len(x)), times)
    weighted = transport.self_bridge(x, eps, times / times.sum(), tol=SOLVE_TIGHTLY)
    repeated = transport.self_bridge(x[owner], eps, tol=SOLVE_TIGHTLY)
    assert np.abs(repeated.barycentric() - weighted.barycentric()[owner]).max() <= SOLVED
    merged = np.zeros((len(x), len(x)))
    np.add.at(merged, np.ix_(owner, owner), repeated.plan())
    assert np.abs(merged - weighted.plan()).max() <= SOLVED


@settings(max_examples=40, deadline=None, derandomize=True)
@given(measure=measures(), eps=TEMPERATURES)
def test_a_token_without_mass_changes_nothing_and_has_a_finite_mean(measure, eps):
    x, w = measure
    live = w > 0
    whole = transport.self_bridge(x, eps, w, tol=SOLVE_TIGHTLY)
    alone = transport.self_bridge(x[live], eps, w[live], tol=SOLVE_TIGHTLY)
    assert np.abs(whole.plan()[np.ix_(live, live)] - alone.plan()).max() <= SOLVED
    assert not whole.plan()[~live].any()
    assert np.abs(whole.barycentric()[live] - alone.barycentric()).max() <= SOLVED
    assert np.abs(whole.barycentric() - alone.conditional_mean(x)).max() <= SOLVED


@settings(max_examples=40, deadline=None, derandomize=True)
@given(measure=measures(), eps=TEMPERATURES)
def test_the_barycentric_map_keeps_the_mean_and_the_convex_hull(measure, eps):
    x, w = measure
    moved = transport.self_bridge(x, eps, w, tol=SOLVE_TIGHTLY).barycentric()
    live = w > 0
    assert np.abs(w @ moved - w @ x).max() <= SOLVED
    assert (moved <= x[live].max(0) + SOLVED).all()
    assert (moved >= x[live].min(0) - SOLVED).all()


@settings(max_examples=40, deadline=None, derandomize=True)
@given(measure=measures(), eps=TEMPERATURES)
def test_the_conditional_mean_at_the_tokens_is_the_barycentric_map(measure, eps):
    x, w = measure
    bridge = transport.self_bridge(x, eps, w, tol=SOLVE_TIGHTLY)
    assert np.abs(bridge.conditional_mean(x) - bridge.barycentric()).max() <= SOLVED


def test_one_token_stays_where_it_is():
    bridge = transport.self_bridge([[2.0, -1.0]], 0.1)
    assert bridge.converged
    assert np.abs(bridge.plan() - 1.0).max() <= DEFAULT_TOL
    assert np.abs(bridge.barycentric() - [[2.0, -1.0]]).max() <= ROUNDING
    assert np.abs(bridge.conditional_mean([[9.0, 9.0]]) - [[2.0, -1.0]]).max() <= ROUNDING


def test_equal_tokens_share_everything_equally():
    bridge = transport.self_bridge(np.ones((4, 2)), 1e-3)
    assert np.abs(bridge.plan() - 1 / 16).max() <= DEFAULT_TOL
    assert np.abs(bridge.barycentric() - 1.0).max() <= ROUNDING


def test_hot_bridges_forget_where_a_token_came_from_and_cold_ones_do_not():
    x = separated(5, 1, seed=0)
    hot = transport.self_bridge(x, 1e12).barycentric()
    cold = transport.self_bridge(x, 1e-4).barycentric()
    assert np.abs(hot - x.mean()).max() <= DEFAULT_TOL * np.abs(x).max()
    assert np.abs(cold - x).max() <= DEFAULT_TOL


@pytest.mark.parametrize("eps", [1e-10, 1.0])
@pytest.mark.parametrize("size", [1e100, 1e150, 1e160])
def test_at_huge_scales_the_bridge_is_the_identity(size, eps):
    x = size * np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 3.0]])
    bridge = transport.self_bridge(x, eps)
    assert np.abs(bridge.plan() - np.eye(3) / 3).max() <= DEFAULT_TOL
    assert np.abs(bridge.barycentric() / size - x / size).max() <= DEFAULT_TOL


@pytest.mark.parametrize("eps", [1e-10, 1.0])
@pytest.mark.parametrize("size", [1e100, 1e150, 1e160])
def test_at_huge_scales_the_conditional_mean_is_the_nearest_token_or_a_clear_refusal(size, eps):
    bridge = transport.self_bridge(size * np.array([[0.0], [1.0]]), eps)
    got = answer(lambda: bridge.conditional_mean(size * np.array([[0.2], [0.9]])))
    assert got is None or np.abs(got / size - [[0.0], [1.0]]).max() <= ROUNDING


def test_a_token_without_mass_very_far_away_has_a_finite_mean_or_is_refused():
    x, w = [[0.0], [1.0], [1e160]], [0.5, 0.5, 0.0]
    got = answer(lambda: transport.self_bridge(x, 1.0, w).barycentric())
    assert got is None or abs(got[2, 0] - 1.0) <= ROUNDING


@pytest.mark.parametrize("max_iter", [1, 2])
def test_a_bridge_that_does_not_converge_warns_and_says_so(max_iter):
    x = separated(6, 1, seed=0)
    with pytest.warns(NotConverged, match=r"self_bridge stopped after \d iterations"):
        bridge = transport.self_bridge(x, 0.5, max_iter=max_iter)
    assert bridge.converged is False
    assert bridge.iterations == max_iter
    assert bridge.residual > DEFAULT_TOL


BAD_MEASURES = [
    ([[np.nan]], None, "x must be finite, got nan"),
    ([[0.0], [np.inf]], None, "x must be finite, got inf"),
    ([], None, "x must hold at least one token"),
    ("tokens", None, "x must be an array of real numbers, got 'tokens'"),
    (np.zeros((2, 2, 2)), None, r"x must have 2 axes, got shape \(2, 2, 2\)"),
    ([[0.0], [1.0]], [1.5, -0.5], "weights must not be negative, got -0.5"),
    ([[0.0], [1.0]], [0.5, 0.4], "weights must sum to 1, got 0.9"),
    ([[0.0], [1.0]], [1.0], "weights must have one entry per token, 2, got shape"),
    ([[0.0], [1.0]], [np.nan, 1.0], "weights must be finite, got nan"),
]


@pytest.mark.parametrize(("x", "w", "message"), BAD_MEASURES)
def test_the_bridge_refuses_what_is_not_a_measure(x, w, message):
    with pytest.raises(ValueError, match=message):
        transport.self_bridge(x, 1.0, w)


@pytest.mark.parametrize("eps", [0.0, -1.0, np.nan, np.inf, "warm", None])
def test_the_bridge_refuses_a_temperature_that_is_not_positive(eps):
    with pytest.raises(ValueError, match=r"eps must be a (finite )?number > 0, got "):
        transport.self_bridge([[0.0], [1.0]], eps)


def test_the_bridge_refuses_an_unknown_method_and_points_of_another_dimension():
    with pytest.raises(ValueError, match="method must be one of auto, dense, fast, got 'magic'"):
        transport.self_bridge([[0.0]], 1.0, method="magic")
    with pytest.raises(ValueError, match=r"points must have 1 columns, got shape \(1, 2\)"):
        transport.self_bridge([[0.0]], 1.0).conditional_mean([[0.0, 1.0]])


# a scaling to begin with


@pytest.mark.parametrize(("n", "method"), [(200, "dense"), (2000, "fast"), (25_000, "fast")])
def test_a_bridge_that_begins_where_it_ended_is_there(n, method):
    x = np.random.default_rng(0).normal(size=(n, 2))
    w = np.full(n, 1.0)
    w[: n // 4] = 0.0
    w /= w.sum()
    cold = transport.self_bridge(x, 0.1, w, method=method)
    warm = transport.self_bridge(x, 0.1, w, method=method, start=cold.scaling)
    assert warm.converged
    assert warm.iterations <= 2 < cold.iterations
    assert (warm.scaling[: n // 4] == 0).all()


@pytest.mark.parametrize(("n", "method"), [(200, "dense"), (2000, "fast"), (25_000, "fast")])
def test_a_bridge_that_begins_near_by_takes_fewer_sweeps_to_the_same_plan(n, method):
    rng = np.random.default_rng(0)
    x, move = rng.normal(size=(n, 2)), rng.normal(size=(2, 2))
    there = transport.self_bridge(x + 1e-3 * x @ move, 0.1, method=method)
    cold = transport.self_bridge(x, 0.1, method=method)
    warm = transport.self_bridge(x, 0.1, method=method, start=there.scaling)
    assert warm.converged
    assert warm.iterations < cold.iterations
    assert np.abs(warm.barycentric() - cold.barycentric()).max() <= 1e-6


@pytest.mark.parametrize(("n", "method"), [(200, "dense"), (2000, "fast"), (25_000, "fast")])
def test_a_scaling_that_is_no_help_costs_a_sweep_and_is_left(n, method):
    rng = np.random.default_rng(0)
    x, start = rng.normal(size=(n, 2)), np.exp(5 * rng.normal(size=n))
    cold = transport.self_bridge(x, 0.1, method=method)
    warm = transport.self_bridge(x, 0.1, method=method, start=start)
    assert warm.iterations == cold.iterations + 1
    assert (warm.scaling == cold.scaling).all()


@pytest.mark.parametrize("share", [0.3, 0.7])
def test_a_scaling_that_misplaces_a_good_part_of_the_mass_is_left(share: float) -> None:
    """All of them too large by one factor: every row sums to its square."""
    x = np.random.default_rng(0).normal(size=(50, 2))
    cold = transport.self_bridge(x, 0.1)
    warm = transport.self_bridge(x, 0.1, start=np.sqrt(1 + share) * cold.scaling)
    assert warm.iterations == cold.iterations + 1
    assert (warm.scaling == cold.scaling).all()


@pytest.mark.parametrize(
    "start", [[1.0, 1.0], [1.0, 0.0, 1.0], [1.0, -1.0, 1.0], [[1.0], [1.0], [1.0]]]
)
def test_a_bridge_refuses_what_is_no_scaling(start):
    with pytest.raises(ValueError, match="start must"):
        transport.self_bridge([[0.0], [1.0], [3.0]], 0.5, start=start)


def test_method_dense_is_the_same_bridge():
    x = separated(6, 2, seed=0)
    auto = transport.self_bridge(x, 0.5, tol=SOLVE_TIGHTLY)
    dense = transport.self_bridge(x, 0.5, tol=SOLVE_TIGHTLY, method="dense")
    assert np.abs(auto.plan() - dense.plan()).max() <= SOLVED


# many tokens: rough sweeps, accurate residuals


@pytest.mark.parametrize("eps", [0.001, 0.1, 10.0])
def test_a_large_bridge_has_its_marginal_by_direct_sums(eps):
    x = np.random.default_rng(0).normal(size=(25_000, 2))
    w = np.random.default_rng(1).dirichlet(np.full(25_000, 3.0))
    w[:100] = 0.0
    w /= w.sum()
    bridge = transport.self_bridge(x, eps, w, method="fast")
    assert bridge.converged
    some = np.arange(0, 25_000, 250)
    sums = np.exp(-squared_distances(x[some], x, 2 * eps)) @ (w * bridge.scaling)
    wrong = np.abs(bridge.scaling[some] * sums - 1)[w[some] > 0]
    assert wrong.mean() <= 10 * DEFAULT_TOL  # a hundred of 25,000 tokens
    assert not bridge.scaling[:100].any()


@pytest.mark.parametrize("max_iter", [1, 2, 5, 9])
def test_a_large_bridge_that_does_not_converge_says_its_accurate_residual(max_iter):
    x = np.random.default_rng(0).normal(size=(25_000, 1))
    with pytest.warns(NotConverged, match="self_bridge stopped after"):
        bridge = transport.self_bridge(x, 0.1, method="fast", max_iter=max_iter)
    assert bridge.iterations <= max_iter
    assert np.isfinite(bridge.residual)
    assert bridge.residual > DEFAULT_TOL
