"""What a flow of rescaled tokens is called: divergence, frozen tokens, and where flows lead."""

import numpy as np
import pytest
from layers import ID
from scipy.linalg import expm
from tolerances import FLOW, ROUNDING
from value_matrices import (
    IDENTITY,
    LIMITS,
    PARANORMAL,
    SIMPLE,
    TRIANGLE,
    groups,
    same_partition,
    softmax,
)

from attnflow import flows
from attnflow.attention import (
    L2Attention,
    MultiHead,
    SinkhornAttention,
    SoftmaxAttention,
)
from attnflow.flows import Flow
from attnflow.geometry import limit, rescaled_flow, support
from attnflow.geometry.limits import GROWTH, KINDS


def path(times, states):
    return Flow(np.asarray(times, dtype=float), np.asarray(states, dtype=float))


def spiral(rate, times):
    """Tokens apart from each other whose norms are multiplied by exp(rate t)."""
    return np.exp(rate * np.asarray(times))[:, None, None] * TRIANGLE


TIMES = np.linspace(0.0, 10.0, 21)


@pytest.mark.parametrize(
    ("growth", "kind"), [(1.01 * GROWTH, "divergence"), (0.99 * GROWTH, "undecided")]
)
def test_divergence_is_growth_over_the_second_half(growth, kind):
    rate = np.log(growth) / 5.0
    found = limit(IDENTITY, path(TIMES, spiral(rate, TIMES)))
    assert found.kind == kind
    assert abs(found.growth / growth - 1) <= ROUNDING
    assert (found.points == spiral(rate, TIMES)[-1]).all()
    assert found.labels.tolist() == [0, 1, 2]
    assert np.isnan(found.within)


def test_early_growth_is_no_divergence():
    states = spiral(1.0, np.minimum(TIMES, 4.0))
    found = limit(IDENTITY, path(TIMES, states))
    assert found.growth == 1
    assert found.kind == "frozen"


@pytest.mark.parametrize(("step", "kind"), [(0.9e-3, "frozen"), (1.1e-3, "undecided")])
def test_frozen_is_a_small_move_over_the_last_tenth(step, kind):
    size = np.linalg.norm(TRIANGLE, axis=1).max()
    states = np.repeat(TRIANGLE[None], len(TIMES), axis=0)
    states[:10, 0] += [5.0, 0.0]  # what happened long ago does not count
    states[-1, 1] += [0.0, step * size]
    found = limit(IDENTITY, path(TIMES, states))
    start = np.linalg.norm(states[0], axis=1).max()
    assert abs(found.moved - step * size / start) <= ROUNDING
    found = limit(IDENTITY, path(TIMES[10:], states[10:]))
    assert found.kind == kind
    assert abs(found.moved - step) <= ROUNDING


def test_a_state_alone_is_neither_frozen_nor_divergent():
    for z in (TRIANGLE, 1e9 * TRIANGLE):
        found = limit(IDENTITY, z)
        assert found.kind == "undecided"
        assert np.isnan(found.growth)
        assert np.isnan(found.moved)


def test_distances_are_relative_to_where_a_flow_began():
    """Tokens that shrink by a factor of a million have all gone to one point, 0."""
    shrinking = path(TIMES, spiral(np.log(1e-6) / 10, TIMES))
    found = limit(IDENTITY, shrinking)
    assert found.kind == "point"
    assert limit(IDENTITY, shrinking.states[-1]).kind == "undecided"


def test_the_last_state_of_a_flow_is_what_is_grouped():
    rng = np.random.default_rng(11)
    z, truth = groups(TRIANGLE, 4, 1e-7, rng)
    start = z + 0.3 * rng.normal(size=z.shape)
    found = limit(IDENTITY, path([0.0, 1.0], [start, z]))
    assert found.kind == "polytope"
    assert same_partition(found.labels, truth)
    assert limit(IDENTITY, path([0.0, 1.0], [z, start])).kind == "undecided"


START = np.random.default_rng(12).normal(size=(12, 2))


@pytest.mark.parametrize("V", [ID, [[0.9, 0.4], [0.1, 0.3]], [[-0.5, 0.2], [0.0, -1.0]]])
def test_rescaled_flow_carries_the_tokens_back(V):
    layer = softmax(V)
    x = flows.ode(layer, START, [0.0, 1.0]).states[-1]
    z = rescaled_flow(layer, START, [0.0, 1.0], rtol=1e-10).states[-1]
    assert np.abs(z - x @ expm(-layer.V).T).max() <= FLOW


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("d", [2, 3])
def test_the_identity_leads_to_a_polytope(d, seed):
    rng = np.random.default_rng(seed)
    B = rng.normal(size=(d, d))
    layer = SoftmaxAttention(B @ B.T + np.eye(d), np.eye(d), np.eye(d))
    flow = rescaled_flow(layer, rng.normal(size=(14, d)), [0.0, 16.0])
    found = limit(layer, flow)
    assert found.kind in ("polytope", "point")
    # a token leads itself where no other scores higher: these are the positions
    z = flow.states[-1]
    scores = (z @ layer.Q.T) @ z.T
    assert np.abs(z[scores.argmax(axis=1)] - z).max() <= 1e-5


def test_a_simple_eigenvalue_leads_to_hyperplanes():
    flow = rescaled_flow(SIMPLE, START, [0.0, 8.0])
    found = limit(SIMPLE, flow)
    assert found.kind == "hyperplanes"
    assert 1 <= len(found.points) <= 3
    assert limit(SIMPLE, START).kind == "undecided"


def test_a_paranormal_matrix_leads_to_a_polytope_times_a_subspace():
    z0 = np.random.default_rng(13).normal(size=(12, 3))
    flow = rescaled_flow(PARANORMAL, z0, [0.0, 14.0])
    found = limit(PARANORMAL, flow)
    assert found.kind == "polytope x subspace"
    assert len(found.points) < 12


def test_minus_the_identity_leads_away():
    layer = softmax(-ID)
    flow = rescaled_flow(layer, START, np.linspace(0, 15, 31))
    found = limit(layer, flow)
    assert found.kind == "divergence"
    assert abs(found.growth / (flow.radius[-1] / flow.radius[15]) - 1) <= ROUNDING


def test_sinkhorn_attention_freezes():
    layer = SinkhornAttention(ID, ID, ID, eps=0.1)
    apart = np.concatenate([TRIANGLE, -TRIANGLE, [[0.0, 0.0]]])
    flow = rescaled_flow(layer, apart, np.linspace(0, 5, 11))
    found = limit(layer, flow)
    assert found.kind == "frozen"
    assert found.moved <= 1e-6
    assert (found.points == flow.states[-1]).all()


def test_hulls_shrink_where_v_is_the_identity():
    angles = np.linspace(0, 2 * np.pi, 40)
    directions = np.c_[np.cos(angles), np.sin(angles)]
    for kind in (SoftmaxAttention, L2Attention, SinkhornAttention):
        flow = rescaled_flow(kind(ID, ID, ID), START, np.linspace(0, 4, 17))
        assert np.diff(support(flow.states, directions), axis=0).max() <= FLOW


def test_every_kind_is_tested_here():
    assert set(KINDS) == {*LIMITS, "divergence", "frozen", "undecided"}


@pytest.mark.parametrize(
    ("layer", "z", "message"),
    [
        (softmax(np.diag([1.0, 0.0])), START, "V must be invertible"),
        (softmax([[1.0, 2.0], [2.0, 4.0]]), START, "V must be invertible"),
        (softmax([[0.0, 1.0], [0.0, 0.0]]), START, "V must be invertible"),
        (MultiHead([softmax(ID), softmax(-ID)]), START, "V must be invertible"),
        (SoftmaxAttention(ID, ID, np.ones((3, 2))), START, r"V must be square.*got shape \(3, 2\)"),
        (SoftmaxAttention(ID, ID, [[1.0, 2.0]]), START, r"V must be square.*got shape \(1, 2\)"),
        (IDENTITY, START[:1], "z must hold at least two tokens, got 1"),
        (IDENTITY, np.zeros((0, 2)), "z must hold at least one token"),
        (IDENTITY, [[0.0, np.nan], [1.0, 1.0]], r"z must be finite, got nan at index \(0, 1\)"),
        (IDENTITY, [[0.0, np.inf], [1.0, 1.0]], "z must be finite, got inf"),
        (IDENTITY, np.ones((3, 3)), "V must be square, 3 rows and columns"),
        (IDENTITY, [1.0, 2.0, 3.0], "V must be square, 1 rows and columns"),
        (IDENTITY, np.ones((2, 3, 2)), r"z must have 2 axes, got shape \(2, 3, 2\)"),
        (IDENTITY, "tokens", "z must be an array of real numbers, got 'tokens'"),
        (IDENTITY, None, "z must be an array of real numbers, got None"),
    ],
)
def test_a_limit_refuses_what_it_cannot_judge(layer, z, message):
    with pytest.raises(ValueError, match=message):
        limit(layer, z)
    if not isinstance(z, str | None) and np.ndim(z) == 2 and len(z):
        with pytest.raises(ValueError, match=message):
            limit(layer, path([0.0, 1.0], [z, z]))


def test_twins_that_diverge_diverge():
    layer = softmax(-ID)
    z0 = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    found = limit(layer, rescaled_flow(layer, z0, np.linspace(0, 15, 31)))
    assert found.growth > GROWTH
    assert found.kind == "divergence"


@pytest.mark.parametrize("times", [[0.0, 15.0], [0.0, 14.0, 15.0], [0.0, 5.0, 15.0]])
def test_divergence_is_seen_at_few_times(times):
    layer = softmax(-ID)
    assert limit(layer, rescaled_flow(layer, START, times)).kind == "divergence"


def test_a_long_divergence_is_a_divergence():
    layer = softmax(-ID)
    flow = rescaled_flow(layer, START, np.linspace(0, 400, 41))
    assert np.isfinite(flow.states).all()
    assert limit(layer, flow).kind == "divergence"
