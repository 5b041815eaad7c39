"""Rescaled tokens: against the tokens themselves, late times, overflow, and what is refused."""

import numpy as np
import pytest
from layers import ID, LAYERS, X0, K, Q, W
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from scipy.spatial.distance import pdist
from tolerances import FLOW, LATE

from attnflow import flows
from attnflow.attention import (
    L2Attention,
    MultiHead,
    SinkhornAttention,
    SoftmaxAttention,
    UnnormalisedAttention,
)
from attnflow.geometry import rescaled, rescaled_flow

TILTED = np.array([[0.6, 0.8], [-0.3, 0.2]])

TALL = np.array([[1.0, 0.5], [0.0, 0.3]])

SHEARED = np.array([[0.1, -0.5], [0.4, 0.3]])

RESCALED = {
    **LAYERS,
    "softmax, growing": SoftmaxAttention(Q, K, TILTED),
    "causal softmax, growing": SoftmaxAttention(Q, K, TILTED, causal=True),
    "l2, growing": L2Attention(Q, K, TILTED),
    "sinkhorn, growing": SinkhornAttention(Q, Q, TILTED),
    "unnormalised, growing": UnnormalisedAttention(0.3 * Q, K, TILTED),
    "heads whose V do not commute": MultiHead(
        [SoftmaxAttention(Q, K, TILTED), L2Attention(K, Q, SHEARED)], [ID, SHEARED]
    ),
    "heads of one dimension": MultiHead(
        [SoftmaxAttention(Q, K, TILTED[:1]), SoftmaxAttention(K, Q, SHEARED[1:])],
        [[[1.0], [0.5]], [[0.3], [-1.0]]],
    ),
    "one head": MultiHead([SoftmaxAttention(Q, K, TILTED)], [SHEARED]),
}


def value(layer):
    return sum(w @ head.V for w, head in zip(layer.W, layer.heads, strict=True))


@pytest.mark.parametrize("name", RESCALED)
@pytest.mark.parametrize("weights", [None, W])
def test_rescaled_tokens_are_the_tokens_seen_through_the_inverse_exponential(name, weights):
    layer, times = RESCALED[name], np.array([0.0, 0.4, 1.5])
    x = flows.ode(layer, X0, times, weights=weights).states
    z = rescaled_flow(layer, X0, times, weights=weights, rtol=1e-10)
    for k, t in enumerate(times):
        assert np.abs(z.states[k] - x[k] @ expm(-t * value(layer)).T).max() <= FLOW


@pytest.mark.parametrize(
    "name", ["softmax, growing", "sinkhorn, growing", "heads whose V do not commute"]
)
def test_a_rescaled_flow_in_two_pieces_is_the_flow_in_one(name):
    """The second piece starts at its own time, with the rescaled tokens of that time."""
    layer = RESCALED[name]
    once = rescaled_flow(layer, X0, [0.0, 0.7, 2.0], rtol=1e-10).states
    again = rescaled_flow(layer, once[1], [0.7, 2.0], rtol=1e-10).states
    assert np.abs(again - once[1:]).max() <= FLOW


@pytest.mark.parametrize("a", [1.0, 2.5])
@pytest.mark.parametrize("kind", [SoftmaxAttention, L2Attention, SinkhornAttention])
def test_rescaled_tokens_stay_finite_where_tokens_would_overflow(kind, a):
    """At t = 100 tokens have norm 1e43 or 1e108, and scores have twice as many digits."""
    layer = kind(ID, ID, a * ID)
    flow = rescaled_flow(layer, X0, [0.0, 1.0, 10.0, 100.0, 130.0])
    assert np.isfinite(flow.states).all()
    assert flow.radius.max() <= flow.radius[0] * (1 + FLOW)


def test_rescaled_tokens_of_a_matrix_with_several_exponents_stay_finite():
    for layer in (
        SoftmaxAttention(ID, ID, TALL),
        SoftmaxAttention(ID, ID, TALL, causal=True),
        MultiHead([SoftmaxAttention(ID, ID, 0.5 * ID), L2Attention(ID, ID, 0.5 * ID)]),
    ):
        assert np.isfinite(rescaled_flow(layer, X0, [0.0, 20.0, 100.0, 150.0]).states).all()


def test_the_hull_of_rescaled_tokens_shrinks_where_v_is_the_identity():
    """z_i' = sum_j P_ij z_j - z_i points into the hull: no support function grows."""
    flow = rescaled_flow(SoftmaxAttention(Q, K, ID), X0, np.linspace(0, 10, 21), rtol=1e-10)
    angles = np.linspace(0, 2 * np.pi, 60)
    directions = np.stack([np.cos(angles), np.sin(angles)])
    support = (flow.states @ directions).max(axis=1)  # (times, directions)
    assert np.diff(support, axis=0).max() <= FLOW
    assert np.diff(flow.diameter).max() <= FLOW


def test_rescaled_tokens_on_the_line_end_in_the_two_outermost():
    """With V = Q = K = 1 every token follows the outermost of its sign."""
    one = np.eye(1)
    z0 = np.array([[-1.0], [-0.4], [0.5], [1.2]])
    end = rescaled_flow(SoftmaxAttention(one, one, one), z0, [0.0, 60.0]).states[-1, :, 0]
    assert abs(end[0] - end[1]) <= LATE
    assert abs(end[2] - end[3]) <= LATE
    assert end[0] < -0.5 < 0.5 < end[3]


def test_the_mean_of_rescaled_tokens_is_conserved_by_sinkhorn_attention():
    layer = SinkhornAttention(Q, K, TILTED)
    flow = rescaled_flow(layer, X0, [0.0, 1.0, 2.0], weights=W, rtol=1e-10)
    assert np.abs(W @ flow.states - W @ X0).max() <= FLOW


def test_rescaled_sinkhorn_tokens_freeze():
    """The matrix tends to the identity, so that z' = V(Pz - z) tends to nothing."""
    z0 = np.array([[2.0, 0.0], [0.0, 2.0], [-2.0, 0.5], [-0.5, -2.0]])
    states = rescaled_flow(SinkhornAttention(ID, ID, ID), z0, [0.0, 20.0, 100.0]).states
    assert np.abs(states[2] - states[1]).max() <= FLOW
    assert pdist(states[2]).min() > 1


@pytest.mark.parametrize(
    ("V", "Q", "z0"),
    [
        # e^{tV} z turns once in 200 units of time, and <Q., Q.> sees its first coordinate best
        ([[1.0, 0.03], [-0.03, 1.0]], np.diag([1.0, 0.1]), [[2.3, 2.7], [0.4, 3.8], [-2.1, 1.2]]),
        # the first coordinate outgrows the second by e^{t/20}: token 2 follows token 1 from t = 67
        (np.diag([1.0, 0.95]), ID, [[0.1, 1.0], [0.05, -1.0]]),
    ],
    ids=["V turns", "V has two exponents"],
)
def test_leaders_may_change_late(V, Q, z0):
    V, z0 = np.array(V), np.array(z0)

    def field(t, y):
        z = y.reshape(z0.shape)
        at = z @ expm(t * V).T @ Q.T
        scores = at @ at.T
        P = np.exp(scores - scores.max(axis=1, keepdims=True))
        return ((P @ z / P.sum(axis=1, keepdims=True) - z) @ V.T).ravel()

    times = [0.0, 20.0, 40.0, 80.0]
    want = solve_ivp(field, (0, 80), z0.ravel(), t_eval=times, rtol=1e-8, atol=1e-9).y.T
    got = rescaled_flow(SoftmaxAttention(Q, Q, V), z0, times).states
    assert np.abs(got.reshape(4, -1) - want).max() <= LATE


@pytest.mark.parametrize("first", [0.0, 29.9, 30.0, 45.0])
def test_a_late_rescaled_flow_has_a_state_for_every_time(first):
    """Around lambda t = 30, from where tokens of one cluster differ by rounding."""
    z0, layer = np.array([[1.0, 0.3], [-0.7, 0.5], [0.2, -1.0]]), SoftmaxAttention(ID, ID, TALL)
    times = np.array([first, *(t for t in (30.0, 30.5, 60.0) if t > first)])
    flow = rescaled_flow(layer, z0, times)
    assert flow.times.tolist() == times.tolist()
    assert flow.states.shape == (len(times), 3, 2)
    assert (flow.states[0] == z0).all()
    for k, t in enumerate(times[1:], 1):
        alone = rescaled_flow(layer, z0, [first, t])
        assert (alone.states[0] == z0).all()
        assert np.abs(alone.states[-1] - flow.states[k]).max() <= LATE


def test_a_rescaled_flow_that_overflows_says_where_it_stopped():
    layer = SoftmaxAttention(ID, ID, 50 * ID)
    with pytest.raises(ArithmeticError, match="the flow stopped after t = "):
        rescaled_flow(layer, X0, [0.0, 1.0, 100.0])


@pytest.mark.parametrize(
    ("layer", "z0"),
    [
        (SoftmaxAttention(ID, ID, np.ones((1, 2))), X0),
        (SoftmaxAttention(ID, ID, np.ones((3, 2))), X0),
        (MultiHead([SoftmaxAttention(ID, ID, ID)], [np.ones((3, 2))]), X0),
        (SoftmaxAttention(ID, ID, ID), np.ones((4, 3))),
    ],
)
def test_rescaled_tokens_need_a_square_matrix_v(layer, z0):
    with pytest.raises(ValueError, match=r"V must be square, .* got shape \(\d, \d\)"):
        rescaled_flow(layer, z0, [0.0, 1.0])


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([-1.0, 1.0], "times must start at 0 or later, got -1"),
        ([1.0, 0.5], "times must be at least two increasing numbers"),
        ([0.0], "times must be at least two increasing numbers"),
        ([0.0, np.inf], "times must be finite, got inf"),
    ],
)
def test_rescaled_flows_refuse_times_before_zero_or_out_of_order(times, message):
    with pytest.raises(ValueError, match=message):
        rescaled_flow(LAYERS["softmax"], X0, times)


@pytest.mark.parametrize(
    ("z0", "message"),
    [
        ([[np.nan, 0.0]], "z0 must be finite, got nan"),
        (np.empty((0, 2)), "z0 must hold at least one token"),
        ("tokens", "z0 must be an array of real numbers"),
    ],
)
def test_rescaled_flows_refuse_what_are_not_tokens(z0, message):
    with pytest.raises(ValueError, match=message):
        rescaled_flow(LAYERS["softmax"], z0, [0.0, 1.0])


def test_where_v_is_singular_that_coordinate_stays_as_it_was() -> None:
    """z' = V(Pz - z) has no second coordinate; groups are looked for from t = 20 on."""
    z0 = np.array([[1.0, 0.3], [-0.7, 0.5], [0.2, -1.0]])
    flow = rescaled_flow(SoftmaxAttention(ID, ID, np.diag([1.0, 0.0])), z0, [0.0, 25.0])
    assert (flow.states[-1, :, 1] == z0[:, 1]).all()
    assert abs(flow.states[-1, 0, 0] - flow.states[-1, 2, 0]) <= LATE


def test_looks_are_nearer_where_a_coordinate_shrinks() -> None:
    """Between two looks differences fall by e^-8, and they fall by the distance of the exponents."""
    looks = rescaled._looks(np.diag([1.0, -0.6]), np.array([0.0, 34.0]), one_head=True)
    assert np.abs(looks - [20.0, 25.0, 30.0]).max() <= 1e-12


def test_tied_tokens_keep_how_attention_is_divided_among_them() -> None:
    """After a look at tokens 1e-12 apart, moving one of them changes what they get, not how."""
    layer = SoftmaxAttention(ID, ID, ID)
    tied = np.array([[1.0, 0.0], [1.0, 1e-12], [-1.0, 0.5]])
    moved = np.array([[1.0, 0.0], [1.5, 0.3], [-1.0, 0.5]])
    head = rescaled._Grouped(layer, 3, [0.25, 0.5, 0.25])
    head.look(tied)
    assert head.groups.tolist() == [0, 0, 1]
    P, free = head.matrix(moved), layer.matrix(moved, [0.25, 0.5, 0.25])
    assert np.abs(P[:, 1] / P[:, 0] - 2).max() <= 1e-11
    assert np.abs(P[:, 2] - free[:, 2]).max() <= 1e-15
