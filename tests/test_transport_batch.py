"""A stack of bridges is the bridges one by one."""

import sys

import numpy as np
import pytest
from clouds import cloud, drawn_masses, masses
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tolerances import ROUNDING, SOLVE_TIGHTLY, SOLVED

from attnflow import transport
from attnflow.errors import MissingPackage, NotConverged


def stack(p, n, d):
    return np.stack([cloud(n, d, seed) for seed in range(p)])


@pytest.mark.parametrize("d", [1, 2, 7])
@pytest.mark.parametrize("eps", [0.01, 0.3, 10.0])
def test_every_problem_is_its_own_bridge(d, eps):
    x, w = stack(6, 40, d), np.stack([masses(40, seed) for seed in range(6)])
    together = transport.self_bridges(x, eps, w)
    for k in range(6):
        alone = transport.self_bridge(x[k], eps, w[k], method="dense")
        assert together.iterations[k] == alone.iterations
        assert np.abs(together.scaling[k] / alone.scaling - 1).max() <= SOLVED
        assert np.abs(together.barycentric[k] - alone.barycentric()).max() <= SOLVED


def test_temperatures_may_differ():
    x = stack(3, 20, 2)
    found = transport.self_bridges(x, [0.1, 1.0, 10.0])
    for k, eps in enumerate((0.1, 1.0, 10.0)):
        want = transport.self_bridge(x[k], eps, method="dense").barycentric()
        assert np.abs(found.barycentric[k] - want).max() <= SOLVED


@settings(max_examples=40, deadline=None, derandomize=True)
@given(data=st.data(), n=st.integers(1, 6), size=st.sampled_from([1e-9, 1.0, 1e6]))
def test_ties_empty_tokens_and_scales(data, n, size):
    whole = st.integers(-2, 2).map(float)
    x = size * data.draw(arrays(np.float64, (2, n, 2), elements=whole))
    w = data.draw(drawn_masses(n))
    found = transport.self_bridges(x, 0.5 * size**2, w, tol=SOLVE_TIGHTLY)
    for k in range(2):
        want = transport.self_bridge(x[k], 0.5 * size**2, w, tol=SOLVE_TIGHTLY).barycentric()
        assert np.abs(found.barycentric[k] - want).max() <= SOLVED * size
    assert not found.scaling[:, w == 0].any()


def test_no_problem_and_one_token():
    assert transport.self_bridges(np.empty((0, 3, 2)), 1.0).converged
    alone = transport.self_bridges([[[2.0, 3.0]]], 1.0)
    assert np.abs(alone.barycentric - [[[2.0, 3.0]]]).max() <= ROUNDING


def test_a_token_without_mass_very_far_away_goes_to_the_nearest():
    found = transport.self_bridges([[[0.0], [1.0], [1e4]]], 0.1, [0.5, 0.5, 0.0])
    assert abs(found.barycentric[0, 2, 0] - 1.0) <= ROUNDING


def test_it_warns_where_one_problem_does_not_converge():
    with pytest.warns(NotConverged, match="self_bridges stopped after 2 iterations"):
        found = transport.self_bridges(stack(2, 9, 1), 0.3, max_iter=2)
    assert not found.converged
    assert found.residual > 1e-9


@pytest.mark.parametrize(
    ("x", "eps", "weights", "message"),
    [
        (np.zeros((2, 3)), 1.0, None, r"x must have 3 axes, got shape \(2, 3\)"),
        (np.zeros((2, 0, 3)), 1.0, None, "x must hold at least one token"),
        (np.full((1, 1, 1), np.nan), 1.0, None, "x must be finite, got nan"),
        (np.zeros((2, 3, 1)), 0.0, None, "eps must be a finite number > 0, got 0.0"),
        (np.zeros((2, 3, 1)), [1.0, -1.0], None, "eps must be a finite number > 0, got -1.0"),
        (np.zeros((2, 3, 1)), [1.0], None, r"eps must be one number or 2, got shape \(1,\)"),
        (np.zeros((2, 3, 1)), 1.0, np.ones((1, 3)) / 3, r"weights must have shape \(2, 3\)"),
        (np.zeros((2, 3, 1)), 1.0, [0.5, 0.5], "weights must have one entry per token, 3"),
    ],
)
def test_it_refuses_what_is_not_a_stack_of_measures(x, eps, weights, message):
    with pytest.raises(ValueError, match=message):
        transport.self_bridges(x, eps, weights)


def test_without_numba_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "attnflow.transport.compiled", None)
    with pytest.raises(MissingPackage, match="numba"):
        transport.self_bridges(stack(1, 3, 1), 1.0)
