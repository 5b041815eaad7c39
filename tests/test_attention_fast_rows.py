"""Rows that the fast kernel cannot give, and what the fast path refuses."""

import tracemalloc

import numpy as np
import pytest
from fast_layers import ALL_KINDS, FastLayer, cloud, error, layer
from tolerances import LARGE_SCORES, ROUNDING

from attnflow.attention import (
    L2Attention,
    MultiHead,
    SinkhornAttention,
    SoftmaxAttention,
    UnnormalisedAttention,
)
from attnflow.attention import fast as fast_module
from attnflow.attention import layer as layer_module
from attnflow.transport import self_bridge

# rows that the fast kernel cannot give


def test_outliers_of_l2_attention_are_summed_directly_and_rightly():
    """A query far from all keys: the kernel's products are below its noise."""
    J = np.eye(2)
    attention = L2Attention(2 * J, J, J)
    x = np.vstack([cloud(100, 2), [[30.0, 0.0], [0.0, -40.0]]])
    fast = FastLayer(attention)
    assert error(fast, attention, x) <= 1e-8
    assert 2 <= fast.direct < 60


def test_outliers_of_softmax_attention_are_summed_directly_and_rightly():
    """Tokens before the outlier's opposite see only small multiples of e^|y|^2/2."""
    attention = SoftmaxAttention(-np.eye(2), np.eye(2), np.eye(2))
    x = np.vstack([cloud(100, 2), [[20.0, 0.0]]])
    fast = FastLayer(attention)
    assert error(fast, attention, x) <= 1e-8
    assert fast.direct > 0


def test_the_count_of_direct_rows_is_that_of_the_last_call():
    J = np.eye(2)
    fast = FastLayer(L2Attention(2 * J, J, J))
    assert fast.direct == 0
    fast.velocity(np.vstack([cloud(50, 2), [[30.0, 0.0]]]))
    assert fast.direct > 0
    fast.velocity(cloud(50, 2) / 4)
    assert fast.direct == 0


def test_direct_rows_are_the_same_in_small_blocks(monkeypatch):
    J = np.eye(2)
    attention = L2Attention(3 * J, J, J)
    x = 4 * cloud(60, 2)
    whole = FastLayer(attention)
    want = whole.velocity(x)
    assert whole.direct > 10
    monkeypatch.setattr(fast_module, "BLOCK_ENTRIES", 100)
    blocks = FastLayer(attention)
    assert np.abs(blocks.velocity(x) - want).max() <= ROUNDING * 100
    assert blocks.direct == whole.direct


@pytest.mark.parametrize(
    ("kind", "n"), [("softmax", 40), ("L2", 40), ("sinkhorn", 40), ("sinkhorn", 1500)]
)
@pytest.mark.parametrize("mass", [1e-3, 1e-12, 1e-30, 0.0])
def test_an_outlier_of_little_or_no_weight_moves_as_by_the_layer(kind, mass, n):
    """Without weight it does not see itself: log 0 is minus infinity, not some large number.

    1500 tokens at this temperature are balanced with the fast kernel.
    """
    J = np.eye(1)
    attention = {
        "softmax": SoftmaxAttention(J, J, J),
        "L2": L2Attention(J, J, J),
        "sinkhorn": SinkhornAttention(J, J, J, tol=1e-13),
    }[kind]
    x = cloud(n, 1)
    x[0] = 34.0
    w = np.full(n, (1 - mass) / (n - 1))
    w[0] = mass
    assert error(FastLayer(attention), attention, x, w) <= 1e-8


def test_a_lonely_token_that_sees_itself_as_much_as_all_others_has_its_scaling_solved() -> None:
    """Its mass m changes nothing for the others, whose sum at it is s: a (s + a m) = 1, here with m = s^2.

    Both are 1e-14, which is lost in the fast kernel's error.
    """
    J, x = np.eye(1), np.clip(cloud(1500, 1), -2.5, 2.5)
    x[0] = 10.0
    others = self_bridge(x[1:], 1.0, method="dense", tol=1e-13)
    seen = np.exp(-((x[0] - x[1:, 0]) ** 2) / 2) * others.scaling / 1499
    s = seen.sum()
    a, m = 2 / (s * (1 + np.sqrt(5))), s**2
    w = np.append(m, np.full(1499, (1 - m) / 1499))
    got = SinkhornAttention(J, J, J, method="fast", tol=1e-8).velocity(x, w)
    want = a * (seen @ x[1:, 0] + a * m * x[0, 0])
    assert abs(got[0, 0] - want) <= 1e-8 * np.abs(x).max()


@pytest.mark.parametrize("kind", [L2Attention, SinkhornAttention])
def test_tokens_without_mass_beyond_all_kernels_move_as_by_the_layer(kind):
    """At a distance of 60 the Gaussian is no number any more."""
    x, w = cloud(30, 2), np.full(30, 1 / 29)
    x[0], w[0] = [60.0, 0.0], 0.0
    attention = kind(np.eye(2), np.eye(2), np.eye(2))
    assert error(FastLayer(attention), attention, x, w) <= 1e-8


# what is refused


def test_other_kinds_and_masked_layers_are_refused():
    J = np.eye(2)
    with pytest.raises(ValueError, match="UnnormalisedAttention has no fast method"):
        UnnormalisedAttention(J, J, J, method="fast").velocity(J)
    for kind in (SoftmaxAttention, L2Attention, SinkhornAttention):
        with pytest.raises(ValueError, match="a causal layer has no fast method"):
            kind(J, J, J, causal=True, method="fast")
    both = MultiHead([SoftmaxAttention(J, J, J), L2Attention(J, J, J)])
    assert [head.method for head in both.using("fast").heads] == ["fast", "fast"]
    assert [head.method for head in both.heads] == ["auto", "auto"]
    with pytest.raises(ValueError, match="method must be one of auto, dense, fast, got 'quick'"):
        SoftmaxAttention(J, J, J, method="quick")


#: Q^T K that is negative, indefinite, not symmetric, and of rank one and two in more dimensions.
TWO_POTENTIALS = [
    -np.eye(2),
    np.diag([1.0, -0.1]),
    np.array([[1.0, 0.5], [0.0, 1.0]]),
    np.outer([1.0, 0.5, -1.0, 0.2], [0.3, -1.0, 0.0, 0.4]),
    np.eye(5)[:, :2] @ np.array([[0.4, 0.6], [-0.5, 0.3]]) @ np.eye(5)[:2],
]


@pytest.mark.parametrize("A", TWO_POTENTIALS)
@pytest.mark.parametrize("weighted", [False, True])
def test_sinkhorn_attention_with_two_potentials_is_the_dense_layer(A, weighted):
    d = len(A)
    attention = SinkhornAttention(A, np.eye(d), np.eye(d), tol=1e-12)
    x = cloud(150, d)
    w = np.random.default_rng(1).dirichlet(np.ones(150)) if weighted else None
    if weighted:
        w[:20] = 0.0  # tokens without mass are sent to
        w /= w.sum()
    assert error(FastLayer(attention), attention, x, w) <= 1e-8


def test_two_potentials_find_the_fast_way_by_themselves_in_linear_memory(monkeypatch):
    monkeypatch.setattr(layer_module, "FEWEST_FAST", 1000)
    x = cloud(20_000, 2)
    layer = SinkhornAttention(np.eye(2), -np.eye(2), np.eye(2))
    tracemalloc.start()
    got = layer.velocity(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000 * 8 * 400  # the matrix would be 3.2 GB
    assert np.isfinite(got).all()


@pytest.mark.parametrize("n", [1, 2])
def test_two_potentials_of_one_and_two_tokens(n):
    attention = SinkhornAttention(np.eye(2), -np.eye(2), np.eye(2), tol=1e-12)
    for x in (cloud(n, 2), np.ones((n, 2))):
        assert error(FastLayer(attention), attention, x) <= 1e-8


def test_potentials_that_range_too_widely_are_refused_and_auto_is_dense():
    x = np.concatenate([cloud(200, 2), 6 + 0.1 * cloud(100, 2), [[-9.0, 4.0]]])
    attention = SinkhornAttention(np.eye(2), -np.eye(2), np.eye(2), eps=0.05)
    with pytest.raises(ValueError, match="with potentials that do not range widely"):
        FastLayer(attention).velocity(x)
    assert np.isfinite(attention.velocity(x)).all()
    four = SinkhornAttention(np.eye(4), -np.eye(4), np.eye(4), method="fast")
    with pytest.raises(ValueError, match="or of rank <= 3"):
        four.velocity(cloud(10, 4))


@pytest.mark.parametrize("far", [35.0, 1e3])
def test_softmax_exponents_of_too_wide_a_range_are_refused(far):
    attention = SoftmaxAttention(np.eye(1), np.eye(1), np.eye(1))
    with pytest.raises(
        ValueError, match=r"within 600 of each other .* got a range of .*: use method='dense'"
    ):
        FastLayer(attention).velocity([0.0, 1.0, far])
    assert error(FastLayer(attention), attention, np.array([[0.0], [1.0], [34.0]])) <= 1e-8


@ALL_KINDS
def test_tokens_with_another_number_of_columns_are_refused(kind):
    for d in (1, 3):
        with pytest.raises(ValueError, match=rf"x must have 2 columns, got shape \(5, {d}\)"):
            FastLayer(layer(kind, 2)).velocity(cloud(5, d))


def test_more_than_three_dimensions_are_refused():
    J = np.eye(4)
    for attention in (SoftmaxAttention(J, J, J), L2Attention(J, J, J)):
        with pytest.raises(ValueError, match="the fast kernel needs d <= 3, got d = 4: use dense"):
            FastLayer(attention).velocity(cloud(5, 4))


@ALL_KINDS
def test_what_counts_is_the_dimension_of_the_scores(kind):
    """Tokens in five dimensions whose scores see two of them, in no particular direction."""
    rng = np.random.default_rng(1)
    Q, K = rng.normal(size=(2, 2, 5)) / 2
    if kind == "sinkhorn":
        attention = SinkhornAttention(Q, Q, np.eye(5), tol=1e-13)
    elif kind == "L2":
        lift = np.linalg.qr(rng.normal(size=(6, 2)))[0]
        attention = L2Attention(lift @ Q, lift @ K, np.eye(5))
    else:
        attention = SoftmaxAttention(Q, K, np.eye(5))
    assert error(FastLayer(attention), attention, cloud(80, 5)) <= 1e-8


@ALL_KINDS
def test_many_tokens_find_the_fast_path_by_themselves_and_few_do_not(kind, monkeypatch):
    attention = layer(kind, 2, 3)
    used = []
    for name in ("averages", "balanced"):
        honest = getattr(fast_module, name)
        monkeypatch.setattr(
            fast_module, name, lambda *args, honest=honest: used.append(1) or honest(*args)
        )
    attention.velocity(cloud(200, 2))
    assert not used
    x = cloud(6000, 2)
    got = attention.velocity(x)
    assert used
    dense = attention.using("dense", 1e-11)
    assert np.abs(got[:5] - dense.field(x[:5], x)).max() <= 1e-8 * np.abs(x @ attention.V.T).max()


@ALL_KINDS
def test_no_matrix_of_all_pairs_is_built_for_many_tokens(kind):
    """100,000 tokens in the plane: all pairs would be 80 GB."""
    attention = layer(kind, 2, 3).using("auto")
    tracemalloc.start()
    try:
        assert np.isfinite(attention.velocity(cloud(100_000, 2))).all()
        assert tracemalloc.get_traced_memory()[1] < 2e8
    finally:
        tracemalloc.stop()


def test_rows_are_averaged_in_blocks_where_there_is_no_fast_path(monkeypatch):
    attention = UnnormalisedAttention(*np.random.default_rng(0).normal(size=(3, 4, 4)) / 4)
    x = cloud(50, 4)
    want = attention.velocity(x)
    monkeypatch.setattr(layer_module, "BLOCK_ENTRIES", 130)
    assert np.abs(attention.velocity(x) - want).max() <= ROUNDING * np.abs(want).max()
    assert len(list(layer_module.blocks(50, 50))) == 25


@pytest.mark.parametrize("tol", [0.0, -1e-8, np.nan, np.inf, "fine", None])
def test_a_tolerance_that_is_not_positive_is_refused(tol):
    with pytest.raises(ValueError, match=r"tol must be a (finite )?number > 0, got "):
        FastLayer(layer("softmax", 2), tol)


@ALL_KINDS
def test_what_is_not_a_measure_is_refused(kind):
    fast = FastLayer(layer(kind, 2))
    for x, w, message in (
        (cloud(3, 2), [0.5, 0.5], "weights must have one entry per token, 3"),
        (cloud(3, 2), [0.5, 0.6, 0.1], "weights must sum to 1"),
        (cloud(3, 2), [0.5, 0.6, -0.1], "weights must not be negative"),
        ([[0.0, np.nan]], None, "x must be finite, got nan"),
        (np.zeros((0, 2)), None, "x must hold at least one token"),
    ):
        with pytest.raises(ValueError, match=message):
            fast.velocity(x, w)


# rows summed directly


def sums_of(n, size=1.0, seed=0, eps=0.5):
    rng = np.random.default_rng(seed)
    y, sent = size * rng.normal(size=(n, 2)), rng.normal(size=(n, 3))
    weight = rng.normal(size=n)
    weight[::7] = -np.inf  # no mass
    return fast_module._Exact(y, y, eps, weight, sent)


@pytest.mark.parametrize("size", [0.01, 1.0, 5.0])
@pytest.mark.parametrize("shift", [0.0, 1e6])
@pytest.mark.parametrize("n", [3, 200, 3000])
def test_rows_by_one_product_are_rows_by_differences(n, size, shift, monkeypatch):
    """More than a tile of them; centred, so that it does not matter where all tokens lie."""
    exact = sums_of(n, size)
    exact = exact._replace(z=exact.z + shift, y=exact.y + shift)
    rows = np.arange(n)[:130]
    assert exact._factors(rows, 1e-8) is not None
    got = exact.direct(rows, 1e-8)
    monkeypatch.setattr(fast_module._Exact, "_factors", lambda *_: None)
    want = exact.direct(rows, 1e-8)
    assert np.abs(got - want).max() <= 1e-9 * np.abs(exact.sent).max()


def test_rows_far_from_all_tokens_are_summed_by_differences():
    """exp of all their scores is zero, or their squares are too large to cancel."""
    exact = sums_of(100)
    for far, product in ((60.0, True), (1e7, False)):
        there = exact._replace(z=exact.z + far)
        assert (there._factors(np.arange(5), 1e-8) is not None) == product
        scores = there.scores(np.arange(5))
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        want = weights @ there.sent / weights.sum(axis=1, keepdims=True)
        got = there.direct(np.arange(5), 1e-8)
        assert np.abs(got - want).max() <= LARGE_SCORES


def test_no_rows_are_no_work():
    assert sums_of(10).direct(np.arange(0), 1e-8).shape == (0, 3)
