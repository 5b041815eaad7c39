import numpy as np
import pytest
from balls import I1, I2, I3, SEEDS, SKEW
from hypothesis import given, settings
from tolerances import EXPONENTIAL, ROUNDING

from attnflow.lipschitz import sharp_constant


def height(A, x):
    y = x @ A.T
    return np.sqrt((y * y).sum(axis=1) - np.maximum((x * y).sum(axis=1), 0) ** 2)


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_no_point_of_the_ball_is_higher(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 6))
    A = rng.normal(size=(d, d)) * rng.choice([1e-6, 1.0, 1e5])
    A = [A, A + A.T, A @ A.T, A - A.T, -A @ A.T][seed % 5]
    found = sharp_constant(A)
    size = np.linalg.norm(A, 2)
    x = rng.normal(size=(4000, d))
    x *= (rng.random(4000) ** (1 / d) / np.linalg.norm(x, axis=1))[:, None]
    assert found.converged
    assert height(A, x).max() <= found.value + found.residual + ROUNDING * size
    assert abs(height(A, found.x[None])[0] - found.value) <= EXPONENTIAL * size
    assert np.linalg.norm(found.x) <= 1 + ROUNDING
    assert size / 2 * (1 - EXPONENTIAL) <= found.value <= size * (1 + EXPONENTIAL)


@pytest.mark.parametrize(("A", "want"), [(-2 * I3, 2.0), (3 * I2, 1.5), (I1, 0.5), (-I1, 1.0), (np.diag([-1.0, 8.0]), 4.5), ([[0.0, 3.0], [-3.0, 0.0]], 3.0), (0 * I2, 0.0), (np.diag([-1.0, 1.0]), 1.0)])  # fmt: skip
def test_matrices_whose_constant_is_known(A, want):
    found = sharp_constant(A)
    assert abs(found.value - want) <= EXPONENTIAL
    assert found.converged


def test_between_an_eigenvalue_and_its_opposite():
    """For diag(-a, b) with a <= b the two eigenvectors share the ball: (a + b)/2 in place of b/2."""
    for a, b in [(1.0, 8.0), (1.0, 2.0), (0.5, 4.0)]:
        assert abs(sharp_constant(np.diag([-a, b])).value - max((a + b) / 2, a)) <= EXPONENTIAL


def test_it_does_not_see_rotations():
    U = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    one, two = sharp_constant(SKEW).value, sharp_constant(U @ SKEW @ U.T).value
    assert abs(one - two) <= EXPONENTIAL


@pytest.mark.parametrize("A", [np.ones((2, 3)), [[np.nan]]])
def test_what_is_no_score_matrix_is_refused(A):
    with pytest.raises(ValueError, match="A must be"):
        sharp_constant(A)
