"""The compiled derivatives: packed matrices, weights of attention, and the definition."""

import math

import numpy as np
import pytest
from compiled_states import packed, tokens_field
from spheres import NORMALISED, ball
from tolerances import (
    EXPONENTIAL,
    FIRST_DIFFERENCE,
    ROUNDING,
    TAYLOR,
)

from attnflow.sphere import fields


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


# tokens that have met


def test_tokens_that_meet_follow_the_first_of_them_with_all_that_follow_them() -> None:
    g, lead = np.eye(5), np.arange(5)
    g[3, 4] = g[4, 3] = 0.999
    assert fields.meet(packed(g), lead, 1e-4) == 0
    assert fields.meet(packed(g), lead, 1e-2) == 1
    assert lead.tolist() == [0, 1, 2, 3, 3]
    g[1, 3] = g[3, 1] = 0.999
    assert fields.meet(packed(g), lead, 1e-2) == 2
    assert lead.tolist() == [0, 1, 2, 1, 1]


@pytest.mark.parametrize("pair", [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3)])
def test_every_pair_can_meet(pair: tuple[int, int]) -> None:
    g, lead = np.eye(4), np.arange(4)
    g[pair] = g[pair[::-1]] = 1.0
    assert fields.meet(packed(g), lead, 1e-6) == 1
    assert lead[pair[1]] == pair[0]


def test_those_that_have_met_have_the_inner_products_of_their_leader() -> None:
    g, lead = products(5, 0), np.array([0, 1, 0, 3, 1])
    y = packed(g)
    fields.follow_leaders(y, True, lead, 1.0)
    want = g[np.ix_(lead, lead)]  # with ones where leaders are one
    assert (y == packed(want)).all()


@NORMALISED
@pytest.mark.parametrize("as_gram", [True, False], ids=["G", "tokens"])
def test_those_that_have_met_move_as_their_leader(as_gram: bool, normalised: bool) -> None:
    x, lead, room = ball(4, 3), np.array([0, 1, 1, 3]), fields.room_for(4)
    y = packed(x @ x.T) if as_gram else x.ravel().copy()
    free, led = np.empty_like(y), np.empty_like(y)
    fields.derivative(y, as_gram, 2.0, normalised, np.arange(4), False, room, free)
    fields.derivative(y, as_gram, 2.0, normalised, lead, True, room, led)
    if as_gram:
        whole = np.zeros((4, 4))
        whole[np.tril_indices(4, -1)] = free
        want = packed((whole + whole.T)[np.ix_(lead, lead)])
    else:
        want = free.reshape(4, 3)[lead].ravel()
    assert (led == want).all()
    assert not (led == free).all()
