import json
import math
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tolerances import SIX_DIGITS

from attnflow import claims
from attnflow.book.chapters.project import find_project
from attnflow.claims import (
    FAILS,
    HOLDS,
    OUTSIDE,
    UNDECIDED,
    check,
    control,
    from_json,
    ledger,
    read_claims,
    rounded,
)

NAN, INF = math.nan, math.inf
finite = st.floats(-1e6, 1e6, allow_nan=False)


@pytest.mark.parametrize(
    ("relation", "measured", "verdict"),
    [
        ("==", 1.0, HOLDS),
        ("==", 1.09, HOLDS),
        ("==", 0.91, HOLDS),
        ("==", 1.11, FAILS),
        ("==", 0.89, FAILS),
        ("<=", -5.0, HOLDS),
        ("<=", 1.09, HOLDS),
        ("<=", 1.11, FAILS),
        (">=", 5.0, HOLDS),
        (">=", 0.91, HOLDS),
        (">=", 0.89, FAILS),
    ],
)
def test_the_verdict_is_the_relation_up_to_the_tolerance(relation, measured, verdict):
    row = check("c", predicted=1.0, measured=measured, tol=0.1, relation=relation)
    assert row.verdict == verdict
    assert row.sound is (verdict == HOLDS)


def test_a_bound_may_have_no_tolerance():
    assert check("c", predicted=1.0, measured=1.0, relation="<=").verdict == HOLDS
    assert check("c", predicted=1.0, measured=1.0 + 1e-9, relation="<=").verdict == FAILS


@pytest.mark.parametrize("relation", claims.RELATIONS)
@pytest.mark.parametrize("predicted", [0.0, INF, -INF, NAN])
def test_a_measurement_that_is_not_a_number_never_holds(relation, predicted):
    row = check("c", predicted=predicted, measured=NAN, tol=0.1, relation=relation)
    assert row.verdict == FAILS
    assert not row.sound


@pytest.mark.parametrize("relation", claims.RELATIONS)
@pytest.mark.parametrize("interval", [(NAN, 1.0), (1.0, NAN), (NAN, NAN)])
def test_an_interval_with_an_end_that_is_not_a_number_never_holds(relation, interval):
    row = check("c", predicted=1.0, measured=1.0, tol=0.1, relation=relation, interval=interval)
    assert row.verdict == FAILS


@pytest.mark.parametrize("relation", claims.RELATIONS)
def test_a_prediction_that_is_not_a_number_never_holds(relation):
    row = check("c", predicted=NAN, measured=1.0, tol=0.1, relation=relation)
    assert row.verdict == FAILS


@pytest.mark.parametrize(
    ("relation", "interval", "verdict"),
    [
        ("==", (0.95, 1.05), HOLDS),
        ("==", (0.85, 1.05), FAILS),
        ("==", (0.95, 1.15), FAILS),
        ("==", (0.5, 1.5), FAILS),
        ("<=", (-9.0, 1.05), HOLDS),
        ("<=", (-9.0, 1.15), FAILS),
        (">=", (0.95, 9.0), HOLDS),
        (">=", (0.85, 9.0), FAILS),
    ],
)
def test_all_of_an_interval_must_lie_within_the_tolerance(relation, interval, verdict):
    row = check("c", predicted=1.0, measured=1.0, tol=0.1, relation=relation, interval=interval)
    assert row.verdict == verdict


@pytest.mark.parametrize("relation", claims.RELATIONS)
@pytest.mark.parametrize("measured", [NAN, 7.0, -7.0])
def test_an_interval_does_not_excuse_the_measured_value(relation, measured):
    good = {"<=": measured <= 1.1, ">=": measured >= 0.9, "==": False}[relation]
    row = check(
        "c", predicted=1.0, measured=measured, tol=0.1, relation=relation, interval=(1.0, 1.0)
    )
    assert row.verdict == (HOLDS if good else FAILS)


@pytest.mark.parametrize("measured", [1.0, 7.0, NAN])
def test_a_hypothesis_that_is_not_met_makes_no_verdict(measured):
    row = check(
        "c", predicted=1.0, measured=measured, tol=0.1, hypotheses={"n >= 2": False, "d = 1": True}
    )
    assert row.verdict == OUTSIDE == "outside hypotheses"
    assert row.missing == ("n >= 2",)
    assert row.sound
    assert "n >= 2" in repr(row)
    assert "d = 1" not in repr(row)


def test_hypotheses_that_are_met_leave_the_verdict():
    for measured, verdict in ((1.0, HOLDS), (2.0, FAILS)):
        row = check("c", predicted=1.0, measured=measured, tol=0.1, hypotheses={"n >= 2": True})
        assert row.verdict == verdict
        assert row.missing == ()


def test_an_equality_without_a_tolerance_is_refused():
    with pytest.raises(ValueError, match="an equality needs a tolerance tol > 0, got 0"):
        check("c", predicted=1.0, measured=1.0)
    with pytest.raises(ValueError, match="an equality needs a tolerance tol > 0, got 0"):
        control("c", removes="all", predicted=1.0, measured=1.0)


@pytest.mark.parametrize("tol", [-0.1, NAN, INF])
def test_a_tolerance_that_is_not_a_size_is_refused(tol):
    with pytest.raises(ValueError, match=f"tol must be a finite number >= 0, got {tol}"):
        check("c", predicted=1.0, measured=1.0, tol=tol)


def test_an_unknown_relation_is_refused():
    with pytest.raises(ValueError, match="relation must be one of ==, <=, >=, got '<'"):
        check("c", predicted=1.0, measured=1.0, tol=0.1, relation="<")


def test_a_control_is_sound_only_where_it_does_not_hold():
    arguments = {"removes": "symmetry", "predicted": 1.0, "tol": 0.1}
    holds = control("c", measured=1.0, **arguments)
    fails = control("c", measured=2.0, **arguments)
    outside = control("c", measured=1.0, hypotheses={"n": False}, **arguments)
    assert (holds.verdict, holds.sound) == (HOLDS, False)
    assert (fails.verdict, fails.sound) == (FAILS, True)
    assert (outside.verdict, outside.sound) == (OUTSIDE, True)
    assert holds.is_control
    assert not check("c", predicted=1.0, measured=1.0, tol=0.1).is_control
    assert "symmetry" in repr(fails)


@pytest.mark.parametrize(
    ("relation", "interval", "verdict"),
    [
        ("==", (1.2, 1.4), FAILS),
        ("==", (0.6, 0.8), FAILS),
        ("==", (1.05, 1.5), UNDECIDED),
        ("==", (-9.0, 9.0), UNDECIDED),  # both ends outside, the prediction within
        ("==", (0.95, 1.05), HOLDS),
        ("==", (1.2, NAN), UNDECIDED),
        ("<=", (1.2, 1.4), FAILS),
        ("<=", (1.05, 1.4), UNDECIDED),
        (">=", (0.6, 0.8), FAILS),
        (">=", (0.6, 0.95), UNDECIDED),
    ],
)
def test_a_control_fails_only_with_its_whole_interval(relation, interval, verdict):
    row = control(
        "c", removes="x", predicted=1.0, measured=sum(interval) / 2, tol=0.1,
        relation=relation, interval=interval,
    )  # fmt: skip
    assert row.verdict == verdict
    assert row.sound is (verdict == FAILS)


def test_a_control_that_measured_nothing_is_undecided():
    row = control("c", removes="x", predicted=1.0, measured=NAN, tol=0.1)
    assert (row.verdict, row.sound) == (UNDECIDED, False)


@pytest.mark.parametrize(
    ("relation", "predicted", "tol", "measured", "slack"),
    [
        ("==", 1.0, 0.1, 1.05, 2.0),
        ("==", 1.0, 0.1, 1.0, INF),
        ("<=", 6.0, 0.0, 3.0, 2.0),
        ("<=", 1.0, 0.5, 0.5, 3.0),
        ("<=", 0.0, 0.1, 0.05, 2.0),
        ("<=", 0.0, 0.0, -1.0, INF),
        ("<=", -1.0, 0.0, -2.0, 2.0),
        (">=", 2.0, 0.0, 6.0, 3.0),
        (">=", -0.1, 0.0, 1.0, INF),
        (">=", -2.0, 0.0, -1.0, 2.0),
    ],
)
def test_slack_is_how_many_times_the_error_may_grow(relation, predicted, tol, measured, slack):
    row = check("c", predicted=predicted, measured=measured, tol=tol, relation=relation)
    assert row.slack == pytest.approx(slack)


@given(
    st.sampled_from(claims.RELATIONS), finite, finite, st.floats(1e-3, 1e3), st.floats(0, 10)
)  # fmt: skip
def test_slack_is_above_one_where_a_check_holds_and_below_where_it_fails(
    relation, predicted, measured, tol, half
):
    span = (measured - half, measured + half)
    row = check(
        "c", predicted=predicted, measured=measured, tol=tol, relation=relation, interval=span
    )
    assert row.slack >= 1 - SIX_DIGITS if row.verdict == HOLDS else row.slack <= 1 + SIX_DIGITS
    bad = control(
        "c", removes="x", predicted=predicted, measured=measured, tol=tol, relation=relation,
        interval=span,
    )  # fmt: skip
    assert (bad.distance > 1) is (bad.verdict == FAILS)


def test_a_check_with_much_slack_is_loose_unless_its_tolerance_is_rounding():
    wide = check("c", predicted=1.0, measured=1.001, tol=0.1)
    assert wide.is_loose
    assert not check("c", predicted=1.0, measured=1.001, tol=0.005).is_loose
    assert not check("c", predicted=1.0, measured=1.0, tol=1e-10).is_loose
    assert check("c", predicted=1.0, measured=0.01, relation="<=").is_loose
    assert not control("c", removes="x", predicted=1.0, measured=2.0, tol=0.1).is_loose
    said = check("c", predicted=1.0, measured=1.001, tol=0.1, loose="the bound is of another order")
    assert said.loose == from_json(said.exact()).loose == "the bound is of another order"
    with pytest.raises(TypeError, match="loose must be text, got 3"):
        check("c", predicted=1.0, measured=1.0, tol=0.1, loose=3)


def test_a_control_must_say_what_it_removes():
    with pytest.raises(ValueError, match=r"removes must say which hypothesis .*, got ''"):
        control("c", removes="", predicted=1.0, measured=2.0, tol=0.1)


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


# the ledger


def run(name, verdict, **more):
    return check(
        name,
        predicted=1.0,
        measured=2.0 if verdict == FAILS else 1.0,
        tol=0.1,
        hypotheses={"h": verdict != OUTSIDE},
        **more,
    )


@pytest.mark.parametrize(
    ("verdicts", "worst"),
    [
        ([HOLDS], HOLDS),
        ([HOLDS, HOLDS], HOLDS),
        ([HOLDS, OUTSIDE], OUTSIDE),
        ([OUTSIDE, HOLDS, FAILS], FAILS),
        ([FAILS, HOLDS], FAILS),
    ],
)
def test_the_ledger_takes_the_worst_verdict(verdicts, worst):
    (entry,) = ledger([run("c", v, case=str(i)) for i, v in enumerate(verdicts)])
    assert entry.verdict == worst
    assert [row.verdict for row in entry.checks] == verdicts


def test_controls_do_not_change_the_verdict_of_their_claim():
    failing = control("c", removes="h", predicted=1.0, measured=2.0, tol=0.1)
    (entry,) = ledger([failing, run("c", HOLDS)])
    assert entry.verdict == HOLDS
    assert entry.controls == (failing,)
    assert len(entry.checks) == 1


def test_the_ledger_lists_the_claims_in_order_and_those_that_never_ran():
    entries = ledger([run("b", HOLDS), run("x", FAILS), run("a", HOLDS)], claims=["a", "b", "c"])
    assert [(e.id, e.verdict) for e in entries] == [
        ("a", HOLDS),
        ("b", HOLDS),
        ("c", ""),
        ("x", FAILS),
    ]
    assert [e.id for e in ledger([run("b", HOLDS), run("a", HOLDS)])] == ["b", "a"]
    assert ledger([]) == []


# claims.yml

GOOD = "- {id: a.b, chapter: a, kind: rate, source: 'someone'}\n"


def test_claims_are_read_by_id_with_all_that_they_say(tmp_path):
    path = tmp_path / "claims.yml"
    path.write_text(GOOD + "- {id: a.c, chapter: a, kind: bound}\n", encoding="utf-8")
    found = read_claims(path)
    assert list(found) == ["a.b", "a.c"]
    assert found["a.b"] == {"id": "a.b", "chapter": "a", "kind": "rate", "source": "someone"}
    assert read_claims(str(path)) == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.b", "claims must be a list of rows, got 'a.b'"),
        ("- a.b", r"claims must be a list of rows, got \['a.b'\]"),
        ("", "claims must be a list of rows, got None"),
        ("- {id: a.b, chapter: a}", "a claim must have id, chapter, kind, got {'id': 'a.b'"),
        ("- {id: '', chapter: a, kind: rate}", "a claim must have id, chapter, kind, got "),
        ("- {id: a.b, chapter: a, kind: guess}", "kind of a.b must be one of .*, got 'guess'"),
        ("- {id: a.b, chapter: a, kind: rate, source: 3}", "source of a.b must be text, got 3"),
        (GOOD + GOOD, "a claim must be listed once, got a.b twice"),
    ],
)
def test_what_is_no_list_of_claims_is_refused(tmp_path, text, message):
    path = tmp_path / "claims.yml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_claims(path)


def test_the_claims_of_the_book_are_read():
    book = find_project()
    assert read_claims(book.book / "claims.yml") == book.claims()
