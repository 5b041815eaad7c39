"""Velocities, flows and clusters of tokens on the sphere, against the definition."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm
from spheres import NORMALISED, ball, plain_flow, plain_velocity
from tolerances import (
    EXPONENTIAL,
    FIRST_DIFFERENCE,
    FLOW,
    LONG_FLOW,
    ROUNDING,
    STANDARD_ERRORS,
)

from attnflow import sphere


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


@NORMALISED
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("beta", [0.0, 1.0, 4.0])
def test_the_flow_is_that_of_the_definition(beta, causal, normalised):
    x0, times = ball(5, 3, seed=2), [0.0, 0.1, 1.0]
    got = sphere.flow(x0, beta, times, normalised, causal=causal)
    assert got.times.tolist() == times
    assert got.iterations > 0
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


@pytest.mark.parametrize(("n", "d"), [(10**18, 2), (2, 10**18), (10**5, 10**4)])
def test_more_tokens_than_memory_holds_are_not_drawn(n, d):
    with pytest.raises(ValueError, match=r"^[nd] must be at most "):
        sphere.uniform(n, d, np.random.default_rng(0))
