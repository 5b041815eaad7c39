"""Measures: moments of given points, of Gauss-Hermite grids and of Sobol points."""

import math

import numpy as np
import pytest
from clouds import cloud, masses
from scipy.special import ndtr
from scipy.stats import norm
from tolerances import (
    CONDITIONED,
    EXPONENTIAL,
    MOMENT,
    ROUNDING,
)

from attnflow.densities import Gaussian, GaussianMixture
from attnflow.meanfield import (
    measure,
    measures,
    quadrature,
    quasi,
)

COV3 = np.array([[1.0, 0.3, -0.2], [0.3, 0.5, 0.1], [-0.2, 0.1, 2.0]])

DENSITIES = {
    "line": Gaussian(0.5, 2.0),
    "line mixture": GaussianMixture([0.3, 0.7], [-2.0, 1.0], [0.5, 1.5]),
    "plane": Gaussian([1.0, -0.5], COV3[:2, :2]),
    "plane mixture": GaussianMixture(
        [0.2, 0.5, 0.3], [[0.0, 0.0], [1.0, 2.0], [-2.0, 0.5]], [np.eye(2), COV3[:2, :2], COV3[1:, 1:]]
    ),
    "space": Gaussian([0.0, 1.0, -1.0], COV3),
    "space mixture": GaussianMixture([0.5, 0.5], [[0.0, 1.0, 2.0], [0.0, 0.0, 0.0]], [COV3, np.eye(3)]),
}  # fmt: skip

ALL_DENSITIES = pytest.mark.parametrize("name", DENSITIES)


def test_a_measure_has_the_mean_the_covariance_and_the_radius_of_its_points():
    x, w = cloud(6, 2), masses(6)
    mu = measure(x, w)
    mean = sum(wi * xi for wi, xi in zip(w, x, strict=True))
    cov = sum(wi * np.outer(xi - mean, xi - mean) for wi, xi in zip(w, x, strict=True))
    assert np.abs(mu.mean - mean).max() <= ROUNDING
    assert np.abs(mu.cov - cov).max() <= ROUNDING
    assert mu.radius == max(math.hypot(*xi) for xi in x)


def test_the_radius_looks_at_points_with_mass_only():
    assert measure([[3.0, 4.0], [100.0, 0.0], [1.0, 0.0]], [0.5, 0.0, 0.5]).radius == 5.0


def test_points_weigh_the_same_unless_told_and_a_vector_is_a_line():
    mu = measure([1.0, 2.0, 6.0])
    assert mu.points.shape == (3, 1)
    assert mu.weights.tolist() == [1 / 3] * 3
    assert mu.mean.shape == (1,)
    assert abs(mu.mean[0] - 3) <= ROUNDING
    assert mu.cov.shape == (1, 1)


@pytest.mark.parametrize(
    ("points", "weights", "message"),
    [
        ([], None, "points must hold at least one token"),
        ([[0.0, np.nan]], None, "points must be finite, got nan"),
        ([0.0, 1.0], [1.0], r"weights must have one entry per token, 2, got shape \(1,\)"),
        ([0.0, 1.0], [1.5, -0.5], r"weights must not be negative, got -0\.5"),
        ([0.0, 1.0], [0.5, 0.6], r"weights must sum to 1, got 1\.1"),
    ],
)
def test_what_is_not_a_measure_is_refused(points, weights, message):
    with pytest.raises(ValueError, match=message):
        measure(points, weights)


def moment(density, u, k):
    """E <u, x>^k: a projection of a Gaussian is one on the line."""
    parts = zip(density.weights, density.means, density.covs, strict=True)
    return sum(w * norm.moment(k, u @ m, math.sqrt(u @ S @ u)) for w, m, S in parts)


@ALL_DENSITIES
@pytest.mark.parametrize("order", [1, 2, 5])
def test_moments_up_to_twice_the_order_less_one_are_exact(name, order):
    density = DENSITIES[name]
    mu = quadrature(density, order)
    assert mu.points.shape == (len(density.weights) * order**density.dimension, density.dimension)
    assert (mu.weights > 0).all()
    assert abs(mu.weights.sum() - 1) <= ROUNDING
    for u in cloud(5, density.dimension, seed=order):
        for k in range(1, 2 * order):
            size = mu.weights @ np.abs(mu.points @ u) ** k
            assert abs(mu.weights @ (mu.points @ u) ** k - moment(density, u, k)) <= MOMENT * size


@ALL_DENSITIES
def test_two_nodes_are_enough_for_mean_and_covariance(name):
    density = DENSITIES[name]
    mu = quadrature(density, 2)
    assert np.abs(mu.mean - density.mean).max() <= ROUNDING
    assert np.abs(mu.cov - density.cov).max() <= ROUNDING * 10


@pytest.mark.parametrize("order", [1, 2, 3, 6])
def test_the_first_moment_that_is_not_exact_misses_by_the_norm_of_the_hermite_polynomial(order):
    """E x^{2n} less its quadrature is E He_n^2 = n!, for N(0, 1)."""
    mu = quadrature(Gaussian(0.0, 1.0), order)
    got = norm.moment(2 * order) - mu.weights @ mu.points[:, 0] ** (2 * order)
    assert abs(got / math.factorial(order) - 1) <= CONDITIONED * 100


@pytest.mark.parametrize("name", ["line mixture", "plane"])
def test_exponentials_are_integrated_to_rounding(name):
    """E e^<u,x> = sum of w e^(<u,m> + <u,Su>/2)."""
    density, mu = DENSITIES[name], quadrature(DENSITIES[name], 24)
    u = np.full(density.dimension, 0.6)
    parts = zip(density.weights, density.means, density.covs, strict=True)
    want = sum(w * math.exp(u @ m + u @ S @ u / 2) for w, m, S in parts)
    assert abs(mu.weights @ np.exp(mu.points @ u) / want - 1) <= EXPONENTIAL


def test_components_without_mass_carry_none():
    density = GaussianMixture([0.0, 1.0], [9.0, 0.0], [1.0, 1.0])
    for mu in (quadrature(density, 5), quasi(density, 8)):
        assert abs(mu.weights.sum() - 1) <= ROUNDING
        assert mu.radius <= 4


@pytest.mark.parametrize("order", [0, -1, 1.5, "many", None])
def test_the_order_is_a_whole_number(order):
    with pytest.raises(ValueError, match="order must be a whole number >= 1, got "):
        quadrature(DENSITIES["line"], order)


def test_grids_that_are_too_large_are_refused_before_they_are_built():
    with pytest.raises(ValueError, match=r"order must give at most 2000000 points, got 1000\^3"):
        quadrature(DENSITIES["space"], 1000)
    assert measures.MAX_POINTS == 2_000_000


@ALL_DENSITIES
@pytest.mark.parametrize("n", [1, 2, 64])
def test_quasi_random_points_fill_every_slab_of_equal_mass_once(name, n):
    """What makes Sobol points better than random ones, in every coordinate of every component."""
    density = DENSITIES[name]
    mu = quasi(density, n, seed=3)
    assert mu.points.shape == (n * len(density.weights), density.dimension)
    for k, (w, m, S) in enumerate(zip(density.weights, density.means, density.covs, strict=True)):
        own = slice(k * n, (k + 1) * n)
        assert np.abs(mu.weights[own] - w / n).max() <= ROUNDING
        levels = ndtr(np.linalg.solve(np.linalg.cholesky(S), (mu.points[own] - m).T))  # (d, n)
        for line in levels:
            assert sorted(np.floor(line * n).astype(int).tolist()) == list(range(n))


@pytest.mark.parametrize("name", ["line", "plane mixture", "space"])
def test_quasi_random_points_integrate_better_than_random_ones_and_converge_faster(name):
    density = DENSITIES[name]
    u = np.full(density.dimension, 0.7)
    parts = zip(density.weights, density.means, density.covs, strict=True)
    want = sum(w * math.cos(u @ m) * math.exp(-u @ S @ u / 2) for w, m, S in parts)

    def error(n, seeds=16):
        off = [
            mu.weights @ np.cos(mu.points @ u) - want
            for mu in (quasi(density, n, seed) for seed in range(seeds))
        ]
        return math.sqrt(np.mean(np.square(off)))

    rng, n = np.random.default_rng(0), 1024
    draws = [np.cos(density.sample(n, rng) @ u).mean() - want for _ in range(16)]
    assert error(n) <= math.sqrt(np.mean(np.square(draws))) / 3
    # sixteen times the points: random ones gain 4, these at least 8
    assert error(64) / error(1024) >= 8


def test_quasi_random_points_depend_on_the_seed_alone():
    density = DENSITIES["plane mixture"]
    assert (quasi(density, 16, 5).points == quasi(density, 16, 5).points).all()
    assert (quasi(density, 16, 5).points != quasi(density, 16, 6).points).any()
    same = GaussianMixture([0.5, 0.5], [0.0, 0.0], [1.0, 1.0])
    both = quasi(same, 8).points
    assert (both[:8] != both[8:]).any()


@pytest.mark.parametrize("n", [3, 12, 1000])
def test_the_number_of_quasi_random_points_is_a_power_of_two(n):
    with pytest.raises(ValueError, match=f"n must be a power of two, .* got {n}"):
        quasi(DENSITIES["line"], n)


def test_numbers_of_points_and_seeds_are_whole():
    for n in (0, -4, 2.5, "two"):
        with pytest.raises(ValueError, match="n must be a whole number >= 1, got "):
            quasi(DENSITIES["line"], n)
    for seed in (-1, 0.5):
        with pytest.raises(ValueError, match="seed must be a whole number >= 0, got "):
            quasi(DENSITIES["line"], 4, seed)
