"""What densities refuse."""

import numpy as np
import pytest
from mixtures import MIX, TILTED

from attnflow.densities import Gaussian, GaussianMixture

# what is refused

EYE = [[[1.0, 0.0], [0.0, 1.0]]]


BAD_MIXTURES = [
    ([0.5, 0.4], [0.0, 1.0], [1.0, 1.0], "weights must sum to 1, got 0.9"),
    ([1.5, -0.5], [0.0, 1.0], [1.0, 1.0], "weights must not be negative, got -0.5"),
    ([1.0], [0.0, 1.0], [1.0, 1.0], "weights must have one entry per token, 2"),
    ([np.nan, 1.0], [0.0, 1.0], [1.0, 1.0], "weights must be finite, got nan"),
    ("half", [0.0], [1.0], "weights must be an array of real numbers, got 'half'"),
    ([1.0], [np.nan], [1.0], "means must be finite, got nan"),
    ([], [], [], "means must hold at least one token"),
    ([1.0], "middle", [1.0], "means? must be an array of real numbers, got 'middle'"),
    ([1.0], [1j], [1.0], "means? must be an array of real numbers"),
    ([0.5, 0.5], [[0.0], [1.0, 2.0]], [1.0, 1.0], "means? must be an array of real numbers"),
    ([1.0], [0.0], [np.inf], "covs must be finite, got inf"),
    ([1.0], [0.0], "wide", "covs must be an array of real numbers, got 'wide'"),
    ([1.0], [0.0], [0.0], "covs must be positive definite, got an eigenvalue 0"),
    ([1.0], [0.0], [-2.0], "covs must be positive definite, got an eigenvalue -2"),
    ([0.5, 0.5], [0.0, 1.0], [1.0], "covs must have 3 axes"),
    ([0.5, 0.5], [[0.0, 0.0], [1.0, 1.0]], EYE, r"covs must have shape \(2, 2, 2\), got \(1, 2, 2"),
    (
        [1.0],
        [[0.0, 0.0]],
        [[[1.0, 0.5], [0.0, 1.0]]],
        "covs must be symmetric, got a difference 0.5",
    ),
    ([1.0], [[0.0, 0.0]], [[[1.0, 2.0], [2.0, 1.0]]], "covs must be positive definite"),
]


@pytest.mark.parametrize(("weights", "means", "covs", "message"), BAD_MIXTURES)
def test_a_mixture_refuses_what_is_not_one(weights, means, covs, message):
    with pytest.raises(ValueError, match=message):
        GaussianMixture(weights, means, covs)


@pytest.mark.parametrize(
    ("mean", "cov", "message"),
    [
        (0.0, -1.0, "covs must be positive definite"),
        (np.nan, 1.0, "means must be finite"),
        ([0.0, 0.0], 1.0, r"covs must have shape \(1, 2, 2\)"),
        ("middle", 1.0, "means? must be an array of real numbers"),
    ],
)
def test_a_gaussian_refuses_what_is_not_one(mean, cov, message):
    with pytest.raises(ValueError, match=message):
        Gaussian(mean, cov)


@pytest.mark.parametrize("t", [-1.0, -1e-12, np.nan, np.inf, "soon", None, [1.0, 2.0]])
def test_the_heat_flow_refuses_a_time_that_is_not_a_number_from_zero_on(t):
    with pytest.raises(ValueError, match=r"t must be a (finite )?number >= 0, got "):
        MIX.heat(t)
    with pytest.raises(ValueError, match=r"t must be a (finite )?number >= 0, got "):
        MIX.quantile_map([0.0], t)


def test_the_distribution_function_and_the_map_need_one_dimension():
    with pytest.raises(ValueError, match="this needs a density in one dimension, got 2"):
        TILTED[2].cdf([[0.0, 0.0]])
    with pytest.raises(ValueError, match="this needs a density in one dimension, got 2"):
        TILTED[2].quantile_map([[0.0, 0.0]], 1.0)


@pytest.mark.parametrize(
    "name", ["pdf", "logpdf", "score", "potential", "potential_gradient", "potential_hessian"]
)
@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([[0.0]], r"x must have 2 columns, got shape \(1, 1\)"),
        ([[np.nan, 0.0]], "x must be finite, got nan"),
        ([], "x must hold at least one token"),
        ("here", "x must be an array of real numbers, got 'here'"),
    ],
)
def test_every_function_refuses_what_are_not_points(name, x, message):
    with pytest.raises(ValueError, match=message):
        getattr(TILTED[2], name)(x)


@pytest.mark.parametrize("n", [0, -1, 1.5, "many", np.inf])
def test_samples_refuse_a_number_that_is_not_a_count(n):
    with pytest.raises(ValueError, match="n must be a whole number >= 1, got "):
        MIX.sample(n, np.random.default_rng(0))


@pytest.mark.parametrize("name", ["potential_gradient", "potential_hessian"])
@pytest.mark.parametrize("step", [0.0, -1.0, np.nan, "short"])
def test_differences_of_the_potential_refuse_a_step_that_is_not_positive(name, step):
    with pytest.raises(ValueError, match=r"step must be a (finite )?number > 0, got "):
        getattr(MIX, name)([0.0], step)


def test_the_map_refuses_a_point_beyond_which_there_is_no_mass():
    with pytest.raises(ValueError, match="x must lie where the tails have mass, got -1e\\+200"):
        MIX.quantile_map([0.0, -1e200], 1.0)
