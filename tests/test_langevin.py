import numpy as np
import pytest
from scipy.integrate import quad
from tolerances import (
    BAND,
    EXPONENTIAL,
    FIVE_DIGITS,
    GRID_PAIR,
    GRID_SUM,
    PATHS,
    QUADRUPLING,
    ROUNDING,
    SOLVE_TIGHTLY,
)

from attnflow import gaussian, langevin
from attnflow.densities import Gaussian, GaussianMixture
from attnflow.line import line_grid

MIX = GaussianMixture([0.5, 0.5], [-2.0, 2.0], [1.0, 1.0])
UNEVEN = GaussianMixture([0.3, 0.7], [-1.0, 1.5], [0.5, 2.0])
DENSITIES = pytest.mark.parametrize("density", [Gaussian(0.5, 1.3), MIX, UNEVEN])
TEMPERATURES = pytest.mark.parametrize("eps", [0.03, 0.1, 0.3])


def near(nodes, eps):
    return np.abs(np.subtract.outer(nodes.x, nodes.x)) <= 6 * np.sqrt(eps)


# the two pair laws


@DENSITIES
@TEMPERATURES
def test_the_langevin_pair_is_symmetric_with_the_density_as_both_marginals(density, eps):
    nodes = line_grid(density, eps)
    pair = langevin.langevin_pair(density, eps, nodes)
    assert np.abs(pair - pair.T).max() <= GRID_PAIR
    assert np.abs(pair.sum(0) * nodes.h - nodes.rho).max() <= GRID_PAIR
    assert np.abs(pair.sum(1) * nodes.h - nodes.rho).max() <= GRID_PAIR


@DENSITIES
@TEMPERATURES
def test_the_langevin_pair_is_positive_near_the_diagonal(density, eps):
    nodes = line_grid(density, eps)
    inside = near(nodes, eps) & (np.minimum.outer(nodes.rho, nodes.rho) > SOLVE_TIGHTLY)
    assert (langevin.langevin_pair(density, eps, nodes)[inside] > 0).all()


@pytest.mark.parametrize("s", [0.5, 1.0, 3.0])
@TEMPERATURES
def test_the_langevin_pair_of_a_gaussian_is_the_ornstein_uhlenbeck_pair(s, eps):
    density = Gaussian(0.0, s)
    nodes = line_grid(density, eps)
    c, x = np.exp(-eps / (2 * s)), nodes.x[:, None]
    noise = s * (1 - c * c)
    want = nodes.rho[:, None] * np.exp(-((x.T - c * x) ** 2) / (2 * noise))
    want /= np.sqrt(2 * np.pi * noise)
    assert np.abs(langevin.langevin_pair(density, eps, nodes) - want).max() <= GRID_PAIR


def test_two_short_langevin_pairs_make_a_long_one():
    nodes = line_grid(UNEVEN, 0.2)
    short, long = (langevin.langevin_pair(UNEVEN, eps, nodes) for eps in (0.2, 0.4))
    inside = nodes.rho > SOLVE_TIGHTLY
    chained = (short[:, inside] / nodes.rho[inside]) @ short[inside] * nodes.h
    assert np.abs(chained - long).max() <= GRID_PAIR * 10


@DENSITIES
@TEMPERATURES
def test_the_bridge_pair_is_symmetric_with_the_density_as_both_marginals(density, eps):
    nodes = line_grid(density, eps)
    pair = langevin.bridge_pair(eps, nodes)
    assert np.abs(pair - pair.T).max() <= ROUNDING
    assert np.abs(pair.sum(0) - pair.sum(1)).max() * nodes.h <= ROUNDING
    assert np.abs(pair.sum(1) * nodes.h - nodes.rho).max() <= GRID_PAIR


@TEMPERATURES
def test_the_bridge_pair_of_a_gaussian_is_the_gaussian_with_the_known_gain(eps):
    density = Gaussian(0.0, 1.0)
    nodes = line_grid(density, eps)
    c, x = gaussian.bridge_gain(1.0, eps)[0, 0], nodes.x[:, None]
    want = nodes.rho[:, None] * np.exp(-((x.T - c * x) ** 2) / (2 * (1 - c * c)))
    want /= np.sqrt(2 * np.pi * (1 - c * c))
    assert np.abs(langevin.bridge_pair(eps, nodes) - want).max() <= EXPONENTIAL


# the divergence


@pytest.mark.parametrize(("eps", "want"), [(0.1, 0.0086827), (0.01, 0.0115578)])
def test_the_divergence_of_the_mixture_is_the_known_multiple_of_eps_to_the_fourth(eps, want):
    assert abs(langevin.symmetric_kl(MIX, eps) / eps**4 / want - 1) <= FIVE_DIGITS


@pytest.mark.parametrize("s", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("eps", [0.02, 0.1, 0.5, 3.0])
def test_the_divergence_of_a_gaussian_is_the_closed_form(s, eps):
    want = gaussian.langevin_symmetric_kl(s, eps)
    assert abs(langevin.symmetric_kl(Gaussian(0.0, s), eps) / want - 1) <= BAND
    assert abs(langevin.symmetric_kl(Gaussian(0.7, s), eps) / want - 1) <= BAND


def test_the_divergence_does_not_depend_on_the_grid():
    here = langevin.symmetric_kl(UNEVEN, 0.2)
    there = langevin.symmetric_kl(UNEVEN, 0.2, half_width=20.0, resolution=4.3)
    assert here != there
    assert abs(here / there - 1) <= BAND


@pytest.mark.parametrize("eps", [0.3, 1.0, 2.0])
def test_the_divergence_of_separate_clusters_does_not_depend_on_the_grid(eps):
    """Between clusters at -m and m the score turns within 1/m, less than a standard deviation."""
    density = GaussianMixture([0.5, 0.5], [-4.0, 4.0], [1.0, 1.0])
    fine = langevin.symmetric_kl(density, eps, resolution=14.0)
    assert abs(langevin.symmetric_kl(density, eps) / fine - 1) <= BAND


def test_the_divergence_is_symmetric_and_zero_for_equal_laws_only():
    eps = 0.2
    nodes = line_grid(MIX, eps)
    first, second = langevin.langevin_pair(MIX, eps, nodes), langevin.bridge_pair(eps, nodes)
    there = langevin.divergence(first, second, eps, nodes)
    assert langevin.divergence(first, first, eps, nodes) == 0
    assert there > 0
    assert abs(there / langevin.divergence(second, first, eps, nodes) - 1) <= ROUNDING


def test_the_divergence_of_two_langevin_pairs_is_that_of_gaussians():
    """Pairs at two times, not close: J = (1 - ck)/(1 - k^2) + (1 - ck)/(1 - c^2) - 2."""
    density = Gaussian(0.0, 1.0)
    nodes = line_grid(density, 1.0)
    first, second = (langevin.langevin_pair(density, t, nodes) for t in (1.0, 1.2))
    c, k = np.exp([-0.5, -0.6])
    want = (1 - c * k) / (1 - k * k) + (1 - c * k) / (1 - c * c) - 2
    assert abs(langevin.divergence(first, second, 1.0, nodes) / want - 1) <= BAND


# the bound


@pytest.mark.parametrize("s", [0.5, 1.0])
@pytest.mark.parametrize("eps", [0.02, 0.1, 0.5])
def test_the_fisher_bound_of_a_gaussian_is_an_integral_along_its_interpolation(s, eps):
    c = gaussian.bridge_gain(s, eps)[0, 0]

    def variance(t):
        return s * (1 - 2 * t * (1 - t) * (1 - c)) + eps * t * (1 - t)

    got = langevin.fisher_bound(Gaussian(0.0, s), eps)
    gap = quad(lambda t: 1 / s - 1 / variance(t), 0, 1, epsabs=ROUNDING, epsrel=ROUNDING * 10)[0]
    slope = quad(lambda t: variance(t) / (16 * s**4), 0, 1, epsrel=ROUNDING * 10)[0]
    assert abs(got.fisher - 1 / s) <= GRID_SUM * 10
    assert abs(got.gap - gap) <= GRID_SUM * 100
    assert abs(got.slope / slope - 1) <= EXPONENTIAL * 10
    assert abs(got.bound / (eps**2 / 2 * np.sqrt(gap * slope)) - 1) <= FIVE_DIGITS


@pytest.mark.parametrize("eps", [0.02, 0.1])
def test_the_parts_of_the_bound_of_the_standard_gaussian_have_the_known_limits(eps):
    got = langevin.fisher_bound(Gaussian(0.0, 1.0), eps)
    assert abs(got.gap / (eps**2 / 24) - 1) <= eps**2
    assert abs(got.slope * 16 - 1) <= eps**2


@DENSITIES
@pytest.mark.parametrize("eps", [0.05, 0.3])
def test_the_bound_bounds_the_divergence(density, eps):
    assert 0 < langevin.symmetric_kl(density, eps) <= langevin.fisher_bound(density, eps).bound


def test_the_fisher_information_of_the_mixture_is_the_integral_of_its_squared_score():
    want = quad(lambda x: float(MIX.pdf([x])[0] * MIX.score([x])[0, 0] ** 2), -14, 14, limit=200)
    assert abs(langevin.fisher_bound(MIX, 0.1).fisher / want[0] - 1) <= EXPONENTIAL * 10


# paths


@DENSITIES
@pytest.mark.parametrize("eps", [0.1, 0.3, 1.0])
def test_the_divergence_of_paths_is_half_the_squared_difference_of_the_drifts(density, eps):
    got = langevin.path_divergence(density, eps)
    assert abs(got.girsanov / got.value - 1) <= PATHS


@pytest.mark.parametrize("s", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("eps", [0.1, 0.5, 3.0])
def test_the_divergence_of_paths_of_a_gaussian_is_the_closed_form(s, eps):
    want = gaussian.langevin_path_kl(s, eps)
    for mean in (0.0, 0.7):
        assert abs(langevin.path_divergence(Gaussian(mean, s), eps).value / want - 1) <= PATHS


@DENSITIES
@pytest.mark.parametrize("eps", [0.05, 0.3, 1.0])
def test_ends_see_less_than_paths_and_paths_less_than_both_bounds(density, eps):
    got = langevin.path_divergence(density, eps)
    assert langevin.symmetric_kl(density, eps) < got.value
    assert got.value < got.bound * (1 + PATHS)
    assert got.bound < langevin.fisher_bound(density, eps).bound / 4


@DENSITIES
def test_the_divergence_of_paths_and_the_remainder_of_the_velocity_have_order_three(density):
    nodes = line_grid(density, 0.02)
    force = nodes.weights @ density.potential_gradient(nodes.x)[:, 0] ** 2
    cold, warm = (langevin.path_divergence(density, eps) for eps in (0.02, 0.04))
    rise = 12 * cold.value / (0.02**3 * force) - 1
    assert -2e-3 < rise < 0
    assert abs((12 * warm.value / (0.04**3 * force) - 1) / rise / 4 - 1) <= QUADRUPLING
    assert 2.7 < np.log2(warm.remainder / cold.remainder) < 3.05


def test_the_velocity_of_a_gaussian_is_linear_and_its_remainder_known():
    """v_t = (1 - 2t) k x with the k that the variance of the interpolation asks for."""
    s, eps = 1.0, 0.5
    rise = 2 * (np.hypot(1, eps / 2) - 1)  # variance s + rise t (1 - t)
    at = (np.polynomial.legendre.leggauss(langevin.TIME_NODES)[0] + 1) / 2
    variance = s + rise * at * (1 - at)
    off = (1 - 2 * at) * (rise / (2 * eps * variance) - eps / 8)
    want = np.abs(off * np.sqrt(variance)).max()
    assert abs(langevin.path_divergence(Gaussian(0.0, s), eps).remainder / want - 1) <= PATHS


# what is refused


@pytest.mark.parametrize("eps", [0.0, -1.0, np.nan, np.inf, "warm", None])
def test_every_function_refuses_a_temperature_that_is_not_positive(eps):
    for f in (line_grid, langevin.symmetric_kl, langevin.fisher_bound, langevin.path_divergence):
        with pytest.raises(ValueError, match=r"eps must be a (finite )?number > 0, got "):
            f(MIX, eps)


@pytest.mark.parametrize("eps", [0.0, -1.0, np.nan, np.inf, "warm", None])
@pytest.mark.parametrize("which", ["langevin_pair", "bridge_pair", "divergence"])
def test_the_pairs_and_the_divergence_refuse_a_temperature_that_is_not_positive(which, eps):
    nodes = line_grid(MIX, 1.0)
    pair = np.outer(nodes.rho, nodes.rho)
    compute = {
        "langevin_pair": lambda: langevin.langevin_pair(MIX, eps, nodes),
        "bridge_pair": lambda: langevin.bridge_pair(eps, nodes),
        "divergence": lambda: langevin.divergence(pair, pair, eps, nodes),
    }[which]
    with pytest.raises(ValueError, match=r"eps must be a (finite )?number > 0, got "):
        compute()


def test_every_function_needs_one_dimension():
    plane = Gaussian([0.0, 0.0], np.eye(2))
    for f in (line_grid, langevin.symmetric_kl, langevin.fisher_bound, langevin.path_divergence):
        with pytest.raises(ValueError, match="this needs a density in one dimension, got 2"):
            f(plane, 0.1)


@pytest.mark.parametrize("follow", [langevin.path_divergence, langevin.fisher_bound])
@pytest.mark.parametrize("eps", [12.0, 1e3, 1e150, 1e200, 1e308])
def test_temperatures_at_which_the_process_leaves_the_grid_are_refused(follow, eps):
    with pytest.raises(ValueError, match=r"^eps must be at most 11\.\d for this density, got "):
        follow(Gaussian(0.0, 1.0), eps)


def test_up_to_that_temperature_divergences_of_paths_have_seven_digits():
    for s in (0.25, 1.0, 9.0):
        found = langevin.path_divergence(Gaussian(0.0, s), 10.9 * s)
        assert abs(found.value / gaussian.langevin_path_kl(s, 10.9 * s) - 1) <= 5e-7


def test_both_forms_of_the_divergence_agree_at_a_high_temperature() -> None:
    """Where drifts bend most in time, so that a rule of few nodes would show."""
    got = langevin.path_divergence(Gaussian(0.0, 1.0), 5.0)
    assert abs(got.girsanov / got.value - 1) <= EXPONENTIAL
