import math

import numpy as np
import pytest
from gaussians import (
    GLOBAL_KINDS,
    ONE,
    S0,
    exact_variance,
    layer,
    matrices,
    relative,
)
from scipy.linalg import block_diag, inv
from tolerances import (
    BLOW_UP,
    EXTRAPOLATED,
    FLOW,
    LONG_FLOW,
)

from attnflow.attention import (
    L2Attention,
    MultiHead,
    SinkhornAttention,
    SoftmaxAttention,
)
from attnflow.gaussian import diagnosis, gaussian_flow, system

# blow-up


@pytest.mark.parametrize("var", [1e-8, 1e-3, 1.0, 1e3, 1e8])
@pytest.mark.parametrize("speed", [1e-3, 1.0, 1e3])
def test_blow_up_is_seen_at_every_scale(var, speed):
    T = 1 / (2 * speed * var)
    flow = gaussian_flow(SoftmaxAttention(ONE, ONE, speed * ONE), var, [0.0, 0.5 * T, 3 * T])
    assert flow.stopped == "blow-up"
    assert abs(flow.blow_up / T - 1) <= BLOW_UP
    assert abs(flow.covs[-1, 0, 0] / (2 * var) - 1) <= FLOW


def test_the_blow_up_time_is_extrapolated_from_where_the_flow_stops():
    """The flow stops at 1 - 1e-10 of the time; what is left is known to its fourth digit."""
    for var in (0.3, 1.0, 7.0):
        flow = gaussian_flow(SoftmaxAttention(ONE, ONE, ONE), var, [0.0, 9.0], rtol=1e-13)
        assert abs(flow.blow_up * 2 * var - 1) <= EXTRAPOLATED


def test_a_flow_that_blows_up_leaves_out_later_times_and_holds_finite_numbers_only():
    T = 0.43839941
    times = [0.0, 0.1, 0.4, 0.4383, 0.45, 1.0, 10.0]
    I = np.eye(2)  # noqa: E741
    flow = gaussian_flow(SoftmaxAttention(I, I, I), S0, times, [1.0, -1.0])
    assert flow.stopped == "blow-up"
    assert flow.times.tolist() == times[:4]
    assert flow.covs.shape == (4, 2, 2)
    assert flow.means.shape == (4, 2)
    assert np.isfinite(flow.covs).all()
    assert np.isfinite(flow.means).all()
    for t, S in zip(flow.times, flow.covs, strict=True):
        want = inv(inv(S0) - 2 * t * I)
        assert relative(S, want) <= FLOW * T / (T - t)
    at, last = flow.last
    assert 0.4383 < at < flow.blow_up
    assert np.isfinite(last).all()
    assert np.linalg.norm(last, 2) >= 1e9
    assert np.linalg.eigvalsh(last)[0] >= 0


def test_the_small_eigenvalue_keeps_its_digits_beside_one_that_blows_up():
    flow = gaussian_flow(
        SoftmaxAttention(np.eye(2), np.eye(2), np.diag([1.0, -1.0])), np.eye(2), [0.0, 0.49999, 1.0]
    )
    assert flow.stopped == "blow-up"
    assert abs(flow.covs[1, 1, 1] * 1.99998 - 1) <= FLOW
    assert abs(flow.last[1][1, 1] / 0.5 - 1) <= FLOW


def test_a_horizon_short_of_the_blow_up_is_reached():
    flow = gaussian_flow(SoftmaxAttention(ONE, ONE, ONE), 1.0, [0.0, 0.5 * (1 - 1e-6)])
    assert (flow.stopped, flow.blow_up) == ("", math.inf)
    assert abs(flow.covs[-1, 0, 0] / 1e6 - 1) <= FLOW * 1e4


def test_blow_up_is_timed_from_the_start_of_the_flow():
    flow = gaussian_flow(SoftmaxAttention(ONE, ONE, ONE), 1.0, [-7.0, -6.75, -6.0])
    assert flow.times.tolist() == [-7.0, -6.75]
    assert abs(flow.blow_up + 6.5) <= BLOW_UP * 10


def test_a_softmax_head_among_others_blows_up():
    """s' = 2 s^2 + 4 s^2/(1 + 2s): between 2 s^2 and 6 s^2, and integrated in 1/s."""
    both = MultiHead([SoftmaxAttention(ONE, ONE, ONE), L2Attention(ONE, ONE, ONE)])
    flow = gaussian_flow(both, 1.0, [0.0, 1.0])
    assert flow.stopped == "blow-up"
    # in u = 1/s, u' = -2 - 4u/(u + 2), whose zero is at the integral of (u + 2)/(6u + 4)
    want = 1 / 6 + (4 / 3) / 6 * math.log(10 / 4)
    assert abs(flow.blow_up / want - 1) <= BLOW_UP


def test_blocks_of_a_direct_sum_do_not_feel_each_other_until_one_blows_up():
    Q, K, V = matrices(2, 1)
    big = [block_diag(m, 1.0) for m in (Q, K, V)]
    flow = gaussian_flow(SoftmaxAttention(*big), block_diag(S0, 2.0), [0.0, 0.2, 0.3])
    alone = gaussian_flow(SoftmaxAttention(Q, K, V), S0, [0.0, 0.2])
    assert flow.times.tolist() == [0.0, 0.2]
    assert abs(flow.blow_up / 0.25 - 1) <= BLOW_UP
    assert np.abs(flow.covs[1, :2, :2] - alone.covs[1]).max() <= FLOW


# no blow-up


@GLOBAL_KINDS
def test_l2_and_sinkhorn_exist_at_moderate_times_where_softmax_does_not(kind):
    I = np.eye(2)  # noqa: E741
    flow = gaussian_flow(layer(kind, I, I, I), S0, np.linspace(0, 5, 6))
    assert (flow.stopped, flow.blow_up) == ("", math.inf)
    values, axes = np.linalg.eigh(S0)
    for j, var in enumerate(values):
        want = [exact_variance(kind, t, var, 1.0, 1.0) for t in flow.times]
        assert np.abs(axes[:, j] @ flow.covs @ axes[:, j] / want - 1).max() <= FLOW * 10


@GLOBAL_KINDS
def test_growth_without_blow_up_that_doubles_cannot_hold_is_divergence(kind):
    flow = gaussian_flow(layer(kind, ONE, ONE, ONE), 1.0, [0.0, 50.0, 400.0, 500.0], [1.0])
    assert (flow.stopped, flow.blow_up) == ("divergence", math.inf)
    assert flow.times.tolist() == [0.0, 50.0]
    assert flow.covs.shape == (2, 1, 1)
    assert np.isfinite(flow.covs).all()
    assert np.isfinite(flow.means).all()
    for t, S in ((50.0, flow.covs[-1]), flow.last):
        want = exact_variance(kind, t, 1.0, 1.0, 1.0)
        assert abs(math.log(S[0, 0] / want)) <= LONG_FLOW
    assert 1e90 <= flow.last[1][0, 0] <= 1e101


@GLOBAL_KINDS
def test_eigenvalues_that_grow_too_far_apart_are_divergence(kind):
    I = np.eye(2)  # noqa: E741
    flow = gaussian_flow(layer(kind, I, I, np.diag([1.0, -1.0])), np.eye(2), [0.0, 2.0, 1e6])
    assert (flow.stopped, flow.blow_up) == ("divergence", math.inf)
    assert flow.times.tolist() == [0.0, 2.0]
    at, last = flow.last
    assert np.isfinite(last).all()
    for j, v in enumerate((1.0, -1.0)):
        assert abs(last[j, j] / exact_variance(kind, at, 1.0, 1.0, v) - 1) <= LONG_FLOW


@GLOBAL_KINDS
def test_a_small_start_that_grows_late_and_fast_is_no_blow_up(kind):
    """Below 1 the variance runs like softmax's, for a time of 1/(4 s0) or 1/(2 s0); then slowly."""
    rate = {"L2": 4.0, "sinkhorn": 2.0}[kind]
    times = [0.0, 1 / (rate * 1e-5) + 9.0, 1 / (rate * 1e-5) + 20.0]
    flow = gaussian_flow(layer(kind, ONE, ONE, ONE), 1e-5, times)
    assert (flow.stopped, flow.blow_up) == ("", math.inf)
    assert abs(flow.covs[1, 0, 0] / exact_variance(kind, times[1], 1e-5, 1.0, 1.0) - 1) <= 1e-3


def test_l2_attention_with_weak_keys_grows_fast_but_does_not_blow_up():
    flow = gaussian_flow(L2Attention(1e3 * ONE, 1e-3 * ONE, ONE), 1.0, [0.0, 0.25002])
    assert flow.stopped != "blow-up"
    assert flow.blow_up == math.inf


def test_a_late_burst_of_an_l2_layer_is_no_blow_up():
    flow = gaussian_flow(
        lambda t: L2Attention(ONE, ONE, (0.0 if t < 1 else 4e4) * ONE), 1.0, [0.0, 1.0005]
    )
    assert flow.blow_up == math.inf


def test_a_mean_that_outgrows_doubles_is_reported_without_nan():
    """The covariance stays, the mean doubles every 0.7: e^1000 is no number."""
    flow = gaussian_flow(SinkhornAttention(0 * ONE, ONE, ONE), 1.0, [0.0, 1.0, 1000.0], [1.0])
    assert flow.stopped == "divergence"
    assert flow.times.tolist() == [0.0, 1.0]
    assert np.isfinite(flow.means).all()


# attention whose growth depends on the direction


def blind_layer(M=None):
    """L2 attention whose keys see the first coordinate only, and whose values move the second."""
    M = np.eye(2) if M is None else M
    Q, K, V = np.array([[0.0, 1.0], [0.0, 0.0]]), np.diag([1.0, 0.0]), np.diag([0.0, 1.0])
    return L2Attention(Q @ inv(M), K @ inv(M), M @ V @ inv(M))


@pytest.mark.parametrize(("a", "b", "c"), [(1.0, 0.6, 1.0), (0.5, 0.2, 3.0), (2.0, 1.0, 0.7)])
@pytest.mark.parametrize("turned", [False, True])
def test_l2_attention_with_keys_that_do_not_see_a_direction_can_blow_up(a, b, c, turned):
    """S11 stays, S12' = 2 S12^2/(1 + 2 S11) and S22/S12^2 stays: T = (1 + 2a)/(2b)."""
    M = np.array([[1.0, 0.5], [-0.3, 2.0]]) if turned else np.eye(2)
    T = (1 + 2 * a) / (2 * b)
    times = T * np.array([0.0, 0.4, 0.8, 0.96, 1.2])
    flow = gaussian_flow(blind_layer(M), M @ [[a, b], [b, c]] @ M.T, times)
    assert flow.stopped == "blow-up"
    assert abs(flow.blow_up / T - 1) <= BLOW_UP
    got = inv(M) @ flow.covs @ inv(M).T
    assert np.abs(got[:, 1, 1] * (1 - times[:4] / T) ** 2 / c - 1).max() <= LONG_FLOW
    assert np.abs(got[:, 0, 0] / a - 1).max() <= LONG_FLOW


def test_l2_attention_with_keys_that_do_not_see_a_direction_may_also_be_global():
    """With S12 < 0 the same equations decay."""
    flow = gaussian_flow(blind_layer(), [[1.0, -0.6], [-0.6, 1.0]], [0.0, 100.0])
    assert (flow.stopped, flow.blow_up) == ("", math.inf)


@pytest.mark.parametrize("key", [1e-3, 1e-6, 1e-9, 1e-14])
def test_keys_however_weak_prevent_blow_up_on_the_line(key):
    """The variance runs like softmax's up to 1/(2 key^2), and only then saturates."""
    flow = gaussian_flow(L2Attention(ONE / key, key * ONE, ONE), 1.0, [0.0, 0.2, 0.26])
    assert (flow.stopped, flow.blow_up) == ("divergence", math.inf)
    want = exact_variance("L2", 0.2, 1.0, 1.0, 1.0, K=key)
    assert abs(flow.covs[1, 0, 0] / want - 1) <= FLOW * 10


@pytest.mark.parametrize("key", [1e-5, 1e-6, 1e-8, 1e-10])
def test_weak_keys_prevent_blow_up_beside_a_direction_that_dies(key):
    """The condition number ends the flow while the variance still runs like softmax's."""
    I = np.eye(2)  # noqa: E741
    flow = gaussian_flow(L2Attention(I / key, key * I, np.diag([1.0, -1e4])), I, [0.0, 0.3])
    assert (flow.stopped, flow.blow_up) == ("divergence", math.inf)


@pytest.mark.parametrize("width", [1e-4, 1e-10, 1e-13])
def test_a_narrow_cloud_of_sinkhorn_attention_never_blows_up(width):
    I = np.eye(2)  # noqa: E741
    flow = gaussian_flow(
        SinkhornAttention(I, I, np.diag([1.0, -0.5])), width * I, [0.0, 1 / width + 40.0]
    )
    assert flow.blow_up == math.inf


def test_the_power_of_the_growth_is_two_for_softmax_and_zero_for_sinkhorn():
    for attention, want in (
        (SoftmaxAttention(ONE, ONE, ONE), 2.0),
        (SinkhornAttention(ONE, ONE, ONE), 0.0),
        (L2Attention(ONE, ONE, ONE), 0.0),
    ):
        one = system.System(attention, 1e6 * ONE, np.zeros(1), clock=0.0)
        got = diagnosis.power(one, 0.0, one.start, one.rate(0.0, one.start))
        assert abs(got - want) <= 1e-5


def test_a_blow_up_along_one_axis_is_seen_before_the_last_word() -> None:
    """diag(s, u) with s' = 2 s^2 and u' = -4 u^2: 1/(2s) is left, at every scale of the cloud."""
    I = np.eye(2)  # noqa: E741
    one = SoftmaxAttention(np.diag([1.0, -2.0]), I, I)
    for s in (1e10, 1e14):
        here = system.System(one, np.diag([s, 1.0]), np.zeros(2), clock=0.0)
        left = diagnosis.time_left(here, 1.0, here.start, last_word=False)
        assert abs(left * 2 * s - 1) <= 1e-6
