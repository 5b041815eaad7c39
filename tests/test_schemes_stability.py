"""What a step does to waves, and explicit Euler without a grid."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from tolerances import EXPONENTIAL, ROUNDING

from attnflow import differences, gaussian
from attnflow.densities import Gaussian, GaussianMixture
from attnflow.errors import FlowStopped
from attnflow.schemes import euler_path, stability

MIX = GaussianMixture([0.5, 0.5], [-2.0, 2.0], [1.0, 1.0])


def test_a_layer_multiplies_waves_by_no_less_than_0443_and_no_more_than_one():
    s = np.linspace(0, 2000, 200_001)
    g = stability.bridge_amplification(s)
    assert g.max() <= 1
    least = minimize_scalar(lambda s: float(stability.bridge_amplification(s)), bounds=(1, 5))
    assert abs(least.x - 2.557) <= 1e-3
    assert abs(g.min() - least.fun) <= 1e-6
    assert abs(least.fun - 0.4431) <= 1e-4


def test_both_agree_with_heat_as_far_as_their_order():
    s = np.array([0.01, 0.02])
    bridge = np.abs(stability.bridge_amplification(s) - np.exp(-s / 2)) / s**3
    assert np.abs(bridge * 48 - 1).max() <= 0.01
    euler = np.abs(stability.euler_amplification(s) - np.exp(-s / 2)) / s**2
    assert np.abs(euler * 8 - 1).max() <= 0.01


def test_the_stretch_of_a_gaussian_is_that_of_its_recursion():
    for var, at in ((1.0, 0.0), (2.0, 0.7)):
        got = stability.euler_stretches(Gaussian(0.3, var), 0.05, 30, at)
        sigma = gaussian.euler_recursion(var, 0.05, 30)
        assert np.abs(got - sigma / sigma[0]).max() <= EXPONENTIAL


def test_the_first_steps_are_those_of_derivatives_on_paper():
    """One step: 1 - eps/2 (log rho)''."""
    slope = MIX.score([-1e-4, 1e-4])[:, 0]
    want = 1 - 0.05 * (slope[1] - slope[0]) / 2e-4
    assert abs(stability.euler_stretches(MIX, 0.1, 1)[1] - want) <= 1e-6


@pytest.mark.parametrize(
    ("eps", "steps"), [(0.1, 5), (0.05, 8), (0.01, 15), (0.005, 21), (0.0025, 29)]
)
def test_the_mixture_folds_after_the_known_number_of_steps(eps, steps):
    got = stability.euler_stretches(MIX, eps, 40)
    assert len(got) == steps + 1
    assert (got[:-1] > 0).all()
    assert got[-1] <= 0


def test_the_constant_of_breakdown_is_the_least_of_its_quotient():
    least = minimize_scalar(lambda k: k / np.log(k**2 / 2 - 1), bounds=(3, 8), method="bounded")
    assert abs(stability.euler_breakdown(1.0, 1.0) - least.fun) <= 1e-9
    assert abs(stability.euler_breakdown(0.5, 0.04) - 0.1 * least.fun) <= 1e-9


def test_the_filter_is_the_largest_symbol_of_the_differences():
    h, worst = 0.1, 0.0
    for theta in np.linspace(1.5, 2.1, 601):
        x = h * np.arange(-40, 41)
        worst = max(worst, h * differences.on_grid(np.sin(theta * x / h), h)[40])
    assert abs(stability.filtered_stretch(0.5) - worst) <= 1e-6


def test_nodes_that_contract_below_the_filter_fold():
    far = GaussianMixture([0.5, 0.5], [-2.5, 2.5], [1.0, 1.0])
    with pytest.raises(
        FlowStopped, match=r"explicit Euler folded the nodes after \d+ of 160 steps"
    ):
        euler_path(far, 0.0125, 2.0)
    assert (np.diff(euler_path(far, 0.0125, 0.4).states[-1]) > 0).all()


def test_the_law_of_breakdown_is_found_with_its_next_order():
    eps = 0.01 / 2.0 ** np.arange(0, 5, 0.5)
    times = 1.4 * np.sqrt(eps)
    for _ in range(60):  # t = 1.4 sqrt(eps) exp(-0.8 log(n)/n) with n = t/eps
        n = times / eps
        times = 1.4 * np.sqrt(eps) * np.exp(-0.8 * np.log(n) / n)
    found = stability.fit_breakdown(eps, times)
    assert abs(found.order.slope - 0.5) <= 1e-9
    assert abs(found.constant - 1.4) <= 1e-9
    assert found.interval[0] <= found.constant <= found.interval[1]
    noisy = stability.fit_breakdown(eps, times * np.exp(0.01 * (-1.0) ** np.arange(10)))
    low, high = noisy.order.interval
    assert high - low > 0.01
    assert low < 0.5 < high
    for few in ([0.1, 0.2, 0.3], [0.1, 0.2, 0.3, 0.4, 0.5]):
        with pytest.raises(ValueError, match="eps and times must be at least 4 points each, got"):
            stability.fit_breakdown(few, few[:3])
    with pytest.raises(ValueError, match="times must be > 0, got -1"):
        stability.fit_breakdown(eps, -np.ones(10))


def test_what_is_refused():
    plane = Gaussian([0.0, 0.0], np.eye(2))
    with pytest.raises(ValueError, match="this needs a density in one dimension, got 2"):
        stability.euler_stretches(plane, 0.1, 3)
    with pytest.raises(ValueError, match="depth must be at most 80, got 81"):
        stability.euler_stretches(MIX, 0.1, 81)
    for f in (stability.bridge_amplification, stability.euler_amplification):
        with pytest.raises(ValueError, match=r"s must be >= 0, got -1"):
            f([1.0, -1.0])
        with pytest.raises(ValueError, match="s must be finite"):
            f([np.inf])
    with pytest.raises(ValueError, match=r"r must be a (finite )?number > 0"):
        stability.euler_breakdown(0.0, 0.1)
    assert abs(float(stability.bridge_amplification(0.0)) - 1) <= ROUNDING


@pytest.mark.parametrize("at", [-0.7, 0.0, 1.1])
def test_the_first_stretch_in_an_uneven_mixture_is_that_of_its_second_derivative(at: float) -> None:
    """1 - eps/2 (log rho)'' at a point, with the derivatives of two bells written out."""
    w, m, v = np.array([0.3, 0.7]), np.array([-1.0, 1.5]), np.array([0.5, 2.0])
    bells = w * np.exp(-((at - m) ** 2) / (2 * v)) / np.sqrt(2 * np.pi * v)
    slope = (bells * (m - at) / v).sum() / bells.sum()
    bend = (bells * ((m - at) ** 2 / v**2 - 1 / v)).sum() / bells.sum() - slope**2
    got = stability.euler_stretches(GaussianMixture(w, m, v), 0.1, 1, at)
    assert np.abs(got - [1.0, 1 - 0.05 * bend]).max() <= ROUNDING
