"""Whatever a public function is given: an answer, or a sentence that says what it takes."""

from __future__ import annotations

import traceback
import warnings
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from surface import CALLS, Call

import attnflow
from attnflow import validate
from attnflow.errors import Trouble

PACKAGE = str(Path(attnflow.__file__).parent)
#: Numbers that break careless code. Those between 1e4 and 1e100 make honest work that takes long.
NUMBERS = [
    np.nan, np.inf, -np.inf, 0.0, -0.0, -1.0, -1e-9, 5e-324, 1e-320, 1e-200, 1e-9, 0.3, 2.5,
    1e150, -1e155, 1e200, 1e308, -1e308, 0, -1, 10**18, 2**63, 10**400, 10**5000, True, 1j,
    np.float32(0.5), np.int8(-3), np.longdouble("1e4000"), Decimal("NaN"), Fraction(1, 3),
]  # fmt: skip
THINGS = [
    None, "", "abc", "２４", "\ud800", "\0", "é" * 5000, "nan", b"x", [], [[]], {}, {"a": 1}, {1, 2},
    (1,), ..., type, object(), len, iter([1.0]), range(3), np.array([]), np.zeros((0, 2)),
    np.zeros((2, 0)), np.array(None), np.array(["a"]), np.ma.masked, np.datetime64("NaT", "s"),
    [1.0, [2.0]], [None], ["a", "b"], np.zeros((1, 1, 1, 1)), np.timedelta64(1, "s"),
]  # fmt: skip
BY_NAME = {f"{call.name} {argument}": (call, argument) for call in CALLS for argument in call.good}


class Accepted(Exception):
    """The arguments of something expensive were accepted."""


def spoiled(good: np.ndarray) -> st.SearchStrategy[Any]:
    """A good array made bad: an entry, the scale, the shape, the type."""
    entry = st.tuples(st.integers(0, good.size - 1), st.sampled_from(NUMBERS[:18])).map(
        lambda at: np.where(np.arange(good.size).reshape(good.shape) == at[0], at[1], good)
    )
    scaled = st.sampled_from([0.0, -1.0, 1e-320, 1e-300, 1e-160, 1e160, 1e300]).map(
        lambda factor: np.nan_to_num(good * factor)
    )
    shaped = st.sampled_from(
        [good[:0], good[:1], good[..., :-1], good[None], good.ravel(), good[::-1], good[..., None]]
    )
    typed = st.sampled_from(
        [complex, object, str, bool, np.float32, np.float16, np.int8, "datetime64[s]"]
    ).map(lambda kind: good.astype(kind))
    masked = st.just(np.ma.masked_array(good, mask=np.arange(good.size).reshape(good.shape) == 0))
    return st.one_of(entry, scaled, shaped, typed, masked)


@st.composite
def bad_calls(draw: st.DrawFn) -> tuple[Call, str, Any]:
    """A call, one of its arguments, and what to put there."""
    call, argument = BY_NAME[draw(st.sampled_from(sorted(BY_NAME)))]
    good = call.good[argument]
    kinds = [
        st.sampled_from(NUMBERS),
        st.sampled_from(THINGS),
        st.text(max_size=20),
        st.floats(width=16) | st.integers(-3, 40),
        hnp.arrays(np.float64, hnp.array_shapes(max_dims=3, max_side=5), elements=st.floats(-9, 9)),
    ]
    is_numbers = isinstance(good, np.ndarray) or (
        isinstance(good, list) and isinstance(good[0], float)
    )
    if is_numbers:
        kinds += 3 * [spoiled(np.asarray(good, dtype=np.float64))]
    return call, argument, draw(st.one_of(kinds))


def numbers_in(answer: Any) -> list[np.ndarray]:
    parts = answer if isinstance(answer, tuple) else (answer,)
    return [np.asarray(p) for p in parts if isinstance(p, float | np.ndarray | np.floating)]


def assert_a_sentence(error: Exception, what: str) -> None:
    """Raised by the package itself, not below it, in words that state a rule."""
    raised = traceback.extract_tb(error.__traceback__)[-1]
    assert raised.filename.startswith(PACKAGE), f"{what}: {type(error).__name__} from {raised}"
    assert len(str(error)) <= 400, f"{what}: a message of {len(str(error))} characters"
    assert len(str(error).split()) >= 4, f"{what}: {error}"


def answer_or_none(call: Call, argument: str, value: Any, what: str) -> Any:
    """What the function answers, or None where it refuses in a sentence; nothing else passes."""
    try:
        return call.function(**{**call.good, argument: value})
    except Accepted:
        return None
    except (ValueError, TypeError, ArithmeticError) as error:
        if isinstance(error, ArithmeticError) and not isinstance(error, Trouble):
            raise  # OverflowError and its like; ours is a flow that ends early
        assert_a_sentence(error, what)
        return None


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Phase diagrams are not compiled: what they accept is answered elsewhere."""

    def accept() -> None:
        raise Accepted

    monkeypatch.setattr("attnflow.sphere.phase._compiled", accept)


def test_the_calls_that_are_spoiled_are_good_ones() -> None:
    for call in CALLS:
        try:
            answer = call.function(**call.good)
        except Accepted:
            continue
        assert not any(np.isnan(part).any() for part in numbers_in(answer) if call.name != "limit")


@settings(
    max_examples=1200, deadline=timedelta(seconds=10), derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(bad_calls())
@example((BY_NAME["uniform_error T"][0], "T", 1e9))
@example((BY_NAME["sphere.flow times"][0], "times", [0.0, 1e300]))
@example((BY_NAME["density.sample n"][0], "n", 10**15))
@example((BY_NAME["adversarial n"][0], "n", 10**12))
@example((BY_NAME["covariance_flow.softmax V"][0], "V", [[-1.0, 1e150], [0.0, -1.0]]))
@example((BY_NAME["phase_diagram realisations"][0], "realisations", 2**62))
def test_a_bad_input_is_answered_or_refused_in_a_sentence(bad: tuple[Call, str, Any]) -> None:
    call, argument, value = bad
    what = f"{call.name}({argument}={type(value).__name__} {validate.said(value)})"
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        answer = answer_or_none(call, argument, value, what)
    strange = [w for w in said if not w.category.__module__.startswith("attnflow")]
    ours = [w for w in strange if w.filename == __file__]  # warned by the package of this call
    assert strange == ours, f"{what}: {strange[0].message} at {strange[0].filename}"
    if call.name not in ("limit", "check", "control"):  # where NaN is an answer
        assert not any(np.isnan(part).any() for part in numbers_in(answer)), what
