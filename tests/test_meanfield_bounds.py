"""Bounds on the support and on the distance of two flows, against their integrals and flows."""

import math

import numpy as np
import pytest
from clouds import cloud, masses
from scipy.integrate import quad
from scipy.special import expi
from tolerances import (
    CONDITIONED,
    FLOW,
    QUADRATURE,
    ROUNDED_MASS,
    SOLVED,
)

from attnflow import flows
from attnflow.attention import (
    L2Attention,
    SinkhornAttention,
    SoftmaxAttention,
)
from attnflow.lipschitz import mean_field_upper
from attnflow.meanfield import (
    log_stability_bound,
    measure,
    support_bound,
    wasserstein,
)

I2 = np.eye(2)


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
        with pytest.raises(ValueError, match=r"R must be a (finite )?number > 0, got "):
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
        with pytest.raises(ValueError, match="R must be a finite number > 0, got "):
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


def test_the_integrand_of_the_stability_bound_is_the_constant_of_one_layer():
    """Over a short time t the bound is t times the Lipschitz constant on the first ball."""
    A, V, R, t = np.array([[0.5, 0.2], [0.0, -0.7]]), np.array([[1.0, 0.3], [0.0, 2.0]]), 0.9, 1e-7
    want = mean_field_upper(A, V, R)
    assert abs(log_stability_bound(A, V, R, t) / t / want - 1) <= 1e-5


def test_without_a_value_nothing_moves():
    assert log_stability_bound(1e3 * I2, 0 * I2, 1.0, 5.0) == 0


def test_a_ball_may_be_as_large_as_its_scores_allow():
    """Only |A| R^2 enters."""
    small, large = (
        log_stability_bound(I2, I2, 1.0, 0.5),
        log_stability_bound(1e-160 * I2, I2, 1e80, 0.5),
    )
    assert abs(large / small - 1) <= QUADRATURE
