"""Many starts at once: against one start at a time, the definition and closed forms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spheres import ball, plain_flow, plain_velocity
from tolerances import EXPONENTIAL, ROUNDING

from attnflow import sphere
from attnflow.sphere import stacks

MASK = pytest.mark.parametrize("causal", [False, True], ids=["encoder", "decoder"])
DELTA = 1e-3
#: A meeting is interpolated between two of the 33 looks at a leg, which is as long as what went before.
MEETING = 1 / 32
#: 1 - <x, y> is 4e-11 at the last time, and is rounded to 1e-16.
LATE_PAIR = 1e-6


def stack(starts, n, d, seed=0):
    return np.stack([ball(n, d, 100 * seed + k) for k in range(starts)])


def opposite():
    return np.array([[1.0, 0.0], [-1.0, 0.0]])


def at_angle(angle):
    return np.array([[1.0, 0.0], [np.cos(angle), np.sin(angle)]])


# velocities


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    starts=st.integers(1, 4),
    n=st.integers(2, 6),
    d=st.integers(2, 5),
    seed=st.integers(0, 99),
    beta=st.floats(0, 20),
    causal=st.booleans(),
)
def test_velocities_are_those_of_the_definition_start_by_start(starts, n, d, seed, beta, causal):
    x = stack(starts, n, d, seed)
    got = sphere.velocities(x, beta, causal=causal)
    want = [plain_velocity(y, beta, causal=causal) for y in x]
    assert np.abs(got - want).max() <= EXPONENTIAL
    assert np.abs((got * x).sum(axis=2)).max() <= EXPONENTIAL


@MASK
def test_velocities_are_those_of_one_start_alone(causal):
    x = stack(5, 7, 3)
    got = sphere.velocities(x, 3.0, causal=causal)
    for one, y in zip(got, x, strict=True):
        assert np.abs(one - sphere.velocity(y, 3.0, causal=causal)).max() <= ROUNDING


@MASK
def test_large_beta_does_not_overflow(causal):
    assert np.isfinite(sphere.velocities(stack(2, 4, 3), 700.0, causal=causal)).all()


def test_under_a_mask_the_first_token_rests_and_later_ones_are_not_seen():
    x = stack(3, 5, 3)
    changed = x.copy()
    changed[:, -1] = -changed[:, -1]
    one, two = (sphere.velocities(y, 2.0, causal=True) for y in (x, changed))
    assert np.abs(one[:, 0]).max() <= ROUNDING
    assert (one[:, :-1] == two[:, :-1]).all()
    open_one, open_two = (sphere.velocities(y, 2.0) for y in (x, changed))
    assert np.abs(open_one[:, :-1] - open_two[:, :-1]).max() > 0.01


def test_a_stack_is_not_changed():
    x = stack(2, 4, 3)
    before = x.copy()
    sphere.velocities(x, 1.0, causal=True)
    sphere.cluster_times(x, 1.0, 2.0, causal=True)
    assert (x == before).all()


# meetings


def exponential_pair(times, rate=2.0):
    """1 - <x_1, x_2> = exp(-rate t), shape (times, 1, 2, 2)."""
    return np.stack([at_angle(np.arccos(1 - np.exp(-rate * t))) for t in times])[:, None]


@pytest.mark.parametrize("delta", [0.5, 1e-3, 1e-6])
@pytest.mark.parametrize("rate", [0.5, 2.0])
def test_where_tokens_approach_exponentially_the_meeting_is_exact(delta, rate):
    times = np.linspace(0, 24 / rate, 7)  # seen at few times
    got = sphere.meeting_times(times, exponential_pair(times, rate), delta)
    assert got.shape == (1,)
    assert abs(got[0] / (-np.log(delta) / rate) - 1) <= LATE_PAIR


def test_the_last_pair_to_meet_decides():
    """Three tokens on a circle: the farther of the two is waited for."""
    angles = np.array([[0.0, 0.01, 1.0], [0.0, 0.001, 0.1], [0.0, 0.0001, 0.01]])
    x = np.stack([np.cos(angles), np.sin(angles)], axis=-1)[:, None]
    got = sphere.meeting_times([0.0, 1.0, 2.0], x, 1 - np.cos(0.1))[0]
    assert abs(got - 1.0) <= LATE_PAIR


def test_starts_that_have_not_met_at_the_last_time_have_no_time():
    x = np.stack([opposite(), at_angle(1e-4)])
    assert sphere.meeting_times([0.0, 1.0], np.stack([x, x]), DELTA).tolist() == [np.inf, 0.0]


# times to cluster


@pytest.mark.parametrize("beta", [0.0, 1.0, 4.0])
@pytest.mark.parametrize("angle", [0.5, 1.5, 3.0])
def test_two_tokens_take_the_merge_time_and_a_decoder_twice_as_long(beta, angle):
    want = sphere.merge_time(beta, angle, np.arccos(1 - DELTA))
    for causal, factor in ((False, 1), (True, 2)):
        got = sphere.cluster_times(at_angle(angle)[None], beta, 1e6, DELTA, causal=causal)[0]
        assert abs(got / (factor * want) - 1) <= MEETING


@pytest.mark.parametrize("beta", [0.0, 2.0])
def test_orthogonal_tokens_take_the_hitting_time(beta):
    got = sphere.cluster_times(np.eye(8)[None], beta, 1e3, DELTA)[0]
    assert abs(got / sphere.hitting_time(beta, 8, DELTA) - 1) <= MEETING


@MASK
def test_times_are_those_of_the_flow_of_every_start(causal):
    x = stack(4, 5, 3)
    times = np.linspace(0, 40, 161)
    got = sphere.cluster_times(x, 1.0, 40.0, 0.01, causal=causal)
    for start, found in zip(x, got, strict=True):
        path = plain_flow(start, 1.0, times, causal=causal)
        want = sphere.meeting_times(times, path[:, None], 0.01)[0]
        assert abs(found / want - 1) <= MEETING


@MASK
def test_starts_hardly_see_each_other(causal):
    """They share steps, whose errors are of the order of the tolerance."""
    x = stack(6, 5, 3)
    together = sphere.cluster_times(x, 1.0, 100.0, causal=causal)
    alone = [sphere.cluster_times(y[None], 1.0, 100.0, causal=causal)[0] for y in x]
    assert np.abs(together / alone - 1).max() <= MEETING
    order = [3, 0, 5, 1, 4, 2]
    mixed = sphere.cluster_times(x[order], 1.0, 100.0, causal=causal)
    assert np.abs(mixed / together[order] - 1).max() <= MEETING


def test_what_is_not_one_cluster_by_the_horizon_has_no_time():
    x = np.stack([opposite(), at_angle(1.0)])
    when = sphere.merge_time(2.0, 1.0, np.arccos(1 - DELTA))
    late, early = (sphere.cluster_times(x, 2.0, h, DELTA) for h in (2 * when, 0.5 * when))
    assert np.isinf(late[0])
    assert abs(late[1] / when - 1) <= MEETING
    assert np.isinf(early).all()


def test_a_start_that_is_one_cluster_takes_no_time():
    x = np.repeat(ball(1, 3), 4, axis=0)[None]
    assert sphere.cluster_times(x, 1.0, 10.0).tolist() == [0.0]


def test_starts_are_left_as_soon_as_they_are_one(monkeypatch):
    """What is integrated gets smaller."""
    sizes, honest = [], stacks.integrate

    def record(field, x, times, **options):
        sizes.append(len(x))
        return honest(field, x, times, **options)

    monkeypatch.setattr(stacks, "integrate", record)
    sphere.cluster_times(np.stack([at_angle(0.1), at_angle(2.0), opposite()]), 1.0, 50.0)
    assert sizes[0] == 3
    assert sizes[-1] == 1
    assert sizes == sorted(sizes, reverse=True)


def test_the_flow_is_looked_at_over_legs_that_double(monkeypatch: pytest.MonkeyPatch) -> None:
    legs, honest = [], stacks.integrate

    def record(field, x, times, **options):
        legs.append((times[0], times[-1], len(times)))
        return honest(field, x, times, **options)

    monkeypatch.setattr(stacks, "integrate", record)
    sphere.cluster_times(opposite()[None], 1.0, 20.0)
    assert [leg[:2] for leg in legs] == [(0, 1), (1, 2), (2, 4), (4, 8), (8, 16), (16, 20)]
    assert {leg[2] for leg in legs} == {33}


# what is refused

X = stack(2, 4, 3)
BAD_STACKS = [
    (X[0], "must have 3 axes"),
    (2 * X, "must lie on the unit sphere, got a token of norm 2"),
    (X[:, :1], "must hold at least two tokens a start, got 1"),
    (X[:0], "must hold at least one start"),
    (np.ones((2, 3, 1)), "must have at least two columns"),
    (np.full((2, 3, 3), np.nan), "must be finite, got nan"),
    ("tokens", "must be an array of real numbers"),
]


@pytest.mark.parametrize(("x", "message"), BAD_STACKS)
def test_stacks_must_hold_tokens_on_the_sphere(x, message):
    with pytest.raises(ValueError, match=f"x {message}"):
        sphere.velocities(x, 1.0)
    with pytest.raises(ValueError, match=f"x0 {message}"):
        sphere.cluster_times(x, 1.0, 1.0)


@pytest.mark.parametrize("beta", [-1.0, np.nan, 701.0, "hot", None])
def test_beta_must_be_a_number_from_zero_to_seven_hundred(beta):
    for call in (
        lambda: sphere.velocities(X, beta),
        lambda: sphere.cluster_times(X, beta, 1.0),
    ):
        with pytest.raises(ValueError, match=r"beta must (be a number >= 0|lie in \[0, 700\])"):
            call()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"horizon": 0.0}, "horizon must be a finite number > 0"),
        ({"horizon": np.inf}, "horizon must be a finite number > 0"),
        ({"delta": 1.0}, "delta must lie between 0 and 1"),
        ({"delta": 0.0}, "delta must be a finite number > 0"),
        ({"rtol": 0.0}, "rtol must be a finite number > 0"),
    ],
)
def test_cluster_times_refuse_what_makes_no_sense(change, message):
    with pytest.raises(ValueError, match=message):
        sphere.cluster_times(**{"x0": X, "beta": 1.0, "horizon": 1.0, **change})


def test_meeting_times_refuse_states_that_do_not_fit():
    states = np.stack([X, X])
    with pytest.raises(ValueError, match="states must have one stack per time, 3, got 2"):
        sphere.meeting_times([0.0, 1.0, 2.0], states)
    with pytest.raises(ValueError, match="states must have 4 axes"):
        sphere.meeting_times([0.0, 1.0], X)
    with pytest.raises(ValueError, match="states must lie on the unit sphere"):
        sphere.meeting_times([0.0, 1.0], 2 * states)
    with pytest.raises(ValueError, match="times must be at least two increasing numbers"):
        sphere.meeting_times([1.0, 0.0], states)
    with pytest.raises(ValueError, match="delta must lie between 0 and 1"):
        sphere.meeting_times([0.0, 1.0], states, 2.0)
