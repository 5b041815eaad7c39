"""The linear response of inner products to a start that is nearly orthogonal."""

from __future__ import annotations

import numpy as np
import pytest

from attnflow.sphere import gram_flow, response

TIMES = np.array([0.0, 0.5, 2.0])


@pytest.mark.parametrize("n", [2, 3, 4, 9])
@pytest.mark.parametrize("normalised", [True, False])
def test_small_perturbations_follow_it_up_to_their_square(n, normalised):
    rng = np.random.default_rng(n)
    E = rng.normal(size=(n, n))
    E = E + E.T
    np.fill_diagonal(E, 0.0)
    law = response(1.5, n, TIMES, normalised)
    middle = gram_flow(np.eye(n), 1.5, TIMES, normalised).states
    misses = []
    for h in (2e-4, 1e-4):
        moved = gram_flow(np.eye(n) + h * E, 1.5, TIMES, normalised).states - middle
        misses.append(np.abs(moved - law.deviations(h * E)).max())
    assert misses[1] < 1e-6
    assert misses[0] / misses[1] == pytest.approx(4.0, abs=0.2)  # second order


def test_at_the_start_it_is_the_identity():
    law = response(2.0, 5, TIMES)
    assert law.same[0] == pytest.approx(1.0, abs=1e-9)
    assert abs(law.shared[0]) < 1e-9
    assert abs(law.apart[0]) < 1e-9
    assert law.spread[0] == pytest.approx(1.0, abs=1e-9)


def test_the_spread_is_that_of_uncorrelated_entries():
    n = 6
    law = response(1.0, n, TIMES)
    pairs = [(k, m) for k in range(n) for m in range(k)]
    weights = []
    for k, m in pairs:
        E = np.zeros((n, n))
        E[k, m] = E[m, k] = 1.0
        weights.append(law.deviations(E)[:, 0, 1])
    assert np.linalg.norm(weights, axis=0) == pytest.approx(law.spread)


def test_a_perturbation_of_another_size_is_refused():
    with pytest.raises(ValueError, match=r"shape \(4, 4\), got \(3, 3\)"):
        response(1.0, 4, TIMES).deviations(np.zeros((3, 3)))


def test_more_tokens_than_are_followed_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^n must be at most 2000, got 65504"):
        response(1.0, 65504, [0.0, 1.0])
