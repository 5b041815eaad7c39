"""The tool of mutation testing: what it changes, whom it asks, how it counts."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from mutants import covering
from mutants.covering import Cover, mathematical_tests
from mutants.drawing import ROOT, modules, noticeable
from mutants.trying import KILLED, SURVIVED, plan

CHILD = """
import json, sys
from mutants import drawing, trying

class Changed(drawing.Mutant):
    def source(self):
        text = (drawing.ROOT / self.path).read_text()
        assert text.count(OLD) == 1, text.count(OLD)
        return text.replace(OLD, NEW)

OLD, NEW, tests, chapters = json.loads(sys.argv[1])
mutant = Changed("src/attnflow/rotation.py", "by hand", 0, 1)
print(json.dumps(trying.attempt(mutant, tests, chapters, 1.0)))
"""


def attempt(old: str, new: str, tests: list[str]) -> tuple[str, str]:
    paths = os.pathsep.join(str(ROOT / part) for part in ("src", "tests"))
    said = subprocess.run(
        [sys.executable, "-c", CHILD, json.dumps([old, new, tests, []])],
        env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    verdict, by, _ = json.loads(said.stdout)
    return verdict, by


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("Turn(self.cos, -self.sin)", "Turn(self.cos, +self.sin)", (KILLED, "unit")),
        ("Turn(self.cos, -self.sin)", "Turn(self.cos, -1 * self.sin)", (SURVIVED, "")),
    ],
)
def test_a_changed_sign_is_noticed_and_an_equal_formula_is_not(old, new, expected):
    assert attempt(old, new, ["tests/test_rotation.py"]) == expected


def test_trying_a_mutant_leaves_the_file_alone():
    path = ROOT / "src" / "attnflow" / "rotation.py"
    before = path.read_bytes()
    attempt("Turn(self.cos, -self.sin)", "Turn(self.sin, -self.sin)", ["tests/test_rotation.py"])
    assert path.read_bytes() == before


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Three modules: plain, compiled, and one that calls what is compiled."""
    files = {
        "plain.py": "import numpy\nLARGE = 3\n\ndef f(x):\n    x = x + LARGE\n    return x\n",
        "compiled.py": "from numba import njit\n\n@njit\ndef g(x):\n    return x + 1\n",
        "calls.py": "from attnflow.compiled import g\n\ndef h(x):\n    return g(x)\n",
    }
    (tmp_path / "src" / "attnflow").mkdir(parents=True)
    for name, text in files.items():
        (tmp_path / "src" / "attnflow" / name).write_text(text, "utf-8")
    monkeypatch.setattr(covering, "ROOT", tmp_path)
    monkeypatch.setattr(covering, "PACKAGE", tmp_path / "src" / "attnflow")
    remembered = (covering._text, covering.run_by_callers, covering.importers)
    for each in remembered:
        each.cache_clear()
    yield
    for each in remembered:
        each.cache_clear()


@pytest.mark.usefixtures("package")
def test_who_executes_a_line_is_asked_quickest_first_and_for_constants_whoever_uses_the_module():
    path = "src/attnflow/plain.py"
    lines = {path: {"2": ["first"], "5": ["slow", "quick", "chapter:one"], "6": ["middle"]}}
    seconds = {"slow": 9.0, "quick": 0.1, "middle": 1.0, "chapter:one": 20.0}
    cover = Cover(lines, seconds)
    assert cover.quickest(path, 5, chapters=False) == ["quick", "slow"]
    assert cover.quickest(path, 5, chapters=True) == ["chapter:one"]
    assert cover.quickest(path, 2, chapters=False) == ["quick", "middle", "slow"]
    assert Cover({}, seconds).quickest(path, 5, chapters=False) == []


@pytest.mark.usefixtures("package")
def test_of_compiled_lines_whoever_runs_a_module_that_calls_them_is_asked():
    cover = Cover({"src/attnflow/calls.py": {"1": ["imports"], "4": ["runs"]}}, {})
    assert cover.quickest("src/attnflow/compiled.py", 5, chapters=False) == ["runs"]
    assert cover.quickest("src/attnflow/plain.py", 5, chapters=False) == []


def test_a_budget_is_kept_but_for_the_first_test():
    seconds = {"a": 1.0, "b": 2.0, "c": 50.0}
    assert plan(["a", "b", "c"], seconds, budget=10.0) == ["a", "b"]
    assert plan(["c"], seconds, budget=10.0) == ["c"]


@pytest.mark.parametrize(
    ("before", "after", "can"),
    [
        ("LARGE = 1e10", "LARGE = 10000000001.0", False),
        ("a = x[0]", "a = x[ 1]", True),
        ("tol = 1e-9", "tol = 1.000000001", True),
        ("a + b", "a - b", True),
    ],
)
def test_a_number_changed_in_its_last_digits_is_no_mutant(before, after, can):
    assert noticeable(before, after) is can


def test_the_mathematics_is_drawn_from_and_the_machinery_is_not():
    found = {str(path.relative_to(ROOT / "src" / "attnflow")) for path in modules()}
    assert {"softmax.py", "transport/balance.py", "lipschitz/bounds.py"} <= found
    assert not {name for name in found if name.startswith(("book/", "figures/", "assets/"))}
    assert "tests/test_softmax.py" in mathematical_tests()
    assert "tests/test_cli.py" not in mathematical_tests()


@pytest.mark.usefixtures("package")
def test_what_covers_a_line_travels_to_the_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, path = tmp_path / "held.json.gz", "src/attnflow/plain.py"
    found = {"lines": {path: {"5": ["tests/test_a.py::test_b"]}}, "seconds": {}}
    held.write_bytes(gzip.compress(json.dumps(found).encode()))
    monkeypatch.setattr(covering, "_file", lambda name: held)
    monkeypatch.setattr(covering, "mathematical_tests", lambda: ["tests/test_a.py"])
    cover = pickle.loads(pickle.dumps(covering.load(1)))
    assert cover.quickest(path, 5, chapters=False) == ["tests/test_a.py::test_b"]
    assert cover.quickest(path, 5, chapters=True) == []
