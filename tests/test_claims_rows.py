"""A row as JSON and as it is shown."""

import json
from html.parser import HTMLParser

import pytest
from drawn_numbers import INF, NAN, finite
from hypothesis import given, settings
from hypothesis import strategies as st
from tolerances import SIX_DIGITS

from attnflow import claims
from attnflow.claims import (
    HOLDS,
    OUTSIDE,
    check,
    control,
    from_json,
    rounded,
)

# JSON


def same(a, b):
    return a == b or (a != a and b != b)


@st.composite
def rows(draw):
    number = finite | st.sampled_from([NAN, INF, -INF])
    text = st.text(max_size=8)
    arguments = {
        "predicted": draw(number),
        "measured": draw(number),
        "tol": draw(st.floats(1e-12, 10.0)),
        "relation": draw(st.sampled_from(claims.RELATIONS)),
        "case": draw(text),
        "interval": draw(st.none() | st.tuples(finite, finite)),
        "hypotheses": draw(st.dictionaries(text, st.booleans(), max_size=3)),
    }
    removes = draw(text)
    name = draw(st.text(min_size=1, max_size=8))
    return control(name, removes=removes, **arguments) if removes else check(name, **arguments)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(rows())
def test_a_row_comes_back_from_json_unchanged(row):
    text = json.dumps(row.exact(), allow_nan=False)
    back = from_json(json.loads(text))
    assert type(back) is claims.Check
    assert all(same(a, b) for a, b in zip(row, back, strict=True))
    assert repr(back) == repr(row)


@pytest.mark.parametrize("interval", [(-INF, INF), (NAN, NAN), (0.0, INF)])
def test_a_row_with_an_unbounded_interval_comes_back_from_json_unchanged(interval):
    row = check("c", predicted=1.0, measured=1.0, tol=0.1, interval=interval)
    back = from_json(json.loads(json.dumps(row.exact(), allow_nan=False)))
    assert all(same(a, b) for a, b in zip(row.interval, back.interval, strict=True))
    assert back.verdict == row.verdict


def test_numbers_keep_every_digit_in_the_exact_fields():
    row = check("c", predicted=1 / 3, measured=0.1 + 0.2, tol=0.5)
    back = from_json(json.loads(json.dumps(row.exact())))
    assert back.predicted == 1 / 3
    assert back.measured == 0.1 + 0.2


# what is shown


class Text(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.text = [], ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.text += data


def parsed(html):
    reader = Text()
    reader.feed(html)
    reader.close()
    return reader


def test_the_bundle_has_text_html_and_json_with_the_exact_fields_as_metadata():
    row = check("a.b", predicted=0.5, measured=0.5004, tol=1e-3, case="n = 4")
    data, metadata = row._repr_mimebundle_()
    assert set(data) == {"text/plain", "text/html", claims.MIME}
    assert data["text/plain"] == repr(row)
    assert data[claims.MIME]["id"] == "a.b"
    assert data[claims.MIME]["case"] == "n = 4"
    assert data[claims.MIME]["control"] is False
    assert data[claims.MIME]["verdict"] == HOLDS
    assert from_json(json.loads(json.dumps(metadata[claims.MIME]))) == row
    json.dumps(data, allow_nan=False)


def test_the_html_shows_what_the_text_shows_and_escapes_it():
    evil = '<script>alert("&")</script>'
    row = control(
        evil, removes=evil, predicted=1.0, measured=1.0, tol=0.1, case=evil, hypotheses={evil: 0}
    )
    data, _ = row._repr_mimebundle_()
    html = parsed(data["text/html"])
    assert "script" not in html.tags
    assert html.text.count(evil) == 4  # claim, case, what is removed, missing hypothesis
    assert OUTSIDE in html.text
    assert '"&"' not in data["text/html"]


@pytest.mark.parametrize("measured", [1.0, 2.0, NAN])
def test_the_verdict_is_in_the_text_and_in_the_html(measured):
    row = check("c", predicted=1.0, measured=measured, tol=0.1)
    data, _ = row._repr_mimebundle_()
    assert row.verdict in data["text/plain"]
    assert row.verdict in parsed(data["text/html"]).text


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    steps=st.integers(-50_000, 50_000),
    places=st.integers(1, 8),
    first=st.integers(1, 9),
    relation=st.sampled_from(claims.RELATIONS),
    sign=st.sampled_from([-1, 1]),
)
def test_values_that_another_processor_rounds_differently_show_the_same(
    steps, places, first, relation, sign
):
    """Values at the middle of a step of what is shown, moved by 1e-13 of themselves."""
    tol, value = first * 10.0**-places, steps * 10.0 ** -(places + 1)
    moved = value * (1 + sign * 1e-13) + sign * 1e-17

    def shown(measured):
        ends = (measured, measured)
        row = check("c", predicted=0.0, measured=measured, tol=tol, relation="<=", interval=ends)
        return {**row.shown(), "verdict": ""}, relation

    assert shown(moved) == shown(value)


def test_signed_zeros_and_rounding_noise_are_shown_as_zero():
    assert {rounded(v, 1e-10) for v in (0.0, -0.0, 3e-16, -3e-16)} == {"0"}


def test_bounds_without_tolerance_show_the_same_digits_whatever_the_last_bits():
    value = 0.12341234
    text = rounded(value, 0)
    assert text == rounded(value * (1 + 1e-13), 0) == rounded(value * (1 - 1e-13), 0)
    assert abs(float(text) - value) <= SIX_DIGITS * value


@settings(max_examples=100, deadline=None, derandomize=True)
@given(value=finite, places=st.integers(-3, 9), first=st.integers(1, 9))
def test_what_is_shown_is_within_a_twentieth_of_the_tolerance_or_six_digits(value, places, first):
    """A tenth of the first digit of tol is the step, and rounding errs by half a step."""
    tol = first * 10.0**-places
    half_step = 10.0 ** -(places + 1) / 2
    error = abs(float(rounded(value, tol)) - value)
    assert error <= half_step * (1 + SIX_DIGITS) + SIX_DIGITS * abs(value)


@pytest.mark.parametrize(
    ("value", "tol", "text"),
    [
        (0.333341, 0.02, "0.333"),
        (1234.0, 500.0, "1230"),
        (100.0, 20.0, "100"),
        (2.5004, 1e-2, "2.5"),
        (NAN, 0.1, "nan"),
        (INF, 0.1, "inf"),
        (-INF, 0.0, "-inf"),
    ],
)
def test_rounding_examples(value, tol, text):
    assert rounded(value, tol) == text
