import numpy as np
import pytest
from scipy.linalg import expm
from scipy.optimize import brentq
from scipy.special import exp1
from tolerances import FLOW, HALVING, ROUNDING

from attnflow import flows
from attnflow.attention import (
    L2Attention,
    MultiHead,
    SinkhornAttention,
    SoftmaxAttention,
    UnnormalisedAttention,
)

ID = np.eye(2)
RNG = np.random.default_rng(7)
Q, K = 0.5 * RNG.normal(size=(2, 2, 2))
V = np.array([[-0.5, 1.0], [-1.0, -0.5]])
X0 = RNG.uniform(-1, 1, size=(5, 2))
W = np.array([0.1, 0.3, 0.2, 0.15, 0.25])

LAYERS = {
    "softmax": SoftmaxAttention(Q, K, V),
    "l2": L2Attention(Q, K, V),
    "unnormalised": UnnormalisedAttention(Q, K, V),
    "sinkhorn": SinkhornAttention(Q, K, V),
    "sinkhorn with Q = K": SinkhornAttention(Q, Q, V),
    "causal softmax": SoftmaxAttention(Q, K, V, causal=True),
    "causal sinkhorn": SinkhornAttention(Q, Q, V, causal=True),
    "two heads": MultiHead([SoftmaxAttention(Q, K, V), L2Attention(K, Q, V)], [ID, 0.5 * ID]),
    "two causal heads": MultiHead(
        [SoftmaxAttention(Q, K, V, causal=True), L2Attention(K, Q, V, causal=True)]
    ),
}
every_layer = pytest.mark.parametrize("name", LAYERS)


@every_layer
def test_layers_are_euler_steps(name):
    flow = flows.layers(LAYERS[name], X0, depth=4, time=2.0, weights=W)
    assert np.abs(flow.times - [0.0, 0.5, 1.0, 1.5, 2.0]).max() <= ROUNDING
    assert flow.states.shape == (5, 5, 2)
    assert (flow.states[0] == X0).all()
    for before, after in zip(flow.states[:-1], flow.states[1:], strict=True):
        step = 0.5 * LAYERS[name].velocity(before, W)
        assert np.abs(after - before - step).max() <= ROUNDING


@every_layer
def test_layers_approach_the_flow_at_first_order(name):
    end = flows.ode(LAYERS[name], X0, [0.0, 1.0], weights=W).states[-1]
    errors = [
        np.abs(flows.layers(LAYERS[name], X0, depth, weights=W).states[-1] - end).max()
        for depth in (20, 40, 80)
    ]
    ratios = np.array(errors[:-1]) / np.array(errors[1:])
    assert np.abs(ratios - 2).max() <= HALVING


@every_layer
def test_the_flow_in_two_pieces_is_the_flow_in_one(name):
    once = flows.ode(LAYERS[name], X0, [0.0, 0.4, 1.0])
    first = flows.ode(LAYERS[name], X0, [0.0, 0.4])
    second = flows.ode(LAYERS[name], first.states[-1], [0.4, 1.0])
    assert once.states.shape == (3, 5, 2)
    assert once.times.tolist() == [0.0, 0.4, 1.0]
    assert np.abs(once.states[0] - X0).max() <= ROUNDING
    assert np.abs(once.states[1] - first.states[-1]).max() <= FLOW
    assert np.abs(once.states[2] - second.states[-1]).max() <= FLOW


@pytest.mark.parametrize("kind", [SoftmaxAttention, L2Attention, SinkhornAttention])
@pytest.mark.parametrize("causal", [False, True])
def test_one_token_flows_by_the_matrix_exponential(kind, causal):
    x0, times = np.array([[1.0, -2.0]]), np.array([0.5, 1.0, 3.0])
    flow = flows.ode(kind(Q, Q, V, causal), x0, times)
    want = np.stack([x0 @ expm((t - times[0]) * V).T for t in times])
    assert np.abs(flow.states - want).max() <= FLOW


@pytest.mark.parametrize("x0", [0.5, 1.0, 2.0, 3.0])
def test_one_unnormalised_token_is_drawn_in_as_the_exponential_integral_says(x0):
    """With V = -1, u = x^2 obeys u' = -2 u exp(u), so that E1(u(t)) = E1(u(0)) + 2 t."""
    one = np.eye(1)
    flow = flows.ode(UnnormalisedAttention(one, one, -one), [[x0]], [0.0, 1.0])
    u = brentq(lambda u: exp1(u) - exp1(x0**2) - 2.0, 1e-6, 50.0, xtol=1e-15, rtol=1e-14)
    assert abs(flow.states[-1, 0, 0] - np.sqrt(u)) <= FLOW


def test_a_flow_that_only_contracts_can_be_followed():
    """|x_i|^2 grows at most like 2t/e since -s exp(s) <= 1/e, however fast the flow begins."""
    x0 = np.array([[1.3, -0.35], [0.85, -0.5], [1.76, 0.2], [-0.38, 2.55], [-0.32, -1.22]])
    flow = flows.ode(UnnormalisedAttention(ID, ID, -ID), x0, [0.0, 1.0])
    growth = (flow.states[-1] ** 2).sum(1) - (x0**2).sum(1)
    assert growth.max() <= 2 / np.e + FLOW


def test_two_opposite_softmax_tokens_follow_their_scalar_equation():
    """x' = x tanh(x^2) for tokens at x and -x with Q = K = V = 1; d log sinh(x^2) = 2 x^2 dt."""
    one = np.eye(1)
    states = flows.ode(SoftmaxAttention(one, one, one), [[0.7], [-0.7]], [0.0, 0.5, 1.0]).states
    x = states[:, 0, 0]
    assert np.abs(states[:, 1, 0] + x).max() <= FLOW
    nodes, gauss = np.polynomial.legendre.leggauss(40)
    for t, end in zip((0.5, 1.0), x[1:], strict=True):
        y = 0.7 + (end - 0.7) * (nodes + 1) / 2
        elapsed = (end - 0.7) / 2 * (gauss @ (1 / (y * np.tanh(y**2))))
        assert abs(elapsed - t) <= FLOW


def test_a_causal_flow_does_not_depend_on_the_future():
    layer = LAYERS["causal softmax"]
    whole = flows.ode(layer, X0, [0.0, 1.0]).states[:, :3]
    assert np.abs(whole - flows.ode(layer, X0[:3], [0.0, 1.0]).states).max() <= FLOW


def test_sinkhorn_flow_with_v_equal_to_minus_one_carries_the_mean_exponentially():
    """Columns are balanced, so the mean obeys m' = -m."""
    layer = SinkhornAttention(Q, K, -ID)
    end = flows.ode(layer, X0, [0.0, 1.0], weights=W).states[-1]
    assert np.abs(W @ end - np.exp(-1.0) * (W @ X0)).max() <= FLOW


@pytest.mark.parametrize(
    "times", [[0.0], [], [1.0, 0.0], [0.0, 0.0], [0.0, 1.0, 0.5], [0.0, 1.0, 1.0]]
)
def test_times_that_do_not_increase_are_refused(times):
    with pytest.raises(ValueError, match="times must be at least two increasing numbers, got"):
        flows.ode(LAYERS["softmax"], X0, times)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([0.0, np.nan], "times must be finite, got nan"),
        ([0.0, np.inf], "times must be finite, got inf"),
        (1.0, r"times must have 1 axes, got shape \(\)"),
        ("soon", "times must be an array of real numbers, got 'soon'"),
    ],
)
def test_times_that_are_not_numbers_are_refused(times, message):
    with pytest.raises(ValueError, match=message):
        flows.ode(LAYERS["softmax"], X0, times)


@pytest.mark.parametrize(
    ("x0", "message"),
    [
        ([[np.nan, 0.0]], "x0 must be finite, got nan"),
        (np.empty((0, 2)), "x0 must hold at least one token"),
        ("tokens", "x0 must be an array of real numbers"),
        ([[1.0, 2.0, 3.0]], "must have 2 columns, got shape"),
    ],
)
def test_flows_refuse_what_are_not_tokens(x0, message):
    with pytest.raises(ValueError, match=message):
        flows.layers(LAYERS["softmax"], x0, 3)
    with pytest.raises(ValueError, match=message):
        flows.ode(LAYERS["softmax"], x0, [0.0, 1.0])


@pytest.mark.parametrize("w", [[0.5] * 5, [1.0], [1.2, -0.2, 0.0, 0.0, 0.0]])
def test_flows_refuse_what_are_not_weights(w):
    with pytest.raises(ValueError, match="weights must"):
        flows.layers(LAYERS["softmax"], X0, 3, weights=w)
    with pytest.raises(ValueError, match="weights must"):
        flows.ode(LAYERS["softmax"], X0, [0.0, 1.0], weights=w)


@pytest.mark.parametrize("depth", [0, -1, 1.5, True, "deep", None])
def test_layers_refuse_a_depth_that_is_not_a_count(depth):
    with pytest.raises(ValueError, match="depth must be a whole number >= 1, got"):
        flows.layers(LAYERS["softmax"], X0, depth)


@pytest.mark.parametrize("time", [0.0, -1.0, np.nan, np.inf, "long"])
def test_layers_refuse_a_time_that_is_not_positive(time):
    with pytest.raises(ValueError, match=r"time must be a (finite )?number > 0, got"):
        flows.layers(LAYERS["softmax"], X0, 2, time=time)


@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize("p", [1, 3])
def test_a_layer_whose_velocities_live_elsewhere_cannot_move_tokens(n, p):
    """A residual needs V to map to the space of the tokens; p = 1 must not be spread over it."""
    layer = SoftmaxAttention(ID, ID, np.ones((p, 2)))
    with pytest.raises(ValueError, match=r"velocit.* shape|shape.* velocit"):
        flows.layers(layer, np.ones((n, 2)), 2)
    with pytest.raises(ValueError, match=r"velocit.* shape|shape.* velocit"):
        flows.ode(layer, np.ones((n, 2)), [0.0, 1.0])


@pytest.mark.parametrize("x0", [1.0, 26.0])
def test_a_flow_that_blows_up_before_the_last_time_is_reported(x0):
    """u' = 2 u exp(u) reaches infinity at t = E1(u(0)) / 2, which is below 0.11 for u(0) >= 1."""
    one = np.eye(1)
    with pytest.raises((ArithmeticError, ValueError), match=r"the flow stopped|must be finite"):
        flows.ode(UnnormalisedAttention(one, one, one), [[x0]], [0.0, 1.0])
