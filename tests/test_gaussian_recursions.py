from itertools import pairwise

import numpy as np
import pytest
from tolerances import (
    FIRST_DIFFERENCE,
    HALVING,
    ROUNDING,
    SIX_DIGITS,
)

from attnflow import gaussian

RECURSIONS = {"bridge": gaussian.bridge_recursion, "euler": gaussian.euler_recursion}


@pytest.mark.parametrize(("scheme", "want"), [("bridge", 2.33554e-4), ("euler", 6.30624e-3)])
def test_the_recursion_stays_within_the_known_distance_of_the_heat_flow(scheme, want):
    sigma = RECURSIONS[scheme](1.0, 0.1, 10)
    error = np.abs(sigma - np.sqrt(1 + 0.1 * np.arange(11))).max()
    assert abs(error / want - 1) <= SIX_DIGITS


@pytest.mark.parametrize("scheme", ["bridge", "euler"])
@pytest.mark.parametrize("eps", [0.01, 0.5, 3.0])
def test_the_recursion_repeats_the_step(scheme, eps):
    sigma = RECURSIONS[scheme](0.7, eps, 6)
    step = {"bridge": gaussian.bridge_step_cov, "euler": gaussian.euler_step_cov}[scheme]
    assert sigma.shape == (7,)
    assert abs(sigma[0] ** 2 - 0.7) <= ROUNDING
    for before, after in pairwise(sigma):
        assert abs(step(before**2, eps)[0, 0] / after**2 - 1) <= ROUNDING


@pytest.mark.parametrize(("scheme", "order"), [("bridge", 2), ("euler", 1)])
def test_the_recursion_has_the_order_of_its_scheme(scheme, order):
    errors = []
    for steps in (200, 400):
        sigma = RECURSIONS[scheme](1.0, 1 / steps, steps)
        errors.append(np.abs(sigma - np.sqrt(np.linspace(1, 2, steps + 1))).max())
    assert abs(errors[0] / errors[1] - 2**order) <= HALVING


@pytest.mark.parametrize("var0", [0.3, 1.0, 4.0])
def test_the_ornstein_uhlenbeck_variance_solves_its_equation(var0):
    t, h = np.linspace(0.1, 4, 9), 1e-4
    s = gaussian.ornstein_uhlenbeck(var0, t)
    ahead, behind = (gaussian.ornstein_uhlenbeck(var0, t + k) for k in (h, -h))
    assert np.abs((ahead - behind) / (2 * h) - (1 - s)).max() <= FIRST_DIFFERENCE
    assert abs(gaussian.ornstein_uhlenbeck(var0, 0.0) - var0) <= ROUNDING


FORWARD_AND_BACKWARD = pytest.mark.parametrize(
    ("var0", "theta"), [(2.0, 1.0), (2.0, 0.5), (4.0, 3.0), (0.5, -1.0), (0.2, -2.0)]
)


@FORWARD_AND_BACKWARD
def test_the_general_scheme_follows_the_fokker_planck_equation_to_first_order(var0, theta):
    errors = []
    for steps in (200, 400):
        s = gaussian.fokker_planck_recursion(var0, 1 / steps, steps, theta)
        assert s.shape == (steps + 1,)
        want = gaussian.ornstein_uhlenbeck(var0, np.linspace(0, 1, steps + 1))
        errors.append(np.abs(s - want).max())
    assert abs(errors[0] / errors[1] - 2) <= HALVING
    assert errors[1] <= 1 / 400


@FORWARD_AND_BACKWARD
def test_one_general_step_is_the_layer_with_the_gain_of_the_surrogate(var0, theta):
    eps = 0.2
    surrogate = 1 / (theta * (1 - 1 / var0))  # (rho/nu)^-theta has precision theta (1 - 1/var0)
    gain = gaussian.bridge_gain(surrogate, eps)[0, 0]
    want = var0 * (1 - 1 / theta + gain / theta) ** 2
    assert abs(gaussian.fokker_planck_recursion(var0, eps, 1, theta)[1] / want - 1) <= ROUNDING


@pytest.mark.parametrize(
    ("var0", "theta"), [(2.0, -1.0), (2.0, 0.0), (0.5, 1.0), (1.0, 1.0), (2.0, np.nan)]
)
def test_the_general_scheme_refuses_a_surrogate_that_does_not_exist(var0, theta):
    with pytest.raises(
        ValueError,
        match=r"theta \(variance - 1\) must be > 0.*got theta|theta must be a finite number, got nan",
    ):
        gaussian.fokker_planck_recursion(var0, 0.1, 3, theta)


@pytest.mark.parametrize(("var0", "theta"), [(2.0, 1.0), (0.5, -1.0)])
def test_the_general_scheme_refuses_to_go_on_where_the_surrogate_ceases_to_exist(var0, theta):
    """A step this large jumps past the target; then the surrogate has a negative variance."""
    with pytest.raises(ValueError, match="theta"):
        gaussian.fokker_planck_recursion(var0, 3.0, 5, theta)


@pytest.mark.parametrize("depth", [0, -1, 1.5, "many"])
def test_the_recursions_refuse_a_depth_that_is_not_a_count(depth):
    for f in (*RECURSIONS.values(), lambda *a: gaussian.fokker_planck_recursion(*a, 1.0)):
        with pytest.raises(ValueError, match="depth must be a whole number >= 1, got "):
            f(2.0, 0.1, depth)


@pytest.mark.parametrize("eps", [0.0, -1.0, np.nan, np.inf, "warm", None])
def test_the_recursions_refuse_a_temperature_that_is_not_positive(eps):
    for f in (*RECURSIONS.values(), lambda *a: gaussian.fokker_planck_recursion(*a, 1.0)):
        with pytest.raises(ValueError, match=r"eps must be a (finite )?number > 0, got "):
            f(2.0, eps, 2)


@pytest.mark.parametrize("var", [0.0, -1.0, np.nan, "wide"])
def test_the_recursions_refuse_a_variance_that_is_not_positive(var):
    for f in (
        *(lambda v, f=f: f(v, 0.1, 1) for f in RECURSIONS.values()),
        lambda v: gaussian.ornstein_uhlenbeck(v, 1.0),
        lambda v: gaussian.fokker_planck_recursion(v, 0.1, 1, 1.0),
    ):
        with pytest.raises(ValueError, match=r"var0? must be a (finite )?number > 0, got "):
            f(var)
