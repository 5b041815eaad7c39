"""What the benchmarks store: what fell is said, what is not measured again is kept, no end of a range is missed."""

import doctest
import importlib.util
import json
import os
from pathlib import Path

import pytest

from attnflow.book.chapters.parameters import parse_parameters
from attnflow.claims import check, control

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def report(monkeypatch, tmp_path):
    """The module, without the core that it would bind this process to."""
    monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    module = loaded("report")
    monkeypatch.setattr(module, "RESULTS", tmp_path / "results")
    return module


def loaded(name):
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", BENCHMARKS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_ratios_that_fell_by_more_than_a_third_are_said(report):
    before = {"peers": [{"n": 10, "ratio POT": 90.0}, {"n": 20, "ratio POT": 90.0}]}
    now = {"peers": [{"n": 20, "ratio POT": 50.0}, {"n": 10, "ratio POT": 61.0}]}
    assert report.fallen(before, now) == ["peers (n = 20): ratio POT 50.0, stored 90.0"]


def test_new_cases_and_seconds_are_not_compared(report):
    before = {"peers": [{"n": 10, "ratio": None, "seconds": 9.0}], "exponents": {"0.1": 1.0}}
    now = {"peers": [{"n": 10, "ratio": 1.0, "seconds": 1.0}, {"n": 30, "ratio": 1.0}]}
    assert report.fallen(before, now | {"exponents": {"0.1": 0.1}}) == []


def test_a_table_is_stored_among_the_others_and_what_fell_is_printed(report, capsys):
    report.store("one", {"a": [{"n": 1, "ratio": 9.0}], "b": [1]})
    report.store("one", {"a": [{"n": 1, "ratio": 1.0}]}, among=True)
    assert "slower than stored: a (n = 1): ratio 1.0, stored 9.0" in capsys.readouterr().out
    kept = json.loads((report.RESULTS / "one.json").read_text("utf-8"))
    assert (kept["a"], kept["b"]) == ([{"n": 1, "ratio": 1.0}], [1])
    report.store("one", {"a": []})
    assert "b" not in json.loads((report.RESULTS / "one.json").read_text("utf-8"))


def test_both_ends_of_every_range_are_run(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    corners = loaded("corners")
    lines = """
n: int = 8  # tokens, in [2, 64]
m: int = 3  # tokens, in (2, 9)
beta: float = 2.0  # scale, in (0, 20]
R: float = 1.0  # radius, in [1, 4)
seed: int = 0  # of all, in [0, inf)
first: int = 1  # of all, in [0, inf)
kind: str = "l2"  # which, one of softmax | l2
quiet: bool = False  # whether
name: str = ""  # of a folder
""".strip()
    ends = {p.name: corners.ends(p) for p in parse_parameters(lines)}
    assert ends.pop("beta") == [pytest.approx(0.02), 20.0]
    assert ends.pop("R") == [pytest.approx(3.997)]
    assert ends == {"n": [2, 64], "m": [8], "seed": [], "first": [0], "kind": ["softmax"],
                    "quiet": [True], "name": []}  # fmt: skip


@pytest.fixture
def surveys(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return loaded("surveys")


def test_a_survey_says_which_runs_were_not_as_they_must(surveys, tmp_path, capsys):
    rows = [check("a.b", predicted=1, measured=m, tol=0.1) for m in (1.05, 1.2)]
    rows.append(check("a.b", predicted=1, measured=9, tol=0.1, hypotheses={"small": False}))
    kept = control("a.b", removes="all", predicted=1, measured=1.05, tol=0.1)
    told = [surveys.Told([surveys.row_of(row)]) for row in rows]
    told += [surveys.Told([], "ValueError: no"), surveys.Told([surveys.row_of(kept)])]
    found = surveys.gathered(told)
    assert found["stopped"] == {"3": "ValueError: no"}
    row, other = found["rows"].values()
    assert (row["used"], row["outside"], row["unsound"]) == ([0.5, 2.0], 1, [1])
    assert other["control"]
    assert other["unsound"] == [4]
    target = tmp_path / "results.json"
    for name in ("late", "early"):
        surveys.write(target, ["early", "late"], name, {"stopped": {}, "rows": {"x": row}})
    assert list(json.loads(target.read_text("utf-8"))) == ["early", "late"]
    assert "late: 1 rows, 1 not as they must, 0 runs stopped" in capsys.readouterr().out


def test_a_bound_that_is_missed_with_another_sign_is_a_number_too(surveys):
    """It has no slack at all: whatever grows, nothing comes nearer."""
    row = check("a.b", predicted=0.5, measured=-0.25, relation=">=", tol=0.1)
    assert row.slack == 0
    kept = surveys.row_of(row)
    assert (kept.used, kept.sound) == (surveys.MOST, False)


def test_places_are_remembered_and_a_line_that_was_cut_short_is_not(surveys, tmp_path):
    path = tmp_path / "journal.jsonl"
    row = surveys.row_of(check("a.b", predicted=1, measured=1.05, tol=0.1))
    surveys.Journal(path).add({"seed": 1}, surveys.Told([row]))
    surveys.Journal(path).add({"seed": 2}, surveys.Told([], "ValueError: no"))
    with path.open("a") as lines:
        lines.write('[{"seed": 3}, [')
    again = surveys.Journal(path)
    assert [{"seed": k} in again for k in (1, 2, 3)] == [True, True, False]
    assert again[{"seed": 1}].rows == [row]


def test_runs_are_alike_but_for_rounding(surveys):
    one, near, far, fails = (
        surveys.row_of(check("a.b", predicted=1, measured=m, tol=0.1))
        for m in (1.05, 1.051, 1.06, 1.2)
    )
    assert surveys.alike(one, near)
    assert not surveys.alike(one, far)
    assert not surveys.alike(one, fails)
    assert not surveys.alike(one, one._replace(sound=False))
    gone = one._replace(used=None)
    assert surveys.alike(gone, gone)
    assert not surveys.alike(one, gone)


def test_the_example_of_sharing_says_what_it_says():
    assert doctest.testmod(loaded("sharing")).failed == 0


CHAPTER = """
import numpy as np
from attnflow.claims import check
scale = 2.0
def double(x):
    return scale * x
rng = np.random.default_rng(7)
first = rng.normal()
check("a.once", predicted=4, measured=double(2.0), tol=0.1)
check("a.drawn", predicted=0, measured=a * rng.normal(), tol=0.1)
values = [1.0]
values.append(a)
scale = a
check("a.late", predicted=0, measured=double(sum(values)), tol=0.1)
"""


def test_only_what_depends_on_a_parameter_runs_again_and_rows_are_the_same(surveys):
    def play(a):
        source = type("Source", (), {"cells": [cell(f"a = {a}", "parameters"), cell(CHAPTER)]})
        return surveys.Play(type("Prepared", (), {"source": source}))

    known = surveys.comparing._compare
    try:
        one, two = play(1.0), play(3.0)
    finally:
        surveys.comparing._compare = known
    again, _ = surveys.changed(one.statements, ["a"], one.space)
    ran = {one.statements[k].lineno for k in again}
    assert {2, 3, 4, 5, 9}.isdisjoint(ran)  # imports, the first scale, its reader, the first check
    assert [r for rows in one.rows for r in rows] != [r for rows in two.rows for r in rows]
    surveys.comparing._compare = known
    one._listen()
    try:
        assert one.at({"a": 3.0}) == [r for rows in two.rows for r in rows]
    finally:
        surveys.comparing._compare = known


def cell(source, *tags):
    return type("Cell", (), {"source": source, "cell_type": "code", "metadata": {"tags": tags}})
