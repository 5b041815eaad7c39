import numpy as np
import pytest

from attnflow.attention import (
    L2Attention,
    MultiHead,
    SinkhornAttention,
    SoftmaxAttention,
    UnnormalisedAttention,
)
from attnflow.attention.head import Head, checked

I2 = np.eye(2)
GOOD = Head(np.ones((4, 3)), np.ones((4, 3)), np.ones((2, 3)))


def test_softmax_attention_is_one_head_and_several_are_several():
    rng = np.random.default_rng(0)
    one = SoftmaxAttention(*rng.normal(size=(3, 2, 3)), causal=True)
    other = SoftmaxAttention(*rng.normal(size=(3, 2, 3)))
    (head,) = checked(one, 5, 3)
    assert all((getattr(head, f) == getattr(one, f)).all() for f in "QKV")
    assert (np.eye(2) == head.W).all()
    assert head[4:] == (True, None, None, None)
    W = rng.normal(size=(2, 4, 2))
    first, second = checked(MultiHead([one, other], W), 5, 3)
    assert np.array_equal(first.W, W[0])
    assert np.array_equal(second.W, W[1])
    assert (first.causal, second.causal) == (True, False)
    assert (second.V == other.V).all()


def test_heads_are_read_as_arrays_of_floats():
    given = Head(
        [[1, 0]] * 2, I2.astype("f4"), [[1, 2]], [[3], [4]], True, [0, 1], [1, 0], [[1]] * 4
    )
    (head,) = checked((given,), 4, 2)
    arrays = [head.Q, head.K, head.V, head.W, head.bq, head.bk, head.angles]
    assert all(a.dtype == np.float64 for a in arrays)
    assert head.causal is True
    assert head.W.tolist() == [[3.0], [4.0]]
    assert given.W == [[3], [4]]


def test_heads_may_differ_in_all_but_where_they_answer():
    other = Head(np.ones((2, 3)), np.ones((2, 3)), np.ones((5, 3)), np.ones((2, 5)))
    assert len(checked([GOOD, other], 7, 3)) == 2
    with pytest.raises(ValueError, match="heads must answer in one dimension, got 2 and 5"):
        checked([GOOD, other._replace(W=None)], 7, 3)
    with pytest.raises(ValueError, match="heads must answer in one dimension, got 2 and 6"):
        checked([GOOD, GOOD, other._replace(W=np.ones((6, 5)))], 7, 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"Q": np.ones(3)}, r"Q of head 1 must have 2 axes, got shape \(3,\)"),
        ({"K": np.ones((4, 2))}, r"K of head 1 must have shape \(4, 3\), got \(4, 2\)"),
        ({"K": np.ones((3, 3))}, r"K of head 1 must have shape \(4, 3\), got \(3, 3\)"),
        ({"V": np.ones((2, 4))}, r"V of head 1 must have shape \(2, 3\), got \(2, 4\)"),
        ({"V": np.full((2, 3), np.nan)}, "V of head 1 must be finite, got nan"),
        ({"W": np.ones((2, 3))}, r"W of head 1 must have shape \(2, 2\), got \(2, 3\)"),
        ({"W": np.ones(2)}, r"W of head 1 must have 2 axes, got shape \(2,\)"),
        ({"bq": np.ones(3)}, r"bq of head 1 must have shape \(4,\), got \(3,\)"),
        ({"bk": np.ones((4, 1))}, r"bk of head 1 must have 1 axes, got shape \(4, 1\)"),
        ({"bk": np.ones(2)}, r"bk of head 1 must have shape \(4,\), got \(2,\)"),
        ({"bq": ["a"] * 4}, "bq of head 1 must be an array of real numbers"),
        ({"angles": np.ones((9, 4))}, r"angles of head 1 must have shape \(9, 2.*\), got \(9, 4\)"),
        ({"angles": np.ones((4, 2))}, "head 1 has angles for 4 positions, got 5 tokens"),
        ({"angles": np.full((9, 2), np.inf)}, "angles of head 1 must be finite, got inf"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        checked([GOOD, GOOD._replace(**change)], 5, 3)


def test_a_head_of_odd_size_cannot_be_turned():
    odd = Head(np.ones((3, 2)), np.ones((3, 2)), I2)
    assert checked([odd], 4, 2)
    for half in (1, 2):
        with pytest.raises(ValueError, match="even size, got 3"):
            checked([odd._replace(angles=np.ones((4, half)))], 4, 2)


def test_tokens_have_the_dimension_of_the_layer():
    for layer in ([GOOD], SoftmaxAttention(*GOOD[:3]), MultiHead([SoftmaxAttention(*GOOD[:3])])):
        with pytest.raises(ValueError, match="x must have 3 columns, got 2"):
            checked(layer, 5, 2)
    with pytest.raises(ValueError, match="x must have 2 columns, got 3"):
        checked([GOOD, Head(np.ones((4, 2)), np.ones((4, 2)), np.ones((2, 2)))], 5, 3)


@pytest.mark.parametrize("kind", [L2Attention, SinkhornAttention, UnnormalisedAttention])
def test_other_attention_is_refused_by_its_name(kind):
    other = kind(I2, I2, I2)
    for layer in (other, MultiHead([SoftmaxAttention(I2, I2, I2), other])):
        with pytest.raises(ValueError, match=f"that of softmax attention, got {kind.__name__}"):
            checked(layer, 3, 2)


def test_what_is_no_head_is_refused():
    with pytest.raises(ValueError, match="a layer must have at least one head, got none"):
        checked([], 3, 2)
    with pytest.raises(ValueError, match="a layer must be softmax attention or heads, got ndarray"):
        checked([I2], 3, 2)
    with pytest.raises(ValueError, match="or heads, got SoftmaxAttention"):
        checked([SoftmaxAttention(I2, I2, I2)], 3, 2)
    with pytest.raises(ValueError, match="a layer must be softmax attention or heads, got"):
        checked(Head(I2, I2, I2), 3, 2)


@pytest.mark.parametrize("layer", [None, 3, {"Q": 1}])
def test_what_is_no_layer_is_named(layer):
    with pytest.raises(ValueError, match=f"got {type(layer).__name__}"):
        checked(layer, 2, 2)


@pytest.mark.parametrize("f", ["Q", "K", "V"])
@pytest.mark.parametrize("empty", [None, np.ones((0, 2))])
def test_a_head_without_one_of_its_matrices_is_refused(f, empty):
    with pytest.raises(ValueError, match=f"{f} of head 0 must be a matrix with entries"):
        checked([Head(I2, I2, I2)._replace(**{f: empty})], 4, 2)
