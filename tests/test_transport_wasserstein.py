"""Distances of measures: assignments, the line, a metric, large numbers, what is refused."""

import numpy as np
import ot
import pytest
from clouds import drawn_masses
from drawn_measures import COORDINATE, measures
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from refusals import answer
from scipy.optimize import linear_sum_assignment
from tolerances import (
    DISTANCE,
    ROUNDED_MASS,
)

from attnflow import transport

# the distance


def assignment_distance(x, y):
    cost = ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)
    return np.sqrt(cost[linear_sum_assignment(cost)].mean())


@pytest.mark.parametrize("p", [1, 1.5, 2, 3, 8])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_wp_of_equally_many_tokens_is_the_optimal_assignment(d, p):
    rng = np.random.default_rng(d)
    x, y = rng.normal(size=(25, d)), 0.5 + rng.normal(size=(25, d))
    cost = ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1) ** (p / 2)
    want = cost[linear_sum_assignment(cost)].mean() ** (1 / p)
    assert abs(transport.wp(x, y, p) - want) <= DISTANCE


def test_w1_on_the_line_is_the_area_between_the_distribution_functions():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=9), rng.normal(size=7)
    a, b = rng.dirichlet(np.ones(9)), rng.dirichlet(np.ones(7))
    z = np.sort(np.concatenate([x, y]))
    below = [np.array([w[t <= s].sum() for s in z[:-1]]) for t, w in ((x, a), (y, b))]
    want = np.abs(below[0] - below[1]) @ np.diff(z)
    assert abs(transport.wp(x[:, None], y[:, None], 1, a, b) - want) <= DISTANCE


@pytest.mark.parametrize("p", [0.5, 0.0, -1.0, np.nan, np.inf, 101.0, "two"])
def test_wp_refuses_powers_that_give_no_distance(p):
    with pytest.raises(ValueError, match=r"p must be a (finite )?number"):
        transport.wp([[0.0]], [[1.0]], p)


@pytest.mark.parametrize("d", [1, 2, 5, 20])
def test_w2_of_equally_many_tokens_is_the_optimal_assignment(d):
    rng = np.random.default_rng(d)
    x, y = rng.normal(size=(25, d)), 0.5 + rng.normal(size=(25, d))
    assert abs(transport.w2(x, y) - assignment_distance(x, y)) <= DISTANCE


@pytest.mark.parametrize("d", [1, 2, 3])
def test_w2_with_weights_is_what_pot_finds(d):
    rng = np.random.default_rng(d)
    x, y = rng.normal(size=(7, d)), rng.normal(size=(11, d))
    a, b = rng.dirichlet(np.ones(7)), rng.dirichlet(np.ones(11))
    a[2], b[5] = 0.0, 0.0
    a, b = a / a.sum(), b / b.sum()
    want = np.sqrt(ot.emd2(a, b, ot.dist(x, y)))
    assert abs(transport.w2(x, y, a, b) - want) <= DISTANCE


@settings(max_examples=40, deadline=None, derandomize=True)
@given(measure=measures(), pad=st.floats(-2, 2, allow_subnormal=False))
def test_w2_on_a_line_in_the_plane_is_w2_on_the_line(measure, pad):
    x, w = measure[0][:, :1], measure[1]
    y = 1.0 + x[::-1] ** 2
    flat = transport.w2(x, y, w)
    plane = transport.w2(*(np.hstack([z, np.full_like(z, pad)]) for z in (x, y)), w)
    assert abs(flat - plane) <= ROUNDED_MASS


@pytest.mark.parametrize("d", [1, 2, 16, 24])
@pytest.mark.parametrize("length", [0.0, 1e-6, 1e-3, 1.0, 1e3])
def test_w2_to_a_translate_is_the_length_of_the_translation(d, length):
    rng = np.random.default_rng(d)
    x, c = rng.normal(size=(12, d)), rng.normal(size=d)
    c *= length / np.linalg.norm(c)
    assert abs(transport.w2(x, x + c) - length) <= DISTANCE * (1 + length)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(d=st.integers(1, 3), data=st.data())
def test_w2_is_a_metric(d, data):
    def draw():
        n = data.draw(st.integers(1, 5))
        x = data.draw(arrays(np.float64, (n, d), elements=COORDINATE))
        return x, data.draw(drawn_masses(n))

    (x, a), (y, b), (z, c) = draw(), draw(), draw()
    there = transport.w2(x, y, a, b)
    assert there >= 0
    assert transport.w2(x, x, a, a) <= ROUNDED_MASS
    assert abs(there - transport.w2(y, x, b, a)) <= ROUNDED_MASS
    assert there <= transport.w2(x, z, a, c) + transport.w2(z, y, c, b) + ROUNDED_MASS


@settings(max_examples=40, deadline=None, derandomize=True)
@given(measure=measures(minimum=1), data=st.data())
def test_w2_does_not_depend_on_the_order_of_the_tokens(measure, data):
    x, w = measure
    p = np.array(data.draw(st.permutations(range(len(x)))))
    assert transport.w2(x, x[p], w, w[p]) <= ROUNDED_MASS


@pytest.mark.parametrize("size", [1e-150, 1e-10, 1e-7, 1e-3, 1e3, 1e100, 1e150])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_w2_scales_with_the_tokens(size, d):
    rng = np.random.default_rng(d)
    x, y = rng.normal(size=(20, d)), rng.normal(size=(20, d))
    assert abs(transport.w2(size * x, size * y) / size - assignment_distance(x, y)) <= DISTANCE


@pytest.mark.parametrize("d", [1, 2])
def test_w2_beyond_the_square_root_of_float64_is_right_or_refused(d):
    x = np.zeros((2, d))
    y = x.copy()
    y[:, 0] = 1e160
    got = answer(lambda: transport.w2(x, y))
    assert got is None or abs(got / 1e160 - 1) <= DISTANCE


@pytest.mark.parametrize(
    ("x", "y", "a", "message"),
    [
        ([[np.nan]], [[0.0]], None, "x must be finite, got nan"),
        ([[0.0]], [[np.inf]], None, "y must be finite, got inf"),
        ([], [[0.0]], None, "x must hold at least one token"),
        ([[0.0]], [[0.0, 1.0]], None, "x and y must share a dimension, got 1 and 2"),
        ([[0.0]], "tokens", None, "y must be an array of real numbers"),
        ([[0.0], [1.0]], [[0.0]], [0.5, 0.6], "a must sum to 1, got 1.1"),
        ([[0.0], [1.0]], [[0.0]], [1.5, -0.5], "a must not be negative, got -0.5"),
    ],
)
def test_w2_refuses_what_are_not_two_measures_on_one_space(x, y, a, message):
    with pytest.raises(ValueError, match=message):
        transport.w2(x, y, a)
