"""The benchmarks' report: what fell is said, what is not measured again is kept."""

import importlib.util
import json
import os
from pathlib import Path

import pytest


@pytest.fixture
def report(monkeypatch, tmp_path):
    """The module, without the core that it would bind this process to."""
    monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    path = Path(__file__).parents[1] / "benchmarks" / "report.py"
    spec = importlib.util.spec_from_file_location("benchmarks_report", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "RESULTS", tmp_path / "results")
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
