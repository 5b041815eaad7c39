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


def test_without_scores_or_values_there_is_nothing_to_bound():
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
