"""Layers and flows in space: orders, exact solutions, what a flow knows of itself, what is refused."""

import numpy as np
import pytest
from layers import ID, LAYERS, NOT_TOKENS, X0, K, Q, V, W
from scipy.linalg import expm
from scipy.optimize import brentq
from scipy.special import exp1
from spheres import circle
from tolerances import FLOW, HALVING, ROUNDING

from attnflow import flows
from attnflow.attention import (
    L2Attention,
    SinkhornAttention,
    SoftmaxAttention,
    UnnormalisedAttention,
)
from attnflow.errors import FlowStopped, Trouble
from attnflow.geometry import rescaled_flow

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
        *NOT_TOKENS,
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


# what a flow knows of itself


def path(seed, m=3, n=5, d=2):
    states = np.random.default_rng(seed).normal(size=(m, n, d))
    return flows.Flow(np.arange(float(m)), states)


@pytest.mark.parametrize(("m", "n", "d"), [(3, 5, 2), (1, 2, 4), (4, 7, 1), (2, 1, 3)])
def test_radius_diameter_and_covariances_are_those_of_the_tokens_counted_one_by_one(m, n, d):
    flow = path(0, m, n, d)
    for k, x in enumerate(flow.states):
        radius = max(float(np.sqrt(sum(c * c for c in p))) for p in x)
        diameter = max(float(np.sqrt(sum((p - q) ** 2))) for p in x for q in x)
        covariance = sum(np.outer(p - x.mean(0), p - x.mean(0)) for p in x) / n
        assert abs(flow.radius[k] - radius) <= ROUNDING
        assert abs(flow.diameter[k] - diameter) <= ROUNDING
        assert np.abs(flow.covariances[k] - covariance).max() <= ROUNDING
    assert flow.radius.shape == flow.diameter.shape == (m,)
    assert flow.covariances.shape == (m, d, d)


@pytest.mark.parametrize(
    "run",
    [
        lambda layer, w: flows.layers(layer, X0, 3, weights=w),
        lambda layer, w: flows.ode(layer, X0, [0.0, 0.5, 1.0], weights=w),
        lambda layer, w: flows.sphere_layers(layer, circle(5), 3, weights=w),
        lambda layer, w: flows.sphere_ode(layer, circle(5), [0.0, 0.5], weights=w),
        lambda layer, w: rescaled_flow(layer, X0, [0.0, 0.5], weights=w),
    ],
    ids=["layers", "ode", "sphere_layers", "sphere_ode", "rescaled_flow"],
)
def test_covariances_count_tokens_with_the_weights_of_the_flow(run):
    """numpy's definition; without weights tokens count the same."""
    for w in (W, None):
        flow = run(LAYERS["softmax"], w)
        want = np.stack([np.cov(x.T, ddof=0, aweights=w) for x in flow.states])
        assert np.abs(flow.covariances - want).max() <= ROUNDING
    assert np.abs(run(LAYERS["softmax"], W).covariances - want).max() > 0.01


def test_one_token_has_no_diameter():
    assert path(0, 2, 1, 3).diameter.tolist() == [0.0, 0.0]
    assert np.abs(path(0, 2, 1, 3).covariances).max() == 0


class Counted:
    """A layer that counts how often its velocity is asked for."""

    def __init__(self, layer):
        self.layer, self.calls = layer, 0

    def velocity(self, x, weights=None):
        self.calls += 1
        return self.layer.velocity(x, weights)


@pytest.mark.parametrize(
    "run",
    [
        lambda layer, x: flows.layers(layer, x, 7),
        lambda layer, x: flows.sphere_layers(layer, x, 7),
        lambda layer, x: flows.ode(layer, x, [0.0, 0.5, 1.0]),
        lambda layer, x: flows.sphere_ode(layer, x, [0.0, 0.5, 1.0]),
    ],
    ids=["layers", "sphere_layers", "ode", "sphere_ode"],
)
def test_iterations_says_how_often_the_velocity_was_computed(run):
    layer = Counted(LAYERS["softmax"])
    assert run(layer, circle(5)).iterations == layer.calls > 0


def test_a_smaller_tolerance_costs_more_velocities_and_errs_less():
    """x' = V x for one token."""
    x0, errors, costs = np.array([[1.0, -2.0]]), [], []
    want = x0 @ expm(5 * V).T
    for rtol in (1e-4, 1e-7, 1e-10):
        flow = flows.ode(LAYERS["softmax"], x0, [0.0, 5.0], rtol=rtol)
        errors.append(np.abs(flow.states[-1] - want).max())
        costs.append(flow.iterations)
    assert costs[0] < costs[1] < costs[2]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] <= FLOW


# integrate


@pytest.mark.parametrize("shape", [(1,), (4,), (2, 3), (2, 1, 3)])
def test_any_shape_is_integrated_and_time_is_given_to_the_velocity(shape):
    """x' = -2 t x has the solution exp(t0^2 - t^2) x0."""
    x0 = np.random.default_rng(1).normal(size=shape)
    times = np.array([-0.5, 0.0, 1.0, 2.0])
    flow = flows.integrate(lambda t, x: -2 * t * x, x0, times)
    want = np.exp(0.25 - times**2).reshape(-1, *[1] * len(shape)) * x0
    assert flow.states.shape == (4, *shape)
    assert np.abs(flow.states - want).max() <= FLOW


@pytest.mark.parametrize("size", [1e-12, 1e-3, 1e6, 1e150])
def test_errors_are_relative_to_the_size_of_the_start(size):
    flow = flows.integrate(lambda t, x: -x, np.array([size]), [0.0, 1.0])
    assert abs(flow.states[-1, 0] / size - np.exp(-1.0)) <= FLOW


def test_a_scale_says_how_large_a_state_that_starts_at_zero_becomes():
    flow = flows.integrate(lambda t, x: 1 - x, np.zeros(2), [0.0, 1.0], scale=1.0)
    assert np.abs(flow.states[-1] + np.expm1(-1.0)).max() <= FLOW


def test_a_field_that_is_refused_at_the_start_is_refused():
    def field(t, x):
        raise ValueError("the field has no value here")

    with pytest.raises(ValueError, match="the field has no value here"):
        flows.integrate(field, np.ones(2), [0.0, 1.0])


def test_a_field_with_a_boundary_is_followed_inside():
    """x' = -x, refused below 0: there end the long trial steps, once x is small."""
    refused = 0

    def field(t, x):
        nonlocal refused
        if x.min() < 0:
            refused += 1
            raise ValueError("outside")
        return -x

    flow = flows.integrate(field, np.ones(2), np.linspace(0, 60, 5))
    assert refused > 0
    assert flow.states.min() >= -FLOW
    assert np.abs(flow.states - np.exp(-flow.times)[:, None]).max() <= FLOW


def test_a_flow_that_ends_early_says_when():
    """x' = x^2 from 1 is 1/(1-t)."""
    with pytest.raises(ArithmeticError, match=r"the flow stopped after t = 0\.9"):
        flows.integrate(lambda t, x: x**2, np.ones(1), [0.0, 0.5, 0.9, 1.1])


def test_a_flow_that_stops_is_a_trouble_and_an_arithmetic_error_with_advice():
    with pytest.raises(
        FlowStopped, match=r"lower beta\), shorten the times or raise rtol"
    ) as caught:
        flows.integrate(lambda t, x: x**2, np.ones(1), [0.0, 1.1])
    assert isinstance(caught.value, ArithmeticError)
    assert isinstance(caught.value, Trouble)


@pytest.mark.parametrize("clock", [-1e6, 1e6, 1e9])
def test_a_flow_does_not_see_when_it_starts(clock):
    times = np.array([0.0, 0.25, 1.0])
    want = flows.ode(LAYERS["softmax"], X0, times)
    got = flows.ode(LAYERS["softmax"], X0, clock + times)
    assert (got.states == want.states).all()
    assert (got.times == clock + times).all()


def test_a_flow_says_how_it_was_computed():
    flow = flows.ode(LAYERS["softmax"], X0, [0.0, 1.0], rtol=1e-7)
    assert (flow.rtol, flow.converged, flow.weights) == (1e-7, True, None)
    exact = flows.layers(LAYERS["softmax"], X0, 3, weights=W)
    assert (exact.rtol, exact.converged, exact.iterations) == (0.0, True, 3)
    assert (exact.weights == W).all()


@pytest.mark.parametrize("rtol", [0.0, -1.0, np.nan, "fine", None])
def test_a_tolerance_that_is_not_positive_is_refused(rtol):
    for run in (flows.ode, flows.sphere_ode, rescaled_flow):
        with pytest.raises(ValueError, match=r"rtol must be a (finite )?number > 0, got"):
            run(LAYERS["softmax"], circle(3), [0.0, 1.0], rtol=rtol)
