"""The flow of inner products, against the flow of tokens."""

import numpy as np
import pytest
from spheres import NORMALISED, ball
from tolerances import (
    FLOW,
    LONG_FLOW,
    ROUNDING,
)

from attnflow import sphere


@NORMALISED
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("n", "d"), [(4, 7), (5, 5), (6, 3), (2, 2)])
def test_inner_products_close_on_themselves(n, d, causal, normalised):
    x0, times = ball(n, d, seed=4), [0.0, 0.3, 1.0]
    x = sphere.flow(x0, 2.0, times, normalised, causal=causal).states
    flow = sphere.gram_flow(x0 @ x0.T, 2.0, times, normalised, causal=causal)
    assert flow.states.shape == (3, n, n)
    assert np.abs(flow.states - x @ x.transpose(0, 2, 1)).max() <= FLOW


@NORMALISED
def test_gram_matrices_stay_symmetric_with_ones_on_the_diagonal(normalised):
    x0 = ball(5, 8)
    states = sphere.gram_flow(x0 @ x0.T, 1.0, [0.0, 1.0, 20.0], normalised).states
    assert (np.diagonal(states, axis1=1, axis2=2) == 1).all()
    assert np.abs(states - states.transpose(0, 2, 1)).max() <= ROUNDING
    assert np.abs(states[-1] - 1).max() <= LONG_FLOW


def test_gram_matrices_in_single_precision_are_read():
    g = (ball(5, 8) @ ball(5, 8).T).astype(np.float32)
    assert np.abs(sphere.gram_flow(g, 1.0, [0.0, 1.0]).states[0] - g).max() <= 1e-6
    given = np.eye(3)
    sphere.gram_flow(given, 1.0, [0.0, 1.0])
    assert (given == np.eye(3)).all()


def test_large_beta_does_not_overflow():
    states = sphere.gram_flow(np.eye(4), 700.0, [0.0, 1.0]).states
    assert np.abs(states - np.eye(4)).max() <= ROUNDING
    assert np.isfinite(sphere.flow(ball(4, 3), 700.0, [0.0, 1.0]).states).all()
    assert np.isfinite(sphere.velocity(ball(4, 3), 700.0, normalised=False)).all()
