import numpy as np
from gaussians import (
    spd,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm, inv, sqrtm
from tolerances import (
    CONDITIONED,
)

from attnflow.matrices import covariance, root, spectral


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


def test_the_root_of_an_eigenvalue_that_rounding_made_negative_is_zero() -> None:
    assert root(np.diag([-1e-17, 4.0])).tolist() == [[0.0, 0.0], [0.0, 2.0]]
