"""Bounds at given tokens are bounds, for layers with everything that a head can have."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jacobians import dense, layer
from tolerances import EXPONENTIAL

from attnflow.attention import SoftmaxAttention
from attnflow.lipschitz import Head, upper_bound
from attnflow.lipschitz.ball import product_norm
from attnflow.trained.certificate import certificate, softmax_bound, softmax_norms
from attnflow.trained.sinks import split, unseen_bound

SEEDS = st.integers(0, 10_000)


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_the_certificate_bounds_the_norm(seed: int) -> None:
    heads, x = layer(seed)
    exact = np.linalg.norm(dense(heads, x), 2)
    found = certificate(heads, x)
    assert exact <= found.value * (1 + EXPONENTIAL)
    assert found.value == found.others + found.query
    assert exact <= softmax_bound(heads, x) * (1 + EXPONENTIAL)
    assert softmax_bound(heads, x) <= softmax_bound(heads, x, softmax=0.5) * (1 + EXPONENTIAL)


def test_the_certificate_is_exact_for_one_token() -> None:
    """One token attends to itself: the answer is WV e."""
    V, W = np.diag([1.0, 3.0]), np.diag([2.0, 1.0])
    heads = [Head(np.eye(2), np.eye(2), V, W)]
    assert certificate(heads, [[5.0, 1.0]]).value == pytest.approx(3.0, abs=EXPONENTIAL)


def test_heads_that_answer_apart_are_not_added_up() -> None:
    """Two heads with orthogonal answers: the root of two squares, not the sum."""
    zero, one = np.zeros((1, 1)), np.eye(1)
    heads = [
        Head(zero, one, one, np.array([[1.0], [0.0]])),
        Head(zero, one, one, np.array([[0.0], [1.0]])),
    ]
    x = [[1.0], [1.0], [1.0]]
    assert certificate(heads, x).value == pytest.approx(np.sqrt(2), abs=1e-7)


def test_the_certificate_is_far_below_the_bound_for_the_ball() -> None:
    """Tokens that attend to their own kind know it."""
    x = np.repeat(10 * np.eye(4), 8, axis=0)
    one = np.eye(4)
    here = certificate(SoftmaxAttention(one, one, one), x).value
    assert here < upper_bound(one, one, 10.0, len(x)) / 100


@given(SEEDS)
@settings(max_examples=40, deadline=None)
def test_softmax_norms_are_largest_eigenvalues(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(int(rng.integers(2, 9)), rng.choice([0.1, 1.0, 10.0])), size=3)
    exact = [np.linalg.eigvalsh(np.diag(row) - np.outer(row, row))[-1] for row in p]
    np.testing.assert_allclose(softmax_norms(p), exact, atol=1e-9)


def test_softmax_norms_at_the_edges() -> None:
    rows = [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.25] * 3 + [0.25]][:2]
    np.testing.assert_allclose(softmax_norms(rows), [0.0, 0.5], atol=1e-12)
    assert softmax_norms([[1.0]]).tolist() == [0.0]
    np.testing.assert_allclose(softmax_norms(np.full((1, 5), 0.2)), 0.2, atol=1e-12)


# --- sinks ---------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_moving_a_token_where_no_key_sees_it_bounds_the_norm_from_below(seed: int) -> None:
    heads, x = layer(seed)
    rng = np.random.default_rng(seed)
    if x.shape[1] > 1:  # a direction that no key sees
        away = rng.standard_normal(x.shape[1])
        away /= np.linalg.norm(away)
        heads = [h._replace(K=h.K - np.outer(h.K @ away, away)) for h in heads]
    place = int(rng.integers(len(x)))
    found = unseen_bound(heads, x, place)
    J = dense(heads, x).reshape(len(x), -1, *x.shape)
    assert found <= np.linalg.norm(dense(heads, x), 2) * (1 + 1e-9) + 1e-12
    if x.shape[1] > 1:
        others = np.delete(J[:, :, place] @ away, place, axis=0)
        assert np.linalg.norm(others) <= found * (1 + 1e-9) + 1e-12


def test_keys_that_see_everything_leave_nothing_to_say() -> None:
    one = np.eye(2)
    assert unseen_bound(SoftmaxAttention(one, one, one), [[1.0, 0.0], [0.0, 1.0]]) == 0.0


@settings(max_examples=20, deadline=None)
@given(SEEDS)
def test_a_split_is_one_of_columns(seed: int) -> None:
    heads, x = layer(seed, n=5)
    J = dense(heads, x)
    d = x.shape[1]
    parts = split(heads, x, (0, 3), tol=1e-8)
    mine = [*range(d), *range(3 * d, 4 * d)]
    rest = [c for c in range(5 * d) if c not in mine]
    exact = [np.linalg.norm(J[:, c], 2) for c in (mine, rest, mine + rest)]
    np.testing.assert_allclose(parts, exact, rtol=1e-6, atol=1e-9)
    assert max(parts[:2]) <= parts.every * (1 + 1e-6)
    assert parts.every <= np.hypot(*parts[:2]) * (1 + 1e-6)


def test_a_split_needs_two_sides() -> None:
    one = np.eye(1)
    layer_ = SoftmaxAttention(one, one, one)
    for some in ((), (0, 1)):
        with pytest.raises(ValueError, match="some must be at least one token and not all 2"):
            split(layer_, [[1.0], [2.0]], some)
    with pytest.raises(ValueError, match="place"):
        unseen_bound(layer_, [[1.0], [2.0]], 2)


@pytest.mark.parametrize("shape", [(9, 2, 7), (2, 9, 3), (4, 4, 4), (1, 3, 1)])
def test_the_norm_of_a_product_needs_no_product(shape):
    rng, (m, k, n) = np.random.default_rng(0), shape
    W, V = rng.normal(size=(m, k)), rng.normal(size=(k, n))
    assert product_norm(W, V) == pytest.approx(np.linalg.norm(W @ V, 2), rel=1e-13)
