import math

import numpy as np
import pytest
from gaussians import (
    S0,
    matrices,
    spd,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import inv
from tolerances import (
    BLOW_UP,
    CONDITIONED,
    EIGHT_DIGITS,
    ROUNDING,
)

from attnflow.attention import (
    SinkhornAttention,
    SoftmaxAttention,
)
from attnflow.gaussian import (
    blow_up_time,
    gaussian_flow,
    limit_rank,
)

# when flows blow up


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


# where they end


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


@pytest.mark.parametrize("size", [1e-300, 1e-9, 1e9, 1e150, 1e300])
def test_blow_up_times_are_inverse_to_values_of_any_size(size):
    eye, V = np.eye(2), np.diag([1.0, -0.5])
    want = blow_up_time(eye, eye, V, eye)
    assert abs(blow_up_time(eye, eye, size * V, eye) * size / want - 1) <= 1e-9
