"""How a Gaussian flow is followed: stiff, started late, and what its result says about it."""

import math

import numpy as np
import pytest
from gaussians import ALL_KINDS, ONE, S0, layer, matrices, plain_affine, plain_flow, relative, spd
from scipy.linalg import expm
from tolerances import BLOW_UP, FLOW, LONG_FLOW, ROUNDING, STIFF

from attnflow.attention import SinkhornAttention, SoftmaxAttention
from attnflow.errors import FlowStopped
from attnflow.gaussian import gaussian_flow, leg, system

# stiff flows


def stiff_layer():
    """One eigenvalue grows and with it the rate at which another is held down."""
    rng = np.random.default_rng(2)
    rng.integers(1, 4)
    Q, K, V = rng.normal(size=(3, 3, 3))
    W = rng.normal(size=(3, 3))
    return SoftmaxAttention(Q, K, V), W @ W.T + 0.1 * np.eye(3)


@pytest.mark.parametrize("fast", [1e3, 1e4, 1e5])
def test_a_mean_that_is_held_down_fast_is_the_matrix_exponential(fast):
    """Without scores nothing but the mean moves, by V: an explicit method would need up to a million velocities."""
    turn = np.array([[0.8, 0.6], [-0.6, 0.8]])
    V = turn @ np.diag([-fast, 0.3]) @ turn.T
    flow = gaussian_flow(SinkhornAttention(0 * V, V, V), S0, [0.0, 5.0, 10.0], [1.0, 2.0])
    assert flow.methods == ("DOP853", "BDF")
    for t, mean in zip(flow.times[1:], flow.means[1:], strict=True):
        assert relative(mean, expm(t * V) @ [1.0, 2.0]) <= STIFF
    assert np.abs(flow.covs - S0).max() <= ROUNDING


def test_a_stiff_flow_is_that_of_the_formulas():
    attention, cov = stiff_layer()
    times, A = np.array([0.0, 3.0, 5.5]), attention.K.T @ attention.Q
    covs, _ = plain_flow(
        lambda t, S, m: plain_affine("softmax", A, None, attention.V, S, m),
        cov, np.zeros(3), times,
    )  # fmt: skip
    flow = gaussian_flow(attention, cov, times)
    assert flow.methods == ("DOP853", "BDF")
    for got, want in zip(flow.covs, covs, strict=True):
        assert relative(got, want) <= STIFF


def test_a_flow_that_would_take_an_explicit_method_a_million_velocities_is_followed():
    """The eigenvalues are those of DOP853 at rtol 1e-11, which took 687173 velocities."""
    attention, cov = stiff_layer()
    flow = gaussian_flow(attention, cov, [0.0, 8.0])
    assert (flow.stopped, flow.converged, flow.methods) == ("", True, ("DOP853", "BDF"))
    assert flow.iterations < 10_000
    assert np.abs(flow.eigenvalues[-1, 1:] / [0.42923601061, 2455329.68595] - 1).max() <= STIFF


@pytest.mark.parametrize("seed", range(4))
@ALL_KINDS
def test_explicit_and_implicit_methods_agree(kind, seed, monkeypatch):
    attention = layer(kind, *matrices(3, seed, size=1.3), eps=0.7)
    want = gaussian_flow(attention, spd(3, seed), [0.0, 0.3, 0.6], [1.0, -1.0, 0.5])
    monkeypatch.setattr("attnflow.gaussian.flow.EXPLICIT", "BDF")
    got = gaussian_flow(attention, spd(3, seed), [0.0, 0.3, 0.6], [1.0, -1.0, 0.5])
    assert (want.methods, got.methods) == (("DOP853",), ("BDF",))
    assert np.abs(got.covs - want.covs).max() <= STIFF
    assert np.abs(got.means - want.means).max() <= STIFF


@pytest.mark.parametrize("seed", range(8))
def test_random_layers_are_followed_whatever_they_do(seed):
    rng = np.random.default_rng([seed, 3])
    Q, K, V, W = rng.normal(size=(4, 3, 3))
    flow = gaussian_flow(SoftmaxAttention(Q, K, V), W @ W.T + 0.1 * np.eye(3), [0, 8.0], rtol=1e-7)
    assert flow.stopped in ("", "blow-up", "divergence")


def test_a_flow_that_needs_too_many_velocities_says_where_it_stopped_and_what_to_do(monkeypatch):
    monkeypatch.setattr(leg, "MOST_VELOCITIES", 3000)
    with pytest.raises(FlowStopped, match=r"stopped at t = [2-7]\.\d+, after 3000 .* raise rtol"):
        gaussian_flow(*stiff_layer(), [0.0, 8.0])


@pytest.mark.parametrize(
    ("ended", "message"),
    [
        (lambda sigma: sigma > math.sqrt(2), "t = 0.25, after"),
        (lambda sigma: sigma != 1.0, "t = .*e-1[0-9], after 5000"),
        (lambda sigma: True, "t = 0, where no step"),
    ],
    ids=["at 1/4", "after the start", "at the start"],
)
def test_a_field_that_ends_says_where(ended, message, monkeypatch):
    """s' = 2 s^2 from 1 is 2 at t = 1/4."""
    honest = system.factors_and_shift

    def ends(attention, F, mean):
        if ended(F[0, 0]):
            raise np.linalg.LinAlgError
        return honest(attention, F, mean)

    monkeypatch.setattr(system, "factors_and_shift", ends)
    monkeypatch.setattr(leg, "MOST_VELOCITIES", 5000)
    with pytest.raises(FlowStopped, match=message):
        gaussian_flow(SoftmaxAttention(ONE, ONE, ONE), 1.0, [0.0, 1.0])


# started late


@pytest.mark.parametrize("clock", [-1e6, 1e3, 1e6, 1e9, 1e12])
def test_a_blow_up_is_found_as_exactly_as_the_clock_allows(clock):
    flow = gaussian_flow(SoftmaxAttention(ONE, ONE, ONE), 1.0, [clock, clock + 0.25, clock + 1])
    assert flow.stopped == "blow-up"
    assert abs(flow.blow_up - (clock + 0.5)) <= BLOW_UP + np.spacing(abs(clock))
    assert flow.times.tolist() == [clock, clock + 0.25]
    assert abs(flow.covs[-1, 0, 0] - 2) <= FLOW
    assert clock <= flow.last[0] <= flow.blow_up


@ALL_KINDS
@pytest.mark.parametrize("clock", [1e6, -1e9])
def test_the_clock_does_not_change_a_flow(kind, clock):
    attention = layer(kind, *matrices(2, 2, size=1.0))
    times = np.array([0.0, 0.25, 0.5])
    want = gaussian_flow(attention, S0, times, [1.0, 0.0])
    got = gaussian_flow(attention, S0, clock + times, [1.0, 0.0])
    assert (got.covs == want.covs).all()
    assert (got.means == want.means).all()


def test_a_layer_that_depends_on_time_sees_the_clock():
    """V(t) = t - 1e6 gives s = s0/(1 - s0 (t - 1e6)^2)."""
    clock = 1e6
    flow = gaussian_flow(
        lambda t: SoftmaxAttention(ONE, ONE, (t - clock) * ONE), 1.0, [clock, clock + 0.5]
    )
    assert abs(flow.covs[-1, 0, 0] - 1 / (1 - 0.25)) <= FLOW


def test_a_variance_that_first_falls_and_then_blows_up_late():
    """V(t) = (t - 20)/10: 1/s is 50 - 2 (t^2/20 - 2t), at most 90, and 0 at t = 50."""
    flow = gaussian_flow(
        lambda t: SoftmaxAttention(ONE, ONE, (t - 20) / 10 * ONE), 1 / 50, [0.0, 20.0, 60.0]
    )
    assert flow.stopped == "blow-up"
    assert abs(flow.blow_up / 50 - 1) <= BLOW_UP
    assert abs(flow.covs[1, 0, 0] * 90 - 1) <= FLOW


@pytest.mark.parametrize("wait", [50.0, 1e4, 1e6])
def test_a_flow_that_waits_before_it_blows_up(wait):
    """Its steps near the blow-up are shorter than the elapsed time resolves."""
    flow = gaussian_flow(
        lambda t: SoftmaxAttention(ONE, ONE, float(t > wait) * ONE), 1.0, [0.0, wait, wait + 1]
    )
    assert flow.stopped == "blow-up"
    assert abs(flow.blow_up - wait - 0.5) <= LONG_FLOW
    assert np.abs(flow.covs - 1).max() <= FLOW


# what the result says


def test_the_result_counts_velocities_and_says_how_they_were_used():
    calls = 0

    def attention(t):
        nonlocal calls
        calls += 1
        return SoftmaxAttention(ONE, ONE, ONE)

    flow = gaussian_flow(attention, 1.0, [0.0, 0.4], rtol=1e-9)
    assert flow.iterations == calls - 1  # the first layer is looked at before any velocity
    assert (flow.rtol, flow.methods, flow.converged) == (1e-9, ("DOP853",), True)


def test_a_flow_has_converged_unless_it_left_the_numbers_behind():
    for kind, end, stopped, converged in (
        ("L2", 1.0, "", True),
        ("softmax", 1.0, "blow-up", True),
        ("L2", 500.0, "divergence", False),
    ):
        flow = gaussian_flow(layer(kind, ONE, ONE, ONE), 1.0, [0.0, end])
        assert (flow.stopped, flow.converged) == (stopped, converged)


@pytest.mark.parametrize("method", ["DOP853", "BDF"])
@pytest.mark.parametrize("speed", [1.0, 1e20, 1e45, 1e50])
def test_a_flow_is_followed_to_its_end_at_every_speed(method: str, speed: float) -> None:
    """s' = 2 speed s^2 from 1 is 4 at 0.375/speed."""
    fast = system.System(SoftmaxAttention(ONE, ONE, speed * ONE), ONE, np.zeros(1), clock=0.0)
    times = np.array([0.25, 0.375]) / speed
    found = leg.follow(fast, method, 0.0, fast.start, times, lambda y: "", rtol=1e-10)
    assert found.stop == "end"
    assert np.abs(found.states[:, 0] ** 2 - [2, 4]).max() <= STIFF
