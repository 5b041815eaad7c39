"""What a step does to waves, and explicit Euler without a grid."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from tolerances import EXPONENTIAL, ROUNDING

from attnflow import gaussian
from attnflow.densities import Gaussian, GaussianMixture
from attnflow.schemes import stability

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


def test_the_time_of_breakdown_is_the_known_number():
    assert abs(stability.euler_breakdown(np.pi / 4, 1.0) - 1.509626) <= 1e-6


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
