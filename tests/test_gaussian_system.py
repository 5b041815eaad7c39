"""What is integrated, where the factor of the covariance has lost a direction."""

import numpy as np
import pytest
from gaussians import matrices, relative

from attnflow.attention import SoftmaxAttention
from attnflow.gaussian.system import System


@pytest.mark.parametrize("width", [1e-3, 1.0, 1e3])
def test_the_jacobian_at_a_singular_factor_is_the_derivative(width: float) -> None:
    """F' = V F F^T A F is differentiated by hand; the second column of F is zero."""
    Q, K, V = matrices(2, 1)
    A = K.T @ Q
    system = System(SoftmaxAttention(Q, K, V), np.eye(2), np.zeros(2), clock=0.0)
    F = width * np.array([[0.6, 0.0], [0.8, 0.0]])
    columns = [
        V @ ((E @ F.T + F @ E.T) @ A @ F + F @ F.T @ A @ E)
        for E in np.eye(4).reshape(4, 2, 2)
    ]  # fmt: skip
    want = np.stack([column.ravel() for column in columns], axis=1)
    got = system.jacobian(0.0, np.concatenate([F.ravel(), np.zeros(2)]))
    assert relative(got[:4, :4], want) <= 1e-9


@pytest.mark.parametrize("narrow", [0.0, 1e-200, 1e-320])
def test_the_condition_of_a_flat_covariance_is_a_large_number(narrow: float) -> None:
    one = SoftmaxAttention(np.eye(2), np.eye(2), np.eye(2))
    system = System(one, 4 * np.eye(2), np.zeros(2), clock=0.0)
    grown, condition = system.growth(np.array([6.0, 0.0, 0.0, narrow, 0.0, 0.0]))
    assert abs(grown - 9) <= 1e-13
    assert 1e200 < condition < np.inf
