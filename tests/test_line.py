"""Uniform grids on the line: they hold a density, resolve a kernel, or say that they do not."""

import numpy as np
import pytest
from tolerances import EXPONENTIAL, GRID_SUM, ROUNDING

from attnflow import langevin, line
from attnflow.densities import Gaussian, GaussianMixture
from attnflow.errors import GridTooSmall

MIX = GaussianMixture([0.5, 0.5], [-2.0, 2.0], [1.0, 1.0])
UNEVEN = GaussianMixture([0.3, 0.7], [-1.0, 1.5], [0.5, 2.0])
DENSITIES = pytest.mark.parametrize("density", [Gaussian(0.5, 1.3), MIX, UNEVEN])
TEMPERATURES = pytest.mark.parametrize("eps", [0.03, 0.1, 0.3])


@DENSITIES
@TEMPERATURES
def test_the_grid_is_uniform_and_holds_the_density(density, eps):
    nodes = line.line_grid(density, eps)
    assert np.abs(np.diff(nodes.x) - nodes.h).max() <= EXPONENTIAL
    assert np.abs(nodes.rho - density.pdf(nodes.x)).max() == 0
    assert abs(nodes.rho.sum() * nodes.h - 1) <= GRID_SUM
    assert abs(nodes.weights.sum() - 1) <= ROUNDING
    assert nodes.h <= np.sqrt(eps) / line.RESOLUTION * (1 + ROUNDING)


@pytest.mark.parametrize("compute", [line.line_grid, langevin.symmetric_kl])
def test_a_grid_that_cuts_off_mass_or_is_coarse_warns(compute):
    density = Gaussian(0.0, 1.0)
    with pytest.warns(
        GridTooSmall, match=r"all but 1e-09 of the mass, this one cuts off 2\.[0-9]e-03"
    ):
        compute(density, 0.1, half_width=3.0)
    with pytest.warns(GridTooSmall, match=r"2\.5 nodes per sqrt\(eps\), this one has 2"):
        compute(density, 0.1, resolution=2.0)


def test_a_grid_that_is_just_large_and_fine_enough_does_not_warn():
    assert len(line.line_grid(Gaussian(0.0, 1.0), 0.1, half_width=6.5, resolution=2.5).x) > 100


def test_a_grid_of_too_many_nodes_is_refused():
    with pytest.raises(
        ValueError, match="a grid must have at most 6000 nodes, got 70001: increase eps"
    ):
        line.line_grid(Gaussian(0.0, 1.0), 1e-6)
    with pytest.raises(ValueError, match="a grid must have at most 6000 nodes, got "):
        langevin.symmetric_kl(MIX, 1e-6)


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, "wide"])
def test_the_grid_refuses_a_width_or_a_resolution_that_is_not_positive(value):
    with pytest.raises(ValueError, match=r"half_width must be a (finite )?number > 0, got "):
        line.line_grid(MIX, 0.1, half_width=value)
    with pytest.raises(ValueError, match=r"resolution must be a (finite )?number > 0, got "):
        line.line_grid(MIX, 0.1, resolution=value)


def test_nodes_are_symmetric_about_zero_and_as_far_apart_as_asked():
    nodes = line.uniform_nodes(MIX, 0.25, 10.0)
    assert nodes.h == 0.25
    assert np.abs(nodes.x + nodes.x[::-1]).max() == 0
    assert nodes.x[-1] == 10.0
    assert np.abs(np.diff(nodes.x) - 0.25).max() <= ROUNDING


def test_a_width_beyond_all_numbers_is_refused_as_too_many_nodes():
    with pytest.raises(ValueError, match="a grid must have at most 6000 nodes, got inf"):
        line.uniform_nodes(MIX, 1e-200, 1e200)


def test_deviations_are_those_of_the_components_on_the_line_only():
    assert np.abs(line.deviations(UNEVEN) - np.sqrt([0.5, 2.0])).max() <= ROUNDING
    with pytest.raises(ValueError, match="this needs a density in one dimension, got 2"):
        line.deviations(Gaussian([0.0, 0.0], np.eye(2)))
    with pytest.raises(TypeError, match="density must be of type GaussianMixture, got 'bell'"):
        line.deviations("bell")


def test_the_width_and_the_resolution_of_a_grid_are_given_by_name() -> None:
    named = line.line_grid(density=MIX, eps=0.1, half_width=15.0)
    assert named.x.tolist() == line.line_grid(MIX, 0.1, half_width=15.0).x.tolist()
    with pytest.raises(TypeError, match="positional argument"):
        line.line_grid(MIX, 0.1, 15.0)  # type: ignore[misc]
