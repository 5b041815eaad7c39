"""Steps of tokens: the bridge step, the Euler step, the general one, and layer after layer."""

import itertools

import numpy as np
import pytest
from clouds import cloud
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri
from tolerances import DEFAULT_TOL, HALVING, ROUNDING, SOLVED

from attnflow.attention import SinkhornAttention
from attnflow.densities import Gaussian
from attnflow.errors import Frozen, NotConverged
from attnflow.schemes import steps
from attnflow.transport import self_bridge

STANDARD = Gaussian(0.0, 1.0)
RULE = r"eps must be a (finite )?number > 0, got "


# one layer


@pytest.mark.filterwarnings("ignore::attnflow.errors.Frozen")
@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    n=st.integers(2, 8),
    d=st.integers(1, 3),
    seed=st.integers(0, 99),
    eps=st.sampled_from([5.0, 20.0]),
    weighted=st.booleans(),
)
def test_the_bridge_step_is_twice_the_token_less_its_conditional_mean(n, d, seed, eps, weighted):
    x = cloud(n, d, seed)
    w = np.random.default_rng(seed).dirichlet(np.full(n, 5.0)) if weighted else None
    got = steps.bridge_step(x, eps, w)
    assert np.abs(got - (2 * x - self_bridge(x, eps, w).barycentric())).max() <= ROUNDING * 10
    layer = SinkhornAttention(np.eye(d), np.eye(d), -np.eye(d), eps=eps)
    assert np.abs(got - (2 * x + layer.velocity(x, w))).max() <= DEFAULT_TOL * 100


@pytest.mark.filterwarnings("ignore::attnflow.errors.Frozen")
@settings(max_examples=30, deadline=None, derandomize=True)
@given(n=st.integers(2, 8), d=st.integers(1, 3), seed=st.integers(0, 99))
def test_the_general_step_with_theta_minus_one_and_the_measure_itself_is_the_bridge_step(
    n, d, seed
):
    x, w = cloud(n, d, seed), np.random.default_rng(seed).dirichlet(np.full(n, 5.0))
    got = steps.general_step(x, 5.0, -1.0, w)
    assert np.abs(got - steps.bridge_step(x, 5.0, w)).max() <= ROUNDING * 10


@pytest.mark.parametrize("theta", [-2.0, 0.5, 1.0, 3.0])
def test_the_general_step_moves_a_share_of_the_way_to_the_conditional_mean(theta):
    x, w = cloud(6, 2), np.random.default_rng(1).dirichlet(np.ones(6))
    mean = self_bridge(x, 2.0, w).barycentric()
    want = (1 - 1 / theta) * x + mean / theta
    assert np.abs(steps.general_step(x, 2.0, theta, w) - want).max() <= ROUNDING * 10


@pytest.mark.parametrize("theta", [-1.0, 1.0, 2.0])
def test_the_general_step_is_the_gradient_step_to_first_order(theta):
    """With sigma = exp(2 theta psi), psi = -x^2/4: x + eps grad psi = x - eps x/2."""
    errors = []
    for eps in (0.02, 0.01):
        x = np.arange(-9, 9 + 1e-9, np.sqrt(eps) / 4)
        sigma = np.exp(-(x**2) / 2 * abs(theta))
        got = steps.general_step(x, eps, theta, sigma / sigma.sum())[:, 0]
        middle = np.abs(x) <= 2
        want = x - np.sign(theta) * eps * x / 2
        errors.append(np.abs(got - want)[middle].max() / eps)
    assert errors[1] <= 0.01 * abs(theta)
    assert abs(errors[0] / errors[1] - 2) <= HALVING


def test_the_euler_step_subtracts_half_the_score_times_eps():
    x = cloud(7, 1)
    assert np.abs(steps.euler_step(x, 0.2, STANDARD.score) - 1.1 * x).max() <= ROUNDING
    plane = cloud(7, 2)
    got = steps.euler_step(plane, 0.4, lambda z: np.ones_like(z))
    assert np.abs(got - (plane - 0.2)).max() <= ROUNDING


def test_one_token_stays_where_it_is():
    assert np.abs(steps.bridge_step([[2.0, -1.0]], 1e-3) - [[2.0, -1.0]]).max() <= ROUNDING


# frozen tokens

FROZEN = r"frozen when they spread by less than 0\.5 of what heat does, here "


def evenly_spaced(n):
    """Tokens with the same normal mass between neighbours."""
    return ndtri((np.arange(n) + 0.5) / n)


def temperature(n, ratio):
    """The eps at which sqrt(eps) n rho_max = ratio, for a standard Gaussian."""
    return (ratio * np.sqrt(2 * np.pi) / n) ** 2


@settings(max_examples=30, deadline=None, derandomize=True)
@given(n=st.integers(2, 8), d=st.integers(1, 3), seed=st.integers(0, 99))
def test_the_share_of_heat_is_the_mean_squared_distance_of_partners(n, d, seed):
    x, w = cloud(n, d, seed) + 7.0, np.random.default_rng(seed).dirichlet(np.full(n, 5.0))
    bridge = self_bridge(x, 2.0, w, tol=1e-13)
    far = ((x[:, None] - x) ** 2).sum(axis=2)
    assert abs(steps.heat_share(bridge) * d * 2.0 - (bridge.plan() * far).sum()) <= DEFAULT_TOL


@pytest.mark.parametrize("s", [0.5, 2.0])
def test_the_share_of_heat_of_a_gaussian_is_that_of_its_gain(s):
    x = np.linspace(-9, 9, 241)
    w = Gaussian(0.0, s).pdf(x)
    u = 0.1 / (2 * s)
    want = 2 * s * (1 - np.exp(-np.arcsinh(u))) / 0.1
    assert abs(steps.heat_share(self_bridge(x, 0.1, w / w.sum(), tol=1e-12)) - want) <= SOLVED


@pytest.mark.parametrize("n", [20, 200])
@pytest.mark.parametrize("ratio", [0.05, 0.2, 0.45])
def test_evenly_spaced_tokens_that_are_frozen_warn(n, ratio):
    with pytest.warns(Frozen, match=FROZEN):
        got = steps.bridge_step(evenly_spaced(n), temperature(n, ratio))
    assert got.shape == (n, 1)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("ratio", [0.05, 0.2, 0.4])
def test_random_tokens_that_are_frozen_warn(seed, ratio):
    x = STANDARD.sample(200, np.random.default_rng(seed))
    with pytest.warns(Frozen, match=FROZEN):
        steps.bridge_step(x, temperature(200, ratio))


def test_clumps_of_coincident_tokens_and_tokens_without_mass_do_not_hide_that_others_are_frozen():
    clumps = np.repeat([[-3.0], [3.0]], 50, axis=0)
    with pytest.warns(Frozen, match=FROZEN):
        steps.bridge_step(clumps, 0.5)
    crowd = np.concatenate([np.linspace(0, 1, 99), [9.0, 12.0]])
    weights = np.concatenate([np.full(99, 1e-6), [0.5, 0.5 - 99e-6]])
    with pytest.warns(Frozen, match=FROZEN):
        steps.bridge_step(crowd, 0.1, weights)


@pytest.mark.parametrize("n", [20, 200])
@pytest.mark.parametrize("ratio", [0.6, 5.0])
def test_evenly_spaced_tokens_that_are_not_frozen_do_not_warn_and_spread(n, ratio):
    x = evenly_spaced(n)
    assert steps.bridge_step(x, temperature(n, ratio)).std() > x.std()


@pytest.mark.parametrize("ratio", [1.5, 5.0])
def test_random_tokens_that_are_not_frozen_do_not_warn_and_spread(ratio):
    x = STANDARD.sample(200, np.random.default_rng(0))
    assert steps.bridge_step(x, temperature(200, ratio)).std() > x.std()


@pytest.mark.parametrize("eps", [10.0, 1e4])
def test_a_temperature_that_is_large_for_the_variance_is_no_frost(eps):
    x = STANDARD.sample(50, np.random.default_rng(0))
    assert steps.heat_share(self_bridge(x, eps)) < steps.FROZEN_BELOW
    assert steps.bridge_step(x, eps).std() > 1.5 * x.std()


# layer after layer


def test_iterating_is_stepping_again_and_again():
    x = STANDARD.sample(60, np.random.default_rng(0))
    states = steps.iterate(x, 0.2, 3).states
    assert states.shape == (4, 60, 1)
    for before, after in itertools.pairwise(states):
        assert np.abs(steps.bridge_step(before, 0.2) - after).max() <= ROUNDING


def test_iterating_tells_of_the_worst_of_its_bridges():
    x = STANDARD.sample(60, np.random.default_rng(0))
    found = steps.iterate(x, 0.2, 3)
    bridges = [self_bridge(state, 0.2) for state in found.states[:-1]]
    assert found.converged
    assert found.residual == max(bridge.residual for bridge in bridges)
    assert found.iterations == max(bridge.iterations for bridge in bridges)
    assert found.heat.tolist() == [steps.heat_share(bridge) for bridge in bridges]


def test_iterating_tells_when_a_bridge_was_not_solved():
    with pytest.warns(NotConverged, match="increase max_iter, or tol"):
        found = steps.iterate([[0.0], [1.0], [3.0]], 0.2, 2, tol=1e-300)
    assert not found.converged
    assert found.residual > 1e-300


@pytest.mark.parametrize("depth", [0, -1, 1.5])
def test_iterating_needs_a_whole_number_of_layers(depth):
    with pytest.raises(ValueError, match="depth must be a whole number >= 1"):
        steps.iterate([[0.0], [1.0]], 0.1, depth)


# what is refused


@pytest.mark.parametrize("eps", [0.0, -1.0, np.nan, np.inf, "warm", None])
def test_every_step_refuses_a_temperature_that_is_not_positive(eps):
    x = [[0.0], [1.0]]
    for f in (
        lambda: steps.bridge_step(x, eps),
        lambda: steps.iterate(x, eps, 1),
        lambda: steps.euler_step(x, eps, STANDARD.score),
        lambda: steps.general_step(x, eps, 1.0, [0.5, 0.5]),
    ):
        with pytest.raises(ValueError, match=RULE):
            f()


@pytest.mark.parametrize("theta", [0, 0.0, np.nan, np.inf, "one", None])
def test_the_general_step_refuses_a_theta_that_does_not_divide(theta):
    with pytest.raises(ValueError, match="theta must be a finite number other than 0, got "):
        steps.general_step([[0.0], [1.0]], 1.0, theta, [0.5, 0.5])


def test_the_steps_refuse_what_is_not_a_measure():
    for step in (steps.bridge_step, lambda x, eps, w: steps.general_step(x, eps, 1.0, w)):
        with pytest.raises(ValueError, match=r"weights must sum to 1, got 1\.1"):
            step([[0.0], [1.0]], 1.0, [0.5, 0.6])
        with pytest.raises(ValueError, match="x must be finite, got nan"):
            step([[0.0], [np.nan]], 1.0, [0.5, 0.5])
    with pytest.raises(ValueError, match="x must be finite, got inf"):
        steps.euler_step([np.inf], 0.1, STANDARD.score)


def test_layers_that_leave_the_range_of_numbers_are_refused():
    with pytest.raises(ValueError, match=r"^tokens after the layer must be finite numbers"):
        steps.iterate([[1e308, 0.0], [0.0, 1.0], [-1.0, 0.5]], 1.0, 3)


def test_more_layers_than_memory_holds_are_refused_at_once():
    with pytest.raises(ValueError, match="depth must be at most 50000000, got 10"):
        steps.iterate([[-1.0], [1.0]], 1.0, 10**18)


def test_no_bridge_at_all_is_solved_without_an_error() -> None:
    assert steps.Worst() == (True, 0.0, 0)
