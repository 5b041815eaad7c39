"""Gaussian mixtures: density, score, samples, heat flow, map and potential."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixtures import MIX, TILTED
from scipy import stats
from scipy.integrate import solve_ivp
from scipy.special import logsumexp
from tolerances import (
    DEEP_GAP,
    EIGHTH_ORDER,
    EXPONENTIAL,
    FIRST_DIFFERENCE,
    GRID_SUM,
    NINE_DIGITS,
    ROUNDING,
    SECOND_DIFFERENCE,
    STANDARD_ERRORS,
)

from attnflow import densities
from attnflow.densities import Gaussian, GaussianMixture

#: Unequal weights and unequal, tilted covariances in one, two and three dimensions.
UNEVEN = {
    1: GaussianMixture([0.3, 0.7], [-1.0, 1.5], [0.5, 2.0]),
    2: GaussianMixture(
        [0.4, 0.6],
        [[-1.0, 0.5], [1.0, 0.0]],
        [[[1.0, 0.3], [0.3, 0.6]], [[0.8, -0.2], [-0.2, 1.5]]],
    ),
    3: GaussianMixture(
        [0.2, 0.5, 0.3],
        [[0.0, 1.0, 0.0], [-1.0, 0.0, 0.5], [1.0, -0.5, 0.0]],
        [np.eye(3), np.diag([0.6, 1.0, 1.4]), 0.8 * np.eye(3) + 0.2],
    ),
}


#: Half widths of boxes that hold the densities above.
REACH = {1: 16, 2: 11, 3: 10}


DIMENSIONS = pytest.mark.parametrize("d", [1, 2, 3])


def points(d, n=25, seed=0):
    return np.random.default_rng(seed).uniform(-3, 3, size=(n, d))


def components(density):
    return zip(density.weights, density.means, density.covs, strict=True)


def scipy_pdf(density, x):
    return sum(w * stats.multivariate_normal(m, c).pdf(x) for w, m, c in components(density))


def scipy_log_tail(density, x, upper):
    """log of the mass beyond x, in one dimension."""
    tail = stats.norm.logsf if upper else stats.norm.logcdf
    parts = [np.log(w) + tail(x, m[0], np.sqrt(c[0, 0])) for w, m, c in components(density)]
    return logsumexp(parts, axis=0)


def axes(d, h):
    return h * np.eye(d)


# the density


@DIMENSIONS
def test_the_density_is_the_sum_of_scipys_components(d):
    x = points(d)
    for density in (UNEVEN[d], TILTED[d]):
        want = scipy_pdf(density, x)
        assert np.abs(density.pdf(x) / want - 1).max() <= ROUNDING
        assert np.abs(density.logpdf(x) - np.log(want)).max() <= ROUNDING
        assert density.pdf(x).shape == (len(x),)


@DIMENSIONS
def test_the_density_integrates_to_one(d):
    h = 0.4
    line = np.arange(-REACH[d], REACH[d] + h / 2, h)
    grid = np.stack(np.meshgrid(*[line] * d), -1).reshape(-1, d)
    assert abs(UNEVEN[d].pdf(grid).sum() * h**d - 1) <= GRID_SUM


@DIMENSIONS
def test_the_score_is_the_gradient_of_the_log_density(d):
    x, h = points(d), 1e-4
    density = UNEVEN[d]
    slopes = [(density.logpdf(x + e) - density.logpdf(x - e)) / (2 * h) for e in axes(d, h)]
    assert np.abs(density.score(x) - np.stack(slopes, 1)).max() <= FIRST_DIFFERENCE


@DIMENSIONS
def test_the_score_of_a_gaussian_is_linear(d):
    x, g = points(d), TILTED[d]
    want = -np.linalg.solve(g.covs[0], (x - g.means[0]).T).T
    assert np.abs(g.score(x) - want).max() <= ROUNDING


def test_the_score_and_the_log_density_have_their_digits_far_in_the_tail():
    x = np.array([-1e3, 1e3])
    assert np.abs(MIX.score(x)[:, 0] - [998.0, -998.0]).max() <= ROUNDING * 1e3
    want = np.log(0.5) - 998.0**2 / 2 - np.log(2 * np.pi) / 2
    assert np.abs(MIX.logpdf(x) / want - 1).max() <= ROUNDING


def test_a_vector_is_read_as_points_on_the_line():
    x = np.array([-1.0, 0.0, 2.0])
    assert (MIX.pdf(x) == MIX.pdf(x[:, None])).all()
    assert MIX.score(x).shape == (3, 1)


def test_a_component_without_mass_changes_nothing():
    padded = GaussianMixture([0.5, 0.5, 0.0], [-2.0, 2.0, 7.0], [1.0, 1.0, 0.1])
    x = np.linspace(-5, 8, 14)
    assert np.abs(padded.pdf(x) - MIX.pdf(x)).max() <= ROUNDING
    assert np.abs(padded.score(x) - MIX.score(x)).max() <= ROUNDING
    assert np.abs(padded.cdf(x) - MIX.cdf(x)).max() <= ROUNDING
    assert np.abs(padded.quantile_map(x, 1.0) - MIX.quantile_map(x, 1.0)).max() <= EXPONENTIAL


@DIMENSIONS
def test_the_mean_and_the_covariance_are_the_moments_of_the_density(d):
    density, h = UNEVEN[d], 0.4
    line = np.arange(-REACH[d], REACH[d] + h / 2, h)
    grid = np.stack(np.meshgrid(*[line] * d), -1).reshape(-1, d)
    w = scipy_pdf(density, grid) * h**d
    mean = w @ grid
    assert np.abs(density.mean - mean).max() <= GRID_SUM * 10
    assert np.abs(density.cov - np.einsum("n,ni,nj", w, grid - mean, grid - mean)).max() <= (
        GRID_SUM * 10
    )
    assert density.dimension == d


# samples


@DIMENSIONS
@pytest.mark.parametrize("seed", range(5))
def test_samples_have_the_moments_of_the_density(d, seed):
    density, n = UNEVEN[d], 4000
    x = density.sample(n, np.random.default_rng(seed))
    assert x.shape == (n, d)
    off = x - density.mean
    products = np.einsum("ni,nj->nij", off, off)
    for sample, want in ((x, density.mean), (products, density.cov)):
        error = np.abs(sample.mean(0) - want) * np.sqrt(n) / sample.std(0)
        assert error.max() <= STANDARD_ERRORS


@pytest.mark.parametrize("seed", range(3))
def test_samples_on_the_line_have_the_distribution_function(seed):
    density, n = UNEVEN[1], 4000
    x = density.sample(n, np.random.default_rng(seed))[:, 0]
    for at in (-2.0, -1.0, 0.0, 1.0, 3.0):
        p = np.exp(scipy_log_tail(density, at, False))
        assert abs((x <= at).mean() - p) <= STANDARD_ERRORS * np.sqrt(p * (1 - p) / n)


def test_the_same_seed_gives_the_same_samples_and_another_seed_others():
    one, same, other = (UNEVEN[2].sample(9, np.random.default_rng(s)) for s in (1, 1, 2))
    assert (one == same).all()
    assert (one != other).all()


# the heat flow


@DIMENSIONS
def test_the_heat_flow_solves_the_heat_equation(d):
    density, x, h = UNEVEN[d], points(d), 1e-3
    rho = density.heat(0.3).pdf
    rate = (density.heat(0.3 + h).pdf(x) - density.heat(0.3 - h).pdf(x)) / (2 * h)
    laplace = sum(rho(x + e) - 2 * rho(x) + rho(x - e) for e in axes(d, h)) / h**2
    assert np.abs(rate).max() > SECOND_DIFFERENCE * 100
    assert np.abs(rate - laplace / 2).max() <= SECOND_DIFFERENCE


@settings(max_examples=40, deadline=None, derandomize=True)
@given(d=st.integers(1, 3), s=st.floats(0, 5), t=st.floats(0, 5))
def test_the_heat_flow_is_a_semigroup_that_starts_at_the_density(d, s, t):
    x, density = points(d), UNEVEN[d]
    assert np.abs(density.heat(s).heat(t).pdf(x) - density.heat(s + t).pdf(x)).max() <= ROUNDING
    assert (density.heat(0.0).pdf(x) == density.pdf(x)).all()


@DIMENSIONS
def test_the_heat_flow_of_a_gaussian_is_a_gaussian(d):
    later = TILTED[d].heat(0.7)
    assert isinstance(later, Gaussian)
    assert np.abs(later.cov - TILTED[d].cov - 0.7 * np.eye(d)).max() <= ROUNDING
    assert np.abs(later.mean - TILTED[d].mean).max() <= ROUNDING


# the distribution function and the map


def test_the_distribution_function_is_scipys():
    x = np.linspace(-8, 8, 33)
    for density in (MIX, UNEVEN[1], TILTED[1]):
        want = sum(w * stats.norm.cdf(x, m[0], np.sqrt(c[0, 0])) for w, m, c in components(density))
        assert np.abs(density.cdf(x) / want - 1).max() <= ROUNDING


@pytest.mark.parametrize("s", [0.25, 1.0, 4.0])
@pytest.mark.parametrize("t", [0.01, 1.0, 3.0, 100.0])
def test_the_heat_flow_stretches_a_gaussian_even_thirty_deviations_out(s, t):
    x = np.sqrt(s) * np.array([-30.0, -12.0, -1.0, -0.01, 0.01, 1.0, 12.0, 30.0])
    got = Gaussian(0.0, s).quantile_map(x, t)
    assert np.abs(got / (x * np.sqrt((s + t) / s)) - 1).max() <= EXPONENTIAL


@pytest.mark.parametrize("density", [TILTED[1], UNEVEN[1], MIX])
@pytest.mark.parametrize("reach", [3.0, 8.0, 30.0])
def test_the_map_to_time_zero_is_the_identity(density, reach):
    x = np.linspace(-reach, reach, 13)
    assert np.abs(density.quantile_map(x, 0.0) - x).max() <= EXPONENTIAL


@pytest.mark.parametrize("density", [MIX, UNEVEN[1]])
@pytest.mark.parametrize("t", [0.1, 2.0, 20.0])
def test_the_map_carries_the_tails_of_the_density_to_those_of_the_heat_flow(density, t):
    x = np.linspace(-30, 30, 61)
    y, later = density.quantile_map(x, t), density.heat(t)
    for upper, side in ((False, x <= 1), (True, x >= -1)):
        want = scipy_log_tail(density, x[side], upper)
        got = scipy_log_tail(later, y[side], upper)
        assert (np.abs(got - want) <= EXPONENTIAL * (1 + np.abs(want))).all()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    x=st.lists(st.integers(-800, 800), min_size=2, max_size=8, unique=True),
    t=st.floats(0, 20, allow_subnormal=False),
    which=st.sampled_from([MIX, UNEVEN[1], TILTED[1]]),
)
def test_the_map_is_monotone_and_pushes_the_density_to_the_heat_flow(x, t, which):
    x = np.sort(x) / 100
    y = which.quantile_map(x, t)
    assert (np.diff(y) > 0).all()
    assert np.abs(which.heat(t).cdf(y) - which.cdf(x)).max() <= EXPONENTIAL


@pytest.mark.parametrize(
    ("density", "reach"),
    [(MIX, 30), (UNEVEN[1], 9), (GaussianMixture([0.3, 0.4, 0.3], [-12, 0, 12], [1, 0.01, 1]), 20)],
)
@pytest.mark.parametrize("t", [0.0, 0.01, 0.5, 4.0])
def test_newton_finds_what_a_bracket_holds(monkeypatch, density, reach, t):
    x = np.linspace(-reach, reach, 301)
    got = density.quantile_map(x, t)
    monkeypatch.setattr(densities, "MOST_NEWTON", 0)
    assert np.abs(got - density.quantile_map(x, t)).max() <= EXPONENTIAL * reach


@pytest.mark.parametrize("size", [1e-100, 1e-10, 1e10, 1e100])
def test_the_map_knows_no_unit_of_length(size):
    x = size * np.array([-3.0, 1e-3, 1.0, 30.0])
    got = Gaussian(0.0, size**2).quantile_map(x, size**2)
    assert np.abs(got / (np.sqrt(2) * x) - 1).max() <= EXPONENTIAL


def test_a_slope_that_is_no_number_does_not_pass_for_a_short_step():
    density = GaussianMixture([0.5, 0.5], [-2.0, 2.0], [1e-4, 1e4])
    assert (
        abs(density.quantile_map([1e140], 2.0)[0] / (np.sqrt(1 + 2e-4) * 1e140) - 1) <= EXPONENTIAL
    )


def test_where_newton_goes_astray_a_bracket_is_searched(monkeypatch):
    """From a gap between narrow and wide components it jumps out of all bounds."""
    asked, honest = [], densities.find_root

    def watched(f, bracket, **options):
        asked.append(len(bracket[0]))
        return honest(f, bracket, **options)

    monkeypatch.setattr(densities, "find_root", watched)
    density = GaussianMixture([0.3, 0.4, 0.3], [-12, 0, 12], [1, 0.01, 1])
    density.quantile_map(np.linspace(-20, 20, 301), 0.5)
    assert len(asked) == 1
    assert 0 < asked[0] < 301


@pytest.mark.parametrize("half", [4.0, 5.0])
def test_the_map_of_an_even_density_keeps_the_middle_of_the_gap(half):
    """By symmetry 0 goes to 0, however little mass lies there."""
    density = GaussianMixture([0.5, 0.5], [-half, half], [1.0, 1.0])
    assert abs(density.quantile_map([0.0], 0.5)[0]) <= EXPONENTIAL


@pytest.mark.parametrize("half", [4.0, 5.0])
def test_points_in_the_gap_between_two_clusters_stay_with_their_cluster(half):
    """Half way to a cluster from the middle the other one is not felt: x - m is stretched as for one Gaussian."""
    density = GaussianMixture([0.5, 0.5], [-half, half], [1.0, 1.0])
    got = density.quantile_map([-half / 2, half / 2], 0.01)
    want = half - half / 2 * np.sqrt(1.01)
    assert np.abs(got - [-want, want]).max() <= FIRST_DIFFERENCE * half + 2 * np.exp(-half)


@pytest.mark.parametrize(
    ("half", "t", "share"),
    [(7.0, 0.05, 0.5), (12.0, 0.01, 0.5), (12.0, 0.2, 0.5), (20.0, 0.05, 0.3), (9.0, 1.0, 0.8)],
)
def test_the_map_is_exact_in_a_gap_whose_mass_no_number_next_to_one_can_hold(half, t, share):
    """dy/dx = rho_0(x)/rho_t(y), integrated from one point of the gap to others."""
    density = GaussianMixture([share, 1 - share], [-half, half], [1.0, 1.5])
    later = density.heat(t)
    x = np.linspace(-1.5, 1.5, 8)
    y = density.quantile_map(x, t)
    slope = solve_ivp(
        lambda u, v: np.exp(density.logpdf([u]) - later.logpdf(v)), (x[0], x[-1]), y[:1],
        t_eval=x, method="DOP853", rtol=1e-12, atol=1e-13,
    )  # fmt: skip
    assert np.abs(slope.y[0] - y).max() <= DEEP_GAP


# the potential


@DIMENSIONS
def test_the_potential_of_a_gaussian_is_the_known_parabola(d):
    x, g = points(d), TILTED[d]
    square = np.linalg.inv(g.covs[0] @ g.covs[0])
    off = x - g.means[0]
    want = np.einsum("ni,ij,nj->n", off, square, off) / 8 - np.trace(np.linalg.inv(g.covs[0])) / 4
    assert np.abs(g.potential(x) - want).max() <= EXPONENTIAL
    assert np.abs(g.potential_gradient(x) - off @ square / 4).max() <= EIGHTH_ORDER
    assert np.abs(g.potential_hessian(x) - square / 4).max() <= EIGHTH_ORDER


@DIMENSIONS
def test_the_potential_is_made_of_the_drift_and_its_divergence(d):
    """U = |b|^2/2 + div(b)/2, b half the gradient of the log density, all by differences."""
    x, h, f = points(d), 1e-3, UNEVEN[d].logpdf
    slopes = [(f(x + e) - f(x - e)) / (2 * h) for e in axes(d, h)]
    laplace = sum(f(x + e) - 2 * f(x) + f(x - e) for e in axes(d, h)) / h**2
    want = sum(s**2 for s in slopes) / 8 + laplace / 4
    assert np.abs(UNEVEN[d].potential(x) - want).max() <= SECOND_DIFFERENCE


@DIMENSIONS
def test_the_gradient_and_the_hessian_of_the_potential_are_its_differences(d):
    x, h, density = points(d), 1e-4, UNEVEN[d]
    U, gradient = density.potential, density.potential_gradient
    slopes = np.stack([(U(x + e) - U(x - e)) / (2 * h) for e in axes(d, h)], 1)
    bends = np.stack([(gradient(x + e) - gradient(x - e)) / (2 * h) for e in axes(d, h)], 2)
    hessian = density.potential_hessian(x)
    assert np.abs(gradient(x) - slopes).max() <= FIRST_DIFFERENCE * 10
    assert np.abs(hessian - bends).max() <= FIRST_DIFFERENCE * 10
    assert np.abs(hessian - np.swapaxes(hessian, 1, 2)).max() <= EIGHTH_ORDER


def test_the_mean_square_of_the_second_derivative_of_the_potential_is_the_known_number():
    h = 0.01
    x = np.arange(-13, 13 + h / 2, h)
    got = (MIX.pdf(x) * MIX.potential_hessian(x)[:, 0, 0] ** 2).sum() * h
    assert abs(got / 0.860212735 - 1) <= NINE_DIGITS


def test_the_potential_has_mean_minus_an_eighth_of_the_fisher_information():
    h = 0.01
    x = np.arange(-13, 13 + h / 2, h)
    rho = MIX.pdf(x)
    fisher = (rho * MIX.score(x)[:, 0] ** 2).sum() * h
    assert abs((rho * MIX.potential(x)).sum() * h + fisher / 8) <= GRID_SUM
