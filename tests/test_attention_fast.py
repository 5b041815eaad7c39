"""Layers in linear time, against the definition."""

import numpy as np
import pytest
from fast_layers import ALL_KINDS, FastLayer, cloud, error, layer
from hypothesis import given, settings
from hypothesis import strategies as st
from tolerances import EXPONENTIAL, FLOW, LARGE_SCORES

from attnflow import flows
from attnflow.attention import (
    L2Attention,
    SoftmaxAttention,
)
from attnflow.attention import fast as fast_module
from attnflow.kernels.fast import cheaper
from attnflow.matrices import split

# against the definition


@ALL_KINDS
@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_velocities_are_those_of_the_layer(kind, d, seed):
    attention = layer(kind, d, seed, size=1.5)
    assert error(FastLayer(attention), attention, cloud(150, d, seed)) <= 1e-8


@ALL_KINDS
@settings(max_examples=12, deadline=None, derandomize=True)
@given(n=st.integers(1, 40), d=st.integers(1, 2), seed=st.integers(0, 99), size=st.floats(0.1, 3))
def test_velocities_of_weighted_tokens_are_those_of_the_layer(kind, n, d, seed, size):
    """With some weights zero and some far below others."""
    rng = np.random.default_rng(seed)
    w = rng.dirichlet(np.full(n, 0.3))
    w[rng.random(n) < 0.3] = 0.0
    w = w / w.sum() if w.sum() > 0 else np.eye(n)[0]
    attention = layer(kind, d, seed, size)
    assert error(FastLayer(attention), attention, cloud(n, d, seed), w) <= 1e-8


@pytest.mark.parametrize("kind", ["softmax", "L2"])
@pytest.mark.parametrize("tol", [1e-2, 1e-5, 1e-8, 1e-11])
@pytest.mark.parametrize("d", [1, 2])
def test_the_tolerance_is_met_whatever_it_is(kind, tol, d):
    attention = layer(kind, d, 4, size=2.0)
    x, w = cloud(200, d, 4), np.random.default_rng(4).dirichlet(np.ones(200))
    assert error(FastLayer(attention, tol), attention, x, w) <= tol


@pytest.mark.parametrize("tol", [1e-2, 1e-5, 1e-8, 1e-11])
@pytest.mark.parametrize("n", [200, 1500])
def test_the_tolerance_is_met_by_sinkhorn_with_either_kernel(tol, n):
    x, w = cloud(n, 1, 2), np.random.default_rng(4).dirichlet(np.ones(n))
    attention = layer("sinkhorn", 1, 4)
    fast = FastLayer(attention, tol)
    assert error(fast, attention, x, w) <= tol
    if cheaper(x @ attention.root, attention.eps, 1e-13):
        assert fast.direct == 0
    elif n == 200:
        assert fast.direct == n


@pytest.mark.parametrize("tol", [1e-3, 1e-8])
def test_tokens_without_weight_among_many_move_as_by_the_layer(tol):
    """1500 tokens on the line are balanced with the fast kernel, a third of them unseen."""
    attention, x = layer("sinkhorn", 1, 4), cloud(1500, 1, 2)
    w = np.random.default_rng(4).dirichlet(np.ones(1500))
    w[::3] = 0.0
    fast = FastLayer(attention, tol)
    assert error(fast, attention, x, w / w.sum()) <= tol
    assert fast.direct < 150


@ALL_KINDS
@pytest.mark.parametrize("tol", [1e-12, 1e-14])
def test_a_tolerance_near_rounding_gives_rounding_and_no_warning(kind, tol):
    attention = layer(kind, 1, 4)
    assert error(FastLayer(attention, tol), attention, cloud(200, 1, 2)) <= 1e-12


def test_a_coarse_tolerance_is_used():
    """Not all digits are computed: else `tol` would buy nothing."""
    attention, x = layer("L2", 2), cloud(300, 2)
    assert fast_module.accuracy(1e-2) > fast_module.accuracy(1e-8)
    assert fast_module.accuracy(1e-15) == fast_module.FINEST
    assert error(FastLayer(attention, 1e-2), attention, x) > 1e-11


@ALL_KINDS
def test_values_may_have_more_and_fewer_rows(kind):
    for out in (1, 5):
        attention = layer(kind, 2, out=out)
        got = FastLayer(attention).velocity(cloud(50, 2))
        assert got.shape == (50, out)
        assert np.abs(got - attention.velocity(cloud(50, 2))).max() <= 1e-7


@pytest.mark.parametrize("kind", ["softmax", "L2"])
@pytest.mark.parametrize("rows", [1, 3])
def test_queries_and_keys_may_have_more_and_fewer_rows(kind, rows):
    rng = np.random.default_rng(0)
    Q, K = rng.normal(size=(2, rows, 2))
    attention = {"softmax": SoftmaxAttention, "L2": L2Attention}[kind](Q, K, np.eye(2))
    assert error(FastLayer(attention), attention, cloud(60, 2)) <= 1e-8


def test_softmax_scores_may_come_from_any_number_of_rows():
    """Only A = K^T Q counts, so ten rows in the plane are no more than two."""
    rng = np.random.default_rng(0)
    Q, K = rng.normal(size=(2, 10, 2)) / 3
    attention = SoftmaxAttention(Q, K, np.eye(2))
    assert error(FastLayer(attention), attention, cloud(60, 2)) <= 1e-8


@pytest.mark.parametrize(
    "A",
    [
        np.eye(2),
        -np.eye(2),
        np.zeros((2, 2)),
        np.diag([1.0, 0.0]),
        np.diag([1.0, -1.0]),
        np.array([[0.0, 1.0], [-1.0, 0.0]]),
        np.array([[0.0, 2.0], [0.0, 0.0]]),
        np.array([[1.0, 0.3], [0.3 + 1e-16, 0.5]]),
    ],
)
def test_softmax_scores_of_every_sign_and_rank_are_split_rightly(A):
    attention = SoftmaxAttention(A, np.eye(2), np.array([[1.0, 0.5], [0.0, -1.0]]))
    x = cloud(80, 2, 5)
    assert error(FastLayer(attention), attention, x) <= 1e-8
    left, right = split(A)
    u, v = x @ left.T, x @ right.T
    assert np.abs(u @ v.T - x @ A.T @ x.T).max() <= EXPONENTIAL


@ALL_KINDS
def test_velocities_do_not_depend_on_the_order_and_see_copies_as_weights(kind):
    attention, x = layer(kind, 2), cloud(40, 2)
    fast = FastLayer(attention)
    want, order = fast.velocity(x), np.random.default_rng(1).permutation(40)
    assert np.abs(fast.velocity(x[order]) - want[order]).max() <= 1e-7
    twice = fast.velocity(np.vstack([x, x[:1]]))
    w = np.full(40, 1 / 41)
    w[0] = 2 / 41
    assert np.abs(twice[:40] - fast.velocity(x, w)).max() <= 1e-7


@ALL_KINDS
def test_one_token_and_equal_tokens_send_themselves(kind):
    attention = layer(kind, 2)
    for n in (1, 5):
        x = np.full((n, 2), 1.5)
        assert np.abs(FastLayer(attention).velocity(x) - x @ attention.V.T).max() <= 1e-7


@ALL_KINDS
def test_all_tokens_may_lie_far_from_the_origin(kind):
    """Softmax scores are of size 1e4 there, and exponents range over several hundreds."""
    attention = layer(kind, 2, 1, size=1.0)
    x = 100 + cloud(60, 2)
    fast = FastLayer(attention)
    assert np.abs(fast.velocity(x) - attention.velocity(x)).max() <= 1e-8 * 300 + LARGE_SCORES


@ALL_KINDS
def test_tokens_flow_as_by_the_layer(kind):
    attention, x = layer(kind, 2), cloud(30, 2)
    got = flows.ode(FastLayer(attention, 1e-11), x, [0.0, 0.3], rtol=1e-9).states[-1]
    want = flows.ode(attention, x, [0.0, 0.3], rtol=1e-9).states[-1]
    assert np.abs(got - want).max() <= FLOW * 10


def test_a_vector_is_tokens_on_the_line():
    attention = layer("softmax", 1)
    got = FastLayer(attention).velocity([0.0, 1.0, 2.0])
    assert got.shape == (3, 1)
    assert (got == FastLayer(attention).velocity([[0.0], [1.0], [2.0]])).all()
