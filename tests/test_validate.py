import numpy as np
import pytest
from tolerances import ROUNDING

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


# on the sphere


def test_tokens_on_the_sphere_are_returned_with_norm_one():
    x = np.random.default_rng(0).normal(size=(50, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    out = validate.on_sphere(x)
    assert out.dtype == np.float64
    assert np.abs(out - x).max() <= ROUNDING
    single = validate.on_sphere(x.astype(np.float32))
    assert np.abs(np.linalg.norm(single, axis=1) - 1).max() <= ROUNDING
    assert np.abs(single - x).max() <= validate.NORM_SLACK


def test_on_sphere_does_not_change_its_argument():
    x = np.array([[1.0 + 5e-7, 0.0], [0.0, 1.0]])
    assert validate.on_sphere(x)[0, 0] == 1.0
    assert x[0, 0] == 1.0 + 5e-7


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            [[1.0, 0.0], [0.0, 1.5]],
            "y must lie on the unit sphere, got a token of norm 1.5 at row 1",
        ),
        (
            [[0.5, 0.0], [0.0, 1.1]],
            "y must lie on the unit sphere, got a token of norm 0.5 at row 0",
        ),
        ([[1.0, 0.0], [0.0, 0.0]], "y must lie on the unit sphere, got a token of norm 0 at row 1"),
        ([[1.0 + 2e-6, 0.0]], "y must lie on the unit sphere, .*; divide every row by its norm"),
        (
            [[1e200, 0.0], [0.0, 1.0]],
            "y must lie on the unit sphere, got a token of norm .* at row 0",
        ),
        ([[1.0]], r"y must have at least two columns, got shape \(1, 1\)"),
        ([1.0, -1.0], r"y must have at least two columns, got shape \(2, 1\)"),
        ([[np.nan, 0.0]], r"y must be finite, got nan at index \(0, 0\)"),
        ([[np.inf, 0.0]], r"y must be finite, got inf at index \(0, 0\)"),
        (np.empty((0, 3)), "y must hold at least one token, got shape"),
        (np.ones((2, 2, 2)), r"y must have 2 axes, got shape \(2, 2, 2\)"),
        ("sphere", "y must be an array of real numbers, got 'sphere'"),
        (None, "y must be an array of real numbers, got None"),
    ],
)
def test_on_sphere_states_the_rule_and_the_row(value, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        validate.on_sphere(value, "y")


# numbers


@pytest.mark.parametrize("value", [0, 0.0, 3, 4.5, 700, np.float32(2.0), np.array(1.5)])
def test_beta_returns_a_float_from_zero_to_seven_hundred(value):
    out = validate.beta(value)
    assert type(out) is float
    assert out == value


@pytest.mark.parametrize("value", [-1e-300, -1.0, 700.0001, 1e308, 701])
def test_beta_refuses_numbers_out_of_range(value):
    with pytest.raises(ValueError, match=r"^betas must lie in \[0, 700\], got "):
        validate.beta(value, "betas")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, "hot", "1.0", None, [1.0], [], 1j])
def test_beta_refuses_what_is_no_number(value):
    with pytest.raises(ValueError, match=r"^beta must be a number >= 0, got "):
        validate.beta(value)


def test_the_largest_beta_has_an_exponential():
    assert np.isfinite(np.exp(validate.LARGEST_BETA))


@pytest.mark.parametrize("value", [1e-300, 0.5, np.float32(0.25), 1 - 1e-16])
def test_between_zero_and_one_returns_a_float(value):
    out = validate.between_zero_and_one(value, "delta")
    assert type(out) is float
    assert out == value
    assert 0 < out < 1


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0, "delta must be a finite number > 0, got 0"),
        (0.0, "delta must be a finite number > 0, got 0.0"),
        (-0.5, "delta must be a finite number > 0, got -0.5"),
        (1, "delta must lie between 0 and 1, got 1"),
        (1.0, "delta must lie between 0 and 1, got 1.0"),
        (7.0, "delta must lie between 0 and 1, got 7.0"),
        (np.nan, "delta must be a finite number > 0, got nan"),
        (np.inf, "delta must be a finite number > 0, got inf"),
        ("half", "delta must be a number > 0, got 'half'"),
        (None, "delta must be a number > 0, got None"),
        ([0.5], r"delta must be a finite number > 0, got \[0.5\]"),
    ],
)
def test_between_zero_and_one_states_the_rule_and_the_value(value, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        validate.between_zero_and_one(value, "delta")


@pytest.mark.parametrize("value", [0, -2.5, np.float32(1.5), np.int64(3)])
def test_number_returns_a_float(value):
    out = validate.number(value, "theta")
    assert type(out) is float
    assert out == value


@pytest.mark.parametrize("value", [np.nan, np.inf, "one", None, [1.0], 1j])
def test_number_refuses_what_is_no_finite_number(value):
    with pytest.raises(ValueError, match=r"^theta must be a finite number, got "):
        validate.number(value, "theta")


# times


@pytest.mark.parametrize("value", [[0, 1], (0.0, 0.5, 2.0), np.arange(4), [-3.0, -1.0]])
def test_times_returns_the_numbers_given(value):
    out = validate.times(value)
    assert out.dtype == np.float64
    assert out.tolist() == [float(t) for t in value]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "times must be at least two increasing numbers, got"),
        ([1.0], "times must be at least two increasing numbers, got"),
        ([0.0, 0.0], "times must be at least two increasing numbers, got"),
        ([0.0, 1.0, 0.5], "times must be at least two increasing numbers, got"),
        ([0.0, 1.0, np.nan], "times must be finite, got nan"),
        ([-np.inf, 1.0], "times must be finite, got -inf"),
        ([[0.0, 1.0]], r"times must have 1 axes, got shape \(1, 2\)"),
        (1.0, r"times must have 1 axes, got shape \(\)"),
        ("now", "times must be an array of real numbers, got 'now'"),
        ([-1e-9, 1.0], "times must start at 0 or later, got -1e-09"),
    ],
)
def test_times_states_the_rule_and_the_values(value, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        validate.times(value, start=0.0)


def test_times_may_start_exactly_at_the_start():
    assert validate.times([2.5, 3.0], start=2.5).tolist() == [2.5, 3.0]
    with pytest.raises(ValueError, match=r"times must start at 2\.5 or later, got 2\.0"):
        validate.times([2.0, 3.0], start=2.5)


@pytest.mark.parametrize("value", [5e-324, 1e-320, np.nextafter(validate.SMALLEST, 0.0)])
def test_numbers_that_have_lost_digits_are_refused(value):
    rule = "must be at least 2.2e-308, got "
    with pytest.raises(ValueError, match=f"^eps {rule}"):
        validate.positive(value, "eps")
    with pytest.raises(ValueError, match=f"^delta {rule}"):
        validate.between_zero_and_one(value, "delta")
    with pytest.raises(ValueError, match=f"^beta {rule}"):
        validate.beta(value)
    with pytest.raises(ValueError, match=f"^eps {rule}"):
        validate.all_positive(np.array([1.0, value]), "eps")


def test_the_smallest_number_with_all_its_digits_is_taken():
    assert validate.positive(validate.SMALLEST, "eps") == validate.SMALLEST
    assert validate.beta(validate.SMALLEST) == validate.SMALLEST
    assert validate.beta(-0.0) == 0.0


@pytest.mark.parametrize("size", [1, 100, 10**9])
def test_layers_whose_states_do_not_fit_into_memory_are_refused(size):
    most = max(validate.MOST_STORED // size, 1)
    assert validate.depth(most, size) == most
    with pytest.raises(ValueError, match=f"^depth must be at most {most}, got "):
        validate.depth(most + 1, size)
