"""Every kind of attention is its formula; properties of all kinds, causal layers, several heads."""

import numpy as np
import ot
import pytest
from clouds import drawn_masses
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from kinds_of_attention import KINDS, balanced, bridged, close, kinds
from tolerances import (
    DEFAULT_TOL,
    EXPONENTIAL,
    ROUNDING,
    SOLVE_POTENTIALS,
    SOLVED,
)

from attnflow.attention import (
    L2Attention,
    MultiHead,
    SinkhornAttention,
    SoftmaxAttention,
    UnnormalisedAttention,
)

NORMALISED = [name for name in KINDS if name != "unnormalised"]


COORDINATE = st.floats(-1.5, 1.5, allow_subnormal=False)


ENTRY = st.floats(-1, 1, allow_subnormal=False)


@st.composite
def cases(draw, minimum=0, max_tokens=6):
    """Matrices Q, K, V, tokens x and weights w."""
    d, k, p = draw(st.integers(1, 2)), draw(st.integers(1, 2)), draw(st.integers(1, 3))
    n = draw(st.integers(1, max_tokens))
    Q, K = (draw(arrays(np.float64, (k, d), elements=ENTRY)) for _ in "QK")
    V = draw(arrays(np.float64, (p, d), elements=ENTRY))
    x = draw(arrays(np.float64, (n, d), elements=COORDINATE))
    return (Q, K, V), x, draw(drawn_masses(n, minimum))


# each kind is its formula


@settings(max_examples=60, deadline=None, derandomize=True)
@given(cases())
def test_softmax_unnormalised_and_l2_are_their_formulas(case):
    (Q, K, V), x, w = case
    q, k = x @ Q.T, x @ K.T
    exponentials = w * np.exp(q @ k.T)
    gaussians = w * np.exp(-((q[:, None, :] - k[None, :, :]) ** 2).sum(-1))
    assert close(UnnormalisedAttention(Q, K, V).matrix(x, w), exponentials, EXPONENTIAL)
    softmax = exponentials / exponentials.sum(1, keepdims=True)
    assert close(SoftmaxAttention(Q, K, V).matrix(x, w), softmax, EXPONENTIAL)
    l2 = gaussians / gaussians.sum(1, keepdims=True)
    assert close(L2Attention(Q, K, V).matrix(x, w), l2, EXPONENTIAL)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(case=cases(minimum=1), kind=st.sampled_from([balanced, bridged]))
def test_sinkhorn_balances_rows_and_columns_by_diagonal_scalings(case, kind):
    """Both marginals, and log P - score/eps a sum f_i + g_j: only one matrix has all three."""
    (Q, K, V), x, w = case
    layer = kind(Q, K, V)
    P = layer.matrix(x, w)
    assert np.abs(P.sum(1) - 1).max() <= SOLVED
    assert np.abs(w @ P - w).max() <= SOLVED
    rest = np.log(P) - (x @ layer.Q.T) @ (x @ layer.K.T).T / 0.8
    corner = rest - rest[:1] - rest[:, :1] + rest[0, 0]
    assert np.abs(corner).max() <= SOLVED


@pytest.mark.parametrize("symmetric", [False, True])
def test_sinkhorn_is_the_plan_that_pot_finds(symmetric):
    rng = np.random.default_rng(0)
    Q, K, x = rng.normal(size=(2, 2)), rng.normal(size=(2, 2)), rng.normal(size=(8, 2))
    K = Q if symmetric else K
    w = rng.dirichlet(np.full(8, 4.0))
    scores = (x @ Q.T) @ (x @ K.T).T
    plan = ot.sinkhorn(
        w, w, -scores, reg=1.5, method="sinkhorn_log", stopThr=1e-13, numItermax=100_000
    )
    layer = SinkhornAttention(Q, K, np.eye(2), eps=1.5, tol=SOLVE_POTENTIALS)
    assert close(layer.matrix(x, w), plan / w[:, None], SOLVED)


def test_sinkhorn_with_symmetric_indefinite_scores_balances_too():
    x = np.random.default_rng(0).normal(size=(7, 2))
    A = np.array([[1.0, 0.5], [0.5, -1.0]])
    P = SinkhornAttention(np.eye(2), A, np.eye(2)).matrix(x)
    assert np.abs(P.sum(0) - 1).max() <= 7 * DEFAULT_TOL
    rest = np.log(P) - x @ A @ x.T
    assert np.abs(rest - rest[:1] - rest[:, :1] + rest[0, 0]).max() <= EXPONENTIAL


@pytest.mark.parametrize("eps", [1e-3, 1e-2, 0.1, 10.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_sinkhorn_has_both_marginals_at_every_temperature(eps, seed):
    rng = np.random.default_rng(seed)
    Q, K, x = rng.normal(size=(2, 2)), rng.normal(size=(2, 2)), rng.normal(size=(10, 2))
    for layer in (SinkhornAttention(Q, K, K, eps=eps), SinkhornAttention(Q, Q, K, eps=eps)):
        P = layer.matrix(x)
        assert np.abs(P.sum(1) - 1).max() <= ROUNDING
        assert np.abs(P.sum(0) - 1).sum() <= 10 * DEFAULT_TOL


@kinds
def test_velocity_is_the_matrix_applied_to_the_values(kind):
    rng = np.random.default_rng(0)
    Q, K, V = rng.normal(size=(2, 3)), rng.normal(size=(2, 3)), rng.normal(size=(4, 3))
    x, w = rng.normal(size=(5, 3)), rng.dirichlet(np.ones(5))
    layer = KINDS[kind](Q, K, V)
    assert close(layer.velocity(x, w), layer.matrix(x, w) @ x @ V.T, EXPONENTIAL)


# properties of every kind


@kinds
@settings(max_examples=30, deadline=None, derandomize=True)
@given(case=cases())
def test_the_field_at_the_tokens_is_their_velocity(kind, case):
    matrices, x, w = case
    layer = KINDS[kind](*matrices)
    assert close(layer.field(x, x, w), layer.velocity(x, w))


@kinds
@settings(max_examples=30, deadline=None, derandomize=True)
@given(case=cases(), data=st.data())
def test_a_permutation_of_the_tokens_permutes_the_velocities(kind, case, data):
    matrices, x, w = case
    p = np.array(data.draw(st.permutations(range(len(x)))))
    layer = KINDS[kind](*matrices)
    assert close(layer.velocity(x[p], w[p]), layer.velocity(x, w)[p])
    assert close(layer.matrix(x[p], w[p]), layer.matrix(x, w)[np.ix_(p, p)])


@kinds
@settings(max_examples=30, deadline=None, derandomize=True)
@given(case=cases(max_tokens=4), data=st.data())
def test_repeating_a_token_is_the_same_as_weighting_it(kind, case, data):
    matrices, x, _ = case
    times = np.array(data.draw(st.lists(st.integers(1, 3), min_size=len(x), max_size=len(x))))
    owner = np.repeat(np.arange(len(x)), times)
    layer = KINDS[kind](*matrices)
    weighted = layer.velocity(x, times / times.sum())
    assert close(layer.velocity(x[owner]), weighted[owner])


@kinds
@settings(max_examples=30, deadline=None, derandomize=True)
@given(case=cases())
def test_a_token_without_mass_changes_nothing_and_has_a_finite_velocity(kind, case):
    matrices, x, w = case
    live = w > 0
    layer = KINDS[kind](*matrices)
    whole = layer.velocity(x, w)
    assert close(whole[live], layer.velocity(x[live], w[live]))
    assert close(whole, layer.field(x, x[live], w[live]))
    assert not layer.matrix(x, w)[:, ~live].any()


@pytest.mark.parametrize("kind", NORMALISED)
@settings(max_examples=30, deadline=None, derandomize=True)
@given(case=cases())
def test_rows_of_normalised_kinds_are_probabilities(kind, case):
    matrices, x, w = case
    P = KINDS[kind](*matrices).matrix(x, w)
    assert (P >= 0).all()
    assert np.abs(P.sum(1) - 1).max() <= SOLVED


@settings(max_examples=40, deadline=None, derandomize=True)
@given(case=cases(), shift=st.floats(-20, 20, allow_subnormal=False))
def test_l2_and_sinkhorn_attention_with_equal_q_and_k_do_not_notice_a_translation(case, shift):
    (Q, _, V), x, w = case
    for layer in (L2Attention(Q, Q, V), bridged(Q, Q, V)):
        assert close(layer.matrix(x + shift, w), layer.matrix(x, w))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(case=cases(), shift=st.floats(-3, 3, allow_subnormal=False))
def test_sinkhorn_attention_does_not_notice_a_translation_for_any_matrices(case, shift):
    """Translating tokens adds row and column constants to the scores."""
    matrices, x, w = case
    layer = balanced(*matrices)
    assert close(layer.matrix(x + shift, w), layer.matrix(x, w))


@kinds
@pytest.mark.parametrize("causal", [False, True])
def test_one_token_sees_only_itself(kind, causal):
    Q, V, x = np.array([[0.5, 1.0]]), np.array([[1.0, 2.0], [0.0, -1.0]]), np.array([[0.3, -0.7]])
    layer = KINDS[kind](Q, Q, V, causal)
    factor = np.exp((x @ Q.T) ** 2) if kind == "unnormalised" else np.ones((1, 1))
    assert close(layer.matrix(x), factor, EXPONENTIAL)
    assert close(layer.velocity(x), factor * (x @ V.T), EXPONENTIAL)


@pytest.mark.parametrize("kind", NORMALISED)
def test_equal_tokens_attend_to_each_other_by_weight(kind):
    one = np.eye(2)
    w = np.array([0.1, 0.2, 0.7])
    P = KINDS[kind](one, 0.5 * one, one).matrix(np.ones((3, 2)), w)
    assert close(P, np.tile(w, (3, 1)), SOLVED)


# causal layers


@kinds
@settings(max_examples=20, deadline=None, derandomize=True)
@given(case=cases(minimum=1, max_tokens=5))
def test_a_causal_row_is_the_last_row_of_the_layer_on_the_prefix(kind, case):
    matrices, x, w = case
    P = KINDS[kind](*matrices, causal=True).matrix(x, w)
    full = KINDS[kind](*matrices)
    for i in range(1, len(x) + 1):
        head = w[:i] / w[:i].sum()
        assert close(P[i - 1, :i], full.matrix(x[:i], head)[-1])
        assert not P[i - 1, i:].any()


@kinds
@settings(max_examples=20, deadline=None, derandomize=True)
@given(case=cases(minimum=1, max_tokens=5), data=st.data())
def test_a_causal_layer_does_not_depend_on_the_future(kind, case, data):
    matrices, x, w = case
    keep = data.draw(st.integers(1, len(x)))
    other = x.copy()
    other[keep:] = data.draw(arrays(np.float64, other[keep:].shape, elements=COORDINATE))
    layer = KINDS[kind](*matrices, causal=True)
    assert close(layer.velocity(x, w)[:keep], layer.velocity(other, w)[:keep])
    head = w[:keep] / w[:keep].sum()
    assert close(layer.velocity(x, w)[:keep], layer.velocity(x[:keep], head))


@kinds
def test_a_causal_layer_has_no_field_and_needs_a_first_token_with_mass(kind):
    one = np.eye(1)
    layer = KINDS[kind](one, one, one, causal=True)
    with pytest.raises(ValueError, match="a causal layer has no field"):
        layer.field([[0.0]], [[0.0]])
    with pytest.raises(ValueError, match="positive weight on the first token, got 0"):
        layer.matrix([[0.0], [1.0]], [0.0, 1.0])


# several heads


@kinds
@pytest.mark.parametrize("causal", [False, True])
def test_several_heads_are_the_sum_of_their_mapped_outputs(kind, causal):
    rng = np.random.default_rng(0)
    heads = [
        KINDS[kind](*rng.normal(size=(2, 2, 3)), rng.normal(size=(p, 3)), causal=causal)
        for p in (2, 4)
    ]
    W = [rng.normal(size=(3, p)) for p in (2, 4)]
    x, w = 0.5 * rng.normal(size=(5, 3)), rng.dirichlet(np.ones(5))
    both = MultiHead(heads, W)
    want = sum(h.velocity(x, w) @ m.T for h, m in zip(heads, W, strict=True))
    concatenated = np.hstack([h.velocity(x, w) for h in heads]) @ np.hstack(W).T
    assert close(both.velocity(x, w), want, EXPONENTIAL)
    assert close(both.velocity(x, w), concatenated, EXPONENTIAL)
    assert both.matrix(x, w).shape == (2, 5, 5)
    assert close(both.matrix(x, w)[1], heads[1].matrix(x, w), EXPONENTIAL)


def test_the_field_of_several_heads_at_the_tokens_is_their_velocity():
    rng = np.random.default_rng(0)
    heads = [kind(*rng.normal(size=(3, 2, 2))) for kind in (SoftmaxAttention, L2Attention)]
    both = MultiHead(heads, rng.normal(size=(2, 2, 2)))
    x = rng.normal(size=(4, 2))
    assert close(both.field(x, x), both.velocity(x), EXPONENTIAL)


def test_heads_without_matrices_are_added():
    one = np.eye(2)
    x = np.random.default_rng(0).normal(size=(4, 2))
    head = SoftmaxAttention(one, one, one)
    assert close(MultiHead([head] * 3).velocity(x), 3 * head.velocity(x), EXPONENTIAL)


@pytest.mark.parametrize(
    ("count", "W", "message"),
    [
        (0, None, "heads must not be empty"),
        (2, [np.eye(2)], "W must have one matrix per head, 2, got 1"),
        (1, [np.eye(3)], r"W\[0\] must have shape \(3, 2\), got \(3, 3\)"),
        (2, [np.ones((2, 2)), np.ones((3, 2))], r"W\[1\] must have shape \(2, 2\), got \(3, 2\)"),
        (1, [[[np.nan, 0.0]]], r"W\[0\] must be finite, got nan"),
    ],
)
def test_several_heads_refuse_matrices_that_do_not_fit(count, W, message):
    head = SoftmaxAttention(np.eye(2), np.eye(2), np.eye(2))
    with pytest.raises(ValueError, match=message):
        MultiHead([head] * count, W)
