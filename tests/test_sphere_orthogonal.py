"""Closed forms: the orthogonal start and two clusters, against flows and quadratures."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad, solve_ivp
from spheres import NORMALISED, plain_flow
from tolerances import (
    EXPONENTIAL,
    FLOW,
    NINE_DIGITS,
    QUADRATURE,
)

from attnflow import sphere


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
