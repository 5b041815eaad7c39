"""Verdicts: relations, intervals, hypotheses, controls, slack."""

import pytest
from drawn_numbers import INF, NAN, finite
from hypothesis import given
from hypothesis import strategies as st
from tolerances import SIX_DIGITS

from attnflow import claims
from attnflow.claims import (
    FAILS,
    HOLDS,
    OUTSIDE,
    UNDECIDED,
    check,
    control,
    from_json,
)


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
