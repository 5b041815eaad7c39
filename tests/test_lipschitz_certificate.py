import math

import numpy as np
import pytest
from scipy.stats import beta
from tolerances import EXPONENTIAL, ROUNDING

from attnflow.lipschitz.certificate import ceiling, reach, unseen


def tridiagonal(seed, k):
    rng = np.random.default_rng(seed)
    return rng.uniform(0, 1, k), rng.uniform(0.1, 1, k)


def polynomials(diagonal, off, t):
    """p_j(t) as determinants of t - T over products of the entries beside the diagonal."""
    k = len(diagonal)
    T = np.diag(diagonal) + np.diag(off[:-1], 1) + np.diag(off[:-1], -1)
    return [
        np.linalg.det(t * np.eye(j) - T[:j, :j]) / np.prod(off[:j]) if j else 1.0
        for j in range(k + 1)
    ]


@pytest.mark.parametrize("k", [1, 2, 5, 9])
def test_the_sum_is_that_of_the_polynomials_of_lanczos(k):
    for seed in range(10):
        diagonal, off = tridiagonal(seed, k)
        want = sum(p * p for p in polynomials(diagonal, off, 3.5))
        assert abs(reach(diagonal, off, 3.5, math.inf) / want - 1) <= EXPONENTIAL


def test_the_sum_stops_where_it_is_enough():
    diagonal, off = tridiagonal(0, 9)
    early = reach(diagonal, off, 3.5, 100.0)
    assert 100 < early < reach(diagonal, off, 3.5, math.inf)
    off[-1] = 0.0
    assert reach(diagonal, off, 3.5, math.inf) == math.inf


def test_the_polynomials_make_orthonormal_vectors():
    """p_j(B) v is the basis of Lanczos: the identity that the bound rests on."""
    rng = np.random.default_rng(3)
    B = rng.normal(size=(12, 12))
    B = B @ B.T
    v = rng.normal(size=12)
    basis, diagonal, off = [v / np.linalg.norm(v)], [], []
    for _ in range(5):
        y = B @ basis[-1]
        diagonal.append(basis[-1] @ y)
        for _ in range(2):
            y = y - np.array(basis).T @ (np.array(basis) @ y)
        off.append(np.linalg.norm(y))
        basis.append(y / off[-1])
    values, vectors = np.linalg.eigh(B)
    gamma = basis[0] @ vectors[:, -1]
    shares = (np.array(basis) @ vectors[:, -1]) ** 2
    total = reach(np.array(diagonal), np.array(off), values[-1], math.inf)
    assert abs(gamma**2 * total / shares.sum() - 1) <= 1e-9
    assert shares.sum() <= 1 + ROUNDING
    top = np.linalg.eigvalsh(np.diag(diagonal) + np.diag(off[:-1], 1) + np.diag(off[:-1], -1))[-1]
    assert ceiling(np.array(diagonal), np.array(off), top, 1 / gamma**2) >= values[-1]


@pytest.mark.parametrize("most", [10.0, 1e6, 1e24])
def test_the_ceiling_is_where_the_sum_is_reached(most):
    for seed in range(10):
        diagonal, off = tridiagonal(seed, 8)
        T = np.diag(diagonal) + np.diag(off[:-1], 1) + np.diag(off[:-1], -1)
        top = np.linalg.eigvalsh(T)[-1]
        t = ceiling(diagonal, off, top, most)
        assert t > top
        if t > top * (1 + 1e-9):
            assert abs(math.log(reach(diagonal, off, t, math.inf) / most)) <= 1e-6


def test_nothing_beyond_zero():
    assert ceiling(np.zeros(1), np.zeros(1), 0.0, 1e9) == 0.0


@pytest.mark.parametrize("size", [2, 3, 50, 20_000])
@pytest.mark.parametrize("failure", [0.5, 1e-3, 1e-9])
def test_a_random_direction_is_missed_with_the_probability_that_is_set(size, failure):
    assert abs(beta.cdf(1 / unseen(size, failure), 0.5, (size - 1) / 2) / failure - 1) <= 1e-6


def test_the_law_is_that_of_random_directions():
    v = np.random.default_rng(0).normal(size=(20_000, 5))
    share = v[:, 0] ** 2 / (v**2).sum(axis=1)
    assert abs(np.mean(share < 1 / unseen(5, 0.2)) - 0.2) <= 0.01
