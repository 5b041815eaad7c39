"""Layers and flows on the sphere: the projected velocity, norms, symmetries, masks, what is refused."""

import numpy as np
import pytest
from layers import ID, LAYERS, NOT_TOKENS, W
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from spheres import ball, circle
from tolerances import EXPONENTIAL, FLOW, HALVING, LONG_FLOW, ROUNDING

from attnflow import flows
from attnflow.attention import (
    L2Attention,
    MultiHead,
    SinkhornAttention,
    SoftmaxAttention,
    UnnormalisedAttention,
)

Q3, K3, V3 = np.random.default_rng(5).normal(size=(3, 3, 3))


SPHERE = {
    "softmax": lambda Q, K, V: SoftmaxAttention(Q, K, V),
    "l2": lambda Q, K, V: L2Attention(Q, K, V),
    "unnormalised": lambda Q, K, V: UnnormalisedAttention(0.5 * Q, K, V),
    "sinkhorn": lambda Q, K, V: SinkhornAttention(Q, Q, V),
    "causal softmax": lambda Q, K, V: SoftmaxAttention(Q, K, V, causal=True),
    "two heads": lambda Q, K, V: MultiHead(
        [SoftmaxAttention(Q, K, V), L2Attention(K, Q, V @ V)], [np.eye(3), -0.5 * np.eye(3)]
    ),
}


every_sphere = pytest.mark.parametrize("name", SPHERE)


def projected(layer, x, w=None):
    """The velocity less its part along the token, token by token."""
    v = layer.velocity(x, w)
    return np.stack([vi - (vi @ xi) * xi for xi, vi in zip(x, v, strict=True)])


@every_sphere
def test_sphere_layers_are_euler_steps_divided_by_their_norms(name):
    layer = SPHERE[name](Q3, K3, V3)
    flow = flows.sphere_layers(layer, ball(5, 3), depth=4, time=2.0, weights=W)
    assert np.abs(flow.times - [0.0, 0.5, 1.0, 1.5, 2.0]).max() <= ROUNDING
    assert np.abs(flow.states[0] - ball(5, 3)).max() <= ROUNDING
    assert flow.iterations == 4
    for before, after in zip(flow.states[:-1], flow.states[1:], strict=True):
        for i, moved in enumerate(before + 0.5 * layer.velocity(before, W)):
            assert np.abs(after[i] - moved / np.sqrt(moved @ moved)).max() <= ROUNDING


@every_sphere
def test_the_flow_on_the_sphere_follows_the_projected_velocity(name):
    layer, x0 = SPHERE[name](Q3, K3, V3), ball(5, 3)
    flow = flows.sphere_ode(layer, x0, [0.0, 0.3, 1.5], weights=W)
    want = solve_ivp(
        lambda t, y: projected(layer, y.reshape(5, 3), W).ravel(),
        (0, 1.5),
        x0.ravel(),
        t_eval=[0.0, 0.3, 1.5],
        method="RK45",
        rtol=1e-11,
        atol=1e-12,
    ).y.T.reshape(3, 5, 3)
    assert flow.times.tolist() == [0.0, 0.3, 1.5]
    assert np.abs(flow.states - want).max() <= FLOW


@every_sphere
def test_sphere_layers_approach_the_flow_on_the_sphere_at_first_order(name):
    layer, x0 = SPHERE[name](Q3, K3, V3), ball(5, 3)
    end = flows.sphere_ode(layer, x0, [0.0, 1.0], weights=W).states[-1]
    errors = [
        np.abs(flows.sphere_layers(layer, x0, depth, weights=W).states[-1] - end).max()
        for depth in (80, 160, 320)
    ]
    ratios = np.array(errors[:-1]) / np.array(errors[1:])
    assert np.abs(ratios - 2).max() <= HALVING


@pytest.mark.parametrize("kind", [SoftmaxAttention, L2Attention, SinkhornAttention])
@pytest.mark.parametrize("causal", [False, True])
def test_one_token_on_the_sphere_is_the_direction_of_the_matrix_exponential(kind, causal):
    """x' = V x - <V x, x> x has the solution e^{tV} x0 / |e^{tV} x0|."""
    times = [0.0, 0.5, 2.0, 10.0]
    flow = flows.sphere_ode(kind(Q3, Q3, V3, causal), ball(1, 3), times)
    for t, x in zip(times, flow.states, strict=True):
        moved = expm(t * V3) @ ball(1, 3)[0]
        assert np.abs(x[0] - moved / np.linalg.norm(moved)).max() <= FLOW


@pytest.mark.parametrize("name", ["softmax", "l2", "causal softmax", "two heads"])
def test_norms_are_one_to_rounding_after_a_long_time(name):
    layer, x0 = SPHERE[name](Q3, K3, V3), ball(6, 3)
    for flow in (
        flows.sphere_ode(layer, x0, [0.0, 1.0, 100.0], rtol=1e-4),
        flows.sphere_layers(layer, x0, 300, time=300.0),
    ):
        assert np.abs(np.linalg.norm(flow.states, axis=2) - 1).max() <= ROUNDING


@every_sphere
def test_the_flow_turns_with_the_frame(name):
    R = expm(np.array([[0.0, 1.0, -0.4], [-1.0, 0.0, 2.0], [0.4, -2.0, 0.0]]))
    x0, times = ball(5, 3), [0.0, 1.0]
    straight = flows.sphere_ode(SPHERE[name](Q3, K3, V3), x0, times).states
    turned = SPHERE[name](Q3 @ R.T, K3 @ R.T, R @ V3 @ R.T)
    if name == "two heads":  # V @ V and W = identity turn by themselves
        assert np.abs(turned.heads[1].V - R @ V3 @ V3 @ R.T).max() <= EXPONENTIAL
    assert np.abs(flows.sphere_ode(turned, x0 @ R.T, times).states - straight @ R.T).max() <= FLOW


@pytest.mark.parametrize("name", ["softmax", "l2", "unnormalised", "sinkhorn", "two heads"])
def test_the_order_of_tokens_does_not_matter_without_a_mask(name):
    layer, x0, order = SPHERE[name](Q3, K3, V3), ball(5, 3), [3, 1, 4, 0, 2]
    for run in (flows.ode, flows.sphere_ode):
        straight = run(layer, x0, [0.0, 1.0], weights=W).states
        mixed = run(layer, x0[order], [0.0, 1.0], weights=W[order]).states
        assert np.abs(mixed - straight[:, order]).max() <= FLOW


def test_two_equal_tokens_are_one_token_of_twice_the_mass():
    layer, x0 = SPHERE["softmax"](Q3, K3, V3), ball(4, 3)
    twice = flows.sphere_ode(layer, x0[[0, 0, 1, 2, 3]], [0.0, 2.0]).states[-1]
    once = flows.sphere_ode(layer, x0, [0.0, 2.0], weights=[0.4, 0.2, 0.2, 0.2]).states[-1]
    assert np.abs(twice[1:] - once).max() <= FLOW
    assert np.abs(twice[0] - twice[1]).max() <= FLOW


@pytest.mark.parametrize("kind", [SoftmaxAttention, L2Attention, UnnormalisedAttention])
def test_the_first_token_stays_under_a_causal_mask(kind):
    layer, x0 = kind(Q3, K3, np.eye(3), causal=True), ball(5, 3)
    for flow in (
        flows.sphere_ode(layer, x0, [0.0, 1.0, 10.0]),
        flows.sphere_layers(layer, x0, 20, time=10.0),
    ):
        assert np.abs(flow.states[:, 0] - x0[0]).max() <= ROUNDING


def test_a_causal_flow_on_the_sphere_does_not_depend_on_the_future():
    layer, x0 = SPHERE["causal softmax"](Q3, K3, V3), ball(6, 3)
    whole = flows.sphere_ode(layer, x0, [0.0, 3.0]).states[:, :4]
    assert np.abs(whole - flows.sphere_ode(layer, x0[:4], [0.0, 3.0]).states).max() <= FLOW


def test_under_a_causal_mask_all_tokens_join_the_first():
    layer, x0 = SoftmaxAttention(np.eye(3), np.eye(3), np.eye(3), causal=True), ball(6, 3)
    flow = flows.sphere_ode(layer, x0, [0.0, 400.0])
    assert np.abs(flow.states[-1] - x0[0]).max() <= LONG_FLOW


def test_tokens_that_repel_each_other_end_opposite_and_stay():
    """Off the sphere their radial velocity would drive them away from it, like e^{150} by then."""
    x0, layer = np.array([[1.0, 0.0], [0.6, 0.8]]), SoftmaxAttention(ID, ID, -ID)
    across = (x0[0] - x0[1]) / np.linalg.norm(x0[0] - x0[1])
    states = flows.sphere_ode(layer, x0, [0.0, 100.0, 150.0]).states
    assert np.abs(states[1:] - [across, -across]).max() <= LONG_FLOW


def test_a_layer_that_sends_a_token_to_zero_is_refused():
    layer = SoftmaxAttention(ID, ID, -ID)
    with pytest.raises(
        ValueError, match="tokens must have a direction on the sphere, got a zero vector"
    ):
        flows.sphere_layers(layer, [[1.0, 0.0]], depth=1)


@pytest.mark.parametrize(
    ("x0", "message"),
    [
        (
            [[1.0, 0.0], [0.0, 2.0]],
            "x0 must lie on the unit sphere, got a token of norm 2 at row 1",
        ),
        (
            [[0.0, 0.0], [0.0, 1.0]],
            "x0 must lie on the unit sphere, got a token of norm 0 at row 0",
        ),
        ([[1.0], [-1.0]], r"x0 must have at least two columns, got shape \(2, 1\)"),
        ([1.0, 0.0], r"x0 must have at least two columns, got shape \(2, 1\)"),
        *NOT_TOKENS,
        ([[0.6, 0.8, 0.0]], "must have 2 columns, got shape"),
    ],
)
def test_the_sphere_refuses_what_does_not_lie_on_it(x0, message):
    with pytest.raises(ValueError, match=message):
        flows.sphere_layers(LAYERS["softmax"], x0, 3)
    with pytest.raises(ValueError, match=message):
        flows.sphere_ode(LAYERS["softmax"], x0, [0.0, 1.0])


@pytest.mark.parametrize("p", [1, 3])
def test_a_layer_whose_velocities_live_elsewhere_cannot_move_tokens_on_the_sphere(p):
    layer = SoftmaxAttention(ID, ID, np.ones((p, 2)))
    with pytest.raises(ValueError, match="velocities must have the tokens' shape"):
        flows.sphere_layers(layer, circle(4), 2)
    with pytest.raises(ValueError, match="velocities must have the tokens' shape"):
        flows.sphere_ode(layer, circle(4), [0.0, 1.0])


def test_sphere_functions_refuse_times_depths_and_weights_as_the_others_do():
    with pytest.raises(ValueError, match="times must be at least two increasing numbers, got"):
        flows.sphere_ode(LAYERS["softmax"], circle(5), [1.0, 0.0])
    with pytest.raises(ValueError, match="depth must be a whole number >= 1, got 0"):
        flows.sphere_layers(LAYERS["softmax"], circle(5), 0)
    with pytest.raises(ValueError, match=r"time must be a finite number > 0, got -1"):
        flows.sphere_layers(LAYERS["softmax"], circle(5), 3, time=-1.0)
    for w in ([0.5] * 5, [1.0], [1.2, -0.2, 0.0, 0.0, 0.0]):
        with pytest.raises(ValueError, match="weights must"):
            flows.sphere_layers(LAYERS["softmax"], circle(5), 3, weights=w)
        with pytest.raises(ValueError, match="weights must"):
            flows.sphere_ode(LAYERS["softmax"], circle(5), [0.0, 1.0], weights=w)


@pytest.mark.parametrize("size", [1e-320, 1e-300, 1e-160, 1e-141, 1e141, 1e160, 1e300, 1e308])
def test_tokens_have_a_direction_whatever_their_norm(size):
    x = np.array([[1.0, 1.0], [0.6, -0.8], [3e-5, 0.0]])
    other = flows.unit_rows(np.array([size, size, 1.0])[:, None] * x)
    near = 1e-3 if size < 1e-310 else ROUNDING  # a subnormal number has few digits
    assert np.abs(other - x / np.linalg.norm(x, axis=1, keepdims=True)).max() <= near


def test_a_zero_among_huge_tokens_is_refused():
    with pytest.raises(ValueError, match="got a zero vector"):
        flows.unit_rows(np.array([[1e308, 1e308], [0.0, 0.0]]))


@pytest.mark.parametrize("run", [flows.layers, flows.sphere_layers])
def test_more_layers_than_memory_holds_are_refused_at_once(run):
    with pytest.raises(ValueError, match="depth must be at most 25000000, got 10"):
        run(SoftmaxAttention(np.eye(2), np.eye(2), np.eye(2)), np.eye(2), 10**18)
