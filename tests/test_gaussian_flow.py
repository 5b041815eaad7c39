import math

import numpy as np
import pytest
from gaussians import (
    ALL_KINDS,
    KINDS,
    ONE,
    S0,
    exact_variance,
    layer,
    matrices,
    plain_affine,
    plain_flow,
    plain_singular,
    relative,
    spd,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm, inv, sqrtm
from tolerances import (
    BLOW_UP,
    FIRST_DIFFERENCE,
    FLOW,
    LONG_FLOW,
    ROUNDING,
)

from attnflow.attention import (
    L2Attention,
    MultiHead,
    SinkhornAttention,
    SoftmaxAttention,
    UnnormalisedAttention,
)
from attnflow.gaussian import (
    affine_velocity,
    blow_up_time,
    covariance_flow,
    gaussian_flow,
    limit_rank,
)


@ALL_KINDS
@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_flow_of_covariance_and_mean_is_that_of_the_formulas(kind, d):
    cov, mean = spd(d, 4), np.random.default_rng(4).normal(size=d)
    Q, K, V = matrices(d, 4, size=1.0)
    Q, K = Q + 1.5 * np.eye(d), K + 1.5 * np.eye(d)
    times = np.array([0.0, 0.05, 0.1])
    got = gaussian_flow(layer(kind, Q, K, V, 0.8), cov, times, mean)
    A = K.T @ Q
    covs, means = plain_flow(
        lambda t, S, m: plain_affine(kind, A, K, V, S, m, 1 / 0.8), cov, mean, times
    )
    assert got.times.tolist() == times.tolist()
    assert np.abs(got.covs - covs).max() <= FLOW
    assert np.abs(got.means - means).max() <= FLOW
    assert (got.stopped, got.blow_up) == ("", math.inf)
    assert got.iterations > 0
    assert got.last[0] == times[-1]
    assert np.abs(got.last[1] - got.covs[-1]).max() <= ROUNDING
    assert np.abs(got.eigenvalues - np.linalg.eigvalsh(covs)).max() <= FLOW


@settings(max_examples=40, deadline=None, derandomize=True)
@given(d=st.integers(1, 4), seed=st.integers(0, 99), part=st.floats(0.05, 0.95))
def test_softmax_with_v_the_identity_has_the_closed_form(d, seed, part):
    """S = (S0^-1 - t (A + A^T))^-1, up to a share of the time of its blow-up, if there is one."""
    cov, (Q, K, _) = spd(d, seed), matrices(d, seed, size=1.0)
    A = K.T @ Q
    root = sqrtm(cov).real
    top = np.linalg.eigvalsh(root @ (A + A.T) @ root)[-1]
    t = part / top if top > 0.05 else 3.0
    flow = gaussian_flow(SoftmaxAttention(Q, K, np.eye(d)), cov, [0.0, t / 2, t])
    assert flow.stopped == ""
    for time, S in zip(flow.times, flow.covs, strict=True):
        assert relative(S, inv(inv(cov) - time * (A + A.T))) <= FLOW


@ALL_KINDS
def test_the_derivative_of_the_flow_at_the_start_is_the_affine_velocity(kind):
    attention, mean = layer(kind, *matrices(2, 5), eps=0.6), np.array([1.0, 2.0])
    B, c = affine_velocity(attention, S0, mean)
    h = 1e-4
    ahead = gaussian_flow(attention, S0, [0.0, h], mean, rtol=1e-13)
    back = layer(kind, attention.Q, attention.K, -attention.V, 0.6)
    behind = gaussian_flow(back, S0, [0.0, h], mean, rtol=1e-13)
    slope = (ahead.covs[-1] - behind.covs[-1]) / (2 * h)
    assert np.abs(slope - (B @ S0 + S0 @ B.T)).max() <= FIRST_DIFFERENCE
    slope = (ahead.means[-1] - behind.means[-1]) / (2 * h)
    assert np.abs(slope - c).max() <= FIRST_DIFFERENCE


@ALL_KINDS
def test_the_flow_does_not_see_the_mean(kind):
    attention, times = layer(kind, *matrices(2, 6), eps=0.5), [0.0, 0.5, 1.0]
    centred = gaussian_flow(attention, S0, times)
    assert (centred.means == 0).all()
    moved = gaussian_flow(attention, S0, times, [3.0, -1.0])
    assert np.abs(moved.covs - centred.covs).max() <= FLOW


def test_the_mean_of_sinkhorn_attention_moves_by_the_exponential_of_v():
    Q, K, V = matrices(3, 8, size=1.5)
    mean = np.array([1.0, -2.0, 0.5])
    flow = gaussian_flow(SinkhornAttention(Q, K, V), spd(3), [0.0, 0.4, 1.0], mean)
    for t, found in zip(flow.times, flow.means, strict=True):
        assert np.abs(found - expm(t * V) @ mean).max() <= FLOW


def test_the_mean_of_softmax_attention_with_v_the_identity_has_a_closed_form():
    """alpha' = (1 + sA) alpha, and the integral of sA is -log(1 - 2 A s0 t)/2."""
    flow = gaussian_flow(SoftmaxAttention(ONE, 0.7 * ONE, ONE), 1.3, [0.0, 0.2, 0.4], 2.0)
    want = 2 * np.exp(flow.times) / np.sqrt(1 - 2 * 0.7 * 1.3 * flow.times)
    assert np.abs(flow.means[:, 0] - want).max() <= FLOW * 10


@ALL_KINDS
@pytest.mark.parametrize("d", [2, 3])
def test_a_skew_v_conserves_the_eigenvalues_but_turns_the_axes(kind, d):
    V = np.array([[0.0, 2.0, -1.0], [-2.0, 0.0, 0.5], [1.0, -0.5, 0.0]])[:d, :d]
    cov = spd(d, 1)
    flow = gaussian_flow(layer(kind, np.eye(d), np.eye(d), V), cov, [0.0, 0.5, 5.0])
    assert np.abs(flow.eigenvalues - np.linalg.eigvalsh(cov)).max() <= FLOW * 10
    assert np.abs(flow.covs[1] - cov).max() > 0.01


@ALL_KINDS
@pytest.mark.parametrize("seed", range(2))
def test_the_flow_goes_along_with_a_change_of_coordinates(kind, seed):
    """x -> Mx, V -> M V M^-1, Q -> Q M^-1, K -> K M^-1, S -> M S M^T."""
    Q, K, V = matrices(2, seed)
    M = np.array([[1.0, 0.5], [-0.3, 2.0]])
    before = gaussian_flow(layer(kind, Q, K, V), S0, [0.0, 0.7], [1.0, 2.0])
    moved = layer(kind, Q @ inv(M), K @ inv(M), M @ V @ inv(M))
    after = gaussian_flow(moved, M @ S0 @ M.T, [0.0, 0.7], M @ [1.0, 2.0])
    assert relative(after.covs[-1], M @ before.covs[-1] @ M.T) <= FLOW
    assert relative(after.means[-1], M @ before.means[-1]) <= FLOW


@ALL_KINDS
def test_coordinates_that_do_not_interact_flow_each_for_itself(kind):
    Q, K, V, var = [0.5, -1.0], [1.0, 0.7], [0.8, 1.5], [0.3, 2.0]
    flow = gaussian_flow(layer(kind, np.diag(Q), np.diag(K), np.diag(V)), np.diag(var), [0.0, 0.6])
    for j in range(2):
        want = exact_variance(kind, 0.6, var[j], Q[j] * K[j], V[j], K=K[j])
        assert abs(flow.covs[-1, j, j] / want - 1) <= FLOW
    assert abs(flow.covs[-1, 0, 1]) <= FLOW


@ALL_KINDS
@pytest.mark.parametrize("start", [-3.0, 100.0])
def test_a_constant_layer_does_not_see_when_the_flow_starts(kind, start):
    attention = layer(kind, *matrices(2, 2, size=1.0))
    want = gaussian_flow(attention, S0, [0.0, 0.3, 0.6], [1.0, 0.0])
    got = gaussian_flow(attention, S0, [start, start + 0.3, start + 0.6], [1.0, 0.0])
    assert np.abs(got.covs - want.covs).max() <= FLOW
    assert np.abs(got.means - want.means).max() <= FLOW


def test_heads_flow_together():
    Q, K, V = matrices(2, 3, size=1.0)
    heads = [layer(kind, Q, K, V) for kind in KINDS]
    W = [np.eye(2), np.diag([1.0, -1.0]), np.array([[0.0, 1.0], [1.0, 0.0]])]
    times, mean = np.array([0.0, 0.3, 0.6]), np.array([1.0, -0.5])

    def velocity(t, S, m):
        parts = [
            plain_affine(kind, K.T @ Q, K, w @ V, S, m) for kind, w in zip(KINDS, W, strict=True)
        ]
        return sum(B for B, _ in parts), sum(c for _, c in parts)

    flow = gaussian_flow(MultiHead(heads, W), S0, times, mean)
    covs, means = plain_flow(velocity, S0, mean, times)
    assert np.abs(flow.covs - covs).max() <= FLOW
    assert np.abs(flow.means - means).max() <= FLOW


@ALL_KINDS
def test_two_equal_heads_are_one_with_twice_the_value(kind):
    Q, K, V = matrices(2, 3)
    both = gaussian_flow(MultiHead([layer(kind, Q, K, V)] * 2), S0, [0.0, 0.5], [1.0, 1.0])
    one = gaussian_flow(layer(kind, Q, K, 2 * V), S0, [0.0, 0.5], [1.0, 1.0])
    assert np.abs(both.covs - one.covs).max() <= FLOW
    assert np.abs(both.means - one.means).max() <= FLOW


# layers that depend on time


@ALL_KINDS
def test_a_layer_that_changes_smoothly_flows_as_the_formulas_do(kind):
    Q, K, V = matrices(2, 4, size=1.0)
    Q, K = Q + 1.5 * np.eye(2), K + 1.5 * np.eye(2)
    times, mean = np.array([-1.0, -0.5, 0.0]), np.array([0.5, 1.0])
    flow = gaussian_flow(lambda t: layer(kind, Q, (1 + t) * K, math.cos(t) * V), S0, times, mean)

    def velocity(t, S, m):
        if kind == "sinkhorn":  # the C-formula divides by 1 + t, which is 0 at the start
            return plain_singular((1 + t) * K.T @ Q, math.cos(t) * V, S), math.cos(t) * V @ m
        return plain_affine(kind, (1 + t) * K.T @ Q, (1 + t) * K, math.cos(t) * V, S, m)

    covs, means = plain_flow(velocity, S0, mean, times)
    assert np.abs(flow.covs - covs).max() <= FLOW
    assert np.abs(flow.means - means).max() <= FLOW


@ALL_KINDS
def test_a_layer_that_changes_in_jumps_is_integrated_piece_by_piece(kind):
    first = layer(kind, *matrices(2, 1, size=1.0))
    second = layer(kind, *matrices(2, 2, size=1.0))
    got = gaussian_flow(lambda t: first if t < 0.35 else second, S0, [0.0, 0.35, 1.0], [1.0, 0.0])
    one = gaussian_flow(first, S0, [0.0, 0.35], [1.0, 0.0])
    two = gaussian_flow(second, one.covs[-1], [0.35, 1.0], one.means[-1])
    assert np.abs(got.covs - [S0, one.covs[-1], two.covs[-1]]).max() <= LONG_FLOW
    assert np.abs(got.means - [[1.0, 0.0], one.means[-1], two.means[-1]]).max() <= LONG_FLOW


def test_a_function_that_gives_one_layer_is_that_layer():
    attention = L2Attention(*matrices(2, 1))
    want = gaussian_flow(attention, S0, [0.0, 1.0])
    assert (gaussian_flow(lambda t: attention, S0, [0.0, 1.0]).covs == want.covs).all()


def test_a_value_that_grows_in_time_blows_up_when_its_integral_says():
    """V(t) = t: s = s0/(1 - s0 t^2), so T = 1/sqrt(s0)."""
    flow = gaussian_flow(lambda t: SoftmaxAttention(ONE, ONE, t * ONE), 4.0, [0.0, 0.3, 0.6])
    assert flow.stopped == "blow-up"
    assert abs(flow.blow_up / 0.5 - 1) <= BLOW_UP
    assert np.abs(flow.covs.ravel() - [4.0, 4 / (1 - 4 * 0.09)]).max() <= FLOW * 10


@pytest.mark.parametrize(
    "late",
    [
        lambda: SoftmaxAttention(ONE, ONE, ONE, causal=True),
        lambda: SoftmaxAttention(np.eye(2), np.eye(2), np.eye(2)),
        lambda: UnnormalisedAttention(ONE, ONE, ONE),
    ],
    ids=["causal", "shape", "unnormalised"],
)
def test_a_layer_that_does_not_fit_is_refused_whenever_it_comes(late):
    message = "causal|must map 1 coordinates|attention must be softmax, L2 or Sinkhorn"
    early = SoftmaxAttention(ONE, ONE, ONE)
    with pytest.raises(ValueError, match=message):
        gaussian_flow(lambda t: early if t < 0.1 else late(), 1.0, [0.0, 0.2])


# the end of a flow


@ALL_KINDS
def test_the_covariance_flow_is_the_end_of_the_gaussian_flow(kind):
    Q, K, V = matrices(2, 5)
    cov, mean = covariance_flow(kind, Q, K, V, S0, 0.6, [1.0, -1.0], eps=0.5)
    flow = gaussian_flow(layer(kind, Q, K, V, 0.5), S0, [0.0, 0.6], [1.0, -1.0])
    assert np.abs(cov - flow.covs[-1]).max() <= ROUNDING
    assert np.abs(mean - flow.means[-1]).max() <= ROUNDING


def test_the_covariance_flow_says_when_it_ends_early_and_how():
    I = np.eye(2)  # noqa: E741
    with pytest.raises(
        ArithmeticError,
        match=r"^blow-up of the covariance at t = 0\.43839941, before t = 0\.5: ask for an earlier t$",
    ):
        covariance_flow("softmax", I, I, I, S0, 0.5)
    with pytest.raises(ArithmeticError, match=r"^divergence of the covariance at t = 11\d\.\d+, "):
        covariance_flow("L2", 1.0, 1.0, 1.0, 1.0, 300.0)


# what is refused


@pytest.mark.parametrize(
    ("cov", "message"),
    [
        (np.ones((2, 3)), r"must be square, got shape \(2, 3\)"),
        ([[1.0, 0.5], [0.0, 1.0]], "must be symmetric, got a difference 0.5"),
        ([[1.0, 2.0], [2.0, 1.0]], "must be positive definite, got an eigenvalue -1"),
        (np.zeros((2, 2)), "must be positive definite, got an eigenvalue 0"),
        ([[1.0, np.nan], [np.nan, 1.0]], "must be finite, got nan"),
        (np.ones((2, 2, 2)), r"must have 2 axes, got shape \(2, 2, 2\)"),
        ("wide", "must be an array of real numbers, got 'wide'"),
        (np.zeros((0, 0)), "must"),
    ],
)
def test_every_function_refuses_what_is_not_a_covariance(cov, message):
    I = np.eye(2)  # noqa: E741
    attention = SoftmaxAttention(I, I, I)
    for f, name in (
        (lambda: affine_velocity(attention, cov, [0.0, 0.0]), "cov "),
        (lambda: gaussian_flow(attention, cov, [0.0, 0.1]), "cov0 "),
        (lambda: covariance_flow("L2", I, I, I, cov, 0.1), "cov0 "),
        (lambda: blow_up_time(I, I, I, cov), "cov0 "),
        (lambda: limit_rank(I, cov), "start "),
    ):
        with pytest.raises(ValueError, match=name + message):
            f()


@pytest.mark.parametrize("shape", [(3, 3), (1, 1)])
def test_layers_of_another_dimension_are_refused(shape):
    M = np.eye(*shape)
    for f in (
        lambda: affine_velocity(L2Attention(M, M, M), S0, [0.0, 0.0]),
        lambda: gaussian_flow(L2Attention(M, M, M), S0, [0.0, 0.1]),
        lambda: covariance_flow("sinkhorn", M, M, M, S0, 0.1),
        lambda: blow_up_time(M, M, M, S0),
    ):
        with pytest.raises(
            ValueError, match="Q, K and V must map 2 coordinates as cov0 has, got Q"
        ):
            f()


def test_a_value_matrix_that_is_not_square_is_refused():
    I, V = np.eye(2), np.ones((3, 2))  # noqa: E741
    for f in (
        lambda: gaussian_flow(SoftmaxAttention(I, I, V), S0, [0.0, 0.1]),
        lambda: blow_up_time(I, I, V, S0),
        lambda: affine_velocity(MultiHead([SoftmaxAttention(I, I, I)], [V]), S0, [0.0, 0.0]),
    ):
        with pytest.raises(ValueError, match="and 3 outputs"):
            f()


@ALL_KINDS
def test_causal_layers_are_refused_alone_and_as_heads(kind):
    I = np.eye(2)  # noqa: E741
    kinds = {"softmax": SoftmaxAttention, "L2": L2Attention, "sinkhorn": SinkhornAttention}
    masked, free = kinds[kind](I, I, I, causal=True), kinds[kind](I, I, I)
    for attention in (masked, MultiHead([free, masked])):
        with pytest.raises(ValueError, match="a causal layer has no flow of covariances"):
            gaussian_flow(attention, S0, [0.0, 0.1])
        with pytest.raises(ValueError, match="a causal layer has no flow of covariances"):
            affine_velocity(attention, S0, [0.0, 0.0])


def test_attention_without_normalisation_is_refused_alone_and_as_a_head():
    I = np.eye(2)  # noqa: E741
    usa = UnnormalisedAttention(I, I, I)
    for attention in (usa, MultiHead([SoftmaxAttention(I, I, I), usa])):
        for f in (
            lambda a=attention: affine_velocity(a, S0, [0.0, 0.0]),
            lambda a=attention: gaussian_flow(a, S0, [0.0, 0.1]),
        ):
            with pytest.raises(
                ValueError,
                match="attention must be softmax, L2 or Sinkhorn, got UnnormalisedAttention",
            ):
                f()


@pytest.mark.parametrize("mean", [[1.0], [1.0, 2.0, 3.0], 1.0, [[1.0, 2.0]], [1.0, np.nan], "far"])
def test_means_of_another_length_are_refused(mean):
    I = np.eye(2)  # noqa: E741
    attention = SoftmaxAttention(I, I, I)
    with pytest.raises(ValueError, match="mean must "):
        affine_velocity(attention, S0, mean)
    for f in (
        lambda: gaussian_flow(attention, S0, [0.0, 0.1], mean),
        lambda: covariance_flow("softmax", I, I, I, S0, 0.1, mean),
    ):
        with pytest.raises(ValueError, match="mean0 must "):
            f()


@pytest.mark.parametrize("times", [[0.0], [0.0, 0.0], [1.0, 0.5], [0.0, np.nan], [0.0, np.inf], []])
def test_times_must_increase(times):
    with pytest.raises(ValueError, match="times must be "):
        gaussian_flow(SoftmaxAttention(ONE, ONE, ONE), 1.0, times)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf, "warm", None])
def test_numbers_that_are_not_positive_are_refused(bad):
    for f, name in (
        (lambda: covariance_flow("L2", 1.0, 1.0, 1.0, 1.0, bad), "t"),
        (lambda: covariance_flow("sinkhorn", 1.0, 1.0, 1.0, 1.0, 0.1, eps=bad), "eps"),
        (lambda: gaussian_flow(L2Attention(ONE, ONE, ONE), 1.0, [0.0, 0.1], rtol=bad), "rtol"),
    ):
        with pytest.raises(ValueError, match=rf"{name} must be a (finite )?number > 0, got "):
            f()


def test_unknown_kinds_are_refused():
    for f in (lambda: covariance_flow("cosine", 1.0, 1.0, 1.0, 1.0, 1.0),):
        with pytest.raises(
            ValueError, match="kind must be one of softmax, L2, sinkhorn, got 'cosine'"
        ):
            f()
