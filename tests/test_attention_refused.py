"""Attention at huge scales, and what it refuses."""

import numpy as np
import pytest
from kinds_of_attention import KINDS, close, kinds
from refusals import answer
from tolerances import (
    SOLVED,
)

from attnflow.attention import (
    Attention,
    L2Attention,
    SinkhornAttention,
    SoftmaxAttention,
    UnnormalisedAttention,
)

# huge scales


@pytest.mark.parametrize("size", [1e100, 1e150])
def test_at_huge_scales_every_kind_is_right_or_refuses(size):
    x = np.array([[1.0, 0.0], [0.0, 2.0], [-1.0, 0.5]])
    one = np.eye(2)
    hard = x[np.argmax(x @ x.T, axis=1)]
    want = {"softmax": hard, "l2": x, "sinkhorn": x, "sinkhorn with Q = K": x}
    for kind, velocity in want.items():
        got = answer(lambda kind=kind: KINDS[kind](one, one, one).velocity(size * x))
        assert got is None or close(got / size, velocity, SOLVED)
    with pytest.raises(ValueError, match="exp of the scores must be finite, got a score of"):
        UnnormalisedAttention(one, one, one).velocity(size * x)


@kinds
@pytest.mark.parametrize("size", [1e150, 1e160, 1e300])
def test_at_huge_scales_the_field_is_finite_or_refused(kind, size):
    x, z = np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([[0.6, 0.5], [0.2, -1.0]])
    got = answer(lambda: KINDS[kind](np.eye(2), np.eye(2), np.eye(2)).field(size * z, size * x))
    assert got is None or np.isfinite(got).all()


@kinds
@pytest.mark.parametrize("name", ["Q", "K", "V"])
@pytest.mark.parametrize("size", [1e150, 1e200, 1e300])
def test_huge_matrices_give_finite_velocities_or_a_refusal(kind, name, size):
    matrices = {letter: np.array([[1.0, -1.0], [0.5, 1.0]]) for letter in "QKV"}
    matrices[name] = size * matrices[name]
    x = np.array([[1e10, 2e10], [3e10, -1e10]])
    got = answer(lambda: KINDS[kind](**matrices).velocity(x))
    assert got is None or np.isfinite(got).all()


def test_huge_query_and_key_matrices_give_finite_velocities_or_a_refusal():
    M = np.array([[1e200, -1e200]])
    for kind in KINDS.values():
        got = answer(lambda kind=kind: kind(M, M, np.eye(2)).velocity([[1.0, 2.0], [2.0, 2.0]]))
        assert got is None or np.isfinite(got).all()


def test_unnormalised_velocities_that_overflow_are_refused():
    """exp(26.6^2) is a number; 26.6 exp(26.6^2) is not."""
    one = np.eye(1)
    with pytest.raises(ValueError, match="finite"):
        UnnormalisedAttention(one, one, one).velocity([[26.6]])


# what is refused


@kinds
@pytest.mark.parametrize(
    ("x", "w", "message"),
    [
        ([[np.nan, 0.0]], None, "x must be finite, got nan"),
        ([[np.inf, 0.0]], None, "x must be finite, got inf"),
        (np.empty((0, 2)), None, r"x must hold at least one token, got shape \(0, 2\)"),
        ([[1.0, 2.0, 3.0]], None, r"x must have 2 columns, got shape \(1, 3\)"),
        ("tokens", None, "x must be an array of real numbers, got 'tokens'"),
        (np.eye(2), [1.5, -0.5], "weights must not be negative, got -0.5"),
        (np.eye(2), [0.5, 0.6], "weights must sum to 1, got 1.1"),
        (np.eye(2), [1.0], r"weights must have one entry per token, 2, got shape \(1,\)"),
        (np.eye(2), [np.nan, 1.0], "weights must be finite, got nan"),
        (np.eye(2), "equal", "weights must be an array of real numbers, got 'equal'"),
    ],
)
def test_every_kind_refuses_what_is_not_a_measure(kind, x, w, message):
    layer = KINDS[kind](np.eye(2), np.eye(2), np.eye(2))
    for method in (layer.matrix, layer.velocity, lambda x, w: layer.field(np.eye(2), x, w)):
        with pytest.raises(ValueError, match=message):
            method(x, w)


@kinds
@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([[np.nan, 0.0]], "points must be finite, got nan"),
        ([[1.0]], r"points must have 2 columns, got shape \(1, 1\)"),
        ([], "points must hold at least one token"),
    ],
)
def test_every_kind_refuses_points_of_another_space(kind, points, message):
    layer = KINDS[kind](np.eye(2), np.eye(2), np.eye(2))
    with pytest.raises(ValueError, match=message):
        layer.field(points, np.eye(2))


@pytest.mark.parametrize(
    ("Q", "K", "V", "message"),
    [
        (
            np.eye(2),
            np.eye(3),
            np.eye(2),
            r"Q and K must have one shape, got \(2, 2\) and \(3, 3\)",
        ),
        (np.eye(2), np.eye(2), np.eye(3), r"V must have 2 columns as Q has, got shape \(3, 3\)"),
        ([1.0], [1.0], [1.0], r"Q must have 2 axes, got shape \(1,\)"),
        ([[np.nan]], [[1.0]], [[1.0]], "Q must be finite, got nan"),
        ([[1.0]], [[np.inf]], [[1.0]], "K must be finite, got inf"),
        ([[1.0]], [[1.0]], "V", "V must be an array of real numbers, got 'V'"),
    ],
)
def test_layers_refuse_matrices_that_do_not_fit(Q, K, V, message):
    for kind in (SoftmaxAttention, L2Attention, UnnormalisedAttention, SinkhornAttention):
        with pytest.raises(ValueError, match=message):
            kind(Q, K, V)


@pytest.mark.parametrize("name", ["eps", "tol"])
@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf, "warm", None])
def test_sinkhorn_attention_refuses_what_is_not_positive(name, value):
    one = np.eye(1)
    with pytest.raises(ValueError, match=rf"{name} must be a (finite )?number > 0, got "):
        SinkhornAttention(one, one, one, **{name: value})


def test_attention_without_a_kind_cannot_be_applied():
    one = np.eye(1)
    with pytest.raises(TypeError, match="choose a kind of attention"):
        Attention(one, one, one).matrix([[0.0]])
