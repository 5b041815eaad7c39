import numpy as np
import pytest
from balls import SEEDS
from hypothesis import given, settings
from hypothesis import strategies as st
from jacobians import change, dense, forward, layer
from tolerances import EIGHTH_ORDER, EXPONENTIAL, JACOBIAN_SINGLE

from attnflow.attention import MultiHead, SoftmaxAttention
from attnflow.lipschitz import Head, Linearised, jacobian, jvp, local_constant, vjp

#: Coefficients of the central difference of order eight, for steps 1 to 4.
EIGHTH = (4 / 5, -1 / 5, 4 / 105, -1 / 280)


def slope(f, h=1e-2):
    """The derivative of f at 0, by central differences."""
    return sum(c * (f(k * h) - f(-k * h)) / h for k, c in enumerate(EIGHTH, start=1))


# the reference itself


def test_the_reference_is_the_layer():
    (head, *_), x = layer(1, n=5, causal=True)
    for causal in (False, True):
        plain = SoftmaxAttention(head.Q, head.K, head.V, causal)
        ours = forward([Head(head.Q, head.K, head.V, causal=causal)], x)
        assert np.abs(ours - plain.velocity(x)).max() <= EXPONENTIAL


def test_a_rotation_is_a_multiplication_by_a_complex_number():
    """Scores of rotated queries and keys are Re sum_c conj(q_c) k_c exp(i (theta_jc - theta_ic))."""
    rng = np.random.default_rng(0)
    Q, K, x = (rng.normal(size=s) for s in ((4, 3), (4, 3), (5, 3)))
    angles = rng.uniform(-3, 3, size=(5, 2))
    q, k = ((x @ M.T)[:, :2] + 1j * (x @ M.T)[:, 2:] for M in (Q, K))
    q, k = q * np.exp(1j * angles), k * np.exp(1j * angles)
    P = np.exp((q.conj() @ k.T).real)
    P /= P.sum(axis=1, keepdims=True)
    assert np.abs(forward([Head(Q, K, np.eye(3), angles=angles)], x) - P @ x).max() <= EXPONENTIAL


# products


@settings(max_examples=80, deadline=None)
@given(SEEDS)
def test_products_are_those_of_the_dense_jacobian(seed):
    heads, x = layer(seed)
    J, (e, u) = dense(heads, x), change(heads, x)
    size = EXPONENTIAL * max(1, np.abs(J).max())
    assert np.abs(jvp(heads, x, e).ravel() - J @ e.ravel()).max() <= size
    assert np.abs(vjp(heads, x, u).ravel() - J.T @ u.ravel()).max() <= size


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.sampled_from([np.float32, np.float64]))
def test_the_products_are_adjoint(seed, dtype):
    heads, x = layer(seed)
    e, u = change(heads, x, seed)
    J = Linearised(heads, x, dtype=dtype)
    forth, back = J.jvp(e), J.vjp(u)
    assert forth.dtype == back.dtype == dtype
    assert forth.shape == (J.n, J.D) == u.shape
    assert back.shape == (J.n, J.d) == x.shape
    size = max(np.linalg.norm(forth) * np.linalg.norm(u), np.linalg.norm(back) * np.linalg.norm(e))
    most = EXPONENTIAL if dtype == np.float64 else JACOBIAN_SINGLE
    assert abs(np.vdot(forth, u) - np.vdot(back, e)) <= most * max(1, size)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 6, 7])
def test_blocks_leave_no_seams(monkeypatch, n, causal):
    monkeypatch.setattr(jacobian, "BLOCK", 3)
    heads, x = layer(10 + n, n=n, causal=causal)
    J, (e, u) = dense(heads, x), change(heads, x)
    L = Linearised(heads, x)
    assert np.abs(L.jvp(e).ravel() - J @ e.ravel()).max() <= EXPONENTIAL * 10
    assert np.abs(L.vjp(u).ravel() - J.T @ u.ravel()).max() <= EXPONENTIAL * 10
    bend = L.bend(u, e)
    monkeypatch.undo()
    assert np.abs(bend - Linearised(heads, x).bend(u, e)).max() <= EXPONENTIAL * 10
    assert local_constant(heads, x, 1e-9).value == pytest.approx(np.linalg.norm(J, 2), rel=1e-9)


@pytest.mark.parametrize("causal", [False, True])
def test_softmax_attention_and_several_heads_of_it(causal):
    rng = np.random.default_rng(3)
    heads = [
        SoftmaxAttention(*rng.normal(size=(2, 3, 4)) / 3, rng.normal(size=(p, 4)), causal)
        for p in (2, 3)
    ]
    many = MultiHead(heads, [rng.normal(size=(5, p)) for p in (2, 3)])
    x, e = rng.normal(size=(2, 6, 4))
    for one in (heads[0], many):
        want = slope(lambda t, one=one: one.velocity(x + t * e))
        assert np.abs(jvp(one, x, e) - want).max() <= EIGHTH_ORDER


def test_heads_add_and_the_identity_is_the_default_of_W():
    heads, x = layer(12, n=5)
    e, _ = change(heads, x)
    total = sum(jvp([head], x, e) for head in heads)
    assert len(heads) > 1
    assert np.abs(jvp(heads, x, e) - total).max() <= EXPONENTIAL
    bare, told = heads[0]._replace(W=None), heads[0]._replace(W=np.eye(len(heads[0].V)))
    assert (jvp([bare], x, e) == jvp([told], x, e)).all()
    assert jvp([bare], x, e).shape == (5, len(heads[0].V))


def test_a_masked_token_does_not_hear_those_after_it():
    heads, x = layer(4, n=6, causal=True)
    e, _ = change(heads, x)
    e[:3] = 0
    assert (jvp(heads, x, e)[:3] == 0).all()
    assert (jvp(heads, x, e)[3:] != 0).any()


def test_saturated_scores_are_no_trouble():
    """Scores of 1e4: every row looks at one token, and no exponential overflows."""
    rng = np.random.default_rng(5)
    heads, x = [Head(100 * np.eye(3), 100 * np.eye(3), np.eye(3))], rng.normal(size=(6, 3))
    e, u = change(heads, x)
    assert np.abs(jvp(heads, x, e).ravel() - dense(heads, x) @ e.ravel()).max() <= EXPONENTIAL
    assert np.abs(vjp(heads, x, u).ravel() - dense(heads, x).T @ u.ravel()).max() <= EXPONENTIAL


# how the Jacobian turns


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_bend_is_the_gradient_of_a_product(seed):
    heads, x = layer(seed, size=0.5)
    e, u = change(heads, x, seed)
    n, d = x.shape

    def product(y):
        return (forward(heads, y + 1e-30j * e).imag * u / 1e-30).sum(axis=(-2, -1))

    steps = np.eye(n * d).reshape(-1, n, d)
    want = slope(lambda t: product(x + t * steps), 1e-3)
    got = Linearised(heads, x).bend(u, e)
    assert got.shape == x.shape
    assert np.abs(got.ravel() - want).max() <= EIGHTH_ORDER * max(1, np.abs(want).max())


# what is refused


def test_changes_have_the_shape_of_what_they_change():
    heads, x = [Head(np.eye(2), np.eye(2), np.ones((3, 2)))], np.ones((4, 2))
    L = Linearised(heads, x)
    assert (L.n, L.d, L.D) == (4, 2, 3)
    with pytest.raises(ValueError, match=r"e must have shape \(4, 2\), got \(4, 3\)"):
        L.jvp(np.ones((4, 3)))
    with pytest.raises(ValueError, match=r"u must have shape \(4, 3\), got \(3, 3\)"):
        L.vjp(np.ones((3, 3)))
    with pytest.raises(ValueError, match=r"u must have shape \(4, 3\), got \(4, 2\)"):
        L.bend(np.ones((4, 2)), np.ones((4, 2)))
    with pytest.raises(ValueError, match=r"e must have 2 axes, got shape \(4,\)"):
        jvp(heads, x, np.ones(4))
    with pytest.raises(ValueError, match="u must be finite, got nan"):
        vjp(heads, x, np.full((4, 3), np.nan))


def test_what_is_in_single_precision_already_is_not_copied() -> None:
    """The attention of n tokens has n^2 entries: it is held once."""
    part = Linearised(*layer(0), dtype=np.float32).parts[0]
    again = part.single()
    for name in ("M", "W", "q", "k", "v", "P", "mean"):
        assert np.shares_memory(getattr(again, name), getattr(part, name))
