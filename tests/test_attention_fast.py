import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tolerances import EXPONENTIAL, FLOW, LARGE_SCORES, ROUNDING

from attnflow import flows
from attnflow.attention import (
    L2Attention,
    MultiHead,
    SinkhornAttention,
    SoftmaxAttention,
    UnnormalisedAttention,
)
from attnflow.attention import fast as fast_module
from attnflow.attention import layer as layer_module
from attnflow.kernels.fast import cheaper
from attnflow.matrices import split

KINDS = ("softmax", "L2", "sinkhorn")
ALL_KINDS = pytest.mark.parametrize("kind", KINDS)


class FastLayer:
    """A layer whose method is "fast"; `direct` counts the rows that were summed directly."""

    def __init__(self, attention, tol=1e-8):
        self.layer = attention.using("fast", tol)
        self.direct = 0

    def velocity(self, x, weights=None):
        with pytest.MonkeyPatch.context() as patch:
            for name in ("averages", "balanced", "balanced_pair"):
                patch.setattr(fast_module, name, self.counted(getattr(fast_module, name)))
            return self.layer.velocity(x, weights)

    def counted(self, function):
        def called(*args):
            found = function(*args)
            self.direct = 0 if found is None else found.direct
            return found

        return called


def cloud(n, d, seed=0):
    return np.random.default_rng([seed, d]).normal(size=(n, d))


def layer(kind, d, seed=0, size=1.0, out=None):
    """General Q, K and V; Sinkhorn attention needs Q^T K positive semi-definite."""
    rng = np.random.default_rng([seed, d, 3])
    Q, K = rng.normal(size=(2, d, d))
    Q, K = size * Q / np.linalg.norm(Q, 2), size * K / np.linalg.norm(K, 2)
    V = rng.normal(size=(out or d, d))
    if kind == "sinkhorn":
        return SinkhornAttention(Q, Q, V, eps=0.7, tol=1e-13)
    return {"softmax": SoftmaxAttention, "L2": L2Attention}[kind](Q, K, V)


def brute(attention, x, w):
    """The definition for softmax and L2, a row at a time, in the log domain."""
    live = w > 0  # the others are not seen
    y, sent, out = x[live] @ attention.K.T, x[live] @ attention.V.T, []
    for z in x @ attention.Q.T:
        scores = -((z - y) ** 2).sum(axis=1) if isinstance(attention, L2Attention) else y @ z
        logs = scores + np.log(w[live])
        e = np.exp(logs - logs.max())
        out.append(e @ sent / e.sum())
    return np.array(out)


def error(fast, attention, x, w=None):
    """The largest error of a velocity in units of the largest |V y|, as tol is measured."""
    got = fast.velocity(x, w)
    w = np.full(len(x), 1 / len(x)) if w is None else np.asarray(w)
    if isinstance(attention, SinkhornAttention):
        want = attention.velocity(x, w)
    else:
        want = brute(attention, x, w)
    assert got.shape == want.shape
    assert np.isfinite(got).all()
    return (
        np.linalg.norm(got - want, axis=1).max() / np.linalg.norm(x @ attention.V.T, axis=1).max()
    )


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


# what a Sinkhorn layer remembers


def many(n=20_000):
    return np.random.default_rng(0).normal(size=(n, 2))


def test_a_sinkhorn_layer_begins_where_the_last_one_ended(monkeypatch):
    """Every velocity is that of a layer without a memory; sweeps are fewer."""
    sweeps, honest = [], fast_module.self_bridge

    def spy(*args, **options):
        found = honest(*args, **options)
        sweeps.append(found.iterations)
        return found

    monkeypatch.setattr(fast_module, "self_bridge", spy)
    I, x = np.eye(2), many()  # noqa: E741
    layer = SinkhornAttention(I, I, I, eps=0.5).using("fast", 1e-8)
    for _ in range(4):
        v = layer.velocity(x)
        fresh = layer.using("fast", 1e-8).velocity(x)
        assert np.abs(v - fresh).max() <= 1e-8 * np.abs(x).max()
        x = x + 0.01 * v
    warm, cold = sweeps[::2], sweeps[1::2]
    assert warm[0] == cold[0]
    assert max(warm[1:]) < min(cold)


def test_a_sinkhorn_layer_that_sees_other_tokens_is_not_misled():
    I, x = np.eye(2), many()  # noqa: E741
    layer = SinkhornAttention(I, I, I, eps=0.1).using("fast", 1e-8)
    w = np.full(len(x), 1.0)
    w[::3] = 0.0
    w /= w.sum()
    layer.velocity(x)
    for tokens, masses in ((x[::-1], None), (3 * x, None), (x, w), (x, None), (x[:-5], None)):
        v = layer.velocity(tokens, masses)
        fresh = layer.using("fast", 1e-8).velocity(tokens, masses)
        assert np.abs(v - fresh).max() <= 1e-8 * np.abs(tokens).max()


def test_few_tokens_are_not_remembered():
    """The same call gives the same digits."""
    I, x = np.eye(2), many(500)  # noqa: E741
    layer = SinkhornAttention(I, I, I, eps=0.5).using("fast", 1e-8)
    assert (layer.velocity(x) == layer.velocity(x)).all()
    assert layer._memory.guess(len(x)) is None


def test_scalings_are_continued_on_a_parabola_in_logarithms():
    memory = fast_module.Memory(fewest=2)
    assert memory.guess(2) is None
    memory.keep(np.array([1.0, 0.0, 1.0]))
    memory.keep(np.array([1.0, 0.5]))
    assert memory.guess(3) is None
    assert memory.guess(2).tolist() == [1.0, 0.5]
    memory.keep(np.array([2.0, 0.0]))
    memory.keep(np.array([8.0, 1.0]))  # a token that had no mass: nothing to continue
    assert memory.guess(2).tolist() == [64.0, 1.0]  # 1, 2, 8, 64: steps of 2, 4, 8
    memory.keep(np.array([8.0, 1.0]))
    assert memory.guess(2).tolist() == [2.0, 1.0]  # the first is forgotten


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
