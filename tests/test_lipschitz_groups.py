import numpy as np
import pytest
from balls import I1, I2, SEEDS, norm, problem
from hypothesis import given, settings
from tolerances import EXPONENTIAL

from attnflow.attention import SoftmaxAttention
from attnflow.lipschitz import (
    adversarial,
    followed,
    grouped,
    grouped_constant,
    local_constant,
    two_leaders,
)


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_groups_have_the_constant_of_their_tokens(seed):
    """Against the whole Jacobian; groups of one, of several, and groups that stand together."""
    A, V, R, _ = problem(seed)
    rng = np.random.default_rng(seed)
    G = int(rng.integers(1, 5))
    x, counts = R * rng.normal(size=(G, len(A))), rng.integers(1, 5, G)
    if G > 2:
        x[1] = x[0]
    want = norm(A, V, grouped(x, counts))
    assert abs(grouped_constant(A, V, x, counts) / want - 1) <= EXPONENTIAL


def test_a_lone_group_is_one_token_counted_often():
    assert grouped_constant(-I2, 3 * I2, [[1.0, 2.0]], [1000]) == pytest.approx(3)


def test_many_tokens_are_no_more_work():
    """4096 tokens by products, 131072 and e^200 by their groups."""
    x, n = two_leaders(-I2, I2, 4.0, 4096), 4096
    found = local_constant(SoftmaxAttention(-I2, I2, I2), x, 1e-9).value
    assert grouped_constant(-I2, I2, x[:3], [1, 1, n - 2]) == pytest.approx(found, rel=1e-8)
    for g in (10.0, 100.0):
        pair = adversarial(-I1, np.sqrt(g), 2)
        c = grouped_constant(-I1, I1, pair, [1, np.exp(2 * g)])
        assert c >= followed(np.exp(2 * g), g) * (1 - EXPONENTIAL)
        assert abs(c / followed(np.exp(2 * g), g) - 1) <= 1e-4


@pytest.mark.parametrize("given", [{"counts": [1.0]}, {"counts": [1, 0]}, {"x": [[1.0], [2.0]]}])
def test_groups_that_do_not_fit_are_refused(given):
    arguments = {"x": np.eye(2), "counts": [1, 2]} | given
    with pytest.raises(ValueError, match="x must have 2 columns and a positive count a row"):
        grouped_constant(I2, I2, **arguments)
