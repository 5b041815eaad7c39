"""The energy by Gegenbauer polynomials."""

import numpy as np
import pytest
from scipy.special import eval_legendre, gammaln
from spheres import ball

from attnflow import sphere
from attnflow.sphere import modes

DIMENSIONS = pytest.mark.parametrize("d", [2, 3, 4, 9])


@DIMENSIONS
def test_the_series_is_the_exponential(d):
    t = np.linspace(-1, 1, 9)
    for beta in (0.3, 3.0, 9.0):
        a = modes.exponential_modes(beta, d, 80)
        series = sum(a[k] * modes.gegenbauer(k, d, t) for k in range(80))
        assert np.abs(series - np.exp(beta * t)).max() <= 1e-12 * np.exp(beta)
        assert (a[:20] > 0).all()


@DIMENSIONS
def test_the_first_mode_is_the_least_energy(d):
    least = modes.exponential_modes(2.5, d, 1)[0] / 5
    assert abs(least - sphere.uniform_energy(2.5, d)) <= 1e-12


@DIMENSIONS
def test_means_over_pairs_are_not_negative_and_give_the_energy(d):
    x = ball(11, d)
    M = modes.pair_modes(x, 60)
    assert M[0] == 1
    assert M.min() >= 0
    total = modes.exponential_modes(2.0, d, 60) @ M
    assert abs(total / 4 - sphere.energy(x, 2.0)) <= 1e-12


def test_in_space_the_polynomials_are_legendres():
    t = np.linspace(-1, 1, 7)
    assert np.abs(modes.gegenbauer(5, 3, t) - eval_legendre(5, t)).max() <= 1e-12


def test_what_is_refused():
    with pytest.raises(ValueError, match="beta must be > 0 for these coefficients"):
        modes.exponential_modes(0.0, 3, 4)
    with pytest.raises(ValueError, match="d must be"):
        modes.gegenbauer(1, 1, 0.5)
    with pytest.raises(ValueError, match="d must be a whole number >= 2, got 1"):
        modes.exponential_modes(1.0, 1, 4)


@DIMENSIONS
def test_hardly_warm_kernels_are_constant_up_to_their_first_mode(d):
    """Also where powers of 1/beta overflow."""
    with np.errstate(all="raise", under="ignore"):
        for beta in (2.3e-308, 1e-300, 1e-12, 0.99e-8, 1.01e-8):
            a = modes.exponential_modes(beta, d, 4)
            assert np.isfinite(a).all()
            assert a[:2] == pytest.approx([1.0, beta], rel=1e-12)


@pytest.mark.parametrize("beta", [1e-3, 2.0, 30.0, 700.0])
@pytest.mark.parametrize("d", [100, 300, 345, 400, 10**4, 10**6, 10**9, 10**18])
def test_modes_in_many_dimensions_add_up(d, beta):
    """Also where Bessel functions underflow; coefficients tend to beta^k/k!."""
    order = int(3 * beta) + 60
    with np.errstate(all="raise", under="ignore"):
        a = modes.exponential_modes(beta, d, order)
    assert abs(a.sum() / np.exp(beta) - 1) <= 3e-12
    if d >= 10**18:
        k = np.arange(order)
        assert a == pytest.approx(np.exp(k * np.log(beta) - gammaln(k + 1)), rel=1e-11, abs=1e-300)


@pytest.mark.parametrize("beta", [1e-5, 0.5, 20.0, 300.0])
def test_the_series_is_the_bessel_function(beta):
    k = np.arange(30)
    for d in (3, 5, 20):
        lam = d / 2 - 1
        assert modes._by_series(beta, lam, k) == pytest.approx(
            modes.exponential_modes(beta, d, 30), rel=1e-11, abs=1e-290
        )
