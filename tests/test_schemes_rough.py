"""Densities with jumps: their heat flow in closed form, and layers on them."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr
from tolerances import QUADRATURE, ROUNDING

from attnflow.schemes import Box, Kinked, linear_errors, rough_errors

KINKS = [Kinked(m, c) for m in range(4) for c in (0.3, 2.0)]
POINTS = np.array([-1.3, -0.2, 0.0, 0.4, 2.0])


def parts(density):
    return [(-12.0, 0.0), (0.0, 12.0)] if isinstance(density, Kinked) else [(-1.0, 1.0)]


@pytest.mark.parametrize("density", [*KINKS, Box()], ids=lambda d: type(d).__name__)
def test_the_distribution_functions_are_integrals_of_the_density(density):
    def integral(f):
        return sum(quad(f, *ends, epsabs=1e-13)[0] for ends in parts(density))

    assert abs(integral(lambda y: float(density.pdf(np.array(y)))) - 1) <= QUADRATURE
    for x in POINTS:
        want = integral(lambda y, x=x: float(density.pdf(np.array(y))) * (y <= x))
        assert abs(density.cdf(np.array([x]))[0] - want) <= 1e-7  # quad across a step
        want = integral(lambda y, x=x: float(density.pdf(np.array(y)) * ndtr((x - y) / 0.3**0.5)))
        assert abs(density.heat_cdf(np.array([x]), 0.3)[0] - want) <= QUADRATURE


@pytest.mark.parametrize("density", KINKS, ids=lambda d: f"{d.m} {d.c}")
def test_the_density_of_the_heat_flow_is_the_slope_of_its_distribution_function(density):
    h = 1e-4
    up, down = (density.heat_cdf(POINTS + sign * h, 0.2) for sign in (1, -1))
    assert np.abs(density.heat_pdf(POINTS, 0.2) - (up - down) / (2 * h)).max() <= 1e-7


@pytest.mark.parametrize("m", range(4))
def test_the_jump_is_that_of_the_derivative(m):
    density, h = Kinked(m, 0.7), 1e-3
    right, left = (density.pdf(sign * h * np.arange(0.5, m + 1.0)) for sign in (1, -1))
    signs = [(1, -1)[(m - k) % 2] * [1, m, m * (m - 1) // 2, 1][k] for k in range(m + 1)]
    slope_right = np.dot(signs, right) / h**m
    slope_left = (-1) ** m * np.dot(signs, left) / h**m
    assert abs(slope_right - slope_left - density.jump) <= 0.01


@pytest.mark.parametrize("density", [*KINKS, Box()], ids=lambda d: type(d).__name__)
def test_the_map_carries_masses(density):
    x, mass = density.nodes(0.05)
    assert abs(mass.sum() - 1) <= 10 * ROUNDING
    inside = x[np.abs(x) < 4]
    y = density.quantile_map(inside, 0.2)
    assert (np.diff(y) > 0).all()
    assert np.abs(density.heat_cdf(y, 0.2) - density.cdf(inside)).max() <= 1e-12


def test_a_box_has_order_three_quarters():
    two = [rough_errors(Box(), eps, 0.2).max() for eps in (0.025, 0.0125)]
    assert abs(np.log2(two[0] / two[1]) - 0.75) <= 1e-3


@pytest.mark.parametrize(("m", "tol"), [(0, 0.02), (1, 0.02), (2, 0.05)])
def test_a_faint_jump_leaves_what_the_linear_theory_says(m, tol):
    density = Kinked(m, 0.05)
    got, want = (f(density, 0.0125, 0.025) for f in (rough_errors, linear_errors))
    assert np.abs(got / want - 1)[0] <= tol


@pytest.mark.parametrize("m", range(3))
def test_the_linear_errors_scale_with_a_power_of_the_temperature(m):
    density = Kinked(m)
    one, two = (linear_errors(density, eps, eps)[0] for eps in (1e-4, 1e-6))
    assert abs(np.log10(one / two) / 2 - (0.75 + m / 2)) <= 1e-3


def test_what_is_refused():
    with pytest.raises(ValueError, match="m must be at most 3, got 4"):
        Kinked(4)
    with pytest.raises(ValueError, match=r"c must be a (finite )?number > 0"):
        Kinked(1, -1.0)
    with pytest.raises(TypeError, match="density must be"):
        rough_errors("box", 0.1, 0.2)
    with pytest.raises(TypeError, match="density must be"):
        linear_errors(Box(), 0.1, 0.2)
    with pytest.raises(ValueError, match="T must be a multiple of eps"):
        rough_errors(Box(), 0.1, 0.25)
