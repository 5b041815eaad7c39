"""Which tests and chapters execute which line of the package, and how long each takes.

Measured once, by coverage.py with a context a test, and kept in _build/mutants/. What runs while
modules are imported (constants, defaults) belongs to no test; whoever runs any line of the module
is asked then. So it is with compiled functions, which coverage does not see.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
import time
from collections import defaultdict
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
        """Who executes a line (or, if nobody does, its module), quickest first."""
        module = self.lines.get(path, {})
        found = _wanted(module.get(str(line), ()), chapters)
        if not found:
            found = _wanted({who for names in module.values() for who in names}, chapters)
        return sorted(found, key=lambda who: (self.seconds.get(who, 0.0), who))


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
