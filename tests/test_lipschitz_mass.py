"""Bounds of sigmoid attention on a ball, and the crowds that reach them."""

import numpy as np
import pytest
from balls import I1, I2, SEEDS, SKEW, in_ball, problem
from hypothesis import given, settings
from hypothesis import strategies as st
from jacobians import dense, sigmoid
from tolerances import ROUNDING

from attnflow.lipschitz import (
    Head,
    sigmoid_leaders,
    sigmoid_leaders_bound,
    sigmoid_upper_bound,
)


def norm(A, V, x, causal=False):
    return np.linalg.norm(dense([Head(A, np.eye(len(A)), V, causal=causal)], x, sigmoid), 2)


def answer_of_others(A, V, x):
    """The largest answer of the others when the first token moves."""
    n, d = x.shape
    J = dense([Head(A, np.eye(d), V)], x, sigmoid).reshape(n, -1, n, d)
    return np.linalg.norm(J[1:, :, 0].reshape(-1, d), 2)


@settings(max_examples=100, deadline=None)
@given(SEEDS, st.booleans())
def test_no_tokens_of_the_ball_exceed_the_upper_bound(seed, causal):
    A, V, R, n = problem(seed)
    bound = sigmoid_upper_bound(A, V, R, n) * (1 + ROUNDING)
    assert norm(A, V, in_ball(n, len(A), R, seed), causal) <= bound
    for leaders in (1, n // 2):
        assert norm(A, V, sigmoid_leaders(A, R, n, leaders), causal) <= bound


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.booleans())
def test_leaders_reach_what_is_said_of_them(seed, causal):
    A, V, R, n = problem(seed)
    for leaders in (1, n // 2, n - 1):
        x = sigmoid_leaders(A, R, n, leaders)
        bound = sigmoid_leaders_bound(A, V, R, n, leaders)
        assert norm(A, V, x, causal) >= bound * (1 - 1e-9)


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_one_leader_is_the_worst_of_single_tokens_where_there_are_many(seed):
    A, _, R, n = problem(seed)
    V, R = np.eye(len(A)), min(R, np.sqrt(np.log(n) / np.linalg.norm(A, 2)))  # n >= e^g
    most = sigmoid_leaders_bound(A, V, R, n)
    assert answer_of_others(A, V, in_ball(n, len(A), R, seed)) <= most * (1 + 1e-9)
    assert answer_of_others(A, V, sigmoid_leaders(A, R, n)) == pytest.approx(most, rel=1e-9)


@pytest.mark.parametrize("n", [3, 8, 20])
def test_tokens_in_one_place_reach_the_upper_bound(n):
    for A in (I2, np.diag([1.0, -0.5])):
        x = np.tile([1.0, 0.0], (n, 1))
        assert norm(A, I2, x) == pytest.approx(sigmoid_upper_bound(A, I2, 1.0, n), rel=1e-12)


def test_half_of_the_tokens_reach_a_quarter_where_there_are_many():
    g = np.linalg.norm(SKEW, 2)
    for n in (2 * int(np.exp(g)), 1000, 10**6):
        bounds = sigmoid_leaders_bound(SKEW, np.eye(3), 1.0, n, n // 2), sigmoid_upper_bound(SKEW, np.eye(3), 1.0, n)  # fmt: skip
        assert 0.25 < bounds[0] / bounds[1] < 0.5


def test_the_number_of_tokens_has_a_last_word():
    g = 3.0
    most = (1 + 2 * g) * np.exp(g)
    found = [sigmoid_upper_bound(-g * I1, I1, 1.0, n) for n in (10, 1000, 10**9)]
    assert found[0] < found[1] < found[2] < most
    assert found[2] == pytest.approx(most, rel=1e-6)


def test_few_tokens_grow_like_their_number_and_a_sink_like_its_root():
    few = [sigmoid_leaders_bound(-30 * I1, I1, 1.0, n, n // 2) for n in (8, 16)]
    sink = [sigmoid_leaders_bound(-30 * I1, I1, 1.0, n + 1) for n in (8, 32)]
    assert few[1] / few[0] == pytest.approx(2, rel=1e-6)
    assert sink[1] / sink[0] == pytest.approx(2, rel=1e-6)
    many = [sigmoid_leaders_bound(-I1, I1, 1.0, n) for n in (10**8, 4 * 10**8)]
    assert many[1] / many[0] == pytest.approx(0.5, rel=1e-3)


def test_a_layer_without_scores_has_weights_below_one_over_n():
    assert sigmoid_upper_bound(0 * I2, 2 * I2, 1.0, 3) == pytest.approx(2 * 3 / 4)
    assert sigmoid_leaders(0 * I2, 1.0, 3).shape == (3, 2)


def test_all_tokens_cannot_lead():
    with pytest.raises(ValueError, match="leaders"):
        sigmoid_leaders(I2, 1.0, 4, 4)
    with pytest.raises(ValueError, match="leaders"):
        sigmoid_leaders_bound(I2, I2, 1.0, 4, 0)


def test_the_bound_from_below_takes_values_of_every_size():
    """Their squares are no numbers, their lengths are."""
    A, V = np.diag([2.0, -1.0]), np.array([[3.0, 1.0], [0.0, 4.0]])
    want = sigmoid_leaders_bound(A, V, 1.0, 9, 4)
    for size in (1e-300, 1e300):
        assert sigmoid_leaders_bound(A, size * V, 1.0, 9, 4) == pytest.approx(size * want)


@pytest.mark.parametrize("n", [3, 6])
def test_where_nobody_says_how_many_one_token_leads(n: int) -> None:
    x = sigmoid_leaders(SKEW, 2.0, n)
    scores = x[1:] @ SKEW.T @ x.T
    most = 4 * np.linalg.norm(SKEW, 2)
    assert np.abs(scores[:, 0] / most - 1).max() <= ROUNDING
    assert scores[:, 1:].max() < 0.99 * most
