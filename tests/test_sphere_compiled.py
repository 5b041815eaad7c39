"""One compiled step: its order, its continuation, and the length of the next."""

import numpy as np
import pytest
from compiled_states import STATES, clustered, flat, packed, reference, share
from hypothesis import given, settings
from hypothesis import strategies as st
from spheres import NORMALISED, ball
from tolerances import (
    EXPONENTIAL,
    ORDER,
    ROUNDING,
)

from attnflow.sphere import compiled, fields


@pytest.mark.parametrize("n", [2, 3, 5, 8])
def test_inner_products_come_from_either_state(n):
    x, room = ball(n, 3), fields.room_for(n)
    want = packed(x @ x.T)
    assert np.abs(compiled._products(x.ravel(), False, n, room) - want).max() <= ROUNDING
    assert (compiled._products(want, True, n, room) == want).all()


@settings(max_examples=50, deadline=None, derandomize=True)
@given(n=st.integers(2, 9), seed=st.integers(0, 99), level=st.floats(-1, 1))
def test_the_share_counts_every_pair_once(n, seed, level):
    g = ball(n, 3, seed)
    g = g @ g.T
    found = compiled._count(packed(g), level)
    assert abs(2 * found / (n * (n - 1)) - share(g, level)) <= ROUNDING


def test_a_pair_at_the_level_counts():
    g = np.array([0.5, 0.4, 0.6])
    assert compiled._count(g, 0.5) == 2
    assert compiled._count(g, 0.4) == 3
    assert compiled._count(g, 0.61) == 0


def one_step(x, h, as_gram, beta, normalised=True):
    y = flat(x, as_gram)
    k, room = np.empty((7, len(y))), fields.room_for(len(x))
    new, gap, alone = np.empty_like(y), np.empty_like(y), np.arange(len(x))
    fields.derivative(y, as_gram, beta, normalised, alone, False, room, k[0])
    error = compiled._advance(y, h, as_gram, beta, normalised, alone, False, room, k, new, gap)
    return y, k, new, error


def inside_step(y, k, new, h, s):
    """The state at the fraction s of the step."""
    extra, mid = np.zeros_like(y), np.empty_like(y)
    compiled._combine(compiled._DENSE, k, h, 7, extra)
    compiled._between(y, new, k, h, s, extra, mid)
    return mid


@NORMALISED
@STATES
def test_a_step_has_order_five_and_its_continuation_order_four(as_gram, normalised):
    """Errors of one step: h^6 at the end, h^5 of the estimate and between."""
    beta, fractions = 1.0, [0.25, 0.5, 0.8]
    found = np.zeros((2, 3))  # the largest over the draws, at h and h/2
    for row, h in enumerate((0.2, 0.1)):
        for seed in range(6):
            x = ball(5, 3, seed)
            want = reference(x, beta, [s * h for s in (*fractions, 1.0)], normalised)
            y, k, new, estimate = one_step(x, h, as_gram, beta, normalised)
            end = np.abs(new - flat(want[-1], as_gram)).max()
            inside = max(
                np.abs(inside_step(y, k, new, h, s) - flat(w, as_gram)).max()
                for s, w in zip(fractions, want[:-1], strict=True)
            )
            found[row] = np.maximum(found[row], [end, estimate, inside])
            assert end <= estimate
    orders = np.log2(found[0] / found[1])
    assert (orders >= np.array([6, 5, 5]) - ORDER).all()


@STATES
def test_the_continuation_begins_and_ends_with_the_step(as_gram):
    y, k, new, _ = one_step(ball(5, 3), 0.3, as_gram, 2.0)
    assert (inside_step(y, k, new, 0.3, 0.0) == y).all()
    assert np.abs(inside_step(y, k, new, 0.3, 1.0) - new).max() <= ROUNDING


@NORMALISED
@STATES
def test_the_last_stage_is_the_derivative_at_the_end(as_gram, normalised):
    _, k, new, _ = one_step(ball(5, 3), 0.1, as_gram, 2.0, normalised)
    out, room = np.empty_like(new), fields.room_for(5)
    fields.derivative(new, as_gram, 2.0, normalised, np.arange(5), False, room, out)
    assert np.abs(out - k[6]).max() <= EXPONENTIAL * 10


@STATES
@pytest.mark.parametrize(
    ("h", "beta", "normalised"),
    [
        (1e200, 1.0, True),
        (1e200, 9.0, True),
        (1e9, 9.0, True),
        (0.05, 20.0, False),
        (0.05, 700.0, False),
    ],
)
def test_a_step_that_leaves_the_numbers_has_an_infinite_error(as_gram, h, beta, normalised):
    """NaN compares as smaller than any tolerance."""
    for seed in range(5):
        _, _, new, error = one_step(ball(5, 3, seed), h, as_gram, beta, normalised)
        assert not np.isfinite(new).all()
        assert error == np.inf


def test_a_step_that_errs_as_much_as_it_may_is_shortened_by_the_safety():
    assert compiled._factor(1e-5, 0.0, 1.0, 1e-5) == compiled.SAFETY
    assert abs(compiled._factor(32e-5, 0.0, 1.0, 1e-5) - compiled.SAFETY / 2) <= ROUNDING


def test_errors_that_grow_shorten_the_next_step_and_errors_that_fall_do_not_lengthen_it():
    """At one length the error doubled: the next would double again."""
    steady = compiled._factor(5e-6, 5e-6, 1.0, 1e-5)
    assert abs(compiled._factor(5e-6, 2.5e-6, 1.0, 1e-5) - steady / 2**0.2) <= ROUNDING
    assert compiled._factor(5e-6, 1e-5, 1.0, 1e-5) == steady


def test_an_error_that_grew_because_the_step_did_is_no_trend():
    """Twice the length has 32 times the error."""
    alone = compiled._factor(3.2e-6, 0.0, 1.0, 1e-5)
    assert abs(compiled._factor(3.2e-6, 1e-7, 2.0, 1e-5) - alone) <= ROUNDING


def test_steps_change_by_bounded_factors():
    assert compiled._factor(0.0, 1e-6, 1.0, 1e-5) == compiled.LONGER
    assert compiled._factor(1e-30, 1e-30, 1.0, 1e-5) == compiled.LONGER
    assert compiled._factor(np.inf, 1e-6, 1.0, 1e-5) == compiled.SHORTER


def test_fewer_steps_are_rejected_than_by_the_error_alone():
    """Near-orthogonal tokens accelerate; by the error alone a quarter of 23.5 steps a draw is rejected."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(32, 32, 128))
    x /= np.linalg.norm(x, axis=2, keepdims=True)
    times = np.linspace(0, 30, 61)
    _, steps = clustered(x @ x.transpose(0, 2, 1), True, 4.0, times, 0.999, 1e-5, True)
    assert steps / 32 <= 20
