import functools
import tracemalloc

import numpy as np
import pytest
from balls import SEEDS
from hypothesis import given, settings
from hypothesis import strategies as st
from jacobians import dense, layer
from tolerances import EXPONENTIAL, JACOBIAN_SINGLE, ROUNDING, ROUNDING_OF_NORM

from attnflow.attention import SoftmaxAttention
from attnflow.errors import NotConverged
from attnflow.lipschitz import Head, Linearised, local_constant
from attnflow.lipschitz.square import Square

# the norm


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_the_local_constant_is_the_largest_singular_value(seed):
    heads, x = layer(seed)
    J = dense(heads, x)
    want = np.linalg.norm(J, 2)
    got = local_constant(heads, x, 1e-10)
    assert got.converged
    assert abs(got.value - want) <= 1e-9 * want
    assert got.value <= want * (1 + ROUNDING_OF_NORM)
    assert abs(np.linalg.norm(got.right) - 1) <= ROUNDING
    assert abs(np.linalg.norm(got.left) - 1) <= ROUNDING
    # they are what they are said to be: J^T left, and J right but for the residual
    assert (
        np.abs(J.T @ got.left.ravel() - got.value * got.right.ravel()).max() <= EXPONENTIAL * want
    )
    off = np.linalg.norm(J @ got.right.ravel() - got.value * got.left.ravel())
    assert abs(off - got.residual) <= EXPONENTIAL * want


@pytest.mark.parametrize("held", [(), (1,)])
def test_heads_may_share_keys_and_values_or_any_other_matrix(held):
    """As in grouped attention; what is shared is multiplied once."""
    rng = np.random.default_rng(8)
    first, second, K, V = rng.normal(size=(4, 4, 5))
    angles = rng.uniform(-4, 4, size=(6, 2))
    grouped = [
        Head(Q, K, V, rng.normal(size=(3, 4)), True, bq, None, angles)
        for Q, bq in ((first, None), (second, rng.normal(size=4)), (K, None))
    ]
    heads, x = [*grouped, Head(V, first, K, rng.normal(size=(3, 4)))], rng.normal(size=(6, 5))
    square = Square(Linearised(heads, x), None, single=False)
    assert len(square.M) == 4 * 4
    J = dense(heads, x).reshape(18, 6, 5)
    J[:, list(held)] = 0
    want = np.linalg.norm(J.reshape(18, 30), 2)
    got = local_constant(heads, x, 1e-10, held=held)
    assert abs(got.value - want) <= 1e-9 * want


@functools.cache
def decomposed(seed):
    heads, x = layer(seed, n=8)
    return heads, x, np.linalg.svd(dense(heads, x), compute_uv=False)


@pytest.mark.parametrize(("tol", "dtype"), [(1e-1, "float64"), (1e-2, "float64"), (1e-4, "float64"), (1e-4, "float32"), (1e-7, "float64")])  # fmt: skip
def test_the_norm_lies_between_the_two_ends(tol, dtype):
    """Over 200 layers. A start that misses it has probability 1e-6 each, and the seeds are fixed."""
    for seed in range(200):
        heads, x, values = decomposed(seed)
        got = local_constant(heads, x, tol, dtype=dtype, seed=seed)
        assert got.converged
        assert got.upper - got.value <= tol * got.value
        assert got.value - got.lower <= tol * got.value
        assert got.error == max(got.upper - got.value, got.value - got.lower)
        assert got.lower <= values[0] * (1 + ROUNDING_OF_NORM)
        assert got.upper >= values[0] * (1 - ROUNDING_OF_NORM)
        slack = (ROUNDING_OF_NORM if dtype == "float64" else JACOBIAN_SINGLE) * values[0]
        assert np.abs(values - got.value).min() <= got.residual + slack


def prescribed(values, tol, seed=0, dtype="float64", **given):
    """One token: the Jacobian is V, and has the singular values that it is given."""
    rng, d = np.random.default_rng(seed), len(values)
    V = np.linalg.qr(rng.normal(size=(d, d)))[0] * values
    head = Head(np.ones((1, d)), np.ones((1, d)), V)
    return local_constant([head], np.ones((1, d)), tol, seed=seed, dtype=dtype, **given)


def crowded(seed):
    """32 values within 1e-5 to 1e-2 of the largest, or 64 at all distances from it."""
    rng = np.random.default_rng([seed, 5])
    if seed % 2:
        return np.array([1.0, *(1 - 10 ** rng.uniform(-6, 0, 63))])
    return np.array([1.0, *(1 - 10 ** rng.uniform(-5, -2) * rng.uniform(size=31))])


@pytest.mark.parametrize(("tol", "dtype"), [(1e-2, "float64"), (1e-4, "float64"), (1e-6, "float64"), (1e-10, "float64"), (1e-3, "float32"), (1e-4, "float32")])  # fmt: skip
def test_where_singular_values_crowd_the_two_ends_hold(tol, dtype):
    """The second is mistaken for the first for long; a bound by the gap between them would be fooled."""
    for seed in range(60):
        got = prescribed(crowded(seed), tol, seed, dtype)
        assert got.converged
        assert got.lower <= 1 + ROUNDING_OF_NORM
        assert got.upper >= 1 - ROUNDING_OF_NORM
        assert abs(got.value - 1) <= tol


@pytest.mark.parametrize(("tol", "dtype"), [(1e-4, "float64"), (1e-9, "float64"), (1e-3, "float32")])  # fmt: skip
def test_where_every_token_sees_one_other_the_two_ends_hold(tol, dtype):
    """Scores up to some hundreds: rows are one-hot, and single precision must not add to what they say."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n, d = int(rng.integers(4, 14)), int(rng.integers(2, 5))
        x = rng.normal(size=(n, d)) * 10 ** rng.uniform(0.25, 1)
        heads = [Head(*rng.normal(size=(1, d, d)), np.eye(d), rng.normal(size=(d, d)))]
        want = np.linalg.norm(dense(heads, x), 2)
        got = local_constant(heads, x, tol, dtype=dtype, seed=seed)
        assert got.converged
        assert got.lower <= want * (1 + EXPONENTIAL)
        assert got.upper >= want * (1 - EXPONENTIAL)


def test_a_start_misses_the_first_direction_as_often_as_is_said():
    """One value of 2 among 49 ones: with half of the starts the bound may fail, and some fail."""
    values = np.array([2.0, *np.ones(49)])
    for failure in (0.5, 0.1):
        got = [prescribed(values, 0.3, s, failure=failure) for s in range(300)]
        missed = np.mean([one.upper < 2 - ROUNDING_OF_NORM for one in got])
        assert {one.failure for one in got} == {failure}
        assert missed <= failure + 0.06
    assert prescribed(values, 0.3, 0, failure=1e-12).upper >= 2


def test_what_the_iterations_are_content_with_is_content_for_the_result():
    """They stop by a bound; fresh products must not undo it (warnings are errors)."""
    values = np.array([*np.linspace(1, 0.9, 20), *np.linspace(0.5, 0, 20)])
    assert all(prescribed(values, 1e-2, seed).converged for seed in range(150))


def test_many_steps_are_taken_where_many_are_needed():
    values = np.linspace(1, 0, 400)
    got = prescribed(values, 1e-10)
    assert 50 < got.iterations < 300
    assert abs(got.value - 1) <= 1e-9


def test_iterations_in_single_precision_give_a_result_in_double():
    """The vectors have norm one in double, so that the value is below the norm in double."""
    for seed in range(40):
        heads, x = layer(seed, n=6)
        J, got = dense(heads, x), local_constant(heads, x, 1e-4)
        assert got.left.dtype == got.right.dtype == np.float64
        assert abs(np.linalg.norm(got.left) - 1) <= ROUNDING
        assert abs(np.linalg.norm(got.right) - 1) <= ROUNDING
        assert got.value <= np.linalg.norm(J, 2) * (1 + ROUNDING_OF_NORM)
        assert abs(np.linalg.norm(J.T @ got.left.ravel()) - got.value) <= EXPONENTIAL * got.value


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("causal", [False, True])
def test_a_small_head_in_a_large_dimension_leads_back_to_it(heads, causal):
    """d > 3k and D > p: the iterations may live in fewer dimensions, and nobody can tell."""
    rng = np.random.default_rng(7)
    d, D, k, p, n = 23, 17, 2, 3, 5
    many = [
        Head(*rng.normal(size=(2, k, d)), rng.normal(size=(p, d)), rng.normal(size=(D, p)), causal,
             rng.normal(size=k), rng.normal(size=k), rng.normal(size=(n, k // 2)))
        for _ in range(heads)
    ]  # fmt: skip
    x = rng.normal(size=(n, d)) / 4
    J = dense(many, x)
    want = np.linalg.norm(J, 2)
    for tol in (1e-4, 1e-10):
        got = local_constant(many, x, tol)
        assert got.right.shape == (n, d)
        assert got.left.shape == (n, D)
        assert 0 <= want * (1 + ROUNDING_OF_NORM) - got.value <= 2 * tol * want
        assert abs(np.linalg.norm(got.right) - 1) <= ROUNDING
        assert np.linalg.norm(J @ got.right.ravel()) >= want * (1 - 2 * tol)
        assert abs(np.linalg.norm(J.T @ got.left.ravel()) - got.value) <= EXPONENTIAL * want
    assert got.iterations <= 40


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_single_precision_is_single_precision(dtype):
    heads, x = layer(0, n=7)
    got = local_constant(heads, x, 1e-5, dtype=dtype)
    assert got.right.dtype == got.left.dtype == dtype
    assert abs(got.value / np.linalg.norm(dense(heads, x), 2) - 1) <= 2e-5
    assert Linearised(heads, x, dtype=dtype).bend(got.left, got.right).dtype == dtype


@pytest.mark.parametrize("size", [1e-60, 1e-30, 1e-9, 1e9, 1e30, 1e60])
@pytest.mark.parametrize("tol", [1e-4, 1e-9])
def test_values_of_any_size_are_stretched_by_it(size, tol):
    """Squares of some of these are no numbers in single precision."""
    (head, *_), x = layer(3, n=6)
    want = np.linalg.norm(dense([head], x), 2)
    for sized in (head._replace(V=size * head.V), head._replace(W=size * head.W)):
        got = local_constant([sized], x, tol)
        assert abs(got.value / size / want - 1) <= tol
        assert abs(np.linalg.norm(got.left) - 1) <= ROUNDING


@pytest.mark.parametrize("far", [30.0, 1e3, 1e5])
def test_tokens_far_from_zero_are_no_trouble(far):
    """Every token sees itself alone, and the answer is V e."""
    x = far * np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    got = local_constant(SoftmaxAttention(np.eye(2), np.eye(2), [[1.0, 2.0]]), x)
    assert abs(got.value / np.sqrt(5) - 1) <= 1e-4
    assert got.converged


# layers that degenerate


def test_values_of_zero_give_zero():
    _, x = layer(2, n=4)
    one = np.eye(x.shape[1])
    got = local_constant(SoftmaxAttention(one, one, 0 * one), x)
    assert got[:3] == (0.0, 0.0, 0.0)
    assert got.residual == 0
    assert got.converged
    assert np.isfinite(got.right).all()
    assert local_constant([Head(one, one, one, 0 * one)], x).value == 0


@pytest.mark.parametrize("tol", [1e-4, 1e-10])
def test_layers_whose_norm_is_known(tol):
    """No scores, one token, or equal tokens: the attention matrix times V, with norms that multiply."""
    rng = np.random.default_rng(8)
    Q, K, V = rng.normal(size=(3, 3, 3))
    x, same = rng.normal(size=(6, 3)), np.tile(rng.normal(size=3), (6, 1))
    size = np.linalg.norm(V, 2)
    late = np.linalg.norm(np.tri(6) / np.arange(1, 7)[:, None], 2)
    known = [
        (SoftmaxAttention(0 * Q, K, V), x, size),
        (SoftmaxAttention(Q, 0 * K, V, causal=True), x, size * late),
        (SoftmaxAttention(Q, K, V), x[:1], size),
        (SoftmaxAttention(Q, K, V, causal=True), x[:1], size),
        (SoftmaxAttention(Q, K, V), same, size),
        (SoftmaxAttention(Q, K, V, causal=True), same, size * late),
        (SoftmaxAttention(30 * np.eye(3), 30 * np.eye(3), V), np.eye(3), size),
        ([Head(Q, K, np.outer([1.0, 2.0], [2.0, 0.0, 1.0]))], same, 5.0),
    ]
    for one, at, want in known:
        got = local_constant(one, at, tol)
        assert got.converged
        assert abs(got.value - want) <= tol * want


@pytest.mark.parametrize("gap", [0.0, 1e-12, 1e-9, 1e-6, 1e-4])
def test_nearly_equal_singular_values(gap):
    """The value is right whichever of the two directions it is the stretch of."""
    values = np.array([1.0, 1 - gap, 1 - 2 * gap, 0.3])
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(4, 4)))[0]
    got = local_constant([Head(np.eye(4), np.eye(4), turn * values)], np.ones((3, 4)), 1e-9)
    assert got.converged
    assert abs(got.value - 1) <= 1e-9


def test_two_layers_of_equal_norm_side_by_side():
    """All singular values twice: the two halves of the tokens do not see each other."""
    rng = np.random.default_rng(2)
    Q, K, V = rng.normal(size=(3, 2, 2)) / 2
    x = rng.normal(size=(4, 2))
    far = np.vstack([np.hstack([x, np.full((4, 1), s)]) for s in (30.0, -30.0)])
    wide = [np.pad(M, ((0, 1), (0, 1))) for M in (Q, K, V)]
    wide[0][2, 2] = wide[1][2, 2] = 1.0
    values = np.linalg.svd(dense([Head(*wide)], far), compute_uv=False)
    assert abs(values[1] / values[0] - 1) <= EXPONENTIAL
    assert values[2] < 0.99 * values[0]
    got = local_constant([Head(*wide)], far, 1e-10)
    assert abs(got.value / values[0] - 1) <= 1e-9


# tokens that are held


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.sampled_from([1e-4, 1e-10]))
def test_tokens_that_are_held_do_not_move(seed, tol):
    """The norm of the Jacobian without their columns, and a direction that is zero on them."""
    heads, x = layer(seed)
    n, d = x.shape
    held = sorted({seed % n, seed % 3 % n})
    J = dense(heads, x).reshape(-1, n, d)
    J[:, held] = 0
    want = np.linalg.norm(J.reshape(len(J), -1), 2)
    got = local_constant(heads, x, tol, held=held)
    assert abs(got.value - want) <= tol * want
    assert (got.right[held] == 0).all()
    assert np.linalg.norm(J.reshape(len(J), -1) @ got.right.ravel()) >= want * (1 - 2 * tol)


def test_without_tokens_that_move_nothing_answers():
    heads, x = layer(3, n=4)
    got = local_constant(heads, x, held=range(4))
    assert got.value == 0
    assert got.converged


@pytest.mark.parametrize(("held", "message"), [([4], "held must be at most 3, got 4"), ([-1], "held must be a whole number >= 0, got -1"), ([0.5], "held must be a whole number")])  # fmt: skip
def test_held_tokens_are_among_the_tokens(held, message):
    heads, x = layer(3, n=4)
    with pytest.raises(ValueError, match=message):
        local_constant(heads, x, held=held)


# when it does not converge, and what it costs


def test_not_converging_warns_and_says_how_far_apart_the_ends_are():
    """After one step the bound from above is far, and true."""
    for seed in range(20):
        heads, x = layer(seed, n=8)
        want = np.linalg.norm(dense(heads, x), 2)
        with pytest.warns(
            NotConverged, match=r"stopped after 1 iterations .*increase max_iter, or tol"
        ):
            got = local_constant(heads, x, 1e-9, max_iter=1)
        assert not got.converged
        assert got.lower <= got.value < want < got.upper
        assert got.iterations == 1


def test_iterations_that_the_dimension_ends_are_enough():
    heads, x = layer(18, n=2)
    got = local_constant(heads, x, 1e-10, max_iter=10_000)
    assert got.iterations <= 2 * min(got.left.size, got.right.size)


def test_the_seed_decides_and_does_not_matter():
    heads, x = layer(21, n=7)
    one, two, other = (local_constant(heads, x, 1e-8, seed=s) for s in (4, 4, 5))
    assert one.value == two.value
    assert (one.right == two.right).all()
    assert (one.right != other.right).any()
    assert abs(one.value / other.value - 1) <= 1e-7


@pytest.mark.parametrize("causal", [False, True])
def test_no_matrix_of_nd_by_nd_is_formed(causal):
    """n^2 numbers a few times and some tokens; (nd)^2 numbers would be 8 GB."""
    n, d = 512, 64
    rng = np.random.default_rng(0)
    Q, K, V = rng.normal(size=(3, d, d)) / d**0.5
    x = rng.normal(size=(n, d)) / d**0.25
    tracemalloc.start()
    local_constant(SoftmaxAttention(Q, K, V, causal), x, 1e-2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 8 * (8 * n**2 + 80 * n * d)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"x": [[1.0, np.nan]]}, "x must be finite, got nan"),
        ({"x": np.empty((0, 2))}, "x must hold at least one token"),
        ({"x": [[1.0, 2.0, 3.0]]}, "x must have 2 columns, got 3"),
        ({"dtype": int}, "dtype must be float32 or float64, got int64"),
        ({"dtype": np.float16}, "dtype must be float32 or float64, got float16"),
        ({"dtype": complex}, "dtype must be float32 or float64, got complex128"),
        ({"tol": 0.0}, r"tol must be a finite number > 0, got 0\.0"),
        ({"tol": 1e-15}, "tol must be at least 64 roundings of float64, got 1e-15"),
        ({"tol": 1e-6, "dtype": "f4"}, "tol must be at least 64 roundings of float32, got 1e-06"),
        ({"seed": -1}, "seed must be a whole number >= 0, got -1"),
        ({"failure": 0.0}, r"failure must be a finite number > 0, got 0\.0"),
        ({"failure": 1.0}, "failure must be below 1, got 1"),
        ({"max_iter": 0}, "max_iter must be a whole number >= 1, got 0"),
        ({"x": [[1e200, 0.0], [0.0, 1e200]]}, "scores must be finite"),
    ],
)
def test_what_has_no_local_constant_is_refused(given, message):
    one = np.eye(2)
    arguments = {"layer": SoftmaxAttention(one, one, one), "x": [[1.0, 2.0], [0.0, 1.0]], **given}
    with pytest.raises(ValueError, match=message):
        local_constant(**arguments)


def test_double_precision_goes_on_from_single_without_its_rounding():
    """So far out that single precision does not do; the four largest singular values are all 2."""
    x = [[42.230653242894824, 82.00219864036929], [2.3990997726112764, -160.05486444727026],
         [80.54064457849891, 161.74378868693086], [-34.12410941228997, -97.0578826516392],
         [-48.64580146907638, -122.92682260718863], [-115.64513241410178, 64.1486016048422],
         [-146.7013768972216, 105.4824849175538], [-7.31503436176016, -178.26155767751527]]  # fmt: skip
    got = local_constant(SoftmaxAttention(-np.eye(2), np.eye(2), np.eye(2)), x, 1e-4)
    assert got.converged
    assert abs(got.value / 2 - 1) <= 1e-6
