"""What the functions of the sphere refuse, and in which words."""

import numpy as np
import pytest
from spheres import ball

from attnflow import sphere

SPHERE_RULE = "x must lie on the unit sphere, got a token of norm"

X = ball(4, 3)

NEEDS_TOKENS = [
    lambda x: sphere.velocity(x, 1.0),
    lambda x: sphere.flow(x, 1.0, [0.0, 1.0]),
    lambda x: sphere.energy(x, 1.0),
    lambda x: sphere.energy_rate(x, 1.0),
    lambda x: sphere.clusters(x, 0.1),
]

NEEDS_BETA = [
    lambda beta: sphere.velocity(X, beta),
    lambda beta: sphere.flow(X, beta, [0.0, 1.0]),
    lambda beta: sphere.energy(X, beta),
    lambda beta: sphere.energy_rate(X, beta),
    lambda beta: sphere.uniform_energy(beta, 3),
    lambda beta: sphere.dirac_energy(beta),
    lambda beta: sphere.gram_flow(np.eye(3), beta, [0.0, 1.0]),
    lambda beta: sphere.gamma(beta, 4, [1.0]),
    lambda beta: sphere.hitting_time(beta, 4, 0.1),
    lambda beta: sphere.merge_time(beta, 1.0, 0.1),
]


@pytest.mark.parametrize("call", NEEDS_TOKENS)
@pytest.mark.parametrize(
    ("x", "message"),
    [
        (2 * X, f"{SPHERE_RULE} 2 at row"),
        (np.vstack([X, np.zeros(3)]), f"{SPHERE_RULE} 0 at row 4"),
        (X[:1], "x must hold at least two tokens, got 1"),
        ([[1.0], [-1.0]], r"x must have at least two columns, got shape \(2, 1\)"),
        ([1.0, -1.0], r"x must have at least two columns, got shape \(2, 1\)"),
        (np.empty((0, 3)), "x must hold at least one token"),
        ([[np.nan, 1.0], [1.0, 0.0]], "x must be finite, got nan"),
        (np.ones((2, 2, 2)), "x must have 2 axes"),
        ("tokens", "x must be an array of real numbers"),
    ],
    ids=["long", "zero", "one", "line", "vector", "none", "nan", "axes", "text"],
)
def test_tokens_must_lie_on_the_sphere(call, x, message):
    with pytest.raises(ValueError, match=message):
        call(x)


@pytest.mark.parametrize("call", NEEDS_BETA)
@pytest.mark.parametrize("beta", [-1e-9, -1.0, np.nan, np.inf, 701.0, 1e300, "hot", None, [1.0]])
def test_beta_must_be_a_number_from_zero_to_seven_hundred(call, beta):
    with pytest.raises(ValueError, match=r"beta must (be a number >= 0|lie in \[0, 700\]), got"):
        call(beta)


@pytest.mark.parametrize(
    "call",
    [
        lambda: sphere.energy(X, 0.0),
        lambda: sphere.energy_rate(X, 0.0),
        lambda: sphere.uniform_energy(0, 3),
        lambda: sphere.dirac_energy(0.0),
    ],
)
def test_energies_need_a_beta_above_zero(call):
    with pytest.raises(ValueError, match="beta must be > 0 for an energy"):
        call()


@pytest.mark.parametrize("V", [np.eye(2), np.ones((3, 2)), np.ones((2, 3)), np.eye(4)])
def test_the_energy_needs_a_square_matrix_v(V):
    with pytest.raises(ValueError, match=r"V must have shape \(3, 3\), got \("):
        sphere.energy(X, 1.0, V)


def test_the_energy_refuses_a_matrix_v_that_is_no_number_or_too_large():
    with pytest.raises(ValueError, match="V must be finite, got nan"):
        sphere.energy(X, 1.0, np.full((3, 3), np.nan))
    with pytest.raises(ValueError, match=r"finite|too large"):
        sphere.energy(X, 700.0, 3 * np.eye(3))


@pytest.mark.parametrize(
    ("G0", "message"),
    [
        ([[1.0, 0.5], [0.4, 1.0]], "G0 must be symmetric with ones on its diagonal"),
        ([[1.0, 0.5], [0.5, 0.9]], "G0 must be symmetric with ones on its diagonal"),
        (2 * np.eye(3), "G0 must be symmetric with ones on its diagonal"),
        (
            [[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]],
            "G0 must be positive semi-definite, got an eigenvalue -0.8",
        ),
        ([[1.0, 1.1], [1.1, 1.0]], "G0 must be positive semi-definite, got an eigenvalue -0.1"),
        ([[1.0]], r"G0 must be a square matrix of two tokens or more, got shape \(1, 1\)"),
        (np.ones((2, 3)), r"G0 must be a square matrix of two tokens or more, got shape \(2, 3\)"),
        ([1.0, 0.0], "G0 must have 2 axes"),
        ([[1.0, np.nan], [np.nan, 1.0]], "G0 must be finite, got nan"),
        ("gram", "G0 must be an array of real numbers"),
    ],
)
def test_gram_matrices_must_be_those_of_unit_vectors(G0, message):
    with pytest.raises(ValueError, match=message):
        sphere.gram_flow(G0, 1.0, [0.0, 1.0])


@pytest.mark.parametrize("times", [[0.0], [], [1.0, 0.0], [0.0, 0.0], [0.0, np.nan], 1.0, "soon"])
def test_flows_need_increasing_times(times):
    for call in (
        lambda: sphere.flow(X, 1.0, times),
        lambda: sphere.gram_flow(np.eye(3), 1.0, times),
    ):
        with pytest.raises(ValueError, match="times must"):
            call()


@pytest.mark.parametrize("times", [[], [-1.0], [-1.0, 1.0], [1.0, 1.0], [2.0, 1.0], [np.nan], 1.0])
def test_gamma_needs_times_from_zero_on(times):
    with pytest.raises(ValueError, match="times must"):
        sphere.gamma(1.0, 4, times)


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, 2.0, np.nan, np.inf, "small", None])
def test_delta_must_lie_between_zero_and_one(delta):
    for call in (
        lambda: sphere.hitting_time(1.0, 4, delta),
        lambda: sphere.clusters(X, delta),
    ):
        with pytest.raises(ValueError, match=r"delta must (be a|lie between 0 and 1)"):
            call()


@pytest.mark.parametrize("n", [1, 0, -2, 2.5, "many", None, np.nan])
def test_two_tokens_or_more_are_needed(n):
    for call in (lambda: sphere.gamma(1.0, n, [1.0]), lambda: sphere.hitting_time(1.0, n, 0.1)):
        with pytest.raises(ValueError, match="n must be a whole number >= 2, got"):
            call()


@pytest.mark.parametrize("d", [1, 0, 2.5, "high"])
def test_two_dimensions_or_more_are_needed(d):
    with pytest.raises(ValueError, match="d must be a whole number >= 2, got"):
        sphere.uniform_energy(1.0, d)
    with pytest.raises(ValueError, match="d must be a whole number >= 2, got"):
        sphere.uniform(3, d, np.random.default_rng(0))


@pytest.mark.parametrize("n", [0, -1, 1.5])
def test_uniform_draws_one_token_or_more(n):
    with pytest.raises(ValueError, match="n must be a whole number >= 1, got"):
        sphere.uniform(n, 3, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("angle", "end", "message"),
    [
        (0.1, 0.5, "angles must satisfy 0 < end < angle < pi, got"),
        (0.5, 0.5, "angles must satisfy 0 < end < angle < pi, got"),
        (np.pi, 0.5, "angles must satisfy 0 < end < angle < pi, got"),
        (4.0, 0.5, "angles must satisfy 0 < end < angle < pi, got"),
        (0.0, -0.5, "angle must be a finite number > 0"),
        (1.0, 0.0, "end must be a finite number > 0"),
        (1.0, -0.1, "end must be a finite number > 0"),
        (np.nan, 0.1, "angle must be a finite number > 0"),
        (1.0, "soon", "end must be a number > 0"),
    ],
)
def test_angles_must_fall_from_below_pi_to_above_zero(angle, end, message):
    with pytest.raises(ValueError, match=message):
        sphere.merge_time(1.0, angle, end)
