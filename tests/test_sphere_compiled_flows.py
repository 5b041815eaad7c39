"""Whole compiled flows: shares of clustered pairs, when draws are left, and what stops a flow."""

import math

import numpy as np
import pytest
from compiled_states import STATES, clustered, reference, share, state
from scipy.integrate import solve_ivp
from spheres import NORMALISED, ball, plain_flow
from tolerances import (
    ROUNDING,
    STEPS_OF_DELTA,
)

from attnflow import errors
from attnflow.sphere import compiled


@NORMALISED
@STATES
@pytest.mark.parametrize("beta", [0.0, 1.0, 4.0])
@pytest.mark.parametrize(("n", "d"), [(4, 4), (5, 6)])
def test_shares_are_those_of_tokens_followed_one_by_one(n, d, beta, as_gram, normalised):
    delta = 0.02
    times = np.array([0.0, 0.05, 0.3, 1.0, 2.0, 3.5, 6.0])
    draws = np.stack([ball(n, d, seed) for seed in range(4)])
    states = np.stack([state(x, as_gram) for x in draws])
    shares, steps = clustered(states, as_gram, beta, times, 1 - delta, 0.01 * delta, normalised)
    assert shares.shape == (4, len(times))
    assert steps > 4
    agree = 0
    for row, x in zip(shares, draws, strict=True):
        for got, y in zip(row, reference(x, beta, times, normalised), strict=True):
            low, high = (share(y @ y.T, 1 - delta + s * STEPS_OF_DELTA * delta) for s in (1, -1))
            assert low - ROUNDING <= got <= high + ROUNDING
            agree += low == high
    assert agree >= 0.9 * shares.size


@pytest.mark.parametrize("n", [4, 5])
@pytest.mark.parametrize("beta", [5.0, 7.0])
def test_fast_flows_without_denominator_are_followed_from_the_first_step(n, beta):
    """At e^beta times the speed the first trial step ends far outside the sphere."""
    delta, times = 0.02, np.array([0.0, 0.003, 0.01, 0.05, 0.2])
    draws = np.stack([ball(n, 3, seed) for seed in range(4)])
    shares, _ = clustered(draws, False, beta, times, 1 - delta, 0.01 * delta, False)
    for row, x in zip(shares, draws, strict=True):
        for got, y in zip(row, reference(x, beta, times, False), strict=True):
            low, high = (share(y @ y.T, 1 - delta + s * STEPS_OF_DELTA * delta) for s in (1, -1))
            assert low - ROUNDING <= got <= high + ROUNDING


@pytest.mark.parametrize("beta", [0.0, 1.0, 5.0])
@pytest.mark.parametrize("angle", [0.5, 1.5, 3.0])
@STATES
def test_two_tokens_meet_when_their_equation_says(beta, angle, as_gram):
    """phi' = -2 sin(phi)/(1 + e^{beta(1 - cos phi)}); the share jumps from 0 to 1 once."""
    level = 0.99

    def met(t, y):
        return math.cos(y[0]) - level

    met.terminal = True
    found = solve_ivp(
        lambda t, y: [-2 * math.sin(y[0]) / (1 + math.exp(beta * (1 - math.cos(y[0]))))],
        (0, 1e6),
        [angle],
        events=met,
        method="DOP853",
        rtol=1e-11,
        atol=1e-12,
    )
    t = found.t_events[0][0]
    x = np.array([[1.0, 0.0], [math.cos(angle), math.sin(angle)]])
    near = t + np.array([-0.01, -0.001, 0.001, 0.01])
    times = np.concatenate([[0.0, 0.3 * t], near, [2 * t]])
    shares, _ = clustered(state(x, as_gram)[None], as_gram, beta, times, level, 1e-8, True)
    assert shares[0].tolist() == [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0]


@STATES
def test_draws_do_not_see_each_other(as_gram):
    times = np.linspace(0, 8, 9)
    states = np.stack([state(ball(5, 3, seed), as_gram) for seed in range(6)])
    together, steps = clustered(states, as_gram, 2.0, times, 0.99, 1e-4, True)
    alone = [clustered(s[None], as_gram, 2.0, times, 0.99, 1e-4, True) for s in states]
    assert (together == np.concatenate([a[0] for a in alone])).all()
    assert steps == sum(a[1] for a in alone)


@STATES
def test_states_are_not_changed(as_gram):
    states = np.stack([state(ball(5, 3, seed), as_gram) for seed in range(2)])
    before = states.copy()
    clustered(states, as_gram, 2.0, np.array([0.0, 5.0]), 0.99, 1e-4, True)
    assert (states == before).all()


@STATES
def test_other_times_do_not_move_the_steps(as_gram):
    states = np.stack([state(ball(6, 3, seed), as_gram) for seed in range(4)])
    few, many = np.array([0.5, 4.0, 8.0]), np.linspace(0, 8, 17)
    a, _ = clustered(states, as_gram, 1.0, few, 0.99, 1e-4, True)
    b, _ = clustered(states, as_gram, 1.0, many, 0.99, 1e-4, True)
    assert (a == b[:, [1, 8, 16]]).all()


@STATES
@NORMALISED
def test_leaving_early_saves_steps_and_loses_nothing(as_gram, normalised):
    """A level above one is never reached, so that nothing is left; shares stay one in truth too."""
    x = ball(5, 6, seed=1)
    times = np.array([0.0, 30.0, 60.0])
    run = (state(x, as_gram)[None], as_gram, 1.0, times)
    shares, few = clustered(*run, 0.99, 1e-4, normalised)
    never, many = clustered(*run, 1.5, 1e-4, normalised)
    assert shares[0].tolist() == [0.0, 1.0, 1.0]
    assert never[0].tolist() == [0.0, 0.0, 0.0]
    assert few < many
    late = reference(x, 1.0, times, normalised)
    assert all(share(y @ y.T, 0.99) == 1 for y in late[1:])


@pytest.mark.parametrize("level", [0.01, 0.5, 0.9])
def test_leaving_early_is_right_at_low_levels_too(level):
    times = np.linspace(0, 12, 13)
    draws = np.stack([ball(5, 8, seed) for seed in range(6)])
    shares, _ = clustered(draws @ draws.transpose(0, 2, 1), True, 3.0, times, level, 1e-6, True)
    for row, x in zip(shares, draws, strict=True):
        want = [share(y @ y.T, level) for y in reference(x, 3.0, times)]
        assert np.abs(row - want).max() <= ROUNDING


def test_tokens_on_a_circle_do_not_leave_it():
    """Two opposite clusters of a circle hold each other; a Gram matrix could turn out of the plane."""
    angles = np.array([0.0, 1e-3, np.pi, np.pi + 1e-3])
    x = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    shares, _ = clustered(x[None], False, 5.0, np.array([0.0, 50.0]), 0.999, 1e-5, True)
    assert np.abs(shares[0] - 1 / 3).max() <= ROUNDING


def test_tokens_at_one_point_are_clustered_at_once():
    x = np.tile(ball(1, 3), (4, 1))
    for as_gram in (True, False):
        states = state(x, as_gram)[None]
        shares, steps = clustered(states, as_gram, 2.0, np.array([0.0, 1.0]), 0.999, 1e-5, True)
        assert shares.tolist() == [[1.0, 1.0]]
        assert steps == 1


def test_a_flow_that_needs_too_small_a_step_says_so():
    """Without the denominator tokens move e^700 times as fast as time."""
    with pytest.raises(
        errors.FlowStopped, match=r"needs too small a step.*lower beta; got beta = 700"
    ):
        clustered(ball(4, 3)[None], False, 700.0, np.array([0.0, 1.0]), 0.999, 1e-5, False)


def test_a_flow_that_needs_too_many_steps_says_so(monkeypatch):
    """Steps of opposite tokens do not end the flow, so that a far time needs many."""
    x, far = ball(4, 3)[None], np.array([0.0, 1e7])
    with pytest.raises(errors.FlowStopped, match=r"too many steps, more than 100000 a draw: lower"):
        clustered(x, False, 9.0, far, 1.5, 1e-5, True)


def test_cold_tokens_without_softmax_are_followed_to_the_end():
    """At beta = 12 clusters contract like 160000, and two of them merge like e^(12 cos)."""
    x = np.stack([ball(16, 8, seed) for seed in range(3)])
    times = np.array([0.0, 1e-4, 1.0, 30.0])
    shares, steps = compiled.clustered_tokens(x, 12.0, times, 0.999, 1e-4, False)
    assert (np.diff(shares, axis=1) >= 0).all()
    assert steps <= 20_000
    finer, _ = compiled.clustered_tokens(x, 12.0, times, 0.999, 1e-5, False)
    assert np.abs(shares - finer).max() <= 0.02


def test_meeting_changes_no_share_where_it_is_not_needed():
    """At beta = 4 the flow can be followed one by one."""
    x, times = np.stack([ball(10, 3, seed) for seed in range(4)]), np.array([0.5, 2.0, 8.0, 20.0])
    fast, _ = compiled.clustered_tokens(x, 4.0, times, 0.99, 1e-4, False)
    for tokens, row in zip(x, fast, strict=True):
        path = plain_flow(tokens, 4.0, np.append(0.0, times), False, method="LSODA")[1:]
        pairs = np.triu_indices(10, 1)
        want = [((y @ y.T)[pairs] >= 0.99).mean() for y in path]
        assert np.abs(row - want).max() <= 0.03


@STATES
def test_two_tokens_that_meet_at_the_first_step_are_one_from_then_on(as_gram: bool) -> None:
    """Opposite them a third holds still: they contract to nothing, and it never joins."""
    angles = np.array([0.005, -0.005, math.pi])
    x = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    times = np.array([0.0, 5.0])
    shares, _ = clustered(state(x, as_gram)[None], as_gram, 1.0, times, 1 - 1e-9, 1e-2, False)
    assert np.abs(shares[0] - [0.0, 1 / 3]).max() <= ROUNDING
    late = reference(x, 1.0, times, False)[-1]
    assert share(late @ late.T, 1 - 1e-9) == 1 / 3


def test_norms_without_softmax_are_left_alone_where_steps_keep_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its field is tangent, so that they stray by less than a step may err."""
    moved: list[bool] = []

    def recorded(x, slack):
        moved.append(bool(honest(x, slack)))
        return moved[-1]

    honest = compiled._normalise
    monkeypatch.setattr(compiled, "_normalise", recorded)
    states, times = ball(4, 3).reshape(1, -1), np.array([0.0, 3.0])
    compiled._follow.py_func(states, 4, False, 3.0, times, 1.5, 1e-8, False)
    assert len(moved) > 20
    assert sum(moved) < len(moved) / 2
