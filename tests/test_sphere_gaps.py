"""Tokens on the circle by the logarithms of their gaps: against the flow itself, and where that has no digits left."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from attnflow import sphere
from attnflow.errors import NotConverged
from attnflow.sphere import cluster_times, gathering, merge_time, merges
from attnflow.sphere.gaps import NARROW, _rates

DELTA = 1e-3
CAP = np.arccos(1 - DELTA)


def angles(n, count, seed=0):
    return np.random.default_rng([seed, n]).uniform(0, 2 * np.pi, (count, n))


def gaps(theta):
    order = np.sort(theta % (2 * np.pi))
    return np.diff(order, append=order[0] + 2 * np.pi)


def velocity(theta, beta):
    """The definition, without its shift of exponents."""
    turn = theta - theta[:, None]
    weights = np.exp(beta * np.cos(turn))
    return (weights * np.sin(turn)).sum(axis=1) / weights.sum(axis=1)


@pytest.mark.parametrize("beta", [0.0, 1.0, 9.0])
@pytest.mark.parametrize("n", [2, 3, 6])
def test_gaps_change_as_the_angles_do(n, beta):
    theta = np.sort(angles(n, 1)[0])
    moved = velocity(theta, beta)
    want = (np.roll(moved, -1) - moved) / gaps(theta)
    np.testing.assert_allclose(_rates(np.log(gaps(theta))[None], beta)[0], want, atol=1e-12)


@pytest.mark.parametrize("narrow", [1.5 * NARROW, 0.5 * NARROW, 1e-9])
def test_a_narrow_gap_moves_by_the_slope_in_its_middle(narrow):
    """Two tokens of three nearly coincide: to first order they are one of double mass."""
    beta, wide = 4.0, 1.3
    u = np.log([narrow, wide, 2 * np.pi - wide - narrow])
    w = np.exp(-beta * (1 - np.cos(wide)))
    pulled = w * np.sin(wide) / (2 + w)
    bend = (-2 + w * (beta * np.sin(wide) ** 2 - np.cos(wide))) / (2 + w) - beta * pulled**2
    assert _rates(u[None], beta)[0, 0] == pytest.approx(bend, abs=20 * narrow)


def test_a_gap_that_is_no_number_any_more_pulls_at_nobody():
    u = np.log([1.0, 1.0, 2 * np.pi - 2.0])
    with_ghost = np.array([u[0], -1e50, u[1], u[2]])
    rates = _rates(with_ghost[None], 9.0)[0]
    assert np.isfinite(rates).all()
    w = np.exp(-9.0 * (1 - np.cos(1.0)))
    assert rates[1] == pytest.approx(-1.0, abs=20 * w)


def test_ends_are_those_of_an_independent_integrator():
    theta, beta, end = np.array([0.0, 0.5, 1.9, 3.0, 4.4]), 6.0, 5.0
    out = solve_ivp(lambda _, y: velocity(y, beta), (0, end), theta, rtol=1e-11, atol=1e-13)
    found = gathering([theta], beta, horizon=end, tol=1e-10)
    assert np.isinf(found.times).all()
    np.testing.assert_allclose(np.exp(found.log_gaps[0]), gaps(out.y[:, -1]), rtol=1e-6)


def test_warm_starts_gather_when_stacks_of_tokens_do():
    theta = angles(5, 12)
    tokens = np.stack([np.cos(theta), np.sin(theta)], axis=-1)
    want = cluster_times(tokens, 2.0, 500.0, DELTA)
    found = gathering(theta, 2.0, delta=DELTA, horizon=500.0)
    # cluster_times looks 32 times while an age doubles
    np.testing.assert_allclose(found.times, want, rtol=1 / 32)


@pytest.mark.parametrize(("n", "beta"), [(4, 30.0), (6, 80.0), (9, 200.0)])
def test_cold_starts_gather_when_merged_clusters_do(n, beta):
    """There tokens that have met are one; here they are not. Neither changes how long it takes."""
    for theta in angles(n, 3, seed=1):
        found, merged = gathering([theta], beta, tol=1e-8), merges(theta, beta)
        assert np.log(found.times[0]) == pytest.approx(np.log(merged.times[-1]), abs=1e-3)


@pytest.mark.parametrize("beta", [9.0, 50.0, 300.0])
def test_two_tokens_take_the_closed_form(beta):
    found = gathering([[0.3, 2.3]], beta, tol=1e-9)
    assert found.times[0] == pytest.approx(merge_time(beta, 2.0, CAP), rel=1e-6)


def test_gaps_still_sum_to_the_circle_after_ages():
    found = gathering(angles(8, 16), 64.0)
    assert np.isfinite(found.times).all()
    assert found.times.max() > 1e50
    assert found.residual < 1e-4
    np.testing.assert_allclose(np.exp(found.log_gaps).sum(axis=1), 2 * np.pi, atol=found.residual)


def test_a_start_does_not_depend_on_its_company():
    theta = angles(4, 6)
    alone = [gathering([row], 16.0).times[0] for row in theta]
    np.testing.assert_allclose(gathering(theta, 16.0).times, alone, rtol=1e-9)


def test_opposite_tokens_wait_for_ever():
    found = gathering([[0.0, np.pi]], 2.0, horizon=1e9)
    assert np.isinf(found.times[0])
    assert found.converged


def test_what_takes_too_many_steps_is_said():
    with pytest.warns(NotConverged, match="for 2 of 2 starts, stopped after 3"):
        found = gathering(angles(5, 2), 25.0, max_iter=3)
    assert not found.converged
    assert np.isinf(found.times).all()


@pytest.mark.parametrize(
    ("theta", "more", "words"),
    [
        ([0.0, 1.0], {}, "2 axes"),
        (np.empty((0, 3)), {}, "at least one start"),
        ([[0.0]], {}, "at least two tokens"),
        ([[0.0, 2 * np.pi]], {}, "different points"),
        ([[0.0, 1.0]], {"beta": -1.0}, "beta"),
        ([[0.0, 1.0]], {"delta": 1.0}, "delta"),
        ([[0.0, 1.0]], {"horizon": 0.0}, "horizon"),
        ([[0.0, 1.0]], {"tol": 0.0}, "tol"),
    ],
)
def test_bad_input_is_refused(theta, more, words):
    with pytest.raises(ValueError, match=words):
        gathering(theta, **{"beta": 9.0} | more)


def test_one_beta_for_every_start_of_a_stack():
    theta = angles(6, 4, seed=3)
    x = np.stack([np.cos(theta), np.sin(theta)], axis=-1)
    betas = np.array([0.0, 1.0, 2.0, 3.0])
    together = cluster_times(x, betas, 200.0)
    alone = [cluster_times(x[[k]], b, 200.0)[0] for k, b in enumerate(betas)]
    np.testing.assert_allclose(together, alone, rtol=1e-4)
    with pytest.raises(ValueError, match="one a start, got shape"):
        sphere.cluster_times(x, betas[:3], 200.0)
