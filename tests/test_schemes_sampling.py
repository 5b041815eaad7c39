"""The noise of a score that is estimated from samples."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.special import gamma
from tolerances import NINE_DIGITS, ROUNDING

from attnflow.schemes import sampling


@pytest.mark.parametrize("d", [1, 2, 3, 5, 10])
def test_the_constant_is_the_integral_over_waves(d):
    sphere = 2 * np.pi ** (d / 2) / gamma(d / 2)
    whole = quad(lambda k: k ** (d + 1) / (1 + np.exp(k**2 / 2)) ** 2, 0, 25, epsabs=1e-14)[0]
    want = sphere * whole / (2 * np.pi) ** d
    assert abs(sampling.noise_constant(d) / want - 1) <= NINE_DIGITS


def test_the_constant_on_the_line_is_the_known_number():
    assert abs(sampling.noise_constant(1) - 0.06393) <= 5e-6


@pytest.mark.parametrize("d", [1, 2, 4])
def test_the_best_temperature_has_the_least_error(d):
    rho, force, n = 0.2, 0.7, 10**6

    def error(log_eps):
        eps = np.exp(log_eps)
        return eps**2 / 4 * force**2 + float(sampling.noise_variance(rho, n, eps, d))

    least = minimize_scalar(error, bounds=(-12, 2), method="bounded", options={"xatol": 1e-9})
    best = sampling.best_temperature(rho, force, n, d)
    assert abs(np.exp(least.x) / best - 1) <= 1e-4
    assert abs(error(np.log(best)) / (best**2 / 4 * force**2) - (d + 6) / (d + 2)) <= 1e-12


def test_the_variance_falls_with_tokens_and_grows_in_the_cold():
    one = sampling.noise_variance([0.2, 0.4], 1000, 0.1)
    assert abs(one[0] / one[1] - 2) <= ROUNDING
    assert abs(one[0] / sampling.noise_variance(0.2, 4000, 0.1) - 4) <= 1e-12
    assert abs(sampling.noise_variance(0.2, 1000, 0.1 / 4) / one[0] - 8) <= 1e-12


def test_what_is_refused():
    with pytest.raises(ValueError, match="d must be a whole number >= 1, got 0"):
        sampling.noise_constant(0)
    with pytest.raises(ValueError, match="rho must be > 0, got 0"):
        sampling.noise_variance([0.0], 10, 0.1)
    with pytest.raises(ValueError, match=r"force must be a (finite )?number > 0"):
        sampling.best_temperature(0.1, 0.0, 10)
