"""Parameter cells: what they may say, and which values a parameter takes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from attnflow.book.chapters.parameters import BookError, Parameter, parse_parameters


def one(line: str) -> Parameter:
    (parameter,) = parse_parameters(line)
    return parameter


def labelled(value: Any) -> str:
    return value.type if isinstance(value, Parameter) else repr(value)


INT = one("n: int = 8  # tokens, in [2, 64]")
FLOAT = one("beta: float = 4.0  # inverse temperature, in (0, 50]")
FREE = one("shift: float = 0.0  # anywhere")
WORD = one('kind: str = "l2"  # which attention, one of softmax | l2')
FLAG = one("causal: bool = False  # whether to mask")
INTS = one("depths: list[int] = [4, 8]  # layers, in [1, 100]")
FLOATS = one("betas: list[float] = [1, 2.5]  # temperatures")


def test_a_line_gives_name_type_default_help_and_range() -> None:
    assert Parameter("beta", "float", 4.0, "inverse temperature", ("(", 0.0, 50.0, "]")) == FLOAT


def test_a_cell_keeps_the_order_of_its_lines() -> None:
    cell = "n: int = 2  # one\n\nbeta: float = 1.0  # two\nkind: str = 'a'  # three\n"
    assert [p.name for p in parse_parameters(cell)] == ["n", "beta", "kind"]


def test_choices_are_read_and_taken_out_of_the_help() -> None:
    assert WORD.choices == ("softmax", "l2")
    assert WORD.help == "which attention"
    assert WORD.allowed == "str, one of softmax | l2"


@pytest.mark.parametrize(
    ("interval", "inside", "outside"),
    [
        ("[0, 1]", (0.0, 1.0, 0.5), (-1e-9, 1.5)),
        ("(0, 1)", (1e-9, 0.5), (0.0, 1.0)),
        ("[0, 1)", (0.0,), (1.0,)),
        ("(0, 1]", (1.0,), (0.0,)),
        ("(0, inf)", (1e300,), (0.0, math.inf)),
        ("(-inf, 0]", (-1e300, 0.0), (1e-300, -math.inf)),
        ("[-2.5, 1e3]", (-2.5, 1000.0), (-2.6, 1001.0)),
    ],
)
def test_open_and_closed_ends_mean_what_they_do_in_mathematics(
    interval: str, inside: tuple[float, ...], outside: tuple[float, ...]
) -> None:
    parameter = one(f"x: float = {inside[0]!r}  # a number, in {interval}")
    assert parameter.help == "a number"
    for value in inside:
        assert parameter.parse(value) == value
    for value in outside:
        with pytest.raises(BookError):
            parameter.parse(value)


def test_the_rule_in_words_is_the_interval_of_the_comment() -> None:
    assert INT.allowed == "int in [2, 64]"
    assert one("x: float = 1.0  # x, in (0, inf)").allowed == "float in (0, inf)"
    assert FLAG.allowed == "bool"


def test_a_hash_inside_a_string_is_not_the_comment() -> None:
    parameter = one('mark: str = "# not help, in [0, 1]"  # printed before a number')
    assert parameter.default == "# not help, in [0, 1]"
    assert parameter.help == "printed before a number"
    with pytest.raises(BookError, match="no comment"):
        parse_parameters('mark: str = "# no help"')


def test_a_default_over_several_lines_has_its_comment_at_the_end() -> None:
    parameter = one("betas: list[float] = [\n    1.0,\n    2.0,\n]  # temperatures")
    assert parameter.default == [1.0, 2.0]
    assert parameter.help == "temperatures"


def test_an_empty_cell_has_no_parameters() -> None:
    assert parse_parameters("# nothing to change here\n") == ()


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("n: int = 8", "n has no comment"),
        ("n: int = 8  #", "n has no comment"),
        ("n = 8  # tokens", "name: type = value"),
        ("n: int  # tokens", "name: type = value"),
        ("import numpy  # helpful", "name: type = value"),
        ("n: complex = 8  # tokens", "n must have one of the types.*list.*got complex"),
        ("n: list[str] = []  # tokens", "got list"),
        ("n: int = 1  # tokens, in [2, 64]", r"n must be int in \[2, 64\], got 1"),
        ("n: int = 2.5  # tokens", "n must be int, got 2.5"),
        ("k: str = 'c'  # kind, one of a | b", r"k must be str, one of a \| b, got 'c'"),
        ("d: list[int] = [4, 0]  # depths, in [1, 9]", r"d must be .*got \[4, 0\]"),
    ],
)
def test_a_cell_that_breaks_the_rule_is_refused(cell: str, says: str) -> None:
    with pytest.raises(BookError, match=says):
        parse_parameters(cell, "toy.ipynb")


@pytest.mark.parametrize(
    "cell",
    [
        pytest.param("n: int = (2", id="broken syntax"),
        pytest.param("n: int = 2 ** 3  # tokens", id="computed default"),
        pytest.param("n: int = 2  # tokens, in [2, many]", id="interval without numbers"),
        pytest.param("k: str = 'a'  # kind, in [0, 1]", id="interval for text"),
        pytest.param("n: int = 0  # tokens, in [1, 9]", id="default out of range"),
    ],
)
def test_a_refused_cell_names_its_notebook(cell: str) -> None:
    with pytest.raises(BookError, match=r"toy\.ipynb"):
        parse_parameters(cell, "toy.ipynb")


@pytest.mark.parametrize(
    ("parameter", "given", "value"),
    [
        (INT, "6", 6),
        (INT, " 6 ", 6),
        (INT, 6.0, 6),
        (INT, "6.0", 6),
        (INT, "1e1", 10),
        (INT, np.int64(6), 6),
        (INT, np.float64(6.0), 6),
        (FLOAT, "0.5", 0.5),
        (FLOAT, "5e-1", 0.5),
        (FLOAT, 3, 3.0),
        (FLOAT, np.float32(0.5), 0.5),
        (FREE, "-inf", -math.inf),
        (WORD, "softmax", "softmax"),
        (FLAG, True, True),
        (FLAG, np.bool_(True), True),
        (FLAG, "true", True),
        (FLAG, "True", True),
        (FLAG, "1", True),
        (FLAG, "false", False),
        (FLAG, "FALSE", False),
        (FLAG, "0", False),
        (INTS, "[1, 2, 3]", [1, 2, 3]),
        (INTS, (1, 2), [1, 2]),
        (INTS, [np.int64(7)], [7]),
        (INTS, np.array([3, 4]), [3, 4]),
        (FLOATS, "[1, 2.5]", [1.0, 2.5]),
        (FLOATS, np.array([0.5, 1.5]), [0.5, 1.5]),
    ],
    ids=labelled,
)
def test_a_value_is_taken_as_the_declared_type(
    parameter: Parameter, given: Any, value: Any
) -> None:
    out = parameter.parse(given)
    assert out == value
    assert type(out) is type(value)
    if isinstance(out, list):
        assert [type(entry) for entry in out] == [type(entry) for entry in value]


@pytest.mark.parametrize(
    ("parameter", "given"),
    [
        (INT, 6.5),
        (INT, "6.5"),
        (INT, True),
        (INT, np.bool_(True)),
        (INT, "six"),
        (INT, ""),
        (INT, None),
        (INT, 65),
        (INT, math.nan),
        (INT, "inf"),
        (INT, math.inf),
        (INT, np.array([2, 3])),
        (FLOAT, math.nan),
        (FLOAT, "nan"),
        (FLOAT, np.float64("nan")),
        (FLOAT, False),
        (FLOAT, "0"),
        (FLOAT, [1.0]),
        (FREE, "nan"),
        (FREE, None),
        (WORD, "cosine"),
        (WORD, "Softmax"),
        (FLAG, "maybe"),
        (FLAG, 2),
        (FLAG, None),
        (INTS, "1, 2.5"),
        (INTS, "3"),
        (INTS, "[1, 2"),
        (INTS, "[1, 'two']"),
        (INTS, [1, True]),
        (INTS, [1, 101]),
        (INTS, 5),
        (FLOATS, [1.0, math.nan]),
        (FLOATS, np.array([1.0, math.nan])),
    ],
    ids=labelled,
)
def test_a_refusal_names_the_parameter_what_is_allowed_and_the_value(
    parameter: Parameter, given: Any
) -> None:
    plain = given.tolist() if isinstance(given, np.ndarray | np.generic) else given
    with pytest.raises(BookError) as caught:
        parameter.parse(given)
    assert str(caught.value).startswith(f"{parameter.name} must be {parameter.allowed}, got ")
    assert str(caught.value).endswith((repr(plain), repr(given)))


def test_large_whole_numbers_keep_every_digit() -> None:
    seed = one("seed: int = 0  # of the draw")
    assert seed.parse("9007199254740993") == 9007199254740993
    assert seed.parse(2**63 + 1) == 2**63 + 1
