import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad, solve_ivp
from scipy.linalg import expm
from scipy.special import gamma as gamma_function
from scipy.special import iv
from tolerances import (
    EXPONENTIAL,
    FIRST_DIFFERENCE,
    FLOW,
    LONG_FLOW,
    NINE_DIGITS,
    QUADRATURE,
    ROUNDING,
    STANDARD_ERRORS,
)

from attnflow import phase, sphere

NORMALISED = pytest.mark.parametrize("normalised", [True, False], ids=["SA", "USA"])
SPHERE_RULE = "x must lie on the unit sphere, got a token of norm"


def ball(n, d, seed=0):
    x = np.random.default_rng(seed).normal(size=(n, d))
    return x / np.sqrt((x**2).sum(axis=1, keepdims=True))


def plain_velocity(x, beta, normalised=True, causal=False):
    """The definition, one token at a time."""
    out = []
    for i, xi in enumerate(x):
        seen = x[: i + 1] if causal else x
        e = [math.exp(beta * float(xi @ xj)) for xj in seen]
        bottom = sum(e) if normalised else len(seen)
        mean = sum(a / bottom * xj for a, xj in zip(e, seen, strict=True))
        out.append(mean - (mean @ xi) * xi)
    return np.array(out)


def plain_flow(x0, beta, times, normalised=True, causal=False):
    found = solve_ivp(
        lambda t, y: plain_velocity(y.reshape(x0.shape), beta, normalised, causal).ravel(),
        (times[0], times[-1]),
        x0.ravel(),
        t_eval=times,
        method="RK45",
        rtol=1e-11,
        atol=1e-12,
    )
    return found.y.T.reshape(len(times), *x0.shape)


# velocities


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    n=st.integers(2, 6),
    d=st.integers(2, 5),
    seed=st.integers(0, 99),
    beta=st.floats(0, 20),
    normalised=st.booleans(),
    causal=st.booleans(),
)
def test_the_velocity_is_the_projected_mean_of_the_definition(n, d, seed, beta, normalised, causal):
    x = ball(n, d, seed)
    got = sphere.velocity(x, beta, normalised, causal=causal)
    want = plain_velocity(x, beta, normalised, causal)
    size = 1.0 if normalised else math.exp(beta)
    assert np.abs(got - want).max() <= EXPONENTIAL * size
    assert np.abs((got * x).sum(axis=1)).max() <= EXPONENTIAL * size


def test_at_beta_zero_both_kinds_are_the_projected_mean():
    x = ball(5, 3)
    mean = x.mean(axis=0)
    want = mean - (x @ mean)[:, None] * x
    assert np.abs(sphere.velocity(x, 0.0) - want).max() <= ROUNDING
    assert np.abs(sphere.velocity(x, 0.0, normalised=False) - want).max() <= ROUNDING


@pytest.mark.parametrize("beta", [0.5, 3.0])
def test_usa_is_n_times_the_gradient_of_the_energy(beta):
    """The derivative of E in a tangent direction u of token i is <x_i', u>/n."""
    x, rng, h = ball(4, 3), np.random.default_rng(1), 1e-4
    v = sphere.velocity(x, beta, normalised=False)
    for i in range(4):
        u = rng.normal(size=3)
        u -= (u @ x[i]) * x[i]
        values = []
        for s in (h, -h):
            y = x.copy()
            y[i] = x[i] + s * u
            y[i] /= np.linalg.norm(y[i])
            values.append(sphere.energy(y, beta))
        slope = (values[0] - values[1]) / (2 * h)
        assert abs(slope - v[i] @ u / 4) <= FIRST_DIFFERENCE * math.exp(beta)


# flows


@NORMALISED
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("beta", [0.0, 1.0, 4.0])
def test_the_flow_is_that_of_the_definition(beta, causal, normalised):
    x0, times = ball(5, 3, seed=2), [0.0, 0.1, 1.0]
    got = sphere.flow(x0, beta, times, normalised, causal=causal)
    assert got.times.tolist() == times
    assert got.evaluations > 0
    want = plain_flow(x0, beta, times, normalised, causal)
    assert np.abs(got.states - want).max() <= FLOW


def test_tokens_at_equilibrium_stay():
    """An orthonormal frame and its opposites, in which all forces are radial."""
    x = np.vstack([np.eye(3), -np.eye(3)])
    assert np.abs(sphere.velocity(x, 2.0)).max() <= ROUNDING
    assert np.abs(sphere.flow(x, 2.0, [0.0, 1.0]).states - x).max() <= FLOW


@NORMALISED
def test_norms_are_one_to_rounding_at_all_times(normalised):
    states = sphere.flow(ball(8, 3), 2.0, [0.0, 1.0, 30.0, 200.0], normalised, rtol=1e-6).states
    assert np.abs(np.linalg.norm(states, axis=2) - 1).max() <= ROUNDING


@NORMALISED
@pytest.mark.parametrize("causal", [False, True])
def test_the_flow_turns_with_the_frame_and_is_reflected_with_it(normalised, causal):
    x0, times = ball(6, 3), [0.0, 2.0]
    R = expm(np.array([[0.0, 2.0, -0.5], [-2.0, 0.0, 1.0], [0.5, -1.0, 0.0]]))
    R[0] *= -1
    straight = sphere.flow(x0, 2.0, times, normalised, causal=causal).states
    turned = sphere.flow(x0 @ R.T, 2.0, times, normalised, causal=causal).states
    assert np.abs(turned - straight @ R.T).max() <= FLOW


@NORMALISED
def test_the_order_of_tokens_matters_only_under_a_mask(normalised):
    x0, order, times = ball(6, 3), [5, 2, 0, 1, 4, 3], [0.0, 2.0]
    for causal in (False, True):
        straight = sphere.flow(x0, 2.0, times, normalised, causal=causal).states
        mixed = sphere.flow(x0[order], 2.0, times, normalised, causal=causal).states
        same = np.abs(mixed - straight[:, order]).max() <= FLOW
        assert same != causal


@NORMALISED
def test_the_first_token_stays_and_is_joined_under_a_mask(normalised):
    x0 = ball(5, 4)
    states = sphere.flow(x0, 1.0, [0.0, 1.0, 200.0], normalised, causal=True).states
    assert np.abs(states[:, 0] - x0[0]).max() <= ROUNDING
    assert np.abs(states[-1] - x0[0]).max() <= LONG_FLOW


@pytest.mark.parametrize("d", [3, 8])
@pytest.mark.parametrize("seed", range(3))
def test_tokens_meet_in_three_dimensions_or_more(d, seed):
    assert sphere.flow(ball(6, d, seed), 1.0, [0.0, 100.0]).diameter[-1] <= LONG_FLOW


@pytest.mark.parametrize("start", [-3.0, 0.0, 7.0])
def test_only_differences_of_times_matter(start):
    want = sphere.flow(ball(4, 3), 2.0, [0.0, 1.0]).states
    got = sphere.flow(ball(4, 3), 2.0, [start, start + 1.0]).states
    assert np.abs(got - want).max() <= FLOW


# energy


@settings(max_examples=40, deadline=None, derandomize=True)
@given(n=st.integers(2, 6), d=st.integers(2, 4), seed=st.integers(0, 99), beta=st.floats(0.01, 20))
def test_the_energy_is_the_mean_over_all_pairs(n, d, seed, beta):
    x = ball(n, d, seed)
    V = np.random.default_rng(seed).normal(size=(d, d)) / 3
    for matrix in (None, V):
        A = np.eye(d) if matrix is None else matrix
        pairs = itertools.product(x, repeat=2)
        want = math.fsum(math.exp(beta * float((A @ p) @ q)) for p, q in pairs)
        got = sphere.energy(x, beta, matrix)
        assert abs(got / (want / (2 * beta * n * n)) - 1) <= EXPONENTIAL


@settings(max_examples=40, deadline=None, derandomize=True)
@given(n=st.integers(2, 40), d=st.integers(2, 6), seed=st.integers(0, 99), beta=st.floats(0.01, 50))
def test_the_uniform_measure_is_least_and_one_cluster_is_greatest(n, d, seed, beta):
    """The kernel exp(beta <x, y>) is positive definite, so this holds for finitely many tokens."""
    value = sphere.energy(ball(n, d, seed), beta)
    assert sphere.uniform_energy(beta, d) <= value * (1 + EXPONENTIAL)
    assert value <= sphere.dirac_energy(beta) * (1 + EXPONENTIAL)


@pytest.mark.parametrize("beta", [1e-3, 1.0, 10.0, 700.0])
def test_tokens_at_one_point_have_the_greatest_energy(beta):
    x = np.tile(ball(1, 3), (4, 1))
    assert abs(sphere.energy(x, beta) / sphere.dirac_energy(beta) - 1) <= EXPONENTIAL
    assert abs(sphere.dirac_energy(beta) / (math.exp(beta) / (2 * beta)) - 1) <= EXPONENTIAL


@pytest.mark.parametrize("d", [2, 3, 4, 9, 32])
@pytest.mark.parametrize("beta", [0.1, 1.0, 5.0, 40.0])
def test_the_uniform_energy_is_a_bessel_function(beta, d):
    nu = d / 2 - 1
    want = gamma_function(d / 2) * (2 / beta) ** nu * iv(nu, beta) / (2 * beta)
    assert abs(sphere.uniform_energy(beta, d) / want - 1) <= EXPONENTIAL


@pytest.mark.parametrize("d", [2, 3, 50, 1024, 4000])
@pytest.mark.parametrize("beta", [1e-6, 1e-2, 1.0, 30.0, 700.0])
def test_the_uniform_energy_is_its_power_series(beta, d):
    """The mean of <x, y>^{2k} is 1 * 3 ... (2k-1) / (d (d+2) ... (d+2k-2)); all terms are positive."""
    terms, term = [], 1.0
    for k in range(1500):
        terms.append(term)
        term *= (beta / 2) ** 2 / ((k + 1) * (d / 2 + k))
    want = math.fsum(terms) / (2 * beta)
    assert abs(sphere.uniform_energy(beta, d) / want - 1) <= EXPONENTIAL


def test_on_the_ordinary_sphere_the_uniform_energy_is_elementary():
    """Archimedes: <x, y> is uniform on [-1, 1], so that the mean of exp is sinh(beta)/beta."""
    for beta in (0.5, 3.0, 20.0):
        want = math.sinh(beta) / beta / (2 * beta)
        assert abs(sphere.uniform_energy(beta, 3) / want - 1) <= EXPONENTIAL


@pytest.mark.parametrize(("beta", "d"), [(1.0, 2), (3.0, 3), (4.0, 10)])
def test_the_uniform_energy_is_the_mean_of_random_pairs(beta, d):
    x, y = ball(40_000, d, seed=1), ball(40_000, d, seed=2)
    draws = np.exp(beta * (x * y).sum(axis=1)) / (2 * beta)
    error = draws.std(ddof=1) / np.sqrt(len(draws))
    assert abs(draws.mean() - sphere.uniform_energy(beta, d)) <= STANDARD_ERRORS * error


@NORMALISED
@pytest.mark.parametrize("beta", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_energy_rate_is_the_slope_of_the_energy_along_the_flow(beta, seed, normalised):
    x0, h = ball(5, 3, seed), 1e-4
    ahead, behind = (
        sphere.energy(x0 + s * plain_step(x0, s, beta, normalised), beta) for s in (h, -h)
    )
    rate = sphere.energy_rate(x0, beta, normalised)
    assert abs((ahead - behind) / (2 * h) - rate) <= FIRST_DIFFERENCE * math.exp(2 * beta)
    assert rate > 0


def plain_step(x, h, beta, normalised):
    """(x(h) - x) / h by one classical Runge-Kutta step, put back on the sphere."""

    def field(y):
        return plain_velocity(y, beta, normalised)

    a = field(x)
    b = field(x + h / 2 * a)
    c = field(x + h / 2 * b)
    y = x + h / 6 * (a + 2 * b + 2 * c + field(x + h * c))
    y /= np.linalg.norm(y, axis=1, keepdims=True)
    return (y - x) / h


@NORMALISED
def test_the_energy_gained_is_the_integral_of_the_rate(normalised):
    nodes, gauss = np.polynomial.legendre.leggauss(20)
    times = np.concatenate([[0.0], (nodes + 1) / 2, [1.0]])
    states = sphere.flow(ball(6, 3), 1.5, times, normalised).states
    rates = [sphere.energy_rate(x, 1.5, normalised) for x in states[1:-1]]
    gain = sphere.energy(states[-1], 1.5) - sphere.energy(states[0], 1.5)
    assert gain > 0.01
    assert abs(gain - gauss @ rates / 2) <= FLOW


@NORMALISED
def test_the_energy_never_falls_along_the_flow(normalised):
    states = sphere.flow(ball(8, 2), 2.0, np.linspace(0, 5, 60), normalised).states
    assert np.diff([sphere.energy(x, 2.0) for x in states]).min() >= -FLOW


def test_the_energy_rate_of_sa_weighs_every_token_by_its_partition_function():
    x, beta = ball(5, 3), 2.0
    v = plain_velocity(x, beta)
    z = [sum(math.exp(beta * float(p @ q)) for q in x) / 5 for p in x]
    want = sum(zi * float(vi @ vi) for zi, vi in zip(z, v, strict=True)) / 5
    assert abs(sphere.energy_rate(x, beta) / want - 1) <= EXPONENTIAL


# inner products


@NORMALISED
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("n", "d"), [(4, 7), (5, 5), (6, 3), (2, 2)])
def test_inner_products_close_on_themselves(n, d, causal, normalised):
    x0, times = ball(n, d, seed=4), [0.0, 0.3, 1.0]
    x = sphere.flow(x0, 2.0, times, normalised, causal=causal).states
    flow = sphere.gram_flow(x0 @ x0.T, 2.0, times, normalised, causal=causal)
    assert flow.states.shape == (3, n, n)
    assert np.abs(flow.states - x @ x.transpose(0, 2, 1)).max() <= FLOW


@NORMALISED
def test_gram_matrices_stay_symmetric_with_ones_on_the_diagonal(normalised):
    x0 = ball(5, 8)
    states = sphere.gram_flow(x0 @ x0.T, 1.0, [0.0, 1.0, 20.0], normalised).states
    assert (np.diagonal(states, axis1=1, axis2=2) == 1).all()
    assert np.abs(states - states.transpose(0, 2, 1)).max() <= ROUNDING
    assert np.abs(states[-1] - 1).max() <= LONG_FLOW


def test_gram_matrices_in_single_precision_are_read():
    g = (ball(5, 8) @ ball(5, 8).T).astype(np.float32)
    assert np.abs(sphere.gram_flow(g, 1.0, [0.0, 1.0]).states[0] - g).max() <= 1e-6
    given = np.eye(3)
    sphere.gram_flow(given, 1.0, [0.0, 1.0])
    assert (given == np.eye(3)).all()


def test_large_beta_does_not_overflow():
    states = sphere.gram_flow(np.eye(4), 700.0, [0.0, 1.0]).states
    assert np.abs(states - np.eye(4)).max() <= ROUNDING
    assert np.isfinite(sphere.flow(ball(4, 3), 700.0, [0.0, 1.0]).states).all()
    assert np.isfinite(sphere.velocity(ball(4, 3), 700.0, normalised=False)).all()


# the orthogonal start


@pytest.mark.parametrize(("beta", "want"), [(0.0, 5.18626098), (4.0, 6.95350185)])
def test_hitting_times_are_the_known_numbers(beta, want):
    assert abs(sphere.hitting_time(beta, 32, 1e-3) / want - 1) <= NINE_DIGITS


@NORMALISED
@pytest.mark.parametrize("n", [2, 5, 32, 1000])
def test_gamma_at_beta_zero_is_elementary(n, normalised):
    t = np.array([0.0, 0.1, 1.0, 5.0, 15.0])
    want = np.expm1(2 * t) / (np.exp(2 * t) + n - 1)
    assert np.abs(sphere.gamma(0.0, n, t, normalised) - want).max() <= QUADRATURE * 10


@settings(max_examples=40, deadline=None, derandomize=True)
@given(n=st.integers(2, 10**6), delta=st.floats(1e-12, 0.999), normalised=st.booleans())
def test_the_hitting_time_at_beta_zero_is_elementary(n, delta, normalised):
    want = 0.5 * math.log((1 + (1 - delta) * (n - 1)) / delta)
    assert abs(sphere.hitting_time(0.0, n, delta, normalised) / want - 1) <= QUADRATURE


@NORMALISED
@pytest.mark.parametrize("beta", [0.5, 2.0])
def test_gamma_is_the_common_inner_product_of_tokens_that_start_orthogonal(beta, normalised):
    times = [0.0, 0.5, 2.0]
    states = plain_flow(np.eye(4), beta, times, normalised)
    gram = states @ states.transpose(0, 2, 1)
    want = sphere.gamma(beta, 4, times, normalised)
    off = ~np.eye(4, dtype=bool)
    assert np.abs(gram[:, off] - want[:, None]).max() <= FLOW
    flow = sphere.gram_flow(np.eye(4), beta, times, normalised).states
    assert np.abs(flow[:, off] - want[:, None]).max() <= FLOW


@NORMALISED
@pytest.mark.parametrize("n", [2, 32])
@pytest.mark.parametrize("beta", [1.0, 4.0])
def test_gamma_solves_its_equation(beta, n, normalised):
    def field(t, g):
        top = 2 * np.exp(beta * g) * (1 - g) * ((n - 1) * g + 1)
        return top / (np.exp(beta) + (n - 1) * np.exp(beta * g) if normalised else n)

    times = np.array([0.0, 0.2, 1.0, 3.0])
    want = solve_ivp(field, (0, 3), [0.0], t_eval=times, method="Radau", rtol=1e-11, atol=1e-13)
    assert np.abs(sphere.gamma(beta, n, times, normalised) - want.y[0]).max() <= FLOW


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    n=st.integers(2, 100),
    beta=st.floats(0, 12),
    delta=st.floats(1e-9, 0.9),
    normalised=st.booleans(),
)
def test_gamma_reaches_one_minus_delta_at_the_hitting_time(n, beta, delta, normalised):
    t = sphere.hitting_time(beta, n, delta, normalised)
    reached = sphere.gamma(beta, n, [t], normalised)[0]
    assert abs((1 - reached) / delta - 1) <= max(FLOW, 2e-16 / delta)


def graded(f, length):
    """The integral over [0, length], by Gauss on panels that halve towards 0."""
    nodes, gauss = np.polynomial.legendre.leggauss(24)
    edges = [0.0, *(length * 2.0**-k for k in range(24, -1, -1))]
    total = [
        (b - a) / 2 * gauss @ f(a + (b - a) * (nodes + 1) / 2) for a, b in itertools.pairwise(edges)
    ]
    return math.fsum(total)


@NORMALISED
@pytest.mark.parametrize("beta", [0.0, 1.0, 9.0, 100.0, 700.0])
@pytest.mark.parametrize("n", [2, 32, 10**6])
@pytest.mark.parametrize("delta", [0.9, 1e-3, 1e-9])
def test_hitting_times_are_accurate_for_all_temperatures(n, beta, delta, normalised):
    """With 1 - gamma = e^{-s}, dt = ds (e^{beta(1-gamma)} + n - 1)/(2 ((n-1) gamma + 1)) for SA."""

    def slowness(s):
        gap = np.exp(-s)
        top = np.exp(beta * gap) + n - 1 if normalised else n * np.exp(beta * (gap - 1))
        return top / (2 * ((n - 1) * -np.expm1(-s) + 1))

    want = graded(slowness, -math.log(delta))
    assert abs(sphere.hitting_time(beta, n, delta, normalised) / want - 1) <= QUADRATURE


def test_gamma_grows_with_time_and_falls_with_beta():
    t = np.linspace(0, 5, 30)
    values = np.array([sphere.gamma(beta, 8, t) for beta in (0.0, 1.0, 3.0, 6.0)])
    assert (np.diff(values, axis=1) > 0).all()
    assert (np.diff(values, axis=0)[:, 1:] < 0).all()
    assert (values[:, 0] == 0).all()


@pytest.mark.parametrize("beta", [0.0, 1.0, 4.0])
def test_the_last_rate_of_sa_is_the_same_at_every_beta(beta):
    """|x_i - x*| falls like e^{-t}, so that 1 - gamma falls like e^{-2t}."""
    last = sphere.hitting_time(beta, 16, 1e-12) - sphere.hitting_time(beta, 16, 1e-9)
    assert abs(last / (math.log(1000) / 2) - 1) <= FLOW


@pytest.mark.parametrize("beta", [0.0, 1.0, 4.0])
def test_the_last_rate_of_usa_is_exp_beta(beta):
    last = sphere.hitting_time(beta, 16, 1e-12, False) - sphere.hitting_time(beta, 16, 1e-9, False)
    assert abs(last / (math.exp(-beta) * math.log(1000) / 2) - 1) <= FLOW * 10


def test_gamma_may_be_asked_at_one_time():
    assert sphere.gamma(1.0, 8, [0.0]).tolist() == [0.0]
    both = sphere.gamma(1.0, 8, [0.0, 2.0])
    assert sphere.gamma(1.0, 8, [2.0]).shape == (1,)
    assert abs(sphere.gamma(1.0, 8, [2.0])[0] - both[1]) <= EXPONENTIAL


# two clusters


def merge_by_quadrature(beta, angle, end):
    """With y = log tan(phi/2): dy = dphi/sin phi and 1 - cos phi = 2/(1 + e^{-2y})."""
    low, high = math.log(math.tan(end / 2)), math.log(math.tan(angle / 2))

    def integrand(y):
        return 0.5 * (1 + math.exp(2 * beta / (1 + math.exp(-2 * y))))

    return quad(integrand, low, high, epsabs=0.0, epsrel=1e-12, limit=500)[0]


@pytest.mark.parametrize("beta", [0.0, 1e-6, 0.1, 1.0, 5.0, 30.0, 300.0])
@pytest.mark.parametrize(
    ("angle", "end"), [(1.5, 0.01), (np.pi / 2, 1e-6), (3.0, 1.0), (1e-3, 1e-6)]
)
def test_the_merge_time_is_its_integral(beta, angle, end):
    want = merge_by_quadrature(beta, angle, end)
    assert abs(sphere.merge_time(beta, angle, end) / want - 1) <= QUADRATURE


@pytest.mark.parametrize("beta", [0.0, 1.0, 5.0, 300.0])
@pytest.mark.parametrize("gap", [1e-3, 1e-6, 1e-9])
def test_the_merge_time_of_clusters_that_are_almost_opposite_keeps_its_digits(beta, gap):
    """The rounding of pi - gap moves the logarithm by 4e-16/gap."""
    want = merge_by_quadrature(beta, np.pi - gap, 0.1)
    got = sphere.merge_time(beta, np.pi - gap, 0.1)
    assert abs(got / want - 1) <= QUADRATURE + 1e-15 / gap


@pytest.mark.parametrize("beta", [356.0, 500.0, 700.0])
@pytest.mark.parametrize("angle", [1e-3, 0.1, 1.0])
def test_the_merge_time_is_found_at_every_beta_at_which_it_is_a_number(beta, angle):
    want = merge_by_quadrature(beta, angle, 1e-4)
    assert np.isfinite(want)
    assert abs(sphere.merge_time(beta, angle, 1e-4) / want - 1) <= QUADRATURE


@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("beta", [0.0, 1.0, 3.0])
def test_two_equal_clusters_merge_in_the_merge_time(beta, m):
    angle, end = 1.2, 0.2
    t = sphere.merge_time(beta, angle, end)
    x0 = np.array([[1.0, 0.0]] * m + [[np.cos(angle), np.sin(angle)]] * m)
    x = plain_flow(x0, beta, [0.0, t])[-1]
    assert abs(np.arccos(x[0] @ x[-1]) - end) <= FLOW
    x = sphere.flow(x0, beta, [0.0, t]).states[-1]
    assert abs(np.arccos(x[0] @ x[-1]) - end) <= FLOW


def test_merge_times_add():
    whole = sphere.merge_time(2.0, 2.0, 0.01)
    parts = sphere.merge_time(2.0, 2.0, 0.5) + sphere.merge_time(2.0, 0.5, 0.01)
    assert abs(parts / whole - 1) <= QUADRATURE


def test_a_merge_time_beyond_all_numbers_is_refused():
    with pytest.raises(ValueError, match="the merge time must be a finite number, got inf"):
        sphere.merge_time(700.0, 3.0, 0.1)


# clusters


def chains(x, delta):
    """Clusters by painting from token to token."""
    color = [-1] * len(x)
    for start in range(len(x)):
        if color[start] < 0:
            reached = [start]
            color[start] = start
            while reached:
                i = reached.pop()
                for j in range(len(x)):
                    if color[j] < 0 and float(x[i] @ x[j]) >= 1 - delta:
                        color[j] = start
                        reached.append(j)
    return color


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    n=st.integers(2, 15),
    d=st.integers(2, 3),
    seed=st.integers(0, 99),
    delta=st.sampled_from([1e-6, 0.01, 0.1, 0.5, 0.99]),
)
def test_clusters_are_chains_of_close_tokens(n, d, seed, delta):
    x = ball(n, d, seed)
    got, want = sphere.clusters(x, delta), chains(x, delta)
    assert got.shape == (n,)
    assert set(got) == set(range(len(set(want))))
    for i, j in itertools.combinations(range(n), 2):
        assert (got[i] == got[j]) == (want[i] == want[j])


def test_a_chain_is_one_cluster_though_its_ends_are_far_apart():
    angles = np.linspace(0, np.pi, 40)
    x = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    assert len(set(sphere.clusters(x, 0.01))) == 1
    assert len(set(sphere.clusters(x, 1e-4))) == 40
    assert len(set(sphere.clusters(x[[0, 1, 38, 39]], 0.01))) == 2


# random tokens


@pytest.mark.parametrize("d", [2, 3, 20])
def test_uniform_tokens_have_the_moments_of_the_sphere(d):
    x = sphere.uniform(20_000, d, np.random.default_rng(0))
    assert x.shape == (20_000, d)
    assert np.abs(np.linalg.norm(x, axis=1) - 1).max() <= ROUNDING
    root = np.sqrt(20_000)
    assert np.abs(x.mean(axis=0)).max() <= STANDARD_ERRORS / np.sqrt(d) / root
    squares = x**2
    assert np.abs(squares.mean(axis=0) - 1 / d).max() <= STANDARD_ERRORS * squares.std() / root
    fourth = 3 / (d * (d + 2))
    assert abs((x[:, 0] ** 4).mean() - fourth) <= STANDARD_ERRORS * (x[:, 0] ** 4).std() / root


def test_uniform_tokens_follow_their_generator():
    first, again, other = (sphere.uniform(5, 3, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert (first == again).all()
    assert np.abs(first - other).max() > 0.1
    assert sphere.uniform is phase.uniform
    assert sphere.phase_diagram is phase.phase_diagram


# what is refused

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
