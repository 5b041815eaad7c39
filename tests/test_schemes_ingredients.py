"""What a uniform error is made of."""

import numpy as np
import pytest
from tolerances import HALVING, MOVING_GRID

from attnflow import gaussian
from attnflow.densities import Gaussian, GaussianMixture
from attnflow.schemes import bridge_path, ingredients, path_errors
from attnflow.transport import self_bridge

STANDARD = Gaussian(0.0, 1.0)
MIX = GaussianMixture([0.5, 0.5], [-2.0, 2.0], [1.0, 1.0])
UNEVEN = GaussianMixture([0.3, 0.7], [-1.0, 1.5], [0.6, 2.0])


def test_the_triangle_of_a_gaussian_is_that_of_its_recursion():
    eps, T = 0.1, 0.5
    sides = ingredients.triangle(STANDARD, eps, T)
    sigma, heat = gaussian.bridge_recursion(1.0, eps, 5), np.sqrt(1 + eps * np.arange(6))
    fresh = np.array([gaussian.bridge_recursion(s**2, eps, 1)[1] for s in heat[:-1]])
    assert np.abs(sides.total - np.abs(sigma - heat)[1:]).max() <= MOVING_GRID
    assert np.abs(sides.local - np.abs(fresh - heat[1:])).max() <= MOVING_GRID
    assert np.abs(sides.carried - np.abs(sigma[1:] - fresh)).max() <= MOVING_GRID


@pytest.mark.parametrize("density", [MIX, UNEVEN])
def test_the_two_sides_bound_the_third_and_layers_shrink_errors(density):
    sides = ingredients.triangle(density, 0.05, 0.3)
    assert (sides.total <= sides.local + sides.carried + 1e-12).all()
    assert (sides.growth < 1).all()
    assert sides.growth.shape == (5,)


@pytest.mark.parametrize("density", [STANDARD, MIX, UNEVEN])
def test_the_fourth_order_term_is_what_the_bridge_has_beyond_the_second(density):
    errors = []
    for eps in (0.01, 0.005):
        x = np.arange(-9, 12, np.sqrt(eps) / 4)
        rho = density.pdf(x)
        B = self_bridge(x, eps, rho / rho.sum(), tol=1e-14).barycentric()[:, 0]
        middle = np.abs(x) <= 2
        rest = B - x - eps * density.score(x)[:, 0] / 2
        rest -= eps**2 / 2 * density.potential_gradient(x)[:, 0]
        term = ingredients.fourth_order_term(density, x[middle])
        errors.append(np.abs(rest[middle] / eps**4 - term).max() / np.abs(term).max())
    assert errors[1] <= 0.02
    assert errors[1] <= max(errors[0] / 2, 1e-4)  # a Gaussian's rest is down to rounding


@pytest.mark.parametrize("density", [MIX, UNEVEN])
@pytest.mark.parametrize("t", [0.2, 1.0])
def test_the_constant_is_the_limit_of_errors_over_eps_squared(density, t):
    scaled = [
        path_errors(density, bridge_path(density, eps, t))[-1] / eps**2 for eps in (0.05, 0.025)
    ]
    limit = 2 * scaled[1] - scaled[0]
    assert abs(limit / ingredients.second_order_constant(density, t) - 1) <= 0.01


@pytest.mark.parametrize("t", [0.3, 2.0])
def test_the_constant_of_a_gaussian_is_known(t):
    want = t / 16 / (1 + t) ** 1.5
    assert abs(ingredients.second_order_constant(STANDARD, t) / want - 1) <= 1e-5


def test_the_curve_between_layers_has_second_order_if_it_moves_and_first_if_not():
    for error, order in ((ingredients.curve_error, 2), (ingredients.stair_error, 1)):
        errors = [error(MIX, bridge_path(MIX, eps, 0.4)) for eps in (0.04, 0.02)]
        assert abs(np.log2(errors[0] / errors[1]) - order) <= HALVING


def test_at_the_layers_alone_the_curve_has_the_error_of_the_path():
    path = bridge_path(UNEVEN, 0.05, 0.2)
    got = ingredients.curve_error(UNEVEN, path, points=1)
    assert abs(got - path_errors(UNEVEN, path).max()) <= 1e-15


@pytest.mark.parametrize("density", [MIX, UNEVEN])
def test_particles_of_the_heat_flow_are_carried_by_the_quantile_map(density):
    x = np.linspace(-3, 3, 9)
    got = ingredients.heat_particles(density, x, 0.7)[:, 0]
    assert np.abs(got - density.quantile_map(x, 0.7)).max() <= 1e-7


def test_what_is_refused():
    with pytest.raises(ValueError, match=r"t must be a (finite )?number > 0"):
        ingredients.heat_particles(MIX, [0.0], 0.0)
    with pytest.raises(ValueError, match=r"t must be a (finite )?number > 0"):
        ingredients.second_order_constant(MIX, -1.0)
    with pytest.raises(ValueError, match="points must be a whole number >= 1"):
        ingredients.curve_error(MIX, bridge_path(MIX, 0.1, 0.1), points=0)
    with pytest.raises(ValueError, match="this needs a density in one dimension, got 2"):
        ingredients.fourth_order_term(Gaussian([0.0, 0.0], np.eye(2)), [0.0])
