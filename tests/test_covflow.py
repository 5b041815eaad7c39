import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from scipy.linalg import block_diag, expm, inv, sqrtm
from tolerances import (
    BLOW_UP,
    CONDITIONED,
    EIGHT_DIGITS,
    EXTRAPOLATED,
    FIRST_DIFFERENCE,
    FLOW,
    HERMITE,
    LONG_FLOW,
    NEAR_SINGULAR,
    ROUNDING,
    SEVEN_DIGITS,
)

from attnflow import covflow
from attnflow.attention import (
    L2Attention,
    MultiHead,
    SinkhornAttention,
    SoftmaxAttention,
    UnnormalisedAttention,
)
from attnflow.covflow import (
    affine_velocity,
    blow_up_time,
    covariance_flow,
    exact_variance,
    gaussian_flow,
    limit_rank,
)
from attnflow.densities import Gaussian
from attnflow.matrices import covariance, spectral
from attnflow.meanfield import quadrature

ONE = np.eye(1)
S0 = np.array([[1.0, 0.3], [0.3, 0.5]])
KINDS = ("softmax", "L2", "sinkhorn")
ALL_KINDS = pytest.mark.parametrize("kind", KINDS)
GLOBAL_KINDS = pytest.mark.parametrize("kind", ["L2", "sinkhorn"])


def layer(kind, Q, K, V, eps=1.0):
    if kind == "sinkhorn":
        return SinkhornAttention(Q, K, V, eps=eps, tol=1e-12)
    return {"softmax": SoftmaxAttention, "L2": L2Attention}[kind](Q, K, V)


def spd(d, seed=0, low=0.3, high=1.2):
    """A covariance with drawn axes and eigenvalues in [low, high]."""
    rng = np.random.default_rng([seed, d])
    axes = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return (axes * rng.uniform(low, high, d)) @ axes.T


def matrices(d, seed=0, rows=None, size=0.6):
    """Q, K (rows, d) and V (d, d) with spectral norm `size`, so that short flows stay moderate."""
    rng = np.random.default_rng([seed, d, 7])
    out = [rng.normal(size=shape) for shape in ((rows or d, d), (rows or d, d), (d, d))]
    return [m * (size / np.linalg.norm(m, 2)) for m in out]


# the formulas, with inverses and roots taken one by one


def plain_affine(kind, A, K, V, S, mean, kappa=1.0):
    """B and c of Gamma(x) = B (x - mean) + c, for A that has an inverse."""
    d = len(S)
    if kind == "softmax":
        return V @ S @ A, V @ (np.eye(d) + S @ A) @ mean
    if kind == "L2":
        T = inv(inv(S) + 2 * K.T @ K)
        return 2 * V @ T @ A, V @ T @ (inv(S) + 2 * A) @ mean
    root = sqrtm(S).real
    middle = sqrtm(4 * kappa**2 * root @ A @ S @ A.T @ root + np.eye(d)).real
    C = (root @ middle @ inv(root) - np.eye(d)) / (2 * kappa)
    return V @ C @ inv(A).T @ inv(S), V @ mean


def plain_singular(A, V, S, kappa=1.0):
    """B of Sinkhorn attention for any A; the kernel depends on kappa A only."""
    root, A = sqrtm(S).real, kappa * A
    M = root @ A @ S @ A.T @ root
    inner = inv(np.eye(len(S)) + sqrtm(np.eye(len(S)) + 4 * M).real)
    return 2 * V @ root @ inner @ root @ A


def plain_flow(velocity, cov, mean, times):
    """S' = BS + SB^T and the mean's c, integrated in S itself; velocity(t, S, mean) gives B, c."""
    d = len(cov)

    def right(t, y):
        S, m = y[: d * d].reshape(d, d), y[d * d :]
        B, c = velocity(t, S, m)
        return np.concatenate([(B @ S + S @ B.T).ravel(), c])

    start = np.concatenate([cov.ravel(), mean])
    found = solve_ivp(
        right, (times[0], times[-1]), start, t_eval=times, method="DOP853", rtol=1e-12, atol=1e-14
    )
    return found.y.T[:, : d * d].reshape(-1, d, d), found.y.T[:, d * d :]


def relative(got, want):
    return np.abs(got - want).max() / np.abs(want).max()


# affine velocities


@ALL_KINDS
@settings(max_examples=25, deadline=None, derandomize=True)
@given(d=st.integers(1, 4), seed=st.integers(0, 99), size=st.floats(0.3, 3), eps=st.floats(0.2, 5))
def test_the_affine_velocity_is_that_of_the_formulas(kind, d, seed, size, eps):
    S, mean = spd(d, seed), np.random.default_rng(seed).normal(size=d)
    Q, K, V = matrices(d, seed, size=size)
    Q, K = Q + 1.5 * size * np.eye(d), K + 1.5 * size * np.eye(d)  # far from singular ones
    A = K.T @ Q
    B, c = affine_velocity(layer(kind, Q, K, V, eps), S, mean)
    want_B, want_c = plain_affine(kind, A, K, V, S, mean, 1 / eps)
    assert relative(B, want_B) <= CONDITIONED
    assert np.abs(c - want_c).max() <= CONDITIONED * (1 + np.abs(want_c).max())


@ALL_KINDS
@pytest.mark.parametrize("rows", [1, 2, 5])
def test_queries_and_keys_may_have_any_number_of_rows(kind, rows):
    """Fewer than d rows give a singular A."""
    Q, K, V = matrices(3, 1, rows=rows)
    S, mean = spd(3), np.array([1.0, -2.0, 0.5])
    B, c = affine_velocity(layer(kind, Q, K, V, eps=0.5), S, mean)
    if kind == "sinkhorn":
        assert relative(B, plain_singular(K.T @ Q, V, S, 2.0)) <= CONDITIONED
        assert relative(c, V @ mean) <= CONDITIONED
    else:
        want_B, want_c = plain_affine(kind, K.T @ Q, K, V, S, mean)
        assert relative(B, want_B) <= CONDITIONED
        assert relative(c, want_c) <= CONDITIONED


@pytest.mark.parametrize("kappa", [0.3, 1.0, 2.0, 7.0])
@pytest.mark.parametrize("symmetric", [True, False])
def test_sinkhorn_with_a_singular_matrix_is_the_limit_of_invertible_ones(kappa, symmetric):
    """The C-formula at A + h P and A - h P, whose mean is the value at A up to order h^2."""
    A = np.array([[1.0, 0.5], [0.5, 0.25]]) if symmetric else np.array([[1.0, -0.4], [0.5, -0.2]])
    assert abs(np.linalg.det(A)) <= ROUNDING
    V, h = matrices(2, 3)[2], 1e-4
    B, _ = affine_velocity(SinkhornAttention(A, np.eye(2), V, eps=1 / kappa), S0, [0.0, 0.0])
    around = [
        plain_affine("sinkhorn", A + s * np.eye(2), None, V, S0, np.zeros(2), kappa)[0]
        for s in (h, -h)
    ]
    assert relative(B, sum(around) / 2) <= NEAR_SINGULAR
    assert relative(B, plain_singular(A, V, S0, kappa)) <= CONDITIONED


@ALL_KINDS
@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_the_affine_velocity_is_the_field_of_attention_on_a_quadrature(kind, d, seed):
    S, mean = spd(d, seed, 0.3, 0.8), np.random.default_rng(seed).normal(size=d) / 2
    attention = layer(kind, *matrices(d, seed, size=0.8), eps=0.7)
    points = mean + np.random.default_rng(9).normal(size=(5, d))
    seen = quadrature(Gaussian(mean, S), 20)
    B, c = affine_velocity(attention, S, mean)
    want = attention.field(points, seen.points, seen.weights)
    assert np.abs((points - mean) @ B.T + c - want).max() <= HERMITE


def test_sinkhorn_fields_with_positive_and_with_singular_matrices_are_those_on_a_quadrature():
    mean = np.array([0.3, -0.5])
    seen, points = quadrature(Gaussian(mean, S0), 24), np.array([[1.0, 0.0], [-1.0, 2.0]])
    for A in (np.eye(2), -np.diag([1.0, 0.0]), np.array([[0.0, 1.0], [0.0, 0.0]])):
        attention = SinkhornAttention(A, np.eye(2), [[1.0, 2.0], [0.0, -1.0]], eps=1.5, tol=1e-12)
        B, c = affine_velocity(attention, S0, mean)
        want = attention.field(points, seen.points, seen.weights)
        assert np.abs((points - mean) @ B.T + c - want).max() <= HERMITE


def test_heads_of_different_kinds_add_up_after_their_output_matrices():
    """With V of shape (p, d) and W of shape (d, p), p = 1 and 4."""
    rng, S, mean = np.random.default_rng(2), spd(2), np.array([1.0, -1.0])
    heads, W = [], []
    for kind, p in zip(KINDS, (1, 4, 2), strict=True):
        Q, K, _ = matrices(2, p)
        heads.append(layer(kind, Q, K, rng.normal(size=(p, 2))))
        W.append(rng.normal(size=(2, p)))
    B, c = affine_velocity(MultiHead(heads, W), S, mean)
    want_B, want_c = np.zeros((2, 2)), np.zeros(2)
    for kind, head, w in zip(KINDS, heads, W, strict=True):
        one = plain_affine(kind, head.K.T @ head.Q, head.K, w @ head.V, S, mean)
        want_B, want_c = want_B + one[0], want_c + one[1]
    assert relative(B, want_B) <= CONDITIONED
    assert relative(c, want_c) <= CONDITIONED


def test_numbers_are_read_as_variances_and_means_in_one_dimension():
    B, c = affine_velocity(SoftmaxAttention(3 * ONE, ONE, 2 * ONE), 0.5, 4.0)
    assert np.abs(B - [[3.0]]).max() <= ROUNDING
    assert np.abs(c - [2 * (1 + 1.5) * 4]).max() <= ROUNDING * 10


# flows


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
    assert got.evaluations > 0
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


# the exact variances of one dimension


def test_the_l2_variance_is_the_known_number():
    assert abs(exact_variance("L2", 1.0, 1.0, A=1.0, V=1.0) / 4.9573005 - 1) <= SEVEN_DIGITS / 10
    cov, mean = covariance_flow("L2", 1.0, 1.0, 1.0, 1.0, 1.0)
    assert cov.shape == (1, 1)
    assert mean.tolist() == [0.0]
    assert abs(cov[0, 0] / 4.9573005 - 1) <= SEVEN_DIGITS / 10


def plain_variance(kind, t, var, A, V, K, eps):
    """s' = 2 B s, integrated in log s."""

    def right(_, u):
        s = np.exp(u)
        if kind == "softmax":
            return 2 * V * A * s
        if kind == "L2":
            return 4 * V * A * s / (1 + 2 * K**2 * s)
        return 4 * V * A * s / eps / (1 + np.sqrt(1 + (2 * A * s / eps) ** 2))

    found = solve_ivp(right, (0, t), [math.log(var)], method="DOP853", rtol=1e-13, atol=1e-14)
    return math.exp(found.y[0, -1])


@ALL_KINDS
@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    var=st.floats(0.05, 10),
    A=st.floats(-3, 3),
    V=st.floats(-3, 3),
    K=st.sampled_from([0.0, 0.3, -1.0, 2.0]),
    eps=st.floats(0.2, 4),
    t=st.floats(0.01, 2),
)
def test_the_exact_variance_solves_its_equation(kind, var, A, V, K, eps, t):
    speed = {"softmax": 2.0, "L2": 4.0 if K == 0 else 0.0, "sinkhorn": 0.0}[kind] * V * A * var
    if speed * t > 0.9:  # short of the blow-up, where digits are lost
        t = 0.9 / speed
    got = exact_variance(kind, t, var, A, V, K=K, eps=eps)
    assert abs(math.log(got / plain_variance(kind, t, var, A, V, K, eps))) <= FLOW


@ALL_KINDS
@pytest.mark.parametrize("A", [-2.0, -0.5, 0.0, 0.5, 2.0])
@pytest.mark.parametrize("V", [-1.5, 0.0, 0.7])
@pytest.mark.parametrize("eps", [0.5, 2.0])
def test_the_exact_variance_is_that_of_the_flow(kind, A, V, eps):
    times, key = [0.0, 0.1, 0.2], 1.3
    flow = gaussian_flow(layer(kind, A / key * ONE, key * ONE, V * ONE, eps), 0.8, times)
    want = [exact_variance(kind, t, 0.8, A, V, K=key, eps=eps) for t in times]
    assert np.abs(flow.covs.ravel() / want - 1).max() <= FLOW
    if A * V == 0:
        assert np.abs(flow.covs - 0.8).max() <= ROUNDING


@ALL_KINDS
def test_without_keys_nothing_moves(kind):
    """Q x may be anything: with K = 0 every token averages all others, and A = 0."""
    flow = gaussian_flow(layer(kind, 2 * ONE, 0 * ONE, ONE), 0.8, [0.0, 1.0], [1.0])
    assert abs(flow.covs[-1, 0, 0] - 0.8) <= ROUNDING
    assert abs(flow.means[-1, 0] - math.e) <= FLOW
    assert abs(exact_variance(kind, 1.0, 0.8, 0.0, 1.0, K=0.0) - 0.8) <= ROUNDING


def test_the_l2_variance_tends_to_that_of_weak_keys():
    """The term 2 K^2 log s vanishes with K."""
    want = exact_variance("L2", 0.2, 1.0, 1.0, 1.0, K=0.0)
    assert abs(want - 1 / (1 - 4 * 0.2)) <= CONDITIONED
    errors = [abs(exact_variance("L2", 0.2, 1.0, 1.0, 1.0, K=k) - want) for k in (1e-2, 1e-3)]
    assert errors[0] <= 0.02
    assert abs(errors[0] / errors[1] - 100) <= 1


def test_the_softmax_variance_is_infinite_from_the_blow_up_on():
    assert exact_variance("softmax", 0.5, 1.0, 1.0, 1.0) == math.inf
    assert exact_variance("softmax", 7.0, 1.0, 1.0, 1.0) == math.inf
    assert exact_variance("softmax", 7.0, 1.0, -1.0, 1.0) == pytest.approx(1 / 15)
    assert exact_variance("L2", 0.25, 1.0, 1.0, 1.0, K=0.0) == math.inf


@GLOBAL_KINDS
@pytest.mark.parametrize("V", [-1.0, 1.0])
def test_the_exact_variance_keeps_its_digits_for_long_times_and_small_variances(kind, V):
    """The conserved quantity of the docstring, evaluated at the answer."""
    for var in (1e-10, 1e-6, 1.0, 1e6):
        for t in (1e-3, 1.0, 100.0):
            s = exact_variance(kind, t, var, 1.0, V)
            if kind == "L2":
                level = [-1 / v + 2 * math.log(v) for v in (var, s)]
                rate = 4 * V
            else:
                theta = [math.asinh(2 * v) for v in (var, s)]
                level = [x - 1 / math.tanh(x / 2) for x in theta]
                rate = 2 * V
            size = max(abs(level[0]), abs(level[1]))  # 1/s or log s: 1e-11 of either is lost
            assert abs(level[1] - level[0] - rate * t) <= CONDITIONED * size


@GLOBAL_KINDS
def test_a_variance_beyond_doubles_is_infinite_and_no_warning(kind):
    assert exact_variance(kind, 1e4, 1.0, 1.0, 1.0) == math.inf


@pytest.mark.parametrize("name", ["t", "A", "V", "K"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, "large", None])
def test_the_exact_variance_refuses_what_is_not_a_number(name, bad):
    arguments = {"t": 1.0, "var0": 1.0, "A": 1.0, "V": 1.0, "K": 1.0, name: bad}
    for kind in KINDS if name != "K" else ["L2"]:
        with pytest.raises(ValueError, match=f"{name} must be a finite number, got "):
            exact_variance(kind, **arguments)


# blow-up


def test_the_blow_up_time_is_the_known_number():
    T = blow_up_time(np.eye(2), np.eye(2), np.eye(2), S0)
    assert abs(T / 0.43839941 - 1) <= EIGHT_DIGITS
    flow = gaussian_flow(SoftmaxAttention(np.eye(2), np.eye(2), np.eye(2)), S0, [0.0, 1.0])
    assert abs(flow.blow_up / 0.43839941 - 1) <= EIGHT_DIGITS


@settings(max_examples=30, deadline=None, derandomize=True)
@given(d=st.integers(1, 4), seed=st.integers(0, 99), v=st.sampled_from([-2.0, 0.5, 1.0]))
def test_the_blow_up_time_for_multiples_of_the_identity_is_where_the_closed_form_has_its_pole(
    d, seed, v
):
    cov, (Q, K, _) = spd(d, seed), matrices(d, seed, size=1.0)
    growth = v * (K.T @ Q + Q.T @ K)
    # det(S0^-1 - t growth) = 0 where 1/t is an eigenvalue of S0 growth
    values = np.linalg.eigvals(cov @ growth).real
    T = blow_up_time(Q, K, v * np.eye(d), cov)
    if values.max() <= ROUNDING:
        assert math.isinf(T)
        assert gaussian_flow(SoftmaxAttention(Q, K, v * np.eye(d)), cov, [0.0, 9.0]).stopped == ""
        return
    assert abs(T * values.max() - 1) <= CONDITIONED
    flow = gaussian_flow(SoftmaxAttention(Q, K, v * np.eye(d)), cov, [0.0, 2 * T])
    assert flow.stopped == "blow-up"
    assert abs(flow.blow_up / T - 1) <= BLOW_UP


@pytest.mark.parametrize("factors", [(1.0, -0.5), (0.3, 2.0), (-1.0, 0.4)])
def test_the_blow_up_time_for_any_v_is_that_of_the_fastest_independent_coordinate(factors):
    """Diagonal matrices in other coordinates: V is then not even symmetric."""
    v, a, s = np.array(factors), np.array([1.0, 1.5]), np.array([0.7, 0.4])
    M = np.array([[1.0, 0.5], [-0.3, 2.0]])
    want = min(1 / (2 * x) for x in v * a * s if x > 0)
    Q = np.diag(a) @ inv(M)
    got = blow_up_time(Q, inv(M), M @ np.diag(v) @ inv(M), M @ np.diag(s) @ M.T)
    assert abs(got / want - 1) <= BLOW_UP


def test_a_flow_without_growth_never_blows_up():
    I = np.eye(2)  # noqa: E741
    assert blow_up_time(-I, I, I, S0) == math.inf
    assert blow_up_time(0 * I, I, I, S0) == math.inf
    assert blow_up_time(I, I, 0 * I, S0) == math.inf
    assert blow_up_time(0 * I, I, np.diag([1.0, 2.0]), S0) == math.inf
    assert blow_up_time(I, I, np.diag([-1.0, -2.0]), S0) == math.inf
    assert blow_up_time(I, I, [[0.0, 1.0], [-1.0, 0.0]], S0) == math.inf


def test_the_horizon_of_the_blow_up_time_is_in_units_of_its_own_speed():
    V = np.diag([1.0, 0.5])
    T = blow_up_time(np.eye(2), np.eye(2), V, np.eye(2))
    assert abs(T - 0.5) <= BLOW_UP
    assert blow_up_time(np.eye(2), np.eye(2), V, np.eye(2), horizon=0.49) == math.inf
    for scale in (1e-6, 1e6):
        T = blow_up_time(np.eye(2), np.eye(2), V, scale * np.eye(2))
        assert abs(T * 2 * scale - 1) <= BLOW_UP


@pytest.mark.parametrize("V", [np.eye(2), np.diag([1.0, 0.5])], ids=["identity", "general"])
def test_the_blow_up_time_refuses_a_horizon_that_is_not_positive(V):
    with pytest.raises(ValueError, match="horizon must be a finite number > 0, got -1"):
        blow_up_time(np.eye(2), np.eye(2), V, S0, horizon=-1)


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


def test_a_flow_too_stiff_for_an_explicit_method_says_so(monkeypatch):
    """One eigenvalue grows and with it the rate at which another is held down."""
    rng = np.random.default_rng(2)
    rng.integers(1, 4)
    Q, K, V = rng.normal(size=(3, 3, 3))
    W = rng.normal(size=(3, 3))
    monkeypatch.setattr(covflow, "MOST_EVALUATIONS", 4000)
    attention, cov = SoftmaxAttention(Q, K, V), W @ W.T + 0.1 * np.eye(3)
    assert gaussian_flow(attention, cov, [0.0, 2.0]).stopped == ""
    with pytest.raises(ArithmeticError, match=r"the flow is too stiff near t = [3-5]\.\d+"):
        gaussian_flow(attention, cov, [0.0, 8.0])


# where flows end


def test_the_limit_of_an_attracting_direction_is_the_known_matrix():
    """V = I, A = -diag(1, 0): S tends to diag(0, 0.41), with an eigenvalue 1/(2t) that goes."""
    t = 1e7
    A = -np.diag([1.0, 0.0])
    flow = gaussian_flow(SoftmaxAttention(A, np.eye(2), np.eye(2)), S0, [0.0, t])
    assert np.abs(flow.covs[-1] - np.diag([0.0, 0.41])).max() <= 1 / t
    assert abs(flow.covs[-1, 0, 0] * 2 * t - 1) <= 1e-5
    rank = limit_rank(flow.covs[-1], S0)
    assert rank.rank == 1
    assert rank.margin > 1e5


def test_the_rank_counts_eigenvalues_relative_to_the_start_in_any_coordinates():
    M = np.array([[1.0, 0.5, 0.0], [-0.3, 2.0, 1.0], [0.0, 0.2, 5.0]])
    start = M @ M.T
    for values, rank, margin in (
        ([2.0, 0.5, 1e-5], 2, 5e4),
        ([0.1, 1e-4, 1e-6], 1, 1e3),
        ([3.0, 2.0, 1.0], 3, math.inf),
        ([1e-4, 1e-5, 1e-6], 0, math.inf),
    ):
        got = limit_rank(M @ np.diag(values) @ M.T, start)
        assert got.rank == rank
        assert got.margin == pytest.approx(margin, rel=1e-6)


@pytest.mark.parametrize(("tol", "rank"), [(1e-6, 3), (1e-3, 2), (0.1, 1), (0.9, 0)])
def test_the_rank_depends_on_what_counts_as_vanishing(tol, rank):
    assert limit_rank(np.diag([0.5, 0.05, 1e-5]), np.eye(3), tol=tol).rank == rank


@pytest.mark.parametrize("kept", [0.5, 10.0, 1e6])
def test_the_rank_of_a_limit_that_is_reached_has_a_huge_margin(kept):
    got = limit_rank(np.diag([kept, 0.0]), np.eye(2))
    assert got.rank == 1
    assert got.margin >= 1e300


def test_a_repelling_and_an_attracting_direction_leave_one():
    V = np.diag([-1.0, 0.0])
    flow = gaussian_flow(SinkhornAttention(np.eye(2), np.eye(2), V), np.eye(2), [0.0, 1e5])
    got = limit_rank(flow.covs[-1], np.eye(2))
    assert got.rank == 1
    assert got.margin > 1e4


# covariances and their functions


def test_covariances_are_symmetrised_and_numbers_are_variances():
    assert covariance(2).tolist() == [[2.0]]
    uneven = covariance([[1.0, 0.5], [0.5 + 1e-12, 1.0]])
    assert uneven[0, 1] == uneven[1, 0]
    assert covariance(np.eye(3) * 1e-200).shape == (3, 3)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(d=st.integers(1, 5), seed=st.integers(0, 99))
def test_a_spectral_function_is_the_function_of_the_matrix(d, seed):
    S = spd(d, seed)
    assert np.abs(spectral(np.sqrt, S) - sqrtm(S).real).max() <= CONDITIONED
    assert np.abs(spectral(np.exp, S) - expm(S)).max() <= CONDITIONED
    assert np.abs(spectral(lambda s: 1 / s, S) - inv(S)).max() <= CONDITIONED
    assert np.abs(spectral(lambda s: s**3, -S) + S @ S @ S).max() <= CONDITIONED


def test_covariances_of_lower_rank_are_refused_with_the_rule():
    """Rounding may make their smallest eigenvalue positive: no message but ours may come of it."""
    rng = np.random.default_rng(0)
    attention = SoftmaxAttention(np.eye(3), np.eye(3), np.eye(3))
    for _ in range(60):
        v = rng.normal(size=(3, 1))
        try:
            B, _ = affine_velocity(attention, v @ v.T, np.zeros(3))
        except ValueError as refused:
            assert "cov must be positive definite" in str(refused)  # noqa: PT017
        else:
            assert relative(B, v @ v.T) <= ROUNDING


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


@pytest.mark.parametrize(
    ("cov", "message"),
    [
        ([[1.0, 0.5], [0.0, 1.0]], "cov must be symmetric"),
        (np.diag([1.0, -1.0]), "cov must be positive"),
    ],
)
def test_the_rank_is_asked_of_a_covariance_only(cov, message):
    with pytest.raises(ValueError, match=message):
        limit_rank(cov, np.eye(2))


def test_the_rank_needs_matrices_of_one_shape_and_a_tolerance_below_one():
    with pytest.raises(ValueError, match="cov and start must share a shape"):
        limit_rank(np.eye(3), np.eye(2))
    for tol in (0.0, 1.0, -1.0, np.nan):
        with pytest.raises(ValueError, match="tol must "):
            limit_rank(np.eye(2), np.eye(2), tol=tol)


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
        (lambda: exact_variance("sinkhorn", 1.0, 1.0, 1.0, 1.0, eps=bad), "eps"),
        (lambda: exact_variance("softmax", 1.0, bad, 1.0, 1.0), "var0"),
    ):
        with pytest.raises(ValueError, match=rf"{name} must be a (finite )?number > 0, got "):
            f()


def test_unknown_kinds_are_refused():
    for f in (
        lambda: covariance_flow("cosine", 1.0, 1.0, 1.0, 1.0, 1.0),
        lambda: exact_variance("cosine", 1.0, 1.0, 1.0, 1.0),
    ):
        with pytest.raises(
            ValueError, match="kind must be one of softmax, L2, sinkhorn, got 'cosine'"
        ):
            f()


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
        ArithmeticError, match=r"^blow-up of the covariance at t = 0\.43839941, before t = 0\.5$"
    ):
        covariance_flow("softmax", I, I, I, S0, 0.5)
    with pytest.raises(ArithmeticError, match=r"^divergence of the covariance at t = 11\d\.\d+, "):
        covariance_flow("L2", 1.0, 1.0, 1.0, 1.0, 300.0)


def test_blocks_of_a_direct_sum_do_not_feel_each_other_until_one_blows_up():
    Q, K, V = matrices(2, 1)
    big = [block_diag(m, 1.0) for m in (Q, K, V)]
    flow = gaussian_flow(SoftmaxAttention(*big), block_diag(S0, 2.0), [0.0, 0.2, 0.3])
    alone = gaussian_flow(SoftmaxAttention(Q, K, V), S0, [0.0, 0.2])
    assert flow.times.tolist() == [0.0, 0.2]
    assert abs(flow.blow_up / 0.25 - 1) <= BLOW_UP
    assert np.abs(flow.covs[1, :2, :2] - alone.covs[1]).max() <= FLOW
