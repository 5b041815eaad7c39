"""Central differences of order eight: exact for polynomials, and of their order elsewhere."""

import numpy as np
import pytest
from tolerances import EXPONENTIAL, ORDER, ROUNDING

from attnflow import differences

X = np.linspace(-1.0, 1.0, 9)[:, None] * [1.0, 0.5]


@pytest.mark.parametrize("power", range(9))
def test_polynomials_up_to_degree_eight_have_their_derivatives(power):
    got = differences.along(lambda x: x[:, 0] ** power * x[:, 1], X, 0, 0.1)
    want = power * X[:, 0] ** max(power - 1, 0) * X[:, 1]
    assert np.abs(got - want).max() <= EXPONENTIAL


def test_the_derivative_is_along_the_axis_that_is_asked_for():
    f = np.sin
    for axis in range(2):
        got = differences.along(f, X, axis, 0.01)
        want = np.zeros_like(X)
        want[:, axis] = np.cos(X[:, axis])
        assert np.abs(got - want).max() <= EXPONENTIAL


def test_the_order_is_eight():
    errors = [np.abs(differences.along(np.exp, [[0.0]], 0, h) - 1).max() for h in (0.8, 0.4)]
    assert abs(np.log2(errors[0] / errors[1]) - 8) <= ORDER


def test_on_a_grid_the_inner_nodes_have_the_stencil_of_functions():
    h, x = 0.1, np.linspace(-2.0, 2.0, 41)
    got = differences.on_grid(np.sin(3 * x), h)
    want = differences.along(lambda y: np.sin(3 * y[:, 0]), x, 0, h)
    assert np.abs(got - want)[4:-4].max() <= ROUNDING


@pytest.mark.parametrize("n", [3, 4, 5, 20])
def test_on_a_grid_parabolas_have_their_derivatives_to_the_ends(n):
    x = 0.3 * np.arange(n)
    got = differences.on_grid(2 - x + 3 * x**2, 0.3)
    assert np.abs(got - (6 * x - 1)).max() <= EXPONENTIAL


def test_what_is_no_grid_no_axis_or_no_step_is_refused():
    with pytest.raises(ValueError, match="values must be at least three, got 2"):
        differences.on_grid([0.0, 1.0], 0.1)
    with pytest.raises(ValueError, match="axis must be one of 2 columns, got 2"):
        differences.along(np.exp, X, 2, 0.1)
    for f in (
        lambda: differences.along(np.exp, X, 0, 0.0),
        lambda: differences.on_grid(X[:, 0], 0),
    ):
        with pytest.raises(ValueError, match="h must be a finite number > 0, got 0"):
            f()
