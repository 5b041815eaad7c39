"""Sinkhorn's algorithm with two potentials: plans, invariances, what is refused."""

import numpy as np
import ot
import pytest
from clouds import drawn_masses
from drawn_measures import COORDINATE, half_squared_distances, measures
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linear_sum_assignment
from tolerances import (
    DEFAULT_TOL,
    EXPONENTIAL,
    LARGE_SCORES,
    REACHABLE,
    ROUNDING,
    SOLVE_POTENTIALS,
    SOLVE_TIGHTLY,
    SOLVED,
)

from attnflow import transport
from attnflow.errors import NotConverged

# two potentials


def problem(n, m, size, seed):
    rng = np.random.default_rng(seed)
    s = rng.uniform(-size, size, size=(n, m))
    return s, rng.dirichlet(np.full(n, 3.0)), rng.dirichlet(np.full(m, 3.0))


@pytest.mark.parametrize("shape", [(5, 5), (3, 8), (8, 3), (1, 4), (4, 1)])
@pytest.mark.parametrize("size", [0.5, 3.0])
def test_sinkhorn_is_the_plan_that_pot_finds(shape, size):
    s, a, b = problem(*shape, size, seed=0)
    want = ot.sinkhorn(a, b, -s, reg=1.0, stopThr=1e-13, numItermax=100_000)
    got = transport.sinkhorn(s, a, b, tol=SOLVE_POTENTIALS)
    assert np.abs(np.exp(got.log_plan) - want).max() <= SOLVED


@pytest.mark.parametrize("size", [10.0, 1e2, 1e3, 1e4])
@pytest.mark.parametrize("shape", [(8, 8), (20, 13)])
def test_sinkhorn_converges_for_large_scores(size, shape):
    s, a, b = problem(*shape, size, seed=1)
    got = transport.sinkhorn(s, a, b)
    plan = np.exp(got.log_plan)
    assert got.converged
    assert np.abs(plan.sum(1) - a).sum() <= DEFAULT_TOL + LARGE_SCORES
    assert np.abs(plan.sum(0) - b).sum() <= DEFAULT_TOL + LARGE_SCORES
    with np.errstate(divide="ignore"):
        rebuilt = np.log(a)[:, None] + got.f[:, None] + s + got.g + np.log(b)
    assert np.abs(rebuilt - got.log_plan).max() <= LARGE_SCORES


def test_sinkhorn_at_low_temperature_is_the_optimal_assignment():
    s, _, _ = problem(6, 6, 1e4, seed=2)
    i, j = linear_sum_assignment(-s)
    want = np.zeros((6, 6))
    want[i, j] = 1 / 6
    assert np.abs(np.exp(transport.sinkhorn(s).log_plan) - want).max() <= DEFAULT_TOL


@st.composite
def score_problems(draw, minimum=0):
    n, m = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    s = draw(arrays(np.float64, (n, m), elements=COORDINATE))
    return s, draw(drawn_masses(n, minimum)), draw(drawn_masses(m, minimum))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(score_problems())
def test_sinkhorn_has_both_marginals_and_the_stated_form(case):
    s, a, b = case
    got = transport.sinkhorn(s, a, b)
    plan = np.exp(got.log_plan)
    assert got.converged
    assert np.abs(plan.sum(1) - a).sum() <= DEFAULT_TOL + ROUNDING
    assert np.abs(plan.sum(0) - b).sum() <= DEFAULT_TOL + ROUNDING
    form = a[:, None] * np.exp(got.f[:, None] + s + got.g) * b
    assert np.abs(form - plan).max() <= EXPONENTIAL


@settings(max_examples=60, deadline=None, derandomize=True)
@given(case=score_problems(), data=st.data())
def test_constants_on_rows_and_columns_do_not_change_the_plan(case, data):
    s, a, b = case
    shift = st.floats(-20, 20, allow_subnormal=False)
    rows = data.draw(arrays(np.float64, len(a), elements=shift))
    columns = data.draw(arrays(np.float64, len(b), elements=shift))
    here = transport.sinkhorn(s, a, b, tol=SOLVE_POTENTIALS)
    there = transport.sinkhorn(s + rows[:, None] + columns, a, b, tol=SOLVE_POTENTIALS)
    assert np.abs(np.exp(there.log_plan) - np.exp(here.log_plan)).max() <= SOLVED


@settings(max_examples=40, deadline=None, derandomize=True)
@given(score_problems())
def test_transposing_the_scores_transposes_the_plan(case):
    s, a, b = case
    here = np.exp(transport.sinkhorn(s, a, b, tol=SOLVE_POTENTIALS).log_plan)
    there = np.exp(transport.sinkhorn(s.T, b, a, tol=SOLVE_POTENTIALS).log_plan)
    assert np.abs(there - here.T).max() <= SOLVED


@settings(max_examples=40, deadline=None, derandomize=True)
@given(score_problems())
def test_rows_and_columns_without_mass_change_nothing(case):
    s, a, b = case
    rows, columns = a > 0, b > 0
    whole = np.exp(transport.sinkhorn(s, a, b, tol=SOLVE_POTENTIALS).log_plan)
    alone = transport.sinkhorn(
        s[np.ix_(rows, columns)], a[rows], b[columns], tol=SOLVE_POTENTIALS
    ).log_plan
    assert np.abs(whole[np.ix_(rows, columns)] - np.exp(alone)).max() <= SOLVED
    assert not whole[~rows].any()
    assert not whole[:, ~columns].any()


@settings(max_examples=40, deadline=None, derandomize=True)
@given(measure=measures(minimum=1), eps=st.sampled_from([0.3, 1.0, 10.0]))
def test_two_potentials_find_the_same_bridge_as_one_scaling(measure, eps):
    x, w = measure
    one = transport.self_bridge(x, eps, w, tol=SOLVE_TIGHTLY).plan()
    two = transport.sinkhorn(-half_squared_distances(x) / eps, w, w, tol=SOLVE_POTENTIALS)
    assert np.abs(np.exp(two.log_plan) - one).max() <= SOLVED


def test_weights_that_sum_to_one_within_the_slack_allowed_still_converge():
    s, a, b = [[1.0, 0.0], [0.0, 2.0]], [0.5, 0.5 + 5e-9], [0.5, 0.5]
    assert transport.sinkhorn(s, a, b, max_iter=500).converged


def test_sinkhorn_reaches_a_tight_tolerance_where_one_token_is_far_from_a_cluster():
    x = np.zeros((5, 2))
    x[4] = [2.75, 3.0]
    s = -half_squared_distances(x) / 0.3
    assert transport.sinkhorn(s, tol=REACHABLE, max_iter=2000).residual <= REACHABLE


@pytest.mark.parametrize("max_iter", [1, 2])
def test_sinkhorn_that_does_not_converge_warns_and_says_so(max_iter):
    s, a, b = problem(6, 6, 4.0, seed=0)
    with pytest.warns(NotConverged, match=r"sinkhorn stopped after \d+ iterations"):
        got = transport.sinkhorn(s, a, b, max_iter=max_iter)
    assert got.converged is False
    assert got.residual > DEFAULT_TOL


@pytest.mark.parametrize(
    ("s", "a", "message"),
    [
        ([[np.nan]], None, "scores must be finite, got nan"),
        ([[np.inf]], None, "scores must be finite, got inf"),
        (np.empty((0, 3)), None, r"scores must not be empty, got shape \(0, 3\)"),
        ([1.0, 2.0], None, r"scores must have 2 axes, got shape \(2,\)"),
        ("scores", None, "scores must be an array of real numbers"),
        ([[0.0], [0.0]], [2.0, -1.0], "a must not be negative, got -1.0"),
        ([[0.0], [0.0]], [0.5, 0.6], "a must sum to 1, got 1.1"),
        ([[0.0], [0.0]], [1.0], "a must have one entry per token, 2"),
    ],
)
def test_sinkhorn_refuses_what_is_not_a_problem(s, a, message):
    with pytest.raises(ValueError, match=message):
        transport.sinkhorn(s, a)


@pytest.mark.parametrize("tol", [0.0, -1.0, np.nan, "small"])
def test_solvers_refuse_a_tolerance_that_is_not_positive(tol):
    for solve in (transport.self_bridge, lambda x, _, tol: transport.sinkhorn(x, tol=tol)):
        with pytest.raises(ValueError, match=r"tol must be a (finite )?number > 0, got "):
            solve([[0.0], [1.0]], 1.0, tol=tol)


@pytest.mark.parametrize("max_iter", [0, -1, 1.5, "many", np.inf])
def test_solvers_refuse_a_number_of_sweeps_that_is_not_a_count(max_iter):
    with pytest.raises(ValueError, match="max_iter must be a whole number >= 1, got "):
        transport.self_bridge([[0.0]], 1.0, max_iter=max_iter)
    with pytest.raises(ValueError, match="max_iter must be a whole number >= 1, got "):
        transport.sinkhorn([[0.0]], max_iter=max_iter)
