"""What many runs of a chapter used of its tolerances, as lines of dots."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest

from attnflow.book.chapters.project import find_project
from attnflow.book.pages.surveyed import HIGHEST, LOWEST, Line, drawing, lines

RESULTS = find_project().root / "benchmarks" / "results"
#: One check in two runs.
ROW = {
    "claim": "a.b",
    "case": "",
    "control": False,
    "used": [0.1, 0.5],
    "outside": 0,
    "unsound": [],
}


def test_a_claim_is_as_near_as_the_worst_of_its_checks() -> None:
    other = ROW | {"used": [0.4, 0.2]}
    assert lines({"one": ROW, "two": other}) == [Line("a.b", (0.4, 0.5), 0, 0)]


def test_a_control_adds_no_dot_but_its_failure_counts() -> None:
    control = ROW | {"control": True, "used": [7.0, 0.2], "unsound": [1]}
    assert lines({"one": ROW, "two": control}) == [Line("a.b", (0.1, 0.5), 0, 1)]


def test_rows_that_stood_outside_in_some_runs_keep_their_dots() -> None:
    short = ROW | {"used": [0.9], "outside": 1}
    assert lines({"one": ROW, "two": short}) == [Line("a.b", (0.1, 0.5, 0.9), 1, 0)]


def test_what_is_not_a_number_is_no_dot() -> None:
    assert lines({"one": ROW | {"used": [None, 0.5]}})[0].used == (0.5,)


def dots(text: str) -> list[tuple[str, float]]:
    found = re.findall(r'class="([bd])" cx="([\d.]+)"', text)
    return [(kind, float(x)) for kind, x in found]


def test_dots_beyond_the_tolerance_are_of_another_kind_and_extremes_stay_in_the_picture() -> None:
    found = dots(drawing([Line("a.b", (0.0, 0.3, 1.0, 1.2, 1e9), 0, 2)], 5))
    assert [kind for kind, _ in found] == ["d", "d", "d", "b", "b"]
    low, high = (dots(drawing([Line("a.b", (end,), 0, 0)], 1))[0][1] for end in (LOWEST, HIGHEST))
    assert found[0][1] == low
    assert found[-1][1] == high


def test_the_picture_says_what_holds_and_what_fails() -> None:
    text = drawing([Line("a.b", (0.3,), 0, 0), Line("a.c", (2.0,), 0, 1)], 4)
    ElementTree.fromstring(text)
    assert "a.b: holds in all; a.c: fails in 1 of 4" in text


@pytest.mark.parametrize("name", ["seeds.json", "corners.json"])
def test_every_stored_survey_is_drawn_and_knows_the_claims_of_the_book(name: str) -> None:
    project = find_project()
    claims, chapters = project.claims(), project.chapters()
    for chapter, measured in json.loads((RESULTS / name).read_text("utf-8")).items():
        assert chapter in chapters
        assert {line.claim for line in lines(measured["rows"])} <= set(claims)
