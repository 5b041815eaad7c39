"""Which tests and chapters execute which line of the package, and how long each takes.

Measured once, by coverage.py with a context a test, and kept in _build/mutants/. What runs while
modules are imported (constants, defaults) belongs to no test, even where one test happened to be
the first to import them; whoever runs any line of the module is asked then. Compiled functions are
not seen by coverage: there whoever runs a line of a module that imports theirs is asked, too.
"""

from __future__ import annotations

import ast
import gzip
import json
import os
import re
import subprocess
import sys
import time
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import coverage

from mutants.drawing import PACKAGE, ROOT

if TYPE_CHECKING:  # in a campaign nothing of attnflow may be loaded before a change
    from attnflow.claims import Check

BUILT = ROOT / "_build" / "mutants"
#: Tests that know these start processes or read pages, and say nothing of the mathematics.
_MACHINERY = re.compile(
    r"\b(attnflow\.book|controls|drivers|mutants|playwright|served_books|shelves|toy_assets|hostile_\w+)\b"
)
#: Others that do not.
OTHERS = ("benchmarks", "files", "figures_players", "figures_shown", "images", "live",
          "trained_checkpoints", "trained_hostile", "trained_loading", "vocabulary")  # fmt: skip


class Cover:
    """Tests and chapters by line; seconds by test and chapter."""

    def __init__(self, lines: dict[str, dict[str, list[str]]], seconds: dict[str, float]) -> None:
        self.lines, self.seconds = lines, seconds

    def quickest(self, path: str, line: int, *, chapters: bool) -> list[str]:
        """Who executes a line (or its module, or one that imports it), quickest first."""
        found = set[str]()
        if line in run_by_callers(path):
            found = _wanted(self.lines.get(path, {}).get(str(line), ()), chapters)
        for module in (
            () if found else (path, *(importers(path) if _COMPILED in _text(path) else ()))
        ):
            seen = self.lines.get(module, {})
            own = run_by_callers(module)
            found |= _wanted(
                {w for at, who in seen.items() if int(at) in own for w in who}, chapters
            )
        return sorted(found, key=lambda who: (self.seconds.get(who, 0.0), who))


_COMPILED = "@njit"


@cache
def _text(path: str) -> str:
    return (ROOT / path).read_text("utf-8")


@cache
def run_by_callers(path: str) -> frozenset[int]:
    """Lines in the bodies of functions that are not compiled: these run when they are called."""
    out: set[int] = set()
    for node in ast.walk(ast.parse(_text(path))):
        if isinstance(node, ast.FunctionDef):
            compiled = any("njit" in ast.unparse(mark) for mark in node.decorator_list)
            lines = range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1)
            out = out - set(lines) if compiled else out | set(lines)
    return frozenset(out)


@cache
def importers(path: str) -> tuple[str, ...]:
    """The modules of the package that import this one, and those that import them."""
    out, names = list[str](), [path]
    for _ in range(2):
        dotted = [
            Path(n).with_suffix("").as_posix().removeprefix("src/").replace("/", ".") for n in names
        ]
        asked = [
            re.compile(
                rf"from {re.escape(d)} import|from {re.escape(d.rpartition('.')[0])} import [^\n]*\b{d.rpartition('.')[2]}\b"
            )
            for d in dotted
        ]
        names = [
            str(found.relative_to(ROOT))
            for found in sorted(PACKAGE.rglob("*.py"))
            if any(each.search(found.read_text("utf-8")) for each in asked)
        ]
        out += names
    return tuple(dict.fromkeys(out))


def _wanted(names: Any, chapters: bool) -> set[str]:
    return {who for who in names if who.startswith("chapter:") == chapters}


class _Contexts:
    """A pytest plugin: every test is a context of its own, and is timed."""

    def __init__(self, measured: coverage.Coverage) -> None:
        self.measured, self.seconds = measured, defaultdict[str, float](float)

    def pytest_runtest_setup(self, item: Any) -> None:
        self.measured.switch_context(item.nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] += report.duration


def mathematical_tests() -> list[str]:
    """The test files of the mathematics."""
    found = sorted((ROOT / "tests").glob("test_*.py"))
    return [
        f"tests/{path.name}"
        for path in found
        if path.stem.removeprefix("test_") not in OTHERS
        and not _MACHINERY.search(path.read_text("utf-8"))
    ]


def measure(name: str) -> None:
    """Run one test file, or one chapter ("chapter:NAME"), under coverage; write what was seen."""
    measured = coverage.Coverage(
        data_file=None, source=[str(PACKAGE)], config_file=False, messages=False
    )
    measured.start()
    rows: list[Any] = []
    if name.startswith("chapter:"):
        from mutants.trying import play

        measured.switch_context(name)
        begun = time.monotonic()
        rows = play(name)
        seconds = {name: time.monotonic() - begun}
    else:
        import pytest

        plugin = _Contexts(measured)
        pytest.main(
            ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-seed=0", name],
            plugins=[plugin],
        )
        seconds = dict(plugin.seconds)
    measured.stop()
    data, lines = measured.get_data(), {}
    for file in data.measured_files():
        seen = data.contexts_by_lineno(file)
        lines[str(Path(file).relative_to(ROOT))] = {
            str(line): sorted(set(who) - {""}) for line, who in seen.items() if set(who) - {""}
        }
    from attnflow.claims import MIME

    said = [row._repr_mimebundle_()[1][MIME] for row in rows]
    _write(_file(name), {"lines": lines, "seconds": seconds, "rows": said})


def honest_rows(name: str) -> list[Check]:
    """What a chapter says where nothing was changed, run as mutants run it: without its figures."""
    from attnflow.claims import from_json

    held = json.loads(gzip.decompress(_file(name).read_bytes()))
    return [from_json(row) for row in held["rows"]]


def load(workers: int) -> Cover:
    """The map, measured where it is not yet, each test file in a process of its own."""
    chapters = sorted(f"chapter:{p.stem}" for p in (ROOT / "book").glob("*.ipynb"))
    names = [*chapters, *mathematical_tests()]
    waiting = [name for name in names if not _file(name).exists()]
    running: list[tuple[str, subprocess.Popen[bytes]]] = []
    while waiting or running:
        while waiting and len(running) < workers:
            name = waiting.pop(0)
            print(f"covering {name}", flush=True)
            running.append((name, _start(name)))
        name, process = running.pop(0)
        process.wait()
        if not _file(name).exists():
            raise SystemExit(
                f"{name} could not be measured: run `python -m mutants.covering {name}`"
            )
    lines: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    seconds: dict[str, float] = {}
    for name in names:
        found = json.loads(gzip.decompress(_file(name).read_bytes()))
        seconds |= found["seconds"]
        for path, seen in found["lines"].items():
            for line, who in seen.items():
                lines[path][line] += who
    return Cover({path: dict(seen) for path, seen in lines.items()}, seconds)


def _start(name: str) -> subprocess.Popen[bytes]:
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    return subprocess.Popen(
        [sys.executable, "-m", "mutants.covering", name],
        cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip


def _file(name: str) -> Path:
    return BUILT / (name.replace("/", "_").replace(":", "_") + ".json.gz")


def _write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.write_bytes(gzip.compress(json.dumps(content).encode()))
    draft.replace(path)


if __name__ == "__main__":
    measure(sys.argv[1])
