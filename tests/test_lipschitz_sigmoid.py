"""Products with the Jacobian of sigmoid attention."""

import numpy as np
import pytest
from balls import SEEDS
from hypothesis import given, settings
from jacobians import change, dense, forward, layer, sigmoid
from tolerances import EXPONENTIAL, JACOBIAN_SINGLE

from attnflow.attention import SoftmaxAttention
from attnflow.lipschitz import Head, SigmoidLinearised, jacobian, local_constant


@settings(max_examples=80, deadline=None)
@given(SEEDS)
def test_products_are_those_of_the_dense_jacobian(seed):
    heads, x = layer(seed)
    J, (e, u) = dense(heads, x, sigmoid), change(heads, x)
    got = SigmoidLinearised(heads, x)
    size = EXPONENTIAL * max(1, np.abs(J).max())
    assert np.abs(got.jvp(e).ravel() - J @ e.ravel()).max() <= size
    assert np.abs(got.vjp(u).ravel() - J.T @ u.ravel()).max() <= size


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_the_local_constant_is_the_largest_singular_value(seed):
    heads, x = layer(seed)
    want = np.linalg.norm(dense(heads, x, sigmoid), 2)
    got = local_constant(heads, x, 1e-10, linearised=SigmoidLinearised)
    assert got.converged
    assert abs(got.value - want) <= 1e-9 * want


def test_what_is_kept_is_the_layer():
    heads, x = layer(3, n=6, causal=True)
    ours = sum(p.mean @ p.W.T for p in SigmoidLinearised(heads, x).parts)
    assert np.abs(ours - forward(heads, x, sigmoid)).max() <= EXPONENTIAL


def test_a_held_token_has_no_columns():
    heads, x = layer(5, n=5, causal=False)
    J = dense(heads, x, sigmoid).reshape(-1, *x.shape)
    J[:, [0, 3]] = 0
    want = np.linalg.norm(J.reshape(len(J), -1), 2)
    got = local_constant(heads, x, 1e-9, held=[0, 3], linearised=SigmoidLinearised)
    assert abs(got.value - want) <= 1e-8 * want


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("n", [1, 3, 4, 7])
def test_blocks_leave_no_seams(monkeypatch, n, causal):
    monkeypatch.setattr(jacobian, "BLOCK", 3)
    heads, x = layer(20 + n, n=n, causal=causal)
    J, (e, u) = dense(heads, x, sigmoid), change(heads, x)
    got = SigmoidLinearised(heads, x)
    assert np.abs(got.jvp(e).ravel() - J @ e.ravel()).max() <= EXPONENTIAL * 10
    assert np.abs(got.vjp(u).ravel() - J.T @ u.ravel()).max() <= EXPONENTIAL * 10


@settings(max_examples=30, deadline=None)
@given(SEEDS)
def test_bend_is_the_gradient_of_a_product(seed):
    heads, x = layer(seed)
    e, u = change(heads, x, seed)
    got = SigmoidLinearised(heads, x).bend(u, e)
    way = np.random.default_rng(seed).normal(size=x.shape)

    def product(t):
        return float(np.vdot(u, SigmoidLinearised(heads, x + t * way).jvp(e)))

    h = 1e-3
    steps = [(product(k * h) - product(-k * h)) / h for k in (1, 2, 3)]
    slope = 3 / 4 * steps[0] - 3 / 20 * steps[1] + steps[2] / 60  # of order six
    size = max(1, np.abs(u).max() * np.abs(e).max() * np.abs(way).max())
    assert abs(slope - np.vdot(got, way)) <= 1e-6 * size * max(1, np.abs(got).max())


def test_single_precision_is_close_to_double():
    heads, x = layer(8, n=6)
    e, _ = change(heads, x)
    one, two = (SigmoidLinearised(heads, x, dtype=t).jvp(e) for t in (np.float32, np.float64))
    assert one.dtype == np.float32
    assert np.abs(one - two).max() <= JACOBIAN_SINGLE * max(1, np.abs(two).max())


def test_saturated_scores_are_no_trouble():
    far = SoftmaxAttention(1e3 * np.eye(1), np.eye(1), np.eye(1))
    got = SigmoidLinearised(far, [[1.0], [2.0], [-3.0]]).jvp(np.eye(3)[:, :1])
    assert np.allclose(got.ravel(), [1.0, 1.0, 0.0])  # weights are zeros and ones


def test_softmax_is_what_is_linearised_by_default():
    heads, x = [Head(np.eye(2), np.eye(2), np.eye(2))], np.eye(2)
    plain, other = (local_constant(heads, x, 1e-9, **k).value for k in ({}, {"linearised": SigmoidLinearised}))  # fmt: skip
    assert abs(plain - np.linalg.norm(dense(heads, x), 2)) <= 1e-8
    assert abs(plain - other) > 0.01
