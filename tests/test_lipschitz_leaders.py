import math

import numpy as np
import pytest
from balls import I1, I2, I3, SEEDS, SKEW, WIDE, dense, norm, problem
from hypothesis import given, settings
from scipy.optimize import minimize
from scipy.special import expit
from tolerances import EXPONENTIAL, ROUNDING

from attnflow.lipschitz import (
    grouped_constant,
    places,
    sharp_constant,
    tight_upper_bound,
    two_leaders,
    two_leaders_bound,
)

QUARTER = np.array([[0.0, 1.0], [-1.0, 0.0]])


def undecided(A, V, x, causal=False):
    """The answer of all but the leaders when these move along A x in opposite senses."""
    step = A @ x[2] / np.linalg.norm(A @ x[2]) / math.sqrt(2)
    J = dense(A, V, x, causal)[2:]
    return np.linalg.norm(J[:, :, 0] @ step - J[:, :, 1] @ step)


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_two_leaders_answer_as_much_as_is_said(seed):
    A, V, R, n = problem(seed, least=2)
    x, bound = two_leaders(A, V, R, n), two_leaders_bound(A, V, R, n)
    assert x.shape == (n, len(A))
    assert np.linalg.norm(x, axis=1).max() <= R * (1 + ROUNDING)
    assert bound > 0
    assert abs(bound / undecided(A, V, x) - 1) <= EXPONENTIAL * 100
    scores = x[:2] @ A @ x[2]
    assert abs(scores[0] - scores[1]) <= EXPONENTIAL * np.linalg.norm(A, 2) * R**2
    assert bound <= norm(A, V, x) * (1 + EXPONENTIAL)
    assert bound <= undecided(A, V, x, causal=True) * (1 + EXPONENTIAL * 100)
    assert bound <= norm(A, V, x, causal=True) * (1 + EXPONENTIAL)


@pytest.mark.parametrize(("A", "V"), [(-I3, I3), (SKEW, WIDE), (SKEW.T @ SKEW, np.diag([1.0, 5.0, 2.0])), (QUARTER, I2), (np.diag([-1.0, 8.0]), I2)])  # fmt: skip
def test_the_leaders_stand_nearly_as_well_as_they_can(A, V):
    """A search over directions of followers, places on their rays and all w finds little better."""
    R, n, d = 2.0, 12, len(A)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60_000, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = x @ A.T
    size, score = np.linalg.norm(y, axis=1), (x * y).sum(axis=1)
    w = rng.normal(size=x.shape)
    w -= (w * y).sum(axis=1, keepdims=True) * y / size[:, None] ** 2
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    angle, r = rng.uniform(0, math.pi / 2, len(x)), rng.uniform(0, 1, len(x))
    lead = R**2 * r * (np.cos(angle) * size - r * score)
    p = 1 / (1 + (n - 2) / 2 * np.exp(-lead))
    answer = math.sqrt((n - 2) / 2) * p * R**2 * np.sin(angle) * r * size
    best = (answer * np.linalg.norm(w @ V.T, axis=1)).max()
    assert two_leaders_bound(A, V, R, n) >= 0.95 * best


def climbed(A, R, n, starts=12):
    """The largest answer for V = I that a simplex finds from random places of followers and leaders."""
    rng, d, crowd = np.random.default_rng(0), len(A), math.log((n - 2) / 2)

    def loss(z):
        x = z[:d] / max(1.0, np.linalg.norm(z[:d]))
        size, cos = np.linalg.norm(A @ x), math.tanh(z[d])
        p = expit(R**2 * (cos * size - x @ A @ x) - crowd)
        return -math.sqrt((n - 2) / 2) * p * R**2 * size * math.sqrt(1 - cos**2)

    exactly = {"xatol": 1e-10, "fatol": 1e-13, "maxiter": 6000, "maxfev": 6000}
    found = [
        minimize(loss, z, method="Nelder-Mead", options=exactly)
        for z in rng.normal(size=(starts, d + 1))
    ]
    return -min(result.fun for result in found)


CROSSING = np.diag([3.0, 3.0, -1.0])  # the best direction lies between two eigenvectors


@pytest.mark.parametrize("n", [3, 12, 5000])
@pytest.mark.parametrize("A", [I2, -I2, -0.4 * I3, QUARTER, np.diag([-1.0, 8.0]), np.diag([-1.0, -2.0]), CROSSING, SKEW, SKEW - SKEW.T])  # fmt: skip
def test_for_values_that_keep_lengths_no_places_are_better(A, n):
    """At every radius: a search over all places finds no more, and a search that succeeds no less."""
    for R in (0.5, 1.5, 4.0):
        ours, best = two_leaders_bound(A, np.eye(len(A)), R, n), climbed(A, R, n)
        assert best * (1 - 1e-12) <= ours <= best * (1 + 1e-6)


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_no_other_angle_and_no_other_place_on_the_ray_is_better(seed):
    A, V, R, n = problem(seed, least=2)
    found = places(A, V, R, n)
    y = A @ found.follower
    across = (found.first - found.second) / np.linalg.norm(found.first - found.second)
    y, x = y / np.linalg.norm(y), found.follower / np.linalg.norm(found.follower)
    turn, rho = np.meshgrid(np.linspace(0, math.pi / 2, 400), np.linspace(0, 1, 400))
    size, score = np.linalg.norm(A @ x), x @ A @ x
    p = expit(R**2 * rho * (np.cos(turn) * size - rho * score) - math.log((n - 2) / 2))
    answer = math.sqrt((n - 2) / 2) * p * R**2 * np.sin(turn) * rho * size
    best = (answer * np.linalg.norm(V @ across)).max()
    assert best * (1 - EXPONENTIAL) <= found.bound <= best * 1.01


@pytest.mark.parametrize("A", [I2, -I2, QUARTER, np.diag([-1.0, 8.0]), SKEW, SKEW - SKEW.T, np.array([[1.0, 1.0], [-1.0, 0.0]])])  # fmt: skip
def test_in_a_large_ball_they_reach_the_sharp_constant(A):
    """Whatever A, symmetric or not, skew or not: R^2 = 10^4 log n / |A|, n = 10^4."""
    n, V = 10_000, np.eye(len(A))
    R = math.sqrt(1e4 * math.log(n) / np.linalg.norm(A, 2))
    found = places(A, V, R, n)
    reached = found.bound / (R**2 * math.sqrt(n / 2))
    want = sharp_constant(A).value
    assert 0.98 * want <= reached <= want
    c = grouped_constant(A, V, [found.first, found.second, found.follower], [1, 1, n - 2])
    assert found.bound <= c * (1 + EXPONENTIAL)
    assert c <= tight_upper_bound(A, V, R, n)


def test_two_leaders_need_room():
    with pytest.raises(ValueError, match="orthogonal to Ax, got dimension 1"):
        two_leaders(I1, I1, 1.0, 4)


def test_without_scores_or_values_there_is_nothing_to_bound():
    assert two_leaders_bound(0 * I2, I2, 1.0, 4) == 0
    assert two_leaders_bound(I2, 0 * I2, 1.0, 4) == 0
    assert np.isfinite(two_leaders(0 * I2, I2, 1.0, 4)).all()


def best_on_a_grid(A: np.ndarray, V: np.ndarray, R: float, n: int, x: np.ndarray) -> float:
    """In the plane: the largest answer with followers on the ray of x, over angles and places."""
    y = A @ x
    across = np.array([-y[1], y[0]]) / np.linalg.norm(y)
    turn, rho = np.meshgrid(np.linspace(0, math.pi / 2, 300), np.linspace(0, 1, 300))
    lead = R**2 * rho * (np.cos(turn) * np.linalg.norm(y) - rho * (x @ y))
    p = expit(lead - math.log((n - 2) / 2))
    answer = math.sqrt((n - 2) / 2) * p * R**2 * np.sin(turn) * rho * np.linalg.norm(y)
    return float((answer * np.linalg.norm(V @ across)).max())


@pytest.mark.parametrize(
    ("A", "V", "n"),
    [
        ([[-2.0, 3.0], [-2.0, 0.0]], [[2.0, 1.0]], 5000),
        ([[0.0, -2.0], [-1.0, -2.0]], [[1.0, 1.0]], 12),
        ([[1.0, -2.0], [2.0, 3.0]], [[1.0, -2.0]], 12),
    ],
)
def test_followers_on_an_axis_of_the_symmetric_part_do_not_answer_more(
    A: list[list[float]], V: list[list[float]], n: int
) -> None:
    scores, values = np.array(A), np.array(V)
    bound = two_leaders_bound(scores, values, 1.0, n)
    for x in np.linalg.eigh(scores + scores.T)[1].T:
        assert best_on_a_grid(scores, values, 1.0, n, x) <= bound * (1 + EXPONENTIAL)


def test_followers_between_two_eigenvectors_do_not_answer_more() -> None:
    A, n, R = np.diag([8.0, -1.0]), 5000, 1.5
    turns = np.linspace(0, math.pi / 2, 40)
    found = [best_on_a_grid(A, I2, R, n, np.array([np.cos(t), np.sin(t)])) for t in turns]
    assert 1 <= int(np.argmax(found)) < len(turns) - 1
    assert max(found) <= two_leaders_bound(A, I2, R, n) * (1 + EXPONENTIAL)
