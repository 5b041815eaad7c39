"""Fokker-Planck flows by layers."""

import numpy as np
import pytest
from tolerances import HALVING

from attnflow import gaussian
from attnflow.densities import Gaussian, GaussianMixture
from attnflow.errors import NotConverged
from attnflow.schemes import splitting

BELL, NARROW = Gaussian(0.0, 1.0), Gaussian(0.0, 0.5)
WELL, START = GaussianMixture([0.5, 0.5], [-2.0, 2.0], [1.0, 1.0]), Gaussian(0.5, 0.5)


def variances(path):
    return np.array([path.nodes.weights @ x**2 for x in path.states])


@pytest.mark.parametrize("theta", [-1.0, -2.0])
def test_general_layers_of_a_gaussian_are_its_recursion(theta):
    path = splitting.surrogate_path(NARROW, BELL, 0.1, 0.5, theta)
    want = gaussian.fokker_planck_recursion(0.5, 0.1, 5, theta)
    assert np.abs(variances(path) - want).max() <= 1e-8


def test_split_layers_of_a_gaussian_are_scalings():
    eps, s = 0.1, 0.5
    want = [s]
    for _ in range(4):
        half = want[-1] * np.exp(-eps / 2)
        want.append(gaussian.bridge_recursion(half, eps, 1)[1] ** 2 * np.exp(-eps / 2))
    assert np.abs(variances(splitting.strang_path(NARROW, BELL, eps, 0.4)) - want).max() <= 1e-8


@pytest.mark.parametrize("t", [0.1, 1.0, 3.0])
def test_the_map_of_a_gaussian_is_a_scaling(t):
    x = np.linspace(-3, 3, 7)
    want = x * np.sqrt(gaussian.ornstein_uhlenbeck(0.5, t) / 0.5)
    assert np.abs(splitting.fokker_planck_map(NARROW, BELL, x, t) - want).max() <= 1e-8


def test_the_map_keeps_the_target_where_it_is():
    x = np.linspace(-4, 4, 9)
    assert np.abs(splitting.fokker_planck_map(WELL, WELL, x, 0.7) - x).max() <= 1e-8


@pytest.mark.parametrize(("path", "order"), [(splitting.strang_path, 2), (splitting.lie_path, 1)])
def test_splitting_has_its_order_in_a_double_well(path, order):
    errors = [
        splitting.fokker_planck_error(START, WELL, path(START, WELL, eps, 0.5))
        for eps in (0.05, 0.025)
    ]
    assert abs(np.log2(errors[0] / errors[1]) - order) <= HALVING


def test_a_surrogate_has_first_order_in_a_double_well():
    errors = [
        splitting.fokker_planck_error(
            START, WELL, splitting.surrogate_path(START, WELL, eps, 0.5, -1.0)
        )
        for eps in (0.02, 0.01)
    ]
    assert abs(np.log2(errors[0] / errors[1]) - 1) <= HALVING


def test_the_potential_flow_of_a_spring_is_exponential():
    got = splitting.potential_flow([[1.0, -2.0]], 0.2, lambda x: -x / 2)
    assert np.abs(got - np.exp(-0.1) * np.array([[1.0, -2.0]])).max() <= 1e-8


@pytest.mark.parametrize(
    "path",
    [
        splitting.strang_path,
        splitting.lie_path,
        lambda *of: splitting.surrogate_path(*of, -1.0),
    ],
)
def test_a_path_says_what_its_worst_bridge_says(path, monkeypatch):
    good = path(NARROW, BELL, 0.1, 0.2)
    assert good.converged
    assert 0 < good.residual <= splitting.BRIDGE_TOL
    assert good.iterations > 1
    honest = splitting.self_bridge
    monkeypatch.setattr(
        splitting, "self_bridge", lambda *of, **options: honest(*of, **options, max_iter=3)
    )
    with pytest.warns(NotConverged, match="increase max_iter"):
        bad = path(NARROW, BELL, 0.1, 0.2)
    assert not bad.converged
    assert bad.residual > splitting.BRIDGE_TOL
    assert bad.iterations == 3


def test_what_is_refused():
    with pytest.raises(ValueError, match="start must not have heavier tails than target"):
        splitting.fokker_planck_map(BELL, NARROW, [0.0], 1.0)
    with pytest.raises(ValueError, match="theta must be a finite number other than 0"):
        splitting.surrogate_path(NARROW, BELL, 0.1, 0.1, 0.0)
    for f in (
        lambda: splitting.strang_path(NARROW, BELL, 0.1, 0.25),
        lambda: splitting.surrogate_path(NARROW, BELL, 0.1, 0.25, -1.0),
    ):
        with pytest.raises(ValueError, match="T must be a multiple of eps"):
            f()


@pytest.mark.parametrize("t", [0.1, 1.0, 3.0])
def test_both_tails_of_the_map_have_their_digits(t):
    x = np.linspace(0.0, 3.0, 7)
    right = splitting.fokker_planck_map(NARROW, BELL, x, t)
    left = splitting.fokker_planck_map(NARROW, BELL, -x, t)
    assert np.abs(left + right).max() <= 1e-10
    other = GaussianMixture(START.weights, -START.means, START.covs)
    mirror = GaussianMixture(WELL.weights, -WELL.means, WELL.covs)
    one = splitting.fokker_planck_map(START, WELL, x, t)
    assert np.abs(one + splitting.fokker_planck_map(other, mirror, -x, t)).max() <= 1e-10
