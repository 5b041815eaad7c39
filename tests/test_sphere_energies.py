"""The energy: against sums over pairs, Bessel functions, and its slope along the flow."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gamma as gamma_function
from scipy.special import iv
from spheres import NORMALISED, ball, plain_velocity
from tolerances import (
    EXPONENTIAL,
    FIRST_DIFFERENCE,
    FLOW,
    STANDARD_ERRORS,
)

from attnflow import sphere


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
