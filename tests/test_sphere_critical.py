"""Critical points of the energy on the sphere, and derivatives of the two fields."""

import numpy as np
import pytest
from spheres import NORMALISED, ball, plain_velocity
from tolerances import ROUNDING

from attnflow.sphere import critical


@NORMALISED
def test_the_jacobian_is_that_of_the_definition_by_differences(normalised):
    x, beta, h = ball(5, 3), 1.7, 1e-5
    B = critical.tangent_bases(x)
    columns = []
    for j in range(5):
        for direction in B[j]:
            ends = []
            for step in (h, -h):
                y = x.copy()
                y[j] += step * direction
                y[j] /= np.linalg.norm(y[j])
                ends.append(np.einsum("iad,id->ia", B, plain_velocity(y, beta, normalised)).ravel())
            columns.append((ends[0] - ends[1]) / (2 * h))
    want = np.array(columns).T
    assert np.abs(critical.field_jacobian(x, beta, normalised) - want).max() <= 1e-8


def test_bases_are_orthonormal_and_tangent():
    x = ball(6, 4)
    B = critical.tangent_bases(x)
    assert np.abs(np.einsum("iad,id->ia", B, x)).max() <= ROUNDING
    assert np.abs(np.einsum("iad,ibd->iab", B, B) - np.eye(3)).max() <= ROUNDING


def test_only_the_unnormalised_field_has_a_symmetric_derivative():
    x = ball(7, 3)
    usa, sa = (critical.field_jacobian(x, 2.0, kind) for kind in (False, True))
    assert np.abs(usa - usa.T).max() <= ROUNDING * np.abs(usa).max()
    assert np.abs(sa - sa.T).max() >= 0.05 * np.abs(sa).max()


def test_masses_stand_for_tokens_in_one_place():
    x, mass = ball(3, 3), np.array([1, 2, 3]) / 6
    groups = critical.field_jacobian(x, 1.5, False, weights=mass)
    every = critical.field_jacobian(np.repeat(x, [1, 2, 3], axis=0), 1.5, False)
    first = np.repeat([True, True, False, True, False, False], 2)
    names = np.repeat([0, 1, 1, 2, 2, 2], 2) * 2 + np.tile([0, 1], 6)
    together = np.eye(6)[names].T  # sums over the tokens of a group, (6, 12)
    assert np.abs((every @ together.T)[first] - groups).max() <= 1e-12


@pytest.mark.parametrize(("n", "d", "beta"), [(6, 3, 1.0), (5, 4, 2.0), (7, 3, 0.0)])
def test_the_bound_is_below_the_highest_eigenvalue_of_the_whole_hessian(n, d, beta):
    for seed in range(4):
        x = ball(n, d, seed)
        J = critical.field_jacobian(x, beta, False)
        top = np.linalg.eigvalsh((J + J.T) / 2)[-1]
        assert critical.saddle_bound(x, beta) <= top
        assert critical.saddle_bound(x, beta) > 0


def test_the_bound_is_the_mean_over_common_directions():
    x, beta = ball(5, 3), 1.3
    J, B = critical.field_jacobian(x, beta, False), critical.tangent_bases(x)
    forms = sum((B @ v).ravel() @ J @ (B @ v).ravel() for v in np.eye(3))
    assert abs(forms / 3 / (5 * 2 / 3) - critical.saddle_bound(x, beta)) <= 1e-12


def test_what_is_found_rests_and_is_left():
    found = critical.critical_points(5, 3, 2.0, 10, np.random.default_rng(3))
    assert len(found) >= 8
    for point in found:
        assert np.abs(plain_velocity(point.x, 2.0)).max() <= 1e-8
        assert point.residual <= critical.AT_REST
        if point.groups > 1:
            assert point.highest >= (1 - 1e-9) * critical.saddle_bound(point.x, 2.0)


def test_starts_that_take_long_come_to_rest_too() -> None:
    """Of eight, the slowest computes the pull more often than 20 times and once a coordinate."""
    found = critical.critical_points(6, 3, 5.0, 8, np.random.default_rng(1))
    assert len(found) == 8
    assert max(point.iterations for point in found) > 20 + 6 * 3
    assert max(np.abs(plain_velocity(point.x, 5.0)).max() for point in found) <= 1e-8


def test_opposite_clusters_of_any_masses_are_left_at_the_rate_of_their_pull():
    for left in (1, 2, 4):
        x = np.repeat([[0.0, 1.0], [0.0, -1.0]], [left, 5 - left], axis=0)
        point = critical.described(x, 3.0)
        assert point.groups == 2
        assert abs(point.highest * np.exp(3.0) - 1) <= 1e-12
    one = critical.described(np.repeat([[1.0, 0.0]], 4, axis=0), 3.0)
    assert (one.groups, one.highest) == (1, 0.0)


def test_what_is_refused():
    x = ball(3, 3)
    for f in (critical.field_jacobian, critical.saddle_bound):
        with pytest.raises(ValueError, match=r"beta must lie in \[0, 700\], got 1000"):
            f(x, 1000.0)
    with pytest.raises(ValueError, match="weights must have one entry per token"):
        critical.field_jacobian(x, 1.0, weights=[0.5, 0.5])
    with pytest.raises(ValueError, match="n must be"):
        critical.critical_points(1, 2, 1.0, 1, np.random.default_rng(0))


@pytest.mark.parametrize(("n", "d"), [(10**18, 2), (3, 10**18), (501, 2)])
def test_more_tokens_than_can_be_searched_are_refused(n, d):
    with pytest.raises(ValueError, match="n times d must be at most 1000, got "):
        critical.critical_points(n, d, 1.0, 1, np.random.default_rng(0))
