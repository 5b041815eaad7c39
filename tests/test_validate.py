import numpy as np
import pytest

from attnflow import validate


def test_array_returns_float64_with_the_values_given():
    out = validate.array([[1, 2], [3, 4]], "Q", 2)
    assert out.dtype == np.float64
    assert out.tolist() == [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize(
    "value",
    [
        "abc",
        ["a", "b"],
        ["1.0", "2.0"],
        [[1.0], [1.0, 2.0]],
        [object()],
        {"a": 1.0},
        np.array([1.0 + 1.0j]),
        [1.0 + 1.0j],
        [10**400],
    ],
    ids=[
        "text",
        "texts",
        "numeric texts",
        "ragged",
        "objects",
        "mapping",
        "complex array",
        "complex list",
        "integer beyond float64",
    ],
)
def test_array_refuses_what_is_not_real_numbers_and_says_so(value):
    with pytest.raises(ValueError, match=r"^Q must be an array of real numbers, got "):
        validate.array(value, "Q", 1)


@pytest.mark.parametrize(("value", "shape"), [(1.0, r"\(\)"), ([[1.0]], r"\(1, 1\)")])
def test_array_refuses_the_wrong_number_of_axes_and_names_the_shape(value, shape):
    with pytest.raises(ValueError, match=f"Q must have 1 axes, got shape {shape}"):
        validate.array(value, "Q", 1)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_array_refuses_values_that_are_not_finite_and_says_where(value):
    with pytest.raises(ValueError, match=rf"x must be finite, got {value} at index \(1, 0\)"):
        validate.array([[0.0, 1.0], [value, 2.0]], "x", 2)


def test_a_vector_is_that_many_tokens_on_the_line():
    assert validate.tokens([1.0, 2.0, 3.0]).shape == (3, 1)


@pytest.mark.parametrize("value", [[], [[]], np.empty((0, 2)), np.empty((3, 0))])
def test_tokens_refuses_no_tokens_and_no_dimensions(value):
    with pytest.raises(ValueError, match="x must hold at least one token, got shape"):
        validate.tokens(value)


@pytest.mark.parametrize(
    "value", [None, 1.0, "abc", ["1", "2"], [[1.0], [1.0, 2.0]], np.zeros((2, 2, 2))]
)
def test_tokens_refuses_with_a_message_that_names_them(value):
    with pytest.raises(ValueError, match=r"^y must .* got "):
        validate.tokens(value, "y")


def test_tokens_does_not_change_its_argument():
    x = np.array([1.0, 2.0])
    validate.tokens(x)[0] = 1.0
    assert x.shape == (2,)


def test_no_weights_means_equal_weights():
    assert validate.weights(None, 4).tolist() == [0.25] * 4


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([0.5, 0.6], "a must sum to 1, got 1.1"),
        ([0.5, 0.5 + 1e-6], "a must sum to 1, got 1.000001"),
        ([1.5, -0.5], "a must not be negative, got -0.5"),
        ([1.0], r"a must have one entry per token, 2, got shape \(1,\)"),
        ([], r"a must have one entry per token, 2, got shape \(0,\)"),
        ([[0.5, 0.5]], r"a must have 1 axes, got shape \(1, 2\)"),
        ([np.nan, 1.0], r"a must be finite, got nan at index \(0,\)"),
        ("half", "a must be an array of real numbers, got 'half'"),
        (["0.5", "0.5"], "a must be an array of real numbers, got "),
    ],
)
def test_weights_states_the_rule_and_the_value(value, message):
    with pytest.raises(ValueError, match=message):
        validate.weights(value, 2, "a")


def test_weights_may_be_zero_and_may_miss_one_by_rounding():
    w = [0.0, *[0.1] * 10]
    assert validate.weights(w, 11).tolist() == w


@pytest.mark.parametrize(
    "value",
    [
        0,
        -1.0,
        np.nan,
        np.inf,
        -np.inf,
        "abc",
        "1.0",
        None,
        [1.0],
        1j,
        pytest.param(10**400, id="huge"),
    ],
)
def test_positive_refuses_all_but_finite_numbers_above_zero(value):
    with pytest.raises(ValueError, match=r"^eps must be a (finite )?number > 0, got "):
        validate.positive(value, "eps")


def test_positive_returns_a_float():
    out = validate.positive(np.float32(0.5), "eps")
    assert type(out) is float
    assert out == 0.5


@pytest.mark.parametrize("value", [0, -3, 1.5, True, "3", "abc", None, np.nan, np.inf, [2]])
def test_count_refuses_all_but_whole_numbers_from_the_minimum(value):
    with pytest.raises(ValueError, match=r"^depth must be a whole number >= 1, got "):
        validate.count(value, "depth")


@pytest.mark.parametrize("value", [2, 2.0, np.int64(2)])
def test_count_returns_an_int(value):
    out = validate.count(value, "depth", minimum=2)
    assert type(out) is int
    assert out == 2


def test_choice_returns_an_allowed_value_and_names_the_others():
    assert validate.choice("a", "method", ("a", "b")) == "a"
    with pytest.raises(ValueError, match="method must be one of a, b, got 'c'"):
        validate.choice("c", "method", ("a", "b"))
