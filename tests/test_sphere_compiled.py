import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from spheres import NORMALISED, ball, plain_flow
from tolerances import (
    EXPONENTIAL,
    FIRST_DIFFERENCE,
    ORDER,
    ROUNDING,
    STEPS_OF_DELTA,
    TAYLOR,
)

from attnflow import errors
from attnflow.sphere import compiled, fields

STATES = pytest.mark.parametrize("as_gram", [True, False], ids=["G", "tokens"])


def tokens_field(x, beta, normalised=True):
    """x_i' of the definition, for tokens (n, d)."""
    a = np.exp(beta * (x @ x.T))
    a /= a.sum(axis=1, keepdims=True) if normalised else len(x)
    v = a @ x
    return v - (v * x).sum(axis=1, keepdims=True) * x


def reference(x, beta, times, normalised=True):
    """Tokens at `times`, from time 0."""
    with np.errstate(over="ignore", invalid="ignore"):  # trial steps
        found = solve_ivp(
            lambda t, y: tokens_field(y.reshape(x.shape), beta, normalised).ravel(),
            (0, times[-1]),
            x.ravel(),
            t_eval=times,
            method="DOP853",
            rtol=1e-12,
            atol=1e-13,
        )
    return found.y.T.reshape(len(times), *x.shape)


def share(g, level):
    pairs = [g[i, j] >= level for i, j in itertools.combinations(range(len(g)), 2)]
    return sum(pairs) / len(pairs)


def state(x, as_gram):
    return x @ x.T if as_gram else x.copy()


def packed(g):
    """What stands below the diagonal, row after row."""
    return np.array([g[i, j] for i in range(len(g)) for j in range(i)])


def flat(x, as_gram):
    """Tokens as the compiled loop has them."""
    return packed(x @ x.T) if as_gram else x.ravel().copy()


def clustered(states, as_gram, *given):
    return (compiled.clustered_grams if as_gram else compiled.clustered_tokens)(states, *given)


# parts


@pytest.mark.parametrize("n", [2, 3, 5, 8])
def test_a_packed_matrix_is_unpacked(n):
    g, back, y = ball(n, 3), np.full((n, n), np.nan), np.full(n * (n - 1) // 2, np.nan)
    g = g @ g.T
    np.fill_diagonal(g, 1.0)
    fields.pack(g, y)
    assert (y == packed(g)).all()
    fields.unpack(y, back)
    assert (back == (np.tril(g) + np.tril(g, -1).T)).all()


def attention(g, beta, normalised):
    """Rows of weights times their shares."""
    n, y = len(g), packed(g)
    near, weights, share = np.empty_like(y), np.full((n, n), np.nan), np.full(n, np.nan)
    fields.attend(y, beta, normalised, near, weights, share)
    return weights * share[:, None]


def products(n, seed):
    """A symmetric matrix with ones on its diagonal."""
    g = np.random.default_rng(seed).uniform(-1, 1, size=(n, n))
    g = np.tril(g, -1)
    return g + g.T + np.eye(n)


@pytest.mark.parametrize("beta", [0.0, 0.05, 0.125, 0.13, 1.0, 9.0, 64.0, 300.0, 700.0])
@pytest.mark.parametrize("n", [2, 5, 16])
def test_attention_weights_are_exponentials_over_their_sum(beta, n):
    g = products(n, n)
    squarings = max(0, math.ceil(math.log2(8 * beta))) if beta else 0
    want = np.exp(beta * (g - 1))
    want /= want.sum(axis=1, keepdims=True)
    found = attention(g, beta, True)
    # the sum errs as much as the exponential; rounding of squares doubles with every squaring
    bound = 2 * (TAYLOR + ROUNDING) * 2**squarings
    assert np.abs(found.sum(axis=1) - 1).max() <= ROUNDING
    assert (np.abs(found - want) <= bound * want + 1e-300).all()


@pytest.mark.parametrize("beta", [0.0, 0.125, 1.0, 9.0, 100.0, 700.0])
def test_unnormalised_weights_are_exponentials_over_the_number_of_tokens(beta):
    n = 6
    g = products(n, 1)
    squarings = max(0, math.ceil(math.log2(8 * beta))) if beta else 0
    want = np.exp(beta * g) / n
    relative = np.where(beta * (g - 1) > -700, 1.0, np.inf)  # below, exp(beta(g-1)) is no number
    bound = (TAYLOR + ROUNDING) * 2**squarings
    assert (np.abs(attention(g, beta, False) - want) <= bound * want * relative).all()


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


# derivatives


@NORMALISED
@pytest.mark.parametrize("beta", [0.0, 1.0, 5.0])
@pytest.mark.parametrize(("n", "d"), [(2, 2), (4, 3), (5, 7), (7, 4)])
def test_the_derivative_of_tokens_is_the_definition(n, d, beta, normalised):
    x, room, out = ball(n, d), fields.room_for(n), np.full((n, d), np.nan)
    fields.token_derivative(x, beta, normalised, room, out)
    size = 1.0 if normalised else math.exp(beta)
    assert np.abs(out - tokens_field(x, beta, normalised)).max() <= EXPONENTIAL * size


@NORMALISED
@pytest.mark.parametrize("beta", [0.0, 1.0, 5.0])
@pytest.mark.parametrize(("n", "d"), [(2, 2), (4, 3), (5, 7), (7, 4)])
def test_the_derivative_of_g_is_the_difference_of_inner_products(n, d, beta, normalised):
    x, h = ball(n, d), 1e-4
    v = tokens_field(x, beta, normalised)
    v /= size if (size := np.abs(v).max()) else 1.0
    ahead, behind = ((y := x + s * v) / np.linalg.norm(y, axis=1, keepdims=True) for s in (h, -h))
    want = size * (ahead @ ahead.T - behind @ behind.T) / (2 * h)
    room, out = fields.room_for(n), np.full(n * (n - 1) // 2, np.nan)
    fields.gram_derivative(packed(x @ x.T), beta, normalised, room, out)
    assert np.abs(out - packed(want)).max() <= FIRST_DIFFERENCE * max(size, 1.0)


# one step


def one_step(x, h, as_gram, beta, normalised=True):
    y = flat(x, as_gram)
    k, room = np.empty((7, len(y))), fields.room_for(len(x))
    new, gap, alone = np.empty_like(y), np.empty_like(y), np.arange(len(x))
    fields.derivative(y, as_gram, beta, normalised, alone, 0, room, k[0])
    error = compiled._advance(y, h, as_gram, beta, normalised, alone, 0, room, k, new, gap)
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
    fields.derivative(new, as_gram, 2.0, normalised, np.arange(5), 0, room, out)
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


# the length of the next step


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


# whole flows


@NORMALISED
@STATES
@pytest.mark.parametrize("beta", [0.0, 1.0, 4.0])
@pytest.mark.parametrize(("n", "d"), [(4, 4), (5, 6)])
def test_shares_are_those_of_tokens_followed_one_by_one(n, d, beta, as_gram, normalised):
    delta = 0.02
    times = np.array([0.0, 0.05, 0.3, 1.0, 2.0, 3.5, 6.0])
    draws = np.stack([ball(n, d, seed) for seed in range(4)])
    states = np.stack([state(x, as_gram) for x in draws])
    shares, steps = clustered(states, as_gram, beta, times, 1 - delta, 0.01 * delta, normalised)
    assert shares.shape == (4, len(times))
    assert steps > 4
    agree = 0
    for row, x in zip(shares, draws, strict=True):
        for got, y in zip(row, reference(x, beta, times, normalised), strict=True):
            low, high = (share(y @ y.T, 1 - delta + s * STEPS_OF_DELTA * delta) for s in (1, -1))
            assert low - ROUNDING <= got <= high + ROUNDING
            agree += low == high
    assert agree >= 0.9 * shares.size


@pytest.mark.parametrize("n", [4, 5])
@pytest.mark.parametrize("beta", [5.0, 7.0])
def test_fast_flows_without_denominator_are_followed_from_the_first_step(n, beta):
    """At e^beta times the speed the first trial step ends far outside the sphere."""
    delta, times = 0.02, np.array([0.0, 0.003, 0.01, 0.05, 0.2])
    draws = np.stack([ball(n, 3, seed) for seed in range(4)])
    shares, _ = clustered(draws, False, beta, times, 1 - delta, 0.01 * delta, False)
    for row, x in zip(shares, draws, strict=True):
        for got, y in zip(row, reference(x, beta, times, False), strict=True):
            low, high = (share(y @ y.T, 1 - delta + s * STEPS_OF_DELTA * delta) for s in (1, -1))
            assert low - ROUNDING <= got <= high + ROUNDING


@pytest.mark.parametrize("beta", [0.0, 1.0, 5.0])
@pytest.mark.parametrize("angle", [0.5, 1.5, 3.0])
@STATES
def test_two_tokens_meet_when_their_equation_says(beta, angle, as_gram):
    """phi' = -2 sin(phi)/(1 + e^{beta(1 - cos phi)}); the share jumps from 0 to 1 once."""
    level = 0.99

    def met(t, y):
        return math.cos(y[0]) - level

    met.terminal = True
    found = solve_ivp(
        lambda t, y: [-2 * math.sin(y[0]) / (1 + math.exp(beta * (1 - math.cos(y[0]))))],
        (0, 1e6),
        [angle],
        events=met,
        method="DOP853",
        rtol=1e-11,
        atol=1e-12,
    )
    t = found.t_events[0][0]
    x = np.array([[1.0, 0.0], [math.cos(angle), math.sin(angle)]])
    near = t + np.array([-0.01, -0.001, 0.001, 0.01])
    times = np.concatenate([[0.0, 0.3 * t], near, [2 * t]])
    shares, _ = clustered(state(x, as_gram)[None], as_gram, beta, times, level, 1e-8, True)
    assert shares[0].tolist() == [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0]


@STATES
def test_draws_do_not_see_each_other(as_gram):
    times = np.linspace(0, 8, 9)
    states = np.stack([state(ball(5, 3, seed), as_gram) for seed in range(6)])
    together, steps = clustered(states, as_gram, 2.0, times, 0.99, 1e-4, True)
    alone = [clustered(s[None], as_gram, 2.0, times, 0.99, 1e-4, True) for s in states]
    assert (together == np.concatenate([a[0] for a in alone])).all()
    assert steps == sum(a[1] for a in alone)


@STATES
def test_states_are_not_changed(as_gram):
    states = np.stack([state(ball(5, 3, seed), as_gram) for seed in range(2)])
    before = states.copy()
    clustered(states, as_gram, 2.0, np.array([0.0, 5.0]), 0.99, 1e-4, True)
    assert (states == before).all()


@STATES
def test_other_times_do_not_move_the_steps(as_gram):
    states = np.stack([state(ball(6, 3, seed), as_gram) for seed in range(4)])
    few, many = np.array([0.5, 4.0, 8.0]), np.linspace(0, 8, 17)
    a, _ = clustered(states, as_gram, 1.0, few, 0.99, 1e-4, True)
    b, _ = clustered(states, as_gram, 1.0, many, 0.99, 1e-4, True)
    assert (a == b[:, [1, 8, 16]]).all()


@STATES
@NORMALISED
def test_leaving_early_saves_steps_and_loses_nothing(as_gram, normalised):
    """A level above one is never reached, so that nothing is left; shares stay one in truth too."""
    x = ball(5, 6, seed=1)
    times = np.array([0.0, 30.0, 60.0])
    run = (state(x, as_gram)[None], as_gram, 1.0, times)
    shares, few = clustered(*run, 0.99, 1e-4, normalised)
    never, many = clustered(*run, 1.5, 1e-4, normalised)
    assert shares[0].tolist() == [0.0, 1.0, 1.0]
    assert never[0].tolist() == [0.0, 0.0, 0.0]
    assert few < many
    late = reference(x, 1.0, times, normalised)
    assert all(share(y @ y.T, 0.99) == 1 for y in late[1:])


@pytest.mark.parametrize("level", [0.01, 0.5, 0.9])
def test_leaving_early_is_right_at_low_levels_too(level):
    times = np.linspace(0, 12, 13)
    draws = np.stack([ball(5, 8, seed) for seed in range(6)])
    shares, _ = clustered(draws @ draws.transpose(0, 2, 1), True, 3.0, times, level, 1e-6, True)
    for row, x in zip(shares, draws, strict=True):
        want = [share(y @ y.T, level) for y in reference(x, 3.0, times)]
        assert np.abs(row - want).max() <= ROUNDING


def test_tokens_on_a_circle_do_not_leave_it():
    """Two opposite clusters of a circle hold each other; a Gram matrix could turn out of the plane."""
    angles = np.array([0.0, 1e-3, np.pi, np.pi + 1e-3])
    x = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    shares, _ = clustered(x[None], False, 5.0, np.array([0.0, 50.0]), 0.999, 1e-5, True)
    assert np.abs(shares[0] - 1 / 3).max() <= ROUNDING


def test_tokens_at_one_point_are_clustered_at_once():
    x = np.tile(ball(1, 3), (4, 1))
    for as_gram in (True, False):
        states = state(x, as_gram)[None]
        shares, steps = clustered(states, as_gram, 2.0, np.array([0.0, 1.0]), 0.999, 1e-5, True)
        assert shares.tolist() == [[1.0, 1.0]]
        assert steps == 1


def test_a_flow_that_needs_too_small_a_step_says_so():
    """Without the denominator tokens move e^700 times as fast as time."""
    with pytest.raises(
        errors.FlowStopped, match=r"needs too small a step.*lower beta; got beta = 700"
    ):
        clustered(ball(4, 3)[None], False, 700.0, np.array([0.0, 1.0]), 0.999, 1e-5, False)


def test_a_flow_that_needs_too_many_steps_says_so(monkeypatch):
    """Steps of opposite tokens do not end the flow, so that a far time needs many."""
    x, far = ball(4, 3)[None], np.array([0.0, 1e7])
    with pytest.raises(errors.FlowStopped, match=r"too many steps, more than 100000 a draw: lower"):
        clustered(x, False, 9.0, far, 1.5, 1e-5, True)


# tokens that have met


def test_cold_tokens_without_softmax_are_followed_to_the_end():
    """At beta = 12 clusters contract like 160000, and two of them merge like e^(12 cos)."""
    x = np.stack([ball(16, 8, seed) for seed in range(3)])
    times = np.array([0.0, 1e-4, 1.0, 30.0])
    shares, steps = compiled.clustered_tokens(x, 12.0, times, 0.999, 1e-4, False)
    assert (np.diff(shares, axis=1) >= 0).all()
    assert steps <= 20_000
    finer, _ = compiled.clustered_tokens(x, 12.0, times, 0.999, 1e-5, False)
    assert np.abs(shares - finer).max() <= 0.02


def test_meeting_changes_no_share_where_it_is_not_needed():
    """At beta = 4 the flow can be followed one by one."""
    x, times = np.stack([ball(10, 3, seed) for seed in range(4)]), np.array([0.5, 2.0, 8.0, 20.0])
    fast, _ = compiled.clustered_tokens(x, 4.0, times, 0.99, 1e-4, False)
    for tokens, row in zip(x, fast, strict=True):
        path = plain_flow(tokens, 4.0, np.append(0.0, times), False)[1:]
        pairs = np.triu_indices(10, 1)
        want = [((y @ y.T)[pairs] >= 0.99).mean() for y in path]
        assert np.abs(row - want).max() <= 0.03
