import numpy as np
import pytest
from scipy.integrate import solve_ivp
from tolerances import CONDITIONED, FLOW

from attnflow.attention import L2Attention, SinkhornAttention, SoftmaxAttention
from attnflow.gaussian import (
    gaussian_flow,
    mirror_covariance,
    mirror_difference,
    mirror_limit,
)


def drawn(d, p, seed):
    """A random mirror with p eigenvalues 1, and a covariance."""
    rng = np.random.default_rng([seed, d, p])
    U = np.linalg.qr(rng.normal(size=(d, d)))[0]
    G = rng.normal(size=(d, 2 * d))
    return (U * np.where(np.arange(d) < p, 1.0, -1.0)) @ U.T, G @ G.T / (2 * d)


CASES = pytest.mark.parametrize(("d", "p"), [(1, 1), (2, 1), (3, 1), (4, 2), (4, 3), (3, 0)])


@CASES
@pytest.mark.parametrize("t", [0.0, 0.3, 2.0, 15.0])
def test_the_formula_solves_the_equation(d, p, t):
    A, S0 = drawn(d, p, 0)

    def right(_, s):
        S = s.reshape(d, d)
        B = -A @ S @ A @ S
        return (B + B.T).ravel()

    want = S0
    if t:
        found = solve_ivp(right, (0, t), S0.ravel(), method="DOP853", rtol=1e-12, atol=1e-14)
        want = found.y[:, -1].reshape(d, d)
    assert np.abs(mirror_covariance(A, S0, t) - want).max() <= FLOW


@CASES
@pytest.mark.parametrize("kind", [SoftmaxAttention, SinkhornAttention])
def test_the_difference_is_conserved_and_the_limit_is_its_positive_part(d, p, kind):
    A, S0 = drawn(d, p, 1)
    late = gaussian_flow(kind(A, np.eye(d), -A), S0, [0.0, 1e5]).covs[-1]
    assert np.abs(late - A @ late @ A - mirror_difference(A, S0)).max() <= FLOW
    limit = mirror_limit(A, S0)
    assert np.abs(late - limit).max() <= 2e-5  # what is left dies like 1/2t
    values = np.linalg.eigvalsh(limit)
    assert int((values > 1e-8).sum()) == min(p, d - p)
    U = np.linalg.eigh(A)[1]
    block = (U.T @ S0 @ U)[: d - p, d - p :]
    nuclear = np.linalg.svd(block, compute_uv=False).sum() if block.size else 0.0
    assert abs(np.trace(limit) - 2 * nuclear) <= CONDITIONED


def test_l2_attention_does_not_conserve_it():
    A, S0 = drawn(3, 1, 2)
    late = gaussian_flow(L2Attention(A, np.eye(3), -A), S0, [0.0, 3.0]).covs[-1]
    assert np.abs(late - A @ late @ A - mirror_difference(A, S0)).max() > 0.01


@pytest.mark.parametrize(
    ("A", "said"),
    [
        (np.diag([1.0, 2.0]), r"A must be symmetric with A\^2 = I, got a defect of 3"),
        ([[1.0, 1.0], [0.0, -1.0]], r"A must be symmetric with A\^2 = I, got a defect of 1"),
        (np.eye(3), r"A must be square, 2 by 2, got shape \(3, 3\)"),
        (np.eye(1), r"A must be square, 2 by 2, got shape \(1, 1\)"),
        ([[np.nan, 0.0], [0.0, 1.0]], "A must"),
    ],
)
def test_what_is_no_mirror_is_refused(A, said):
    for function in (mirror_difference, mirror_limit):
        with pytest.raises(ValueError, match=said):
            function(A, np.eye(2))


def test_time_does_not_run_backwards():
    with pytest.raises(ValueError, match=r"t must not be negative, got -1.0"):
        mirror_covariance(np.eye(2), np.eye(2), -1.0)
