import numpy as np
import pytest
from gaussians import (
    ALL_KINDS,
    KINDS,
    ONE,
    S0,
    layer,
    matrices,
    plain_affine,
    plain_singular,
    relative,
    spd,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from tolerances import (
    CONDITIONED,
    HERMITE,
    NEAR_SINGULAR,
    ROUNDING,
)

from attnflow.attention import (
    MultiHead,
    SinkhornAttention,
    SoftmaxAttention,
)
from attnflow.densities import Gaussian
from attnflow.gaussian import (
    affine_velocity,
)
from attnflow.meanfield import quadrature


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


def test_queries_of_fewer_coordinates_than_the_covariance_are_refused() -> None:
    two = SoftmaxAttention(np.eye(2), np.eye(2), np.ones((3, 2)))
    with pytest.raises(ValueError, match=r"must map 3 coordinates .* got Q \(2, 2\) and 3 outputs"):
        affine_velocity(two, np.eye(3), np.zeros(3))
