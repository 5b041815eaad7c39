import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri
from tolerances import (
    DEFAULT_TOL,
    EXPONENTIAL,
    HALVING,
    MOVING_GRID,
    ROUNDING,
    SEVEN_DIGITS,
    SIX_DIGITS,
    SOLVED,
)

from attnflow import gaussian, schemes
from attnflow.attention import SinkhornAttention
from attnflow.densities import Gaussian, GaussianMixture
from attnflow.langevin import GridTooSmall
from attnflow.transport import self_bridge

STANDARD = Gaussian(0.0, 1.0)
MIX = GaussianMixture([0.5, 0.5], [-2.0, 2.0], [1.0, 1.0])
UNEVEN = GaussianMixture([0.3, 0.7], [-1.0, 1.5], [0.6, 2.0])
RULE = r"eps must be a (finite )?number > 0, got "


def cloud(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


# one layer


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    n=st.integers(2, 8),
    d=st.integers(1, 3),
    seed=st.integers(0, 99),
    eps=st.sampled_from([5.0, 20.0]),
    weighted=st.booleans(),
)
def test_the_bridge_step_is_twice_the_token_less_its_conditional_mean(n, d, seed, eps, weighted):
    x = cloud(n, d, seed)
    w = np.random.default_rng(seed).dirichlet(np.full(n, 5.0)) if weighted else None
    got = schemes.bridge_step(x, eps, w)
    assert np.abs(got - (2 * x - self_bridge(x, eps, w).barycentric())).max() <= ROUNDING * 10
    layer = SinkhornAttention(np.eye(d), np.eye(d), -np.eye(d), eps=eps)
    assert np.abs(got - (2 * x + layer.velocity(x, w))).max() <= DEFAULT_TOL * 100


@pytest.mark.filterwarnings("ignore::attnflow.schemes.Frozen")
@settings(max_examples=30, deadline=None, derandomize=True)
@given(n=st.integers(2, 8), d=st.integers(1, 3), seed=st.integers(0, 99))
def test_the_general_step_with_theta_minus_one_and_the_measure_itself_is_the_bridge_step(
    n, d, seed
):
    x, w = cloud(n, d, seed), np.random.default_rng(seed).dirichlet(np.full(n, 5.0))
    got = schemes.general_step(x, 5.0, -1.0, w)
    assert np.abs(got - schemes.bridge_step(x, 5.0, w)).max() <= ROUNDING * 10


@pytest.mark.parametrize("theta", [-2.0, 0.5, 1.0, 3.0])
def test_the_general_step_moves_a_share_of_the_way_to_the_conditional_mean(theta):
    x, w = cloud(6, 2), np.random.default_rng(1).dirichlet(np.ones(6))
    mean = self_bridge(x, 2.0, w).barycentric()
    want = (1 - 1 / theta) * x + mean / theta
    assert np.abs(schemes.general_step(x, 2.0, theta, w) - want).max() <= ROUNDING * 10


@pytest.mark.parametrize("theta", [-1.0, 1.0, 2.0])
def test_the_general_step_is_the_gradient_step_to_first_order(theta):
    """With sigma = exp(2 theta psi), psi = -x^2/4: x + eps grad psi = x - eps x/2."""
    errors = []
    for eps in (0.02, 0.01):
        x = np.arange(-9, 9 + 1e-9, np.sqrt(eps) / 4)
        sigma = np.exp(-(x**2) / 2 * abs(theta))
        got = schemes.general_step(x, eps, theta, sigma / sigma.sum())[:, 0]
        middle = np.abs(x) <= 2
        want = x - np.sign(theta) * eps * x / 2
        errors.append(np.abs(got - want)[middle].max() / eps)
    assert errors[1] <= 0.01 * abs(theta)
    assert abs(errors[0] / errors[1] - 2) <= HALVING


def test_the_euler_step_subtracts_half_the_score_times_eps():
    x = cloud(7, 1)
    assert np.abs(schemes.euler_step(x, 0.2, STANDARD.score) - 1.1 * x).max() <= ROUNDING
    plane = cloud(7, 2)
    got = schemes.euler_step(plane, 0.4, lambda z: np.ones_like(z))
    assert np.abs(got - (plane - 0.2)).max() <= ROUNDING


def test_one_token_stays_where_it_is():
    assert np.abs(schemes.bridge_step([[2.0, -1.0]], 1e-3) - [[2.0, -1.0]]).max() <= ROUNDING


# frozen tokens


def evenly_spaced(n):
    """Tokens with the same normal mass between neighbours."""
    return ndtri((np.arange(n) + 0.5) / n)


def temperature(n, ratio):
    """The eps at which sqrt(eps) n rho_max = ratio, for a standard Gaussian."""
    return (ratio * np.sqrt(2 * np.pi) / n) ** 2


@pytest.mark.parametrize("n", [20, 200])
@pytest.mark.parametrize("ratio", [0.05, 0.2, 0.29])
def test_evenly_spaced_tokens_that_are_frozen_warn(n, ratio):
    with pytest.warns(schemes.Frozen, match=r"frozen when sqrt\(eps\) n rho_max < 0.3"):
        got = schemes.bridge_step(evenly_spaced(n), temperature(n, ratio))
    assert got.shape == (n, 1)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("ratio", [0.05, 0.1, 0.2])
def test_random_tokens_that_are_frozen_warn(seed, ratio):
    x = STANDARD.sample(200, np.random.default_rng(seed))
    with pytest.warns(schemes.Frozen, match=r"frozen when sqrt\(eps\) n rho_max < 0.3"):
        schemes.bridge_step(x, temperature(200, ratio))


@pytest.mark.parametrize("n", [20, 200])
@pytest.mark.parametrize("ratio", [1.0, 5.0])
def test_tokens_that_are_not_frozen_do_not_warn_and_spread(n, ratio):
    for x in (evenly_spaced(n)[:, None], STANDARD.sample(n, np.random.default_rng(0))):
        assert schemes.bridge_step(x, temperature(n, ratio)).std() > x.std()


# the score


@pytest.mark.parametrize(
    ("eps", "want", "digits"), [(0.1, 0.01958375, SEVEN_DIGITS), (0.01, 0.00197883, SIX_DIGITS)]
)
def test_the_score_error_of_the_mixture_is_the_known_number(eps, want, digits):
    assert abs(schemes.score_error(MIX, eps) / want - 1) <= digits


@pytest.mark.parametrize("s", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("eps", [0.01, 0.1, 1.0])
def test_the_score_error_of_a_gaussian_is_its_one_step_distance_over_eps(s, eps):
    want = gaussian.one_step_w2(s, eps)
    assert abs(schemes.score_error(Gaussian(0.3, s), eps) * eps - want) <= SOLVED
    assert abs(schemes.one_step_distance(Gaussian(0.3, s), eps) - want) <= SOLVED


@pytest.mark.parametrize("density", [MIX, UNEVEN])
def test_the_next_term_of_the_bridge_is_half_the_gradient_of_the_potential(density):
    """B(x) = x + eps b + (eps^2/2) grad U + O(eps^3): over eps^2 the rest at least halves with eps."""
    errors = []
    for eps in (0.02, 0.01):
        h = np.sqrt(eps) / 4
        x = np.arange(-9, 12, h)
        rho = density.pdf(x)
        B = self_bridge(x, eps, rho / rho.sum(), tol=1e-13).barycentric()[:, 0]
        middle = np.abs(x) <= 3
        got = (B - x - eps * density.score(x)[:, 0] / 2)[middle] / eps**2
        want = density.potential_gradient(x[middle])[:, 0] / 2
        errors.append(np.sqrt(rho[middle] @ (got - want) ** 2 * h))
    assert errors[1] <= 0.01**2 * 2
    assert errors[0] / errors[1] >= 2 - HALVING


# many layers


def test_the_uniform_error_of_the_bridge_is_the_known_number():
    assert abs(schemes.uniform_error(STANDARD, 0.1, 1.0) / 2.33554e-4 - 1) <= SIX_DIGITS
    assert abs(schemes.uniform_error(MIX, 0.1, 1.0) / 2.258833e-4 - 1) <= SEVEN_DIGITS


@pytest.mark.parametrize(("scheme", "eps"), [("bridge", 0.1), ("bridge", 0.02), ("euler", 0.05)])
@pytest.mark.parametrize("var", [1.0, 2.0])
def test_the_error_path_of_a_gaussian_is_that_of_the_recursion(scheme, eps, var):
    steps = round(0.4 / eps)
    recursion = {"bridge": gaussian.bridge_recursion, "euler": gaussian.euler_recursion}[scheme]
    sigma = recursion(var, eps, steps)
    want = np.abs(sigma - np.sqrt(var + eps * np.arange(steps + 1)))[1:]
    got = schemes.error_path(Gaussian(0.0, var), eps, 0.4, scheme)
    assert got.shape == (steps,)
    assert np.abs(got - want).max() <= MOVING_GRID


def test_the_uniform_error_of_euler_at_a_twentieth_is_that_of_the_recursion():
    sigma = gaussian.euler_recursion(1.0, 0.05, 20)
    want = np.abs(sigma - np.sqrt(1 + 0.05 * np.arange(21))).max()
    assert abs(schemes.uniform_error(STANDARD, 0.05, 1.0, "euler") - want) <= MOVING_GRID


@pytest.mark.parametrize(("scheme", "order"), [("bridge", 2), ("euler", 1)])
def test_the_uniform_error_of_the_mixture_has_the_order_of_the_scheme(scheme, order):
    errors = [schemes.uniform_error(MIX, eps, 0.4, scheme) for eps in (0.04, 0.02)]
    assert abs(np.log2(errors[0] / errors[1]) - order) <= HALVING


@pytest.mark.parametrize("scheme", ["bridge", "euler"])
def test_the_uniform_error_is_the_largest_of_the_error_path(scheme):
    path = schemes.error_path(MIX, 0.05, 0.3, scheme)
    assert path.shape == (6,)
    assert (path > 0).all()
    assert schemes.uniform_error(MIX, 0.05, 0.3, scheme) == path.max()


@pytest.mark.parametrize("density", [STANDARD, MIX, UNEVEN])
@pytest.mark.parametrize("scheme", ["bridge", "euler"])
def test_the_density_carried_by_the_nodes_is_a_density_near_that_of_the_heat_flow(density, scheme):
    eps, bound = 0.025, {"bridge": 0.025**2, "euler": 0.025 / 4}[scheme]
    path = schemes.node_path(density, eps, 0.25, scheme)
    assert path.states.shape == (11, len(path.nodes.x))
    assert np.abs(path.times - eps * np.arange(11)).max() <= ROUNDING
    assert (path.states[0] == path.nodes.x).all()
    assert (np.diff(path.states, axis=1) > 0).all()
    for k in (0, 1, 10):
        x, rho = path.states[k], path.density(k)
        # the trapezoidal rule on the moved nodes, to its own second order
        assert abs(np.trapezoid(rho, x) - 1) <= 2 * path.nodes.h**2
        error = np.abs(rho - density.heat(path.times[k]).pdf(x)).max()
        assert error <= (EXPONENTIAL if k == 0 else bound)


def test_a_narrow_grid_warns():
    with pytest.warns(GridTooSmall, match="cuts off"):
        schemes.error_path(STANDARD, 0.1, 0.2, half_width=3.0)


def test_a_narrow_grid_warns_for_euler_too():
    with pytest.warns(GridTooSmall, match="cuts off"):
        schemes.error_path(STANDARD, 0.05, 0.2, "euler", half_width=3.0)


# what is refused


@pytest.mark.parametrize(("T", "eps", "n"), [(1.0, 0.1, 10), (0.3, 0.1, 3), (2.0, 2.0, 1)])
def test_the_number_of_steps_is_the_ratio(T, eps, n):
    assert schemes.steps_to(T, eps) == n


@pytest.mark.parametrize(("T", "eps"), [(1.0, 0.3), (0.05, 0.1), (1.0, 0.1001), (1e-9, 1.0)])
def test_a_time_that_is_not_a_multiple_of_eps_is_refused(T, eps):
    for f in (
        lambda: schemes.steps_to(T, eps),
        lambda: schemes.node_path(STANDARD, eps, T),
        lambda: schemes.error_path(STANDARD, eps, T),
        lambda: schemes.uniform_error(STANDARD, eps, T),
    ):
        with pytest.raises(ValueError, match="T must be a multiple of eps, got T = "):
            f()


@pytest.mark.parametrize(("var", "eps"), [(1.0, 0.1), (1.0, 0.0501), (0.5, 0.05)])
def test_euler_refuses_a_step_at_which_it_is_unstable(var, eps):
    with pytest.raises(ValueError, match=r"explicit Euler needs eps <= 0\.05 times the smallest"):
        schemes.node_path(Gaussian(0.0, var), eps, 4 * eps, "euler")


@pytest.mark.parametrize("eps", [0.0, -1.0, np.nan, np.inf, "warm", None])
def test_every_function_refuses_a_temperature_that_is_not_positive(eps):
    x = [[0.0], [1.0]]
    for f in (
        lambda: schemes.bridge_step(x, eps),
        lambda: schemes.euler_step(x, eps, STANDARD.score),
        lambda: schemes.general_step(x, eps, 1.0, [0.5, 0.5]),
        lambda: schemes.steps_to(1.0, eps),
        lambda: schemes.score_error(STANDARD, eps),
        lambda: schemes.one_step_distance(STANDARD, eps),
        lambda: schemes.uniform_error(STANDARD, eps, 1.0),
    ):
        with pytest.raises(ValueError, match=RULE):
            f()


@pytest.mark.parametrize("T", [0.0, -1.0, np.nan, "late"])
def test_a_time_that_is_not_positive_is_refused(T):
    with pytest.raises(ValueError, match=r"T must be a (finite )?number > 0, got "):
        schemes.uniform_error(STANDARD, 0.1, T)


@pytest.mark.parametrize("theta", [0, 0.0, np.nan, np.inf, "one", None])
def test_the_general_step_refuses_a_theta_that_does_not_divide(theta):
    with pytest.raises(ValueError, match="theta must be a finite number other than 0, got "):
        schemes.general_step([[0.0], [1.0]], 1.0, theta, [0.5, 0.5])


def test_the_steps_refuse_what_is_not_a_measure():
    for step in (schemes.bridge_step, lambda x, eps, w: schemes.general_step(x, eps, 1.0, w)):
        with pytest.raises(ValueError, match=r"weights must sum to 1, got 1\.1"):
            step([[0.0], [1.0]], 1.0, [0.5, 0.6])
        with pytest.raises(ValueError, match="x must be finite, got nan"):
            step([[0.0], [np.nan]], 1.0, [0.5, 0.5])
    with pytest.raises(ValueError, match="x must be finite, got inf"):
        schemes.euler_step([np.inf], 0.1, STANDARD.score)


def test_unknown_schemes_and_other_dimensions_are_refused():
    plane = Gaussian([0.0, 0.0], np.eye(2))
    for f in (schemes.node_path, schemes.error_path, schemes.uniform_error):
        with pytest.raises(ValueError, match="scheme must be one of bridge, euler, got 'magic'"):
            f(STANDARD, 0.1, 1.0, "magic")
        with pytest.raises(ValueError, match="this needs a density in one dimension, got 2"):
            f(plane, 0.1, 1.0)
    with pytest.raises(ValueError, match="this needs a density in one dimension, got 2"):
        schemes.score_error(plane, 0.1)


# many layers


def test_iterating_is_stepping_again_and_again():
    x = STANDARD.sample(60, np.random.default_rng(0))
    states = schemes.iterate(x, 0.2, 3)
    assert states.shape == (4, 60, 1)
    for before, after in itertools.pairwise(states):
        assert np.abs(schemes.bridge_step(before, 0.2) - after).max() <= ROUNDING


@pytest.mark.parametrize("layers", [0, -1, 1.5])
def test_iterating_needs_a_whole_number_of_layers(layers):
    with pytest.raises(ValueError, match="layers must be a whole number >= 1"):
        schemes.iterate([[0.0], [1.0]], 0.1, layers)
