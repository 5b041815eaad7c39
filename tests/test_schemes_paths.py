"""Densities carried through layers without noise, and their distance to the heat flow."""

import numpy as np
import pytest
from tolerances import (
    EXPONENTIAL,
    HALVING,
    MOVING_GRID,
    ROUNDING,
    SEVEN_DIGITS,
    SIX_DIGITS,
    SOLVED,
)

from attnflow import gaussian
from attnflow.densities import Gaussian, GaussianMixture
from attnflow.errors import GridTooSmall
from attnflow.schemes import paths
from attnflow.transport import self_bridge

STANDARD = Gaussian(0.0, 1.0)
MIX = GaussianMixture([0.5, 0.5], [-2.0, 2.0], [1.0, 1.0])
UNEVEN = GaussianMixture([0.3, 0.7], [-1.0, 1.5], [0.6, 2.0])
RULE = r"eps must be a (finite )?number > 0, got "
WALKS = {"bridge": paths.bridge_path, "euler": paths.euler_path}


# the score


@pytest.mark.parametrize(
    ("eps", "want", "digits"), [(0.1, 0.01958375, SEVEN_DIGITS), (0.01, 0.00197883, SIX_DIGITS)]
)
def test_the_score_error_of_the_mixture_is_the_known_number(eps, want, digits):
    assert abs(paths.score_error(MIX, eps) / want - 1) <= digits


@pytest.mark.parametrize("s", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("eps", [0.01, 0.1, 1.0])
def test_the_score_error_of_a_gaussian_is_its_one_step_distance_over_eps(s, eps):
    want = gaussian.one_step_w2(s, eps)
    assert abs(paths.score_error(Gaussian(0.3, s), eps) * eps - want) <= SOLVED
    assert abs(paths.one_step_distance(Gaussian(0.3, s), eps) - want) <= SOLVED


@pytest.mark.parametrize("density", [MIX, UNEVEN])
def test_the_next_term_of_the_bridge_is_half_the_gradient_of_the_potential(density):
    """B(x) = x + eps b + (eps^2/2) grad U + O(eps^4): over eps^2 the rest falls to a quarter."""
    errors = []
    for eps in (0.01, 0.005):
        h = np.sqrt(eps) / 4
        x = np.arange(-9, 12, h)
        rho = density.pdf(x)
        B = self_bridge(x, eps, rho / rho.sum(), tol=1e-13).barycentric()[:, 0]
        middle = np.abs(x) <= 3
        got = (B - x - eps * density.score(x)[:, 0] / 2)[middle] / eps**2
        want = density.potential_gradient(x[middle])[:, 0] / 2
        errors.append(np.sqrt(rho[middle] @ (got - want) ** 2 * h))
    assert errors[1] <= 0.01**2
    assert abs(errors[0] / errors[1] - 4) <= HALVING


# many layers


def test_the_uniform_error_of_the_bridge_is_the_known_number():
    assert abs(paths.uniform_error(STANDARD, 0.1, 1.0) / 2.33554e-4 - 1) <= SIX_DIGITS
    assert abs(paths.uniform_error(MIX, 0.1, 1.0) / 2.258833e-4 - 1) <= SEVEN_DIGITS


@pytest.mark.parametrize(("scheme", "eps"), [("bridge", 0.1), ("bridge", 0.02), ("euler", 0.05)])
@pytest.mark.parametrize("var", [1.0, 2.0])
def test_the_error_path_of_a_gaussian_is_that_of_the_recursion(scheme, eps, var):
    steps = round(0.4 / eps)
    recursion = {"bridge": gaussian.bridge_recursion, "euler": gaussian.euler_recursion}[scheme]
    sigma = recursion(var, eps, steps)
    want = np.abs(sigma - np.sqrt(var + eps * np.arange(steps + 1)))[1:]
    density = Gaussian(0.0, var)
    got = paths.path_errors(density, WALKS[scheme](density, eps, 0.4))
    assert got.shape == (steps,)
    assert np.abs(got - want).max() <= MOVING_GRID


def test_the_uniform_error_of_euler_at_a_twentieth_is_that_of_the_recursion():
    sigma = gaussian.euler_recursion(1.0, 0.05, 20)
    want = np.abs(sigma - np.sqrt(1 + 0.05 * np.arange(21))).max()
    assert abs(paths.uniform_error(STANDARD, 0.05, 1.0, "euler") - want) <= MOVING_GRID


@pytest.mark.parametrize(("scheme", "order"), [("bridge", 2), ("euler", 1)])
def test_the_uniform_error_of_the_mixture_has_the_order_of_the_scheme(scheme, order):
    errors = [paths.uniform_error(MIX, eps, 0.4, scheme) for eps in (0.04, 0.02)]
    assert abs(np.log2(errors[0] / errors[1]) - order) <= HALVING


@pytest.mark.parametrize("scheme", ["bridge", "euler"])
def test_the_uniform_error_is_the_largest_of_its_path(scheme):
    errors = paths.path_errors(MIX, WALKS[scheme](MIX, 0.05, 0.3))
    assert errors.shape == (6,)
    assert (errors > 0).all()
    assert paths.uniform_error(MIX, 0.05, 0.3, scheme) == errors.max()


def test_a_path_tells_of_the_worst_of_its_bridges_and_an_explicit_one_has_none():
    path = paths.bridge_path(MIX, 0.05, 0.1)
    nodes = path.nodes
    bridges = [
        self_bridge(x, 0.05, nodes.weights, tol=paths.BRIDGE_TOL, method="dense")
        for x in path.states[:-1]
    ]
    assert path.converged
    assert path.residual == max(bridge.residual for bridge in bridges)
    assert path.iterations == max(bridge.iterations for bridge in bridges)
    assert paths.euler_path(MIX, 0.05, 0.1)[3:] == (True, 0.0, 0)


@pytest.mark.parametrize("density", [STANDARD, MIX, UNEVEN])
@pytest.mark.parametrize("scheme", ["bridge", "euler"])
def test_the_density_carried_by_the_nodes_is_a_density_near_that_of_the_heat_flow(density, scheme):
    eps, bound = 0.025, {"bridge": 0.025**2, "euler": 0.025 / 4}[scheme]
    path = WALKS[scheme](density, eps, 0.25)
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
        paths.bridge_path(STANDARD, 0.1, 0.2, half_width=3.0)


def test_a_narrow_grid_warns_for_euler_too():
    with pytest.warns(GridTooSmall, match="cuts off"):
        paths.euler_path(STANDARD, 0.05, 0.2, half_width=3.0)


# what is refused


@pytest.mark.parametrize(("T", "eps", "n"), [(1.0, 0.1, 10), (0.3, 0.1, 3), (2.0, 2.0, 1)])
def test_the_number_of_steps_is_the_ratio(T, eps, n):
    assert paths.steps_to(T, eps) == n


@pytest.mark.parametrize(("T", "eps"), [(1.0, 0.3), (0.05, 0.1), (1.0, 0.1001), (1e-9, 1.0)])
def test_a_time_that_is_not_a_multiple_of_eps_is_refused(T, eps):
    for f in (
        lambda: paths.steps_to(T, eps),
        lambda: paths.bridge_path(STANDARD, eps, T),
        lambda: paths.euler_path(STANDARD, eps, T),
        lambda: paths.uniform_error(STANDARD, eps, T),
    ):
        with pytest.raises(ValueError, match="T must be a multiple of eps, got T = "):
            f()


@pytest.mark.parametrize(("var", "eps"), [(1.0, 0.1), (1.0, 0.0501), (0.5, 0.05)])
def test_euler_refuses_a_step_at_which_it_is_unstable(var, eps):
    with pytest.raises(ValueError, match=r"explicit Euler needs eps <= 0\.05 times the smallest"):
        paths.euler_path(Gaussian(0.0, var), eps, 4 * eps)


@pytest.mark.parametrize("eps", [0.0, -1.0, np.nan, np.inf, "warm", None])
def test_every_function_refuses_a_temperature_that_is_not_positive(eps):
    for f in (
        lambda: paths.bridge_path(STANDARD, eps, 1.0),
        lambda: paths.euler_path(STANDARD, eps, 1.0),
        lambda: paths.steps_to(1.0, eps),
        lambda: paths.score_error(STANDARD, eps),
        lambda: paths.one_step_distance(STANDARD, eps),
        lambda: paths.uniform_error(STANDARD, eps, 1.0),
    ):
        with pytest.raises(ValueError, match=RULE):
            f()


@pytest.mark.parametrize("T", [0.0, -1.0, np.nan, "late"])
def test_a_time_that_is_not_positive_is_refused(T):
    with pytest.raises(ValueError, match=r"T must be a (finite )?number > 0, got "):
        paths.uniform_error(STANDARD, 0.1, T)


def test_unknown_schemes_and_other_dimensions_are_refused():
    plane = Gaussian([0.0, 0.0], np.eye(2))
    with pytest.raises(ValueError, match="scheme must be one of bridge, euler, got 'magic'"):
        paths.uniform_error(STANDARD, 0.1, 1.0, "magic")
    for f in (paths.bridge_path, paths.euler_path, paths.uniform_error):
        with pytest.raises(ValueError, match="this needs a density in one dimension, got 2"):
            f(plane, 0.1, 1.0)
    with pytest.raises(ValueError, match="this needs a density in one dimension, got 2"):
        paths.score_error(plane, 0.1)


def test_the_largest_step_of_euler_is_a_share_of_the_smallest_variance() -> None:
    """The components have deviations 1/2 and 2: a twentieth of 1/4 is the limit."""
    mixture = GaussianMixture([0.5, 0.5], [-1.0, 1.0], [0.25, 4.0])
    assert paths.euler_path(mixture, 0.0125, 0.0125).times.tolist() == [0.0, 0.0125]
    with pytest.raises(
        ValueError, match=r"smallest variance 0\.25 to be both stable .* eps = 0\.02"
    ):
        paths.euler_path(mixture, 0.02, 0.02)
