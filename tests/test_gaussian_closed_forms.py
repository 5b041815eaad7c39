from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import sqrtm
from tolerances import (
    CONDITIONED,
    EXPONENTIAL,
    NINE_DIGITS,
    ROOT_OF_TRACE,
    ROUNDING,
    SERIES,
    SEVEN_DIGITS,
)

from attnflow import gaussian, transport
from attnflow.gaussian import closed_forms
from attnflow.matrices import covariance


@st.composite
def covariances(draw, count=1):
    """Covariances in one dimension between 1 and 4, with eigenvalues between 0.3 and about 10."""
    d, seed = draw(st.integers(1, 4)), draw(st.integers(0, 10**6))
    a = np.random.default_rng(seed).normal(size=(count, d, d))
    out = a @ np.swapaxes(a, 1, 2) + 0.3 * np.eye(d)
    return out[0] if count == 1 else tuple(out)


TEMPERATURES = st.sampled_from([1e-6, 0.01, 0.3, 1.0, 20.0])


def size(matrix):
    return np.abs(matrix).max()


# the bridge and its steps


@settings(max_examples=60, deadline=None, derandomize=True)
@given(cov=covariances(), eps=TEMPERATURES)
def test_the_gain_of_the_bridge_solves_its_quadratic_equation(cov, eps):
    C, W = gaussian.bridge_gain(cov, eps), eps / 2 * np.linalg.inv(cov)
    assert size(C @ C + W @ C + C @ W - np.eye(len(cov))) <= CONDITIONED * (1 + size(W))
    assert size(C - C.T) <= ROUNDING
    assert size(C @ cov - cov @ C) <= CONDITIONED * size(cov)
    values = np.linalg.eigvalsh(C)
    assert values[0] > 0
    assert values[-1] < 1


@settings(max_examples=60, deadline=None, derandomize=True)
@given(cov=covariances(), eps=TEMPERATURES)
def test_the_bridge_has_the_given_marginals_and_the_reference_as_conditional_precision(cov, eps):
    """The density of a bridge is f(x) f(y) exp(<x, y>/eps): its precision is -I/eps off diagonal."""
    C, d = gaussian.bridge_gain(cov, eps), len(cov)
    noise = cov - C @ cov @ C.T
    assert size(noise @ np.linalg.inv(C).T / eps - np.eye(d)) <= CONDITIONED * (1 + size(cov) / eps)


@pytest.mark.parametrize("s", [0.1, 1.0, 7.0])
@pytest.mark.parametrize("eps", [1e-8, 0.1, 1.0, 50.0])
def test_the_gain_on_the_line_is_exp_of_minus_asinh(s, eps):
    got = gaussian.bridge_gain(s, eps)[0, 0]
    assert abs(got / np.exp(-np.arcsinh(eps / (2 * s))) - 1) <= ROUNDING


@settings(max_examples=40, deadline=None, derandomize=True)
@given(cov=covariances(), eps=TEMPERATURES)
def test_a_step_maps_the_covariance_by_its_linear_map(cov, eps):
    eye, inverse = np.eye(len(cov)), np.linalg.inv(cov)
    W = eps / 2 * inverse
    bridge = 2 * eye - (sqrtm(eye + W @ W).real - W)
    for got, layer in (
        (gaussian.bridge_step_cov(cov, eps), bridge),
        (gaussian.euler_step_cov(cov, eps), eye + W),
    ):
        want = layer @ cov @ layer.T
        assert size(got - want) <= CONDITIONED * size(want)
        assert (got == got.T).all()


@pytest.mark.parametrize(("eps", "want"), [(0.1, 1.249219725e-3), (0.01, 1.249992188e-5)])
def test_one_bridge_step_is_the_known_distance_from_one_euler_step(eps, want):
    assert abs(gaussian.one_step_w2(1.0, eps) / want - 1) <= NINE_DIGITS


@settings(max_examples=60, deadline=None, derandomize=True)
@given(cov=covariances(), eps=TEMPERATURES)
def test_the_distance_of_the_steps_is_that_of_their_covariances(cov, eps):
    bridge, euler = gaussian.bridge_step_cov(cov, eps), gaussian.euler_step_cov(cov, eps)
    got = gaussian.one_step_w2(cov, eps)
    assert abs(got - gaussian.bures_w2(bridge, euler)) <= CONDITIONED * (1 + size(euler))


# the distance


@settings(max_examples=60, deadline=None, derandomize=True)
@given(pair=covariances(2))
def test_the_distance_is_the_trace_formula(pair):
    first, second = pair
    root = sqrtm(first).real
    square = np.trace(first + second - 2 * sqrtm(root @ second @ root).real)
    assert abs(gaussian.bures_w2(first, second) ** 2 - square) <= CONDITIONED * np.trace(
        first + second
    )


@settings(max_examples=60, deadline=None, derandomize=True)
@given(triple=covariances(3))
def test_the_distance_is_a_metric(triple):
    a, b, c = triple
    there = gaussian.bures_w2(a, b)
    assert there > 0
    assert gaussian.bures_w2(a, a) <= CONDITIONED * size(a)
    assert abs(there - gaussian.bures_w2(b, a)) <= CONDITIONED * (1 + there)
    assert there <= gaussian.bures_w2(a, c) + gaussian.bures_w2(c, b) + CONDITIONED * (1 + there)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(s=st.floats(0.01, 100), t=st.floats(0.01, 100))
def test_the_distance_on_the_line_is_that_of_the_standard_deviations(s, t):
    assert abs(gaussian.bures_w2(s, t) - abs(np.sqrt(s) - np.sqrt(t))) <= EXPONENTIAL


@pytest.mark.parametrize("gap", [1e-3, 1e-6, 1e-9])
def test_the_distance_of_nearly_equal_covariances_keeps_its_digits(gap):
    """The trace formula would return noise of size ROOT_OF_TRACE."""
    first = np.diag([1.0, 4.0])
    second = np.diag([(1 + gap) ** 2, 4.0])
    assert abs(gaussian.bures_w2(first, second) - gap) <= CONDITIONED * ROOT_OF_TRACE + ROUNDING


@settings(max_examples=60, deadline=None, derandomize=True)
@given(pair=covariances(2))
def test_the_optimal_map_is_symmetric_and_positive_and_pushes_forward(pair):
    first, second = pair
    T = gaussian.optimal_map(first, second)
    assert (T == T.T).all()
    assert np.linalg.eigvalsh(T)[0] > 0
    assert size(T @ first @ T - second) <= CONDITIONED * size(second)


# the Langevin pair


def exact_symmetric_kl(s, eps):
    """From the traces of two 2x2 covariances, with 60 digits."""
    with localcontext() as context:
        context.prec = 60
        u = Decimal(eps) / (2 * Decimal(s))
        c = (-u).exp()
        k = (1 + u * u).sqrt() - u
        # tr(P_k S_c) = 2 (1 - c k)/(1 - k^2); the determinants cancel in the sum
        return float((1 - c * k) / (1 - k * k) + (1 - c * k) / (1 - c * c) - 2)


@pytest.mark.parametrize("s", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("eps", [1e-8, 1e-3, 0.05, 0.0999, 0.1, 0.19, 0.2, 0.21, 0.61, 1.0, 30.0])
def test_the_symmetrised_kl_has_its_digits_at_every_temperature(s, eps):
    assert abs(gaussian.langevin_symmetric_kl(s, eps) / exact_symmetric_kl(s, eps) - 1) <= SERIES


@pytest.mark.parametrize("eps", [1.0, 2.0, 5.0])
@pytest.mark.parametrize("s", [0.5, 1.0])
def test_the_symmetrised_kl_is_that_of_two_gaussians(s, eps):
    u = eps / (2 * s)
    first, second = (s * np.array([[1, c], [c, 1]]) for c in np.exp([-u, -np.arcsinh(u)]))

    def kl(a, b):
        ratio = np.linalg.solve(b, a)
        return (np.trace(ratio) - 2 - np.linalg.slogdet(ratio)[1]) / 2

    want = kl(first, second) + kl(second, first)
    assert abs(gaussian.langevin_symmetric_kl(s, eps) - want) <= ROUNDING


def test_the_symmetrised_kl_at_a_tenth_is_the_known_number():
    assert abs(gaussian.langevin_symmetric_kl(1.0, 0.1) / 8.245605e-8 - 1) <= SEVEN_DIGITS


def test_the_series_and_the_formula_meet_where_one_replaces_the_other(monkeypatch):
    eps, values = 2 * closed_forms.SERIES_BELOW, []
    for switch in (np.inf, 0.0):
        monkeypatch.setattr(closed_forms, "SERIES_BELOW", switch)
        values.append(gaussian.langevin_symmetric_kl(1.0, eps))
    assert values[0] != values[1]
    assert abs(values[0] / values[1] - 1) <= SERIES


@pytest.mark.parametrize("eps", [100.0, 1e3, 2e3, 1e5])
def test_the_symmetrised_kl_is_finite_at_high_temperature(eps):
    assert (
        abs(gaussian.langevin_symmetric_kl(1.0, eps) / exact_symmetric_kl(1.0, eps) - 1) <= SERIES
    )


@pytest.mark.parametrize("eps", [0.2, 1.0])
def test_the_entropic_cost_of_gaussians_is_that_of_the_solvers_plan(eps):
    z = np.linspace(-9, 9, 181)
    first, second = (np.exp(-(z**2) / (2 * s)) for s in (1.0, 0.6))
    cost = (z[:, None] - z) ** 2 / 2
    found = transport.sinkhorn(-cost / eps, first / first.sum(), second / second.sum(), tol=1e-12)
    paid = (np.exp(found.log_plan) * cost).sum()
    assert abs(gaussian.entropic_cost(1.0, 0.6, eps) / paid - 1) <= SERIES


def test_the_entropic_cost_is_half_of_d_eps_above_the_optimum_in_the_cold():
    first, second = np.diag([1.0, 2.0, 0.5]), np.eye(3) + 0.3
    best = gaussian.bures_w2(first, second) ** 2 / 2
    above = gaussian.entropic_cost(first, second, 1e-6) - best
    assert abs(above / 1.5e-6 - 1) <= SEVEN_DIGITS * 10


@pytest.mark.parametrize("eps", [1e-8, 1.0, 1e6, 1e12, 1e150, 1e200, 1e307])
def test_the_entropic_cost_has_its_digits_at_every_temperature(eps):
    with localcontext() as context:
        context.prec = 700
        half = Decimal(eps) / 2
        want = float(Decimal("3.5") - (10 + half * half).sqrt() + half)
    assert abs(gaussian.entropic_cost(2.0, 5.0, eps) / want - 1) <= SERIES


@pytest.mark.parametrize("s", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("eps", [1e-8, 1e-3, 0.1, 1.0, 30.0, 1e9])
def test_the_divergence_of_paths_has_its_digits_at_every_temperature(s, eps):
    with localcontext() as context:
        context.prec = 60
        u = Decimal(eps) / (2 * Decimal(s))
        want = float(u / 12 * ((1 + u * u).sqrt() - 1))
    assert abs(gaussian.langevin_path_kl(s, eps) / want - 1) <= SERIES


def test_the_divergence_of_paths_adds_up_over_independent_coordinates():
    turn = np.array([[0.8, -0.6], [0.6, 0.8]])
    want = gaussian.langevin_path_kl(0.5, 0.3) + gaussian.langevin_path_kl(2.0, 0.3)
    got = gaussian.langevin_path_kl(turn @ np.diag([0.5, 2.0]) @ turn.T, 0.3)
    assert abs(got / want - 1) <= ROUNDING


# what is refused


@pytest.mark.parametrize(
    ("cov", "message"),
    [
        ([[1.0, 2.0]], r"cov must be square, got shape \(1, 2\)"),
        ([[1.0, 0.5], [0.0, 1.0]], "cov must be symmetric, got a difference 0.5"),
        ([[1.0, 2.0], [2.0, 1.0]], "cov must be positive definite, got an eigenvalue -1"),
        (0.0, "cov must be positive definite, got an eigenvalue 0"),
        (np.nan, "cov must be finite, got nan"),
        ([[[1.0]]], r"cov must have 2 axes, got shape \(1, 1, 1\)"),
        ("wide", "cov must be an array of real numbers, got 'wide'"),
    ],
)
def test_every_function_refuses_what_is_not_a_covariance(cov, message):
    for f in (
        covariance,
        lambda c: gaussian.bridge_gain(c, 0.1),
        lambda c: gaussian.bridge_step_cov(c, 0.1),
        lambda c: gaussian.euler_step_cov(c, 0.1),
        lambda c: gaussian.one_step_w2(c, 0.1),
        lambda c: gaussian.langevin_path_kl(c, 0.1),
    ):
        with pytest.raises(ValueError, match=message):
            f(cov)


def test_the_distance_says_which_covariance_is_wrong():
    with pytest.raises(ValueError, match="cov0 must be positive definite"):
        gaussian.bures_w2(-1.0, 1.0)
    with pytest.raises(ValueError, match="cov1 must be positive definite"):
        gaussian.bures_w2(1.0, -1.0)
    with pytest.raises(ValueError, match="covariances must share a shape"):
        gaussian.optimal_map(1.0, np.eye(2))


@pytest.mark.parametrize("eps", [0.0, -1.0, np.nan, np.inf, "warm", None])
def test_every_function_refuses_a_temperature_that_is_not_positive(eps):
    for f in (
        gaussian.bridge_gain,
        gaussian.bridge_step_cov,
        gaussian.euler_step_cov,
        gaussian.one_step_w2,
        gaussian.langevin_symmetric_kl,
        gaussian.langevin_path_kl,
    ):
        with pytest.raises(ValueError, match=r"eps must be a (finite )?number > 0, got "):
            f(1.0, eps)


@pytest.mark.parametrize("var", [0.0, -1.0, np.nan, "wide"])
def test_the_symmetrised_kl_refuses_a_variance_that_is_not_positive(var):
    with pytest.raises(ValueError, match=r"var must be a (finite )?number > 0, got "):
        gaussian.langevin_symmetric_kl(var, 0.1)
