import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import linear_sum_assignment
from scipy.special import expi, ndtr
from scipy.stats import norm, wasserstein_distance
from tolerances import (
    CONDITIONED,
    DISTANCE,
    EXPONENTIAL,
    FLOW,
    MOMENT,
    QUADRATURE,
    ROUNDED_MASS,
    ROUNDING,
    SOLVED,
)

from attnflow import flows, meanfield, transport
from attnflow.attention import (
    L2Attention,
    MultiHead,
    SinkhornAttention,
    SoftmaxAttention,
    UnnormalisedAttention,
)
from attnflow.densities import Gaussian, GaussianMixture
from attnflow.meanfield import (
    MaskedMeanField,
    Measure,
    log_stability_bound,
    measure,
    quadrature,
    quasi,
    support_bound,
    wasserstein,
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
I2 = np.eye(2)


def cloud(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def masses(n, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(n, 2.0))


# measures


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


# quadratures


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
    assert meanfield.MAX_POINTS == 2_000_000


# quasi-random points


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


# distances


def monotone(mu, nu, p):
    """The integral of |F^-1 - G^-1|^p over the levels between all jumps."""
    (x, a), (y, b) = ((m.points[:, 0], m.weights) for m in (mu, nu))
    i, j = np.argsort(x), np.argsort(y)
    left, right = np.cumsum(a[i]), np.cumsum(b[j])
    left[-1] = right[-1] = 1.0
    total, last = 0.0, 0.0
    for level in np.sort(np.concatenate([left, right])):
        middle = (last + level) / 2
        gap = abs(x[i][np.searchsorted(left, middle)] - y[j][np.searchsorted(right, middle)])
        total, last = total + (level - last) * gap**p, level
    return total ** (1 / p)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    n=st.integers(1, 12), m=st.integers(1, 12), seed=st.integers(0, 99), p=st.sampled_from([1, 2, 3])
)  # fmt: skip
def test_on_the_line_the_distance_is_that_of_the_quantiles(n, m, seed, p):
    mu, nu = measure(cloud(n, 1, seed), masses(n, seed)), measure(cloud(m, 1, seed + 1), masses(m))
    got = wasserstein(mu, nu, p)
    assert abs(got - monotone(mu, nu, p)) <= ROUNDED_MASS
    if p == 1:
        x, y = mu.points[:, 0], nu.points[:, 0]
        assert abs(got - wasserstein_distance(x, y, mu.weights, nu.weights)) <= SOLVED


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0, 7.0])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_equal_weights_are_matched_one_to_one(p, d):
    x, y = cloud(9, d, 1), cloud(9, d, 2)
    cost = np.array([[np.linalg.norm(a - b) ** p for b in y] for a in x])
    rows, columns = linear_sum_assignment(cost)
    want = cost[rows, columns].mean() ** (1 / p)
    assert abs(wasserstein(measure(x), measure(y), p) - want) <= SOLVED


@pytest.mark.parametrize("d", [1, 2, 3])
def test_for_p_two_it_is_the_distance_of_transport(d):
    mu, nu = measure(cloud(20, d, 1), masses(20, 1)), measure(cloud(15, d, 2), masses(15, 2))
    want = transport.w2(mu.points, nu.points, mu.weights, nu.weights)
    assert abs(wasserstein(mu, nu) - want) <= SOLVED


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_a_translation_costs_its_length_and_scaling_scales(p):
    mu, nu = measure(cloud(8, 2, 1), masses(8, 1)), measure(cloud(6, 2, 2), masses(6, 2))
    v = np.array([3.0, -4.0])
    assert abs(wasserstein(mu, Measure(mu.points + v, mu.weights), p) - 5) <= SOLVED
    both = wasserstein(mu, nu, p)
    for factor in (1e-6, 0.5, 1e6):
        scaled = [Measure(factor * m.points, m.weights) for m in (mu, nu)]
        assert abs(wasserstein(*scaled, p) / factor - both) <= SOLVED
    moved = [Measure(m.points + 100 * v, m.weights) for m in (mu, nu)]
    assert abs(wasserstein(*moved, p) - both) <= SOLVED


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_it_is_a_distance_of_measures(p):
    """Symmetric, zero for the same measure however it is written down, and triangular."""
    a, b, c = (measure(cloud(7, 2, seed), masses(7, seed)) for seed in range(3))
    assert abs(wasserstein(a, b, p) - wasserstein(b, a, p)) <= SOLVED
    assert wasserstein(a, c, p) <= wasserstein(a, b, p) + wasserstein(b, c, p) + SOLVED
    split = Measure(np.repeat(a.points, 2, axis=0)[::-1], np.repeat(a.weights / 2, 2)[::-1])
    assert wasserstein(a, split, p) <= ROUNDED_MASS ** min(1, 2 / p)
    assert wasserstein(a, a, p) == 0
    assert wasserstein(measure([1.0, 1.0]), measure([1.0]), p) == 0


def test_distances_grow_with_p():
    mu, nu = measure(cloud(8, 2, 1)), measure(cloud(8, 2, 2))
    found = [wasserstein(mu, nu, p) for p in (1, 1.5, 2, 3, 10)]
    assert all(a <= b + SOLVED for a, b in itertools.pairwise(found))


def test_points_without_mass_cost_nothing():
    mu = measure([[0.0, 0.0], [50.0, 0.0]], [1.0, 0.0])
    assert abs(wasserstein(mu, measure([[3.0, 4.0]]), 3) - 5) <= DISTANCE


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize(("far", "p"), [(1e2, 3), (1e4, 3), (1e6, 2), (1e2, 6)])
def test_a_common_point_far_away_does_not_hide_the_distance_of_the_others(d, far, p):
    x, y = cloud(30, d, 1), cloud(30, d, 2)
    cost = np.linalg.norm(x[:, None] - y, axis=2) ** p
    rows, columns = linear_sum_assignment(cost)
    want = (cost[rows, columns].sum() / 31) ** (1 / p)
    both = [measure(np.vstack([z, np.full(d, far)])) for z in (x, y)]
    assert abs(wasserstein(*both, p) - want) <= ROUNDED_MASS


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("change", [0.1, 1e-3, 1e-6])
def test_small_changes_of_the_weights_move_small_masses_the_cheapest_way(p, change):
    """Neighbours hand on the excess, 1 + 2 + 1 times `change` by a gap each, if p > 1."""
    x, more = np.array([0.0, 100.0, 200.0, 300.0]), np.array([1.0, 1.0, -1.0, -1.0])
    mu, nu = measure(x, 0.25 + change * more), measure(x)
    want = 100 * (4 * change) ** (1 / p)
    assert abs(wasserstein(mu, nu, p) / want - 1) <= ROUNDED_MASS
    plane = [Measure(m.points @ [[0.6, 0.8]], m.weights) for m in (mu, nu)]
    assert abs(wasserstein(*plane, p) / want - 1) <= ROUNDED_MASS


def test_weights_that_miss_one_by_their_rounding_are_no_obstacle():
    mu, nu = measure([0.0, 1.0, 2.0], [0.2, 0.3, 0.5 - 5e-9]), measure([0.0, 4.0])
    assert abs(wasserstein(mu, nu, 1) - (0.3 * 1 + 0.5 * 2)) <= ROUNDED_MASS


@pytest.mark.parametrize("p", [0.5, 0.0, -1.0])
def test_a_power_below_one_is_refused(p):
    with pytest.raises(ValueError, match="p must be at least 1, got "):
        wasserstein(measure([0.0]), measure([1.0]), p)


def test_other_powers_and_dimensions_are_refused():
    for p in (np.nan, np.inf, "two", None):
        with pytest.raises(ValueError, match="p must be a finite number, got "):
            wasserstein(measure([0.0]), measure([1.0]), p)
    with pytest.raises(ValueError, match="measures must share a dimension, got 1 and 2"):
        wasserstein(measure([0.0]), measure([[1.0, 2.0]]))


# the support


@pytest.mark.parametrize("V", [I2, np.diag([1.0, -3.0]), np.array([[0.0, 2.0], [0.5, 1.0]])])
def test_the_support_bound_is_the_exponential_of_the_spectral_norm(V):
    size = math.sqrt(np.linalg.eigvalsh(V.T @ V)[-1])
    for t in (0.0, 0.3, 2.0):
        want = 1.5 * math.exp(size * t)
        assert abs(support_bound(1.5, V, t) / want - 1) <= CONDITIONED
        assert abs(support_bound(1.5, lambda s: V, t) / want - 1) <= QUADRATURE
        assert abs(support_bound(1.5, V, t + 4, start=4.0) / want - 1) <= CONDITIONED


def test_the_support_bound_integrates_a_value_that_depends_on_time():
    """|diag(s, -2s)| = 2|s|, whose integral is t|t|; |cos| over a period is 4."""
    for start, t in ((0.0, 1.5), (1.0, 2.0), (-2.0, 1.0)):
        want = math.exp(t * abs(t) - start * abs(start))
        got = support_bound(1.0, lambda s: np.diag([s, -2 * s]), t, start)
        assert abs(got / want - 1) <= QUADRATURE * 10
    got = support_bound(1.0, lambda s: [[math.cos(s)]], 2 * math.pi)
    assert abs(got / math.exp(4) - 1) <= SOLVED


def test_the_support_bound_integrates_a_value_that_jumps():
    got = support_bound(2.0, lambda s: I2 * (1 if s < 0.3 else -2), 1.0)
    assert abs(got / (2 * math.exp(0.3 + 1.4)) - 1) <= ROUNDED_MASS


@pytest.mark.parametrize("kind", [SoftmaxAttention, L2Attention, SinkhornAttention])
@pytest.mark.parametrize("causal", [False, True])
def test_tokens_stay_within_the_support_bound(kind, causal):
    rng = np.random.default_rng(1)
    Q, K, V = rng.normal(size=(3, 2, 2)) / 2
    x, times = cloud(6, 2), [0.0, 0.5, 1.0]
    flow = flows.ode(kind(Q, K, V, causal), x, times, rtol=1e-8)
    for t, radius in zip(times, flow.radius, strict=True):
        assert radius <= support_bound(measure(x).radius, V, t) * (1 + FLOW)
    # and a token alone along the largest singular direction of a symmetric V attains it
    alone = flows.ode(kind(Q, K, np.diag([1.0, -0.2]), causal), [[2.0, 0.0]], [0.0, 1.0])
    assert abs(alone.radius[-1] / support_bound(2.0, np.diag([1.0, -0.2]), 1.0) - 1) <= FLOW


def test_a_support_bound_beyond_doubles_is_infinite_and_no_warning():
    assert support_bound(1.0, 1000 * I2, 1.0) == math.inf
    assert support_bound(1.0, lambda s: 1000 * I2, 1.0) == math.inf


def test_the_support_bound_refuses_what_makes_no_sense():
    for radius in (-1.0, np.nan, np.inf, "wide"):
        with pytest.raises(ValueError, match=r"radius must be a (finite )?number > 0, got "):
            support_bound(radius, I2, 1.0)
    with pytest.raises(ValueError, match=r"t must not lie before the start 2\.0, got 1\.0"):
        support_bound(1.0, I2, 1.0, start=2.0)
    with pytest.raises(ValueError, match="t must be a finite number, got nan"):
        support_bound(1.0, I2, np.nan)
    with pytest.raises(ValueError, match="V must have 2 axes"):
        support_bound(1.0, [1.0, 2.0], 1.0)
    with pytest.raises(ValueError, match="V must be finite"):
        support_bound(1.0, lambda s: [[np.nan]], 1.0)


@pytest.mark.parametrize("start", [np.nan, -np.inf, "soon", None])
def test_the_support_bound_refuses_a_start_that_is_no_number(start):
    with pytest.raises(ValueError, match="start must be a finite number, got "):
        support_bound(1.0, I2, 1.0, start=start)


# stability


@pytest.mark.parametrize("A", [0.5 * I2, np.array([[0.2, 1.0], [0.0, -0.3]])])
@pytest.mark.parametrize("V", [0.5 * I2, np.array([[0.2, 0.5], [-0.4, 0.3]])])
@pytest.mark.parametrize(("R", "t"), [(0.5, 1.0), (1.0, 0.3), (2.0, 0.5)])
def test_the_stability_bound_is_the_integral_of_the_lipschitz_constant(A, V, R, t):
    """With g = |A| R^2 e^(2|V|s) the integral of |V|(1 + 3g)e^(2g) is Ei(2g)/2 + 3 e^(2g)/4."""
    a, v = (np.linalg.svd(m, compute_uv=False)[0] for m in (A, V))
    got = log_stability_bound(A, V, R, t)

    def constant(s):
        g = a * (R * math.exp(v * s)) ** 2
        return v * (1 + 3 * g) * math.exp(2 * g)

    assert abs(got / quad(constant, 0, t, epsabs=0, epsrel=1e-12)[0] - 1) <= SOLVED
    low, high = 2 * a * R**2, 2 * a * R**2 * math.exp(2 * v * t)
    want = (expi(high) - expi(low)) / 2 + 3 * (math.exp(high) - math.exp(low)) / 4
    assert abs(got / want - 1) <= SOLVED


def test_the_stability_bound_without_scores_is_that_of_a_linear_flow():
    assert abs(log_stability_bound(0 * I2, -2 * I2, 3.0, 1.5) - 3) <= CONDITIONED
    assert abs(log_stability_bound(0 * I2, 1000 * I2, 1.0, 1.0) / 1000 - 1) <= CONDITIONED
    assert log_stability_bound(I2, 0 * I2, 3.0, 1.5) == 0
    assert log_stability_bound(I2, I2, 3.0, 0.0) == 0


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("seed", range(3))
def test_flows_that_start_near_each_other_stay_within_the_stability_bound(p, seed):
    rng = np.random.default_rng(seed)
    Q, K, V = rng.normal(size=(3, 2, 2)) / 2
    x = rng.normal(size=(6, 2)) / 2
    y = x + 0.1 * rng.normal(size=(6, 2))
    R, w = max(measure(x).radius, measure(y).radius), masses(6, seed)
    ends = [
        flows.ode(SoftmaxAttention(Q, K, V), z, [0.0, 0.4], weights=w).states[-1] for z in (x, y)
    ]
    before = wasserstein(measure(x, w), measure(y, w), p)
    after = wasserstein(measure(ends[0], w), measure(ends[1], w), p)
    assert math.log(after / before) <= log_stability_bound(K.T @ Q, V, R, 0.4)


@pytest.mark.parametrize("t", [3.0, 4.0, 5.0, 8.0])
def test_a_stability_bound_beyond_doubles_is_infinite_and_never_a_smaller_number(t):
    """At t = 3 already, 2g = 2 e^6 = 807 and e^807 is no number."""
    assert log_stability_bound(I2, I2, 1.0, t) == math.inf


def test_the_stability_bound_refuses_what_makes_no_sense():
    for radius in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match="radius must be a finite number > 0, got "):
            log_stability_bound(I2, I2, radius, 1.0)
    with pytest.raises(ValueError, match="A must have 2 axes"):
        log_stability_bound(1.0, I2, 1.0, 1.0)
    with pytest.raises(ValueError, match="V must be finite, got nan"):
        log_stability_bound(I2, np.nan * I2, 1.0, 1.0)
    with pytest.raises(ValueError, match="t must be a finite number"):
        log_stability_bound(I2, I2, 1.0, np.nan)


def test_the_stability_bound_refuses_to_go_back_in_time():
    """As the support bound does; its integral would be negative, and no bound."""
    with pytest.raises(ValueError, match=r"t must .*, got -1"):
        log_stability_bound(I2, I2, 1.0, -1.0)


# the masked layer


def heads():
    rng = np.random.default_rng(5)
    mats = rng.normal(size=(9, 2, 2)) * 0.7
    return {
        "softmax": (SoftmaxAttention, mats[:3], {}),
        "L2": (L2Attention, mats[3:6], {}),
        "unnormalised": (UnnormalisedAttention, mats[3:6], {}),
        "sinkhorn": (SinkhornAttention, mats[6:], {"eps": 0.8, "tol": 1e-12}),
        "sinkhorn psd": (SinkhornAttention, [mats[0], mats[0], mats[1]], {"tol": 1e-12}),
    }


def build(name, causal=False):
    if name != "many":
        kind, matrices, options = heads()[name]
        return kind(*matrices, causal, **options)
    W = np.random.default_rng(6).normal(size=(3, 2, 2))
    return MultiHead([build(k, causal) for k in ("softmax", "L2", "sinkhorn")], W)


NAMES = pytest.mark.parametrize("name", [*heads(), "many"])


def brute(attention, s, x, w):
    """Row by row: the layer on the points up to s_i, whose masses are divided by their sum."""
    out = []
    for si, xi in zip(s, x, strict=True):
        seen = [j for j in range(len(x)) if s[j] <= si]
        mass = sum(w[j] for j in seen)
        out.append(attention.field(xi[None], x[seen], w[seen] / mass)[0])
    return np.array(out)


@NAMES
@pytest.mark.parametrize("weighted", [False, True])
def test_with_positions_i_over_n_it_is_the_causal_layer(name, weighted):
    n = 7
    x, w = cloud(n, 2), masses(n) if weighted else None
    masked, causal = MaskedMeanField(build(name), np.arange(1, n + 1) / n), build(name, causal=True)
    assert np.abs(masked.velocity(x, w) - causal.velocity(x, w)).max() <= SOLVED
    assert masked.matrix(x, w).shape == causal.matrix(x, w).shape
    assert np.abs(masked.matrix(x, w) - causal.matrix(x, w)).max() <= SOLVED


@NAMES
@settings(max_examples=8, deadline=None, derandomize=True)
@given(n=st.integers(1, 7), seed=st.integers(0, 99))
def test_every_point_averages_the_points_up_to_its_position(name, n, seed):
    """Positions on a coarse grid and in no order, so that there are ties."""
    rng = np.random.default_rng(seed)
    s, x, w = rng.integers(0, 5, n) / 4, cloud(n, 2, seed), masses(n, seed)
    got = MaskedMeanField(build(name), s).velocity(x, w)
    assert got.shape == (n, 2)
    assert np.abs(got - brute(build(name), s, x, w)).max() <= SOLVED


@NAMES
def test_points_at_one_position_see_each_other_as_without_a_mask(name):
    x, w = cloud(6, 2), masses(6)
    got = MaskedMeanField(build(name), np.full(6, 0.4)).velocity(x, w)
    assert np.abs(got - build(name).velocity(x, w)).max() <= SOLVED


def test_tied_points_see_each_other_and_all_before_but_none_after():
    P = MaskedMeanField(build("softmax"), [0.0, 0.5, 0.5, 1.0]).matrix(cloud(4, 2))
    assert (P > 0).tolist() == [
        [True, False, False, False],
        [True, True, True, False],
        [True, True, True, False],
        [True, True, True, True],
    ]
    assert np.abs(P.sum(axis=1) - 1).max() <= ROUNDING


@NAMES
def test_a_weight_is_as_many_copies(name):
    s, x = np.array([0.1, 0.3, 0.7, 0.7]), cloud(4, 2)
    copies = [3, 1, 2, 2]
    weighted = MaskedMeanField(build(name), s).velocity(x, np.array(copies) / 8)
    repeated = MaskedMeanField(build(name), np.repeat(s, copies)).velocity(np.repeat(x, copies, 0))
    assert np.abs(repeated - np.repeat(weighted, copies, 0)).max() <= SOLVED


@NAMES
def test_the_order_in_which_points_are_listed_does_not_matter(name):
    s, x, w = np.array([0.0, 0.2, 0.2, 0.6, 1.0]), cloud(5, 2), masses(5)
    want = MaskedMeanField(build(name), s).velocity(x, w)
    order = np.random.default_rng(3).permutation(5)
    got = MaskedMeanField(build(name), s[order]).velocity(x[order], w[order])
    assert np.abs(got - want[order]).max() <= SOLVED


def test_only_the_order_of_positions_matters():
    x, attention = cloud(4, 2), build("L2")
    one = MaskedMeanField(attention, [0.0, 0.2, 0.3, 1.0]).velocity(x)
    assert (MaskedMeanField(attention, [0.1, 0.11, 0.9, 0.95]).velocity(x) == one).all()


def test_what_comes_later_is_not_seen():
    x, masked = cloud(4, 2), MaskedMeanField(build("sinkhorn"), [0.0, 0.4, 0.4, 0.9])
    before = masked.velocity(x)
    x[3] += 10
    after = masked.velocity(x)
    assert (before[:3] == after[:3]).all()
    assert np.abs(before[3] - after[3]).max() > 1


def test_points_without_mass_are_moved_but_not_seen():
    s, x, w = [0.0, 0.0, 0.5, 1.0], cloud(4, 2), np.array([0.0, 0.5, 0.0, 0.5])
    attention = build("softmax")
    got = MaskedMeanField(attention, s).velocity(x, w)
    assert np.abs(got[:3] - x[1] @ attention.V.T).max() <= ROUNDING
    x[2] += 5
    assert np.abs(MaskedMeanField(attention, s).velocity(x, w)[3] - got[3]).max() <= ROUNDING


def test_positions_keep_while_tokens_flow():
    """The ordinary differential equation of the masked layer is that of the causal one."""
    x, times = cloud(5, 2), [0.0, 0.5]
    masked = flows.ode(MaskedMeanField(build("softmax"), np.arange(1, 6) / 5), x, times)
    causal = flows.ode(build("softmax", causal=True), x, times)
    assert np.abs(masked.states - causal.states).max() <= FLOW


def test_values_may_have_another_dimension():
    masked = MaskedMeanField(SoftmaxAttention(I2, I2, np.ones((3, 2))), [0.0, 1.0])
    assert masked.velocity(cloud(2, 2)).shape == (2, 3)


@pytest.mark.parametrize("positions", [[-0.1, 0.5], [0.5, 1.1], [2.0], []])
def test_positions_outside_the_unit_interval_are_refused(positions):
    with pytest.raises(ValueError, match=r"positions must lie in \[0, 1\], got "):
        MaskedMeanField(build("softmax"), positions)


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        ([0.0, np.nan], "positions must be finite, got nan"),
        ([[0.0, 1.0]], "positions must have 1 axes, got shape"),
        (["first"], "positions must be an array of real numbers"),
    ],
)
def test_positions_that_are_no_numbers_are_refused(positions, message):
    with pytest.raises(ValueError, match=message):
        MaskedMeanField(build("softmax"), positions)


@pytest.mark.parametrize("name", ["softmax", "L2", "sinkhorn", "many"])
def test_a_layer_that_is_causal_already_is_refused(name):
    with pytest.raises(ValueError, match="the mask comes from the positions: give a layer that is"):
        MaskedMeanField(build(name, causal=True), [0.0, 1.0])
    with pytest.raises(ValueError, match="the mask comes from the positions"):
        MaskedMeanField(MultiHead([build("L2"), build("softmax", causal=True)]), [0.0, 1.0])


@NAMES
def test_the_first_points_must_carry_mass(name):
    masked = MaskedMeanField(build(name), [0.25, 0.0, 1.0])
    for f in (masked.velocity, masked.matrix):
        with pytest.raises(ValueError, match="the points up to position 0 must carry mass, got 0"):
            f(cloud(3, 2), [0.5, 0.0, 0.5])


def test_as_many_tokens_as_positions():
    masked = MaskedMeanField(build("softmax"), [0.0, 0.5, 1.0])
    for f in (masked.velocity, masked.matrix):
        with pytest.raises(ValueError, match="x must have one token per position, 3, got 2"):
            f(cloud(2, 2))
        with pytest.raises(ValueError, match="weights must have one entry per token, 3"):
            f(cloud(3, 2), [0.5, 0.5])


def test_tokens_of_another_dimension_are_refused_with_the_rule():
    for name in ("softmax", "sinkhorn", "many"):
        with pytest.raises(ValueError, match=r"x must have 2 columns, got shape \(2, 3\)"):
            MaskedMeanField(build(name), [0.0, 1.0]).velocity(cloud(2, 3))


def test_velocities_that_are_no_numbers_are_refused_as_by_the_layer_itself():
    I1 = np.eye(1)
    for attention in (
        SoftmaxAttention(0 * I1, I1, 1e200 * I1),
        MaskedMeanField(SoftmaxAttention(0 * I1, I1, 1e200 * I1), [0.0, 1.0]),
    ):
        with pytest.raises(ValueError, match="velocities must be finite"):
            attention.velocity([[1e200], [1e200]])
