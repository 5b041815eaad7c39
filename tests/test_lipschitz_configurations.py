import math

import numpy as np
import pytest
from balls import I1, I2, I3, SEEDS, SKEW, WIDE, dense, norm, problem
from hypothesis import given, settings
from tolerances import EXPONENTIAL, ROUNDING

from attnflow.attention import SoftmaxAttention
from attnflow.lipschitz import (
    large_radius,
    local_constant,
    sharper_lower_bound,
    spread,
    spread_bound,
    two_leaders,
    two_leaders_bound,
    upper_bound,
)

MASKS = pytest.mark.parametrize("causal", [False, True])


# one at the centre, others spread


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_the_spread_tokens_answer_as_much_as_is_said(seed):
    A, V, R, n = problem(seed)
    x = spread(A, V, R, n)
    assert x.shape == (n, len(A))
    assert (x[0] == 0).all()
    assert np.abs(x.sum(axis=0)).max() <= ROUNDING
    assert (np.linalg.norm(x, axis=1) > 0).sum() == 2 * ((n - 1) // 2)
    bound = spread_bound(A, V, R, n)
    own = np.linalg.norm(dense(A, V, x)[0, :, 0], 2)
    assert abs(bound - own) <= EXPONENTIAL * own
    assert bound <= norm(A, V, x) * (1 + EXPONENTIAL)


def test_the_token_at_the_centre_takes_away_from_its_own_answer_where_A_is_negative():
    """c - 1/n for A = -I and c + 1/n for A = I, c = R^2 (n-1)/n for odd n."""
    for n in (3, 9):
        c = 9 * (n - 1) / n
        assert spread_bound(-I1, I1, 3.0, n) == pytest.approx(c - 1 / n)
        assert spread_bound(I1, I1, 3.0, n) == pytest.approx(c + 1 / n)
        assert norm(-I1, I1, spread(-I1, I1, 3.0, n)) < c


def test_the_spread_grows_like_the_square_of_the_radius():
    """The factor is |Vu| |A^T u|, the largest among left vectors of A and right vectors of V."""
    matrices = [(SKEW, WIDE), *(problem(seed, least=2)[:2] for seed in range(20))]
    for A, V in matrices:
        directions = [*np.linalg.svd(A)[0].T, *np.linalg.svd(V)[2]]
        size = max(np.linalg.norm(V @ u) * np.linalg.norm(A.T @ u) for u in directions)
        R = 300 / math.sqrt(np.linalg.norm(A, 2))
        assert abs(spread_bound(A, V, R, 7) / (R**2 * size * 6 / 7) - 1) <= 1e-4
    for R in (8.0, 16.0):
        bound = spread_bound(SKEW, WIDE, R, 7)
        assert abs(norm(SKEW, WIDE, spread(SKEW, WIDE, R, 7)) / bound - 1) <= 0.01


# two leaders


def undecided(A, V, x, causal=False):
    """The answer of all but the leaders when these move along Au in opposite senses."""
    u = x[2] / np.linalg.norm(x[2])
    step = A @ u / np.linalg.norm(A @ u) / math.sqrt(2)
    J = dense(A, V, x, causal)[2:]
    return np.linalg.norm(J[:, :, 0] @ step - J[:, :, 1] @ step)


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_two_leaders_answer_as_much_as_is_said(seed):
    A, V, R, n = problem(seed, least=3)
    x, bound = two_leaders(A, V, R, n), two_leaders_bound(A, V, R, n)
    assert x.shape == (n, len(A))
    assert np.linalg.norm(x, axis=1).max() <= R * (1 + ROUNDING)
    assert bound > 0
    assert abs(bound / undecided(A, V, x) - 1) <= EXPONENTIAL * 100
    across = x[0] - x[1]
    size = np.linalg.norm(across) * np.linalg.norm(A, 2) * R
    assert abs(across @ x[2]) <= EXPONENTIAL * size + EXPONENTIAL
    assert abs(across @ A @ x[2]) <= EXPONENTIAL * size + EXPONENTIAL
    assert bound <= norm(A, V, x) * (1 + EXPONENTIAL)
    assert bound <= undecided(A, V, x, causal=True) * (1 + EXPONENTIAL * 100)
    assert bound <= norm(A, V, x, causal=True) * (1 + EXPONENTIAL)


@pytest.mark.parametrize("A", [-I2, I2, np.diag([1.0, -2.0])])
def test_two_dimensions_are_enough_for_symmetric_matrices(A):
    bound = two_leaders_bound(A, I2, 2.0, 9)
    assert 0 < bound <= norm(A, I2, two_leaders(A, I2, 2.0, 9))


@pytest.mark.parametrize(("A", "V"), [(-I3, I3), (SKEW, WIDE), (SKEW.T @ SKEW, np.diag([1.0, 5.0, 2.0]))])  # fmt: skip
def test_the_leaders_stand_nearly_as_well_as_they_can(A, V):
    """A search over all places, both eigenvectors and all w orthogonal to u and Au finds no better."""
    R, n, best = 2.0, 12, 0.0
    rng = np.random.default_rng(0)
    angle, r = rng.uniform(0, math.pi / 2, 20_000), rng.uniform(-R, R, 20_000)
    a, b = R * np.cos(angle), R * np.sin(angle)
    for u in np.linalg.eigh((A + A.T) / 2)[1].T[[0, -1]]:
        p = 1 / (1 + (n - 2) / 2 * np.exp(-r * (u @ A @ u) * (a - r)))
        place = (math.sqrt((n - 2) / 2) * p * b * np.abs(r)).max()
        basis = np.linalg.svd(np.vstack([u, A @ u]))
        free = basis[2][np.pad(basis[1], (0, 1)) < 1e-9]
        turns = rng.normal(size=(500, len(free))) @ free
        w = turns / np.linalg.norm(turns, axis=1, keepdims=True)
        stretch = np.linalg.norm(w @ V.T, axis=1).max()
        best = max(best, place * stretch * np.linalg.norm(A @ u))
    bound = two_leaders_bound(A, V, R, n)
    assert 0.99 * best <= bound <= 1.01 * best


def test_two_leaders_need_room():
    with pytest.raises(ValueError, match="orthogonal to u and Au, got dimension 1"):
        two_leaders(I1, I1, 1.0, 4)
    with pytest.raises(ValueError, match="orthogonal to u and Au, got dimension 2"):
        two_leaders_bound([[1.0, 1.0], [-1.0, 0.0]], I2, 1.0, 4)


def test_without_scores_or_values_there_is_nothing_to_bound():
    assert two_leaders_bound(0 * I2, I2, 1.0, 4) == 0
    assert two_leaders_bound(I2, 0 * I2, 1.0, 4) == 0
    assert spread_bound(I2, 0 * I2, 1.0, 4) == 0
    assert upper_bound(I2, 0 * I2, 1.0, 4) == 0
    assert sharper_lower_bound(0 * I2, 1.0, 5) == pytest.approx(2 / 5)


# large radii


@MASKS
def test_the_limit_of_large_radii(causal):
    rng = np.random.default_rng(6)
    x, V = rng.normal(size=(7, 3)), rng.normal(size=(2, 3))
    limit = large_radius(SKEW, V, x, causal=causal)
    scores = [[xi @ SKEW.T @ xj for xj in x[: i + 1 if causal else 7]] for i, xi in enumerate(x)]
    leaders = [int(np.argmax(row)) for row in scores]
    assert limit.leaders.tolist() == leaders
    assert limit.multiplicity == max(leaders.count(j) for j in leaders)
    seconds = [sorted(row)[-1] - sorted(row)[-2] for row in scores if len(row) > 1]
    assert abs(limit.margin - min(seconds)) <= ROUNDING * 10
    assert limit.value == pytest.approx(np.linalg.norm(V, 2) * math.sqrt(limit.multiplicity))
    r = math.sqrt(60 / limit.margin)
    layer = SoftmaxAttention(SKEW, I3, V, causal)
    assert abs(local_constant(layer, r * x, 1e-9).value / limit.value - 1) <= 1e-8
    assert norm(SKEW, V, r * x, causal) == pytest.approx(limit.value)


def test_ties_have_no_margin_and_no_limit():
    """The token at 0 is undecided at every radius, and answers with the square of it."""
    x = np.array([[0.0], [1.0], [-1.0]])
    assert large_radius(I1, I1, x).margin == 0
    assert norm(I1, I1, 10 * x) > 60


def test_a_single_token_leads_itself():
    for causal in (False, True):
        got = large_radius(I2, 3 * I2, [[1.0, 2.0]], causal=causal)
        assert got.value == 3
        assert got.leaders.tolist() == [0]
        assert got.margin == math.inf


def test_the_constant_along_a_ray_is_not_monotone():
    layer, x = SoftmaxAttention(-I1, I1, I1), np.array([[1.0]] + 7 * [[-1.0]])
    one, two, three = (local_constant(layer, r * x, 1e-6).value for r in (0.3, 1.4, 6.0))
    assert one < two > three
    assert abs(three / large_radius(-I1, I1, x).value - 1) <= 1e-6
