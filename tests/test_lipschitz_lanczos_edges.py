"""Lanczos where the basis is long, and where little is left of a vector."""

import numpy as np
import pytest
from tolerances import ROUNDING

from attnflow.attention import SoftmaxAttention
from attnflow.errors import NotConverged
from attnflow.lipschitz import lanczos, local_constant


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_a_vector_of_any_length_is_made_orthogonal_where_little_of_it_is_left(size: float) -> None:
    rng = np.random.default_rng(0)
    rows = np.linalg.qr(rng.normal(size=(50, 11)))[0].T
    basis, other = rows[:10], rows[10]
    y = size * (rng.normal(size=10) @ basis + 1e-11 * other)
    left = lanczos._orthogonal(y, basis)
    assert left == pytest.approx(1e-11 * size, rel=1e-3)
    assert np.abs(basis @ y).max() <= ROUNDING * left


def test_three_hundred_steps_are_taken_where_nobody_says_how_many() -> None:
    """One token answers by V alone, whose singular values crowd together at the largest."""
    V = np.diag(1 - np.linspace(0, 1, 320) ** 2)
    zero = np.zeros((1, 320))
    with pytest.warns(NotConverged, match=r"stopped after 300 iterations"):
        found = local_constant(SoftmaxAttention(zero, zero, V), np.ones((1, 320)), 1e-12)
    assert found.iterations == 300
    assert not found.converged
    assert found.lower <= 1 <= found.upper
