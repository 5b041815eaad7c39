"""The exponent of exponentially many tokens, and the tokens that reach it."""

import math

import numpy as np
import pytest
from balls import I1, I2, I3, SEEDS, SKEW, WIDE, in_ball, norm
from hypothesis import given, settings
from hypothesis import strategies as st
from tolerances import EXPONENTIAL, ROUNDING

from attnflow.errors import NotConverged
from attnflow.lipschitz import (
    crowd,
    dual,
    exponent,
    exponent_lower_bound,
    exponent_upper_bound,
    gamma,
    mean_field_upper,
    one_leader,
    sharper_lower_bound,
    upper_bound,
)


def matrix(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 6))
    A = rng.normal(size=(d, d)) * 10 ** rng.uniform(-2, 2)
    form = rng.integers(4)
    if form == 1:
        A = A + A.T
    if form == 2:
        A = A @ A.T * rng.choice([-1, 1])
    if form == 3:
        A = np.diag(rng.choice([-1.0, 8.0, 3.0, 0.5], size=d))
    return A


def gain(A, x):
    """(|Ax| - <Ax, x>) / 2."""
    return (np.linalg.norm(x @ A.T, axis=-1) - np.einsum("...i,...i", x @ A.T, x)) / 2


@settings(max_examples=100, deadline=None)
@given(SEEDS)
def test_the_exponent_is_attained_and_nothing_is_above_it(seed):
    A = matrix(seed)
    found = exponent(A)
    assert found.converged
    assert found.residual <= dual.CLOSED * found.value
    assert np.linalg.norm(found.x) <= 1 + ROUNDING
    assert abs(gain(A, found.x) - found.value) <= EXPONENTIAL * found.value
    x = in_ball(3000, len(A), 1.0, seed)
    assert gain(A, x).max() <= found.value * (1 + EXPONENTIAL) + found.residual


@settings(max_examples=50, deadline=None)
@given(SEEDS)
def test_it_lies_between_gamma_and_the_norm(seed):
    A = matrix(seed)
    found = exponent(A).value
    assert gamma(A) <= found * (1 + EXPONENTIAL)
    assert found <= np.linalg.norm(A, 2) * (1 + EXPONENTIAL)


@pytest.mark.parametrize("A", [-2 * I2, 8 * I3, np.diag([-1.0, 3.0]), np.diag([1.0, 3.0]), -3 * I1])
def test_where_an_eigenvector_is_best_it_is_gamma(A):
    assert abs(exponent(A).value / gamma(A) - 1) <= EXPONENTIAL


@pytest.mark.parametrize("L", [4.0, 8.0, 16.0, 64.0])
def test_beyond_three_no_eigenvector_is_best(L):
    """diag(-1, L): sqrt(s + L^2 t) + s - Lt over s + t <= 1 in one variable."""
    t = np.linspace(0, 1, 1_000_001)
    edge = (np.sqrt(1 - t + L**2 * t) + 1 - t - L * t).max() / 2
    found = exponent(np.diag([-1.0, L])).value
    assert abs(found / max(edge, L / 8) - 1) <= 1e-9
    assert found > gamma(np.diag([-1.0, L])) * 1.001


def test_an_orthogonal_matrix_is_known():
    """|Ax| = |x|: the exponent is (1 - min <Ax, x>) / 2."""
    turn = 2.0
    A = np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
    assert abs(exponent(A).value - (1 - math.cos(turn)) / 2) <= EXPONENTIAL


@pytest.mark.parametrize(
    ("A", "want"), [(-I3, 1.0), (8 * I2, 1.0), ([[0.0, 1.0], [-1.0, 0.0]], 0.5)]
)
def test_a_point_that_is_not_the_best_says_how_much_it_misses(
    A: list[list[float]], want: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = crowd.best_in_plane
    monkeypatch.setattr(crowd, "best_in_plane", lambda *given: 0.9 * honest(*given))
    with pytest.warns(NotConverged, match="the exponent may be larger by that share"):
        found = exponent(A)
    assert not found.converged
    assert found.value < 0.999 * want
    assert abs(found.value + found.residual - want) <= EXPONENTIAL


def test_the_interval_is_halved_down_to_rounding_and_no_further() -> None:
    """It has length 7, and numbers near 1 are rounded by at most half of their spacing."""
    rounding = np.spacing(1.0) / 2
    halvings = exponent(SKEW).iterations
    assert 7 / 2**halvings <= rounding < 7 / 2 ** (halvings - 1)


def test_without_scores_there_is_nothing_to_gain():
    assert exponent(0 * I2) == (0.0, pytest.approx([0.0, 0.0]), 0.0, 0, True)
    assert one_leader(0 * I2, 2.0, 3).shape == (3, 2)
    assert exponent_lower_bound(0 * I2, 1.0, 5) == pytest.approx(2 / 5)


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.sampled_from([0.5, 1.0, 2.0]), st.integers(2, 9))
def test_the_followers_answer_as_much_as_is_said(seed, scale, n):
    A = matrix(seed)
    R = scale / math.sqrt(np.linalg.norm(A, 2))
    x = one_leader(A, R, n)
    assert x.shape == (n, len(A))
    assert np.linalg.norm(x, axis=1).max() <= R * (1 + ROUNDING)
    scores = x @ A.T @ x.T
    lead = scores[1, 0] - scores[1, 1]
    assert abs(lead / (2 * exponent(A).value * R**2) - 1) <= EXPONENTIAL * 100
    measured = norm(A, np.eye(len(A)), x)
    assert exponent_lower_bound(A, R, n) <= measured * (1 + EXPONENTIAL * 100)
    assert measured <= exponent_upper_bound(A, np.eye(len(A)), R, n)
    assert measured <= exponent_upper_bound(A, np.eye(len(A)), R)


def test_the_best_followers_promise_more_than_those_on_an_eigenvector():
    A = np.diag([-1.0, 8.0])
    R = math.sqrt(1.5)
    assert exponent_lower_bound(A, R, 78) > 1.3 * sharper_lower_bound(A, R, 78)


def test_the_bound_from_above_is_its_formula():
    A, V, R = SKEW, WIDE, 0.7
    g, v = np.linalg.norm(A, 2) * R**2, np.linalg.norm(V, 2)
    c = (1 + 4 * g) ** 3 * math.exp(1 + 2 * exponent(A).value * R**2)
    assert exponent_upper_bound(A, V, R) == pytest.approx(v * (g + (1 + g) * math.sqrt(c)))
    assert exponent_upper_bound(A, V, R, 5) == pytest.approx(v * (g + (1 + g) * math.sqrt(5)))
    assert exponent_upper_bound(A, 0 * V, R) == 0
    assert exponent_upper_bound(-I2, I2, 100.0) == math.inf
    assert exponent_upper_bound(-I2, I2, 100.0, 4) < upper_bound(-I2, I2, 100.0, 4)


def test_for_positive_scores_the_exponent_is_a_sixteenth_of_the_published_one():
    for R in (6.0, 9.0):
        ours, theirs = exponent_upper_bound(I1, I1, R), mean_field_upper(I1, I1, R)
        assert math.log(ours) < 0.3 * math.log(theirs)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: exponent(np.ones((2, 3))), r"A must be square, got shape \(2, 3\)"),
        (lambda: exponent([[np.nan]]), "A must be finite, got nan"),
        (lambda: one_leader(I2, 0.0, 3), "R must be a finite number > 0, got 0"),
        (lambda: one_leader(I2, 1.0, 1), "n must be a whole number >= 2, got 1"),
        (lambda: exponent_lower_bound(I2, 1.0, 1), "n must be a whole number >= 2, got 1"),
        (lambda: exponent_upper_bound(I2, I2, 1.0, 0), "n must be a whole number >= 1, got 0"),
        (lambda: exponent_upper_bound(I2, I3, 1.0), r"as many columns as V, got \(2, 2\)"),
    ],
)
def test_what_has_no_exponent_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
