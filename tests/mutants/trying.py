"""One mutant in a process of its own.

The process is forked from one that has imported numpy, scipy and the others, but not attnflow. It
reads the changed module in place of the file on disk, runs the tests that execute the changed line,
quickest first, and stops at the first that fails. Whom no test notices meets the chapters that
execute the line: a check that fails, a control that does not, or a number other than without the
change (as nbval compares them) is the end of it.
"""

from __future__ import annotations

import importlib.machinery
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from mutants.drawing import ROOT, Mutant

#: Seconds of tests for one mutant, quickest first, by what they take when nothing is wrong.
BUDGET = 60.0
#: A mutant may slow tests down by this much, and this many seconds, before it counts as a hang.
SLOWER, GRACE = 5.0, 30.0
KILLED, SURVIVED, HUNG = "killed", "survived", "hung"


class Outcome(NamedTuple):
    """What came of a mutant."""

    verdict: str
    by: str  #: "unit", "verdict", "number", or ""
    seconds: float


def plan(names: list[str], seconds: dict[str, float], budget: float = BUDGET) -> list[str]:
    """As many of the quickest tests as the budget allows, and one at least."""
    out, spent = [], 0.0
    for name in names:
        spent += seconds.get(name, 0.0)
        if out and spent > budget:
            break
        out.append(name)
    return out


def attempt(mutant: Mutant, tests: list[str], chapters: list[str], expected: float) -> Outcome:
    """Fork, change, run; and see who noticed."""
    begun = time.monotonic()
    code = _forked(lambda: _tests(mutant, tests), SLOWER * expected + GRACE) if tests else 0
    verdict = {0: SURVIVED, None: HUNG}.get(code, KILLED)
    by = "" if verdict == SURVIVED else "unit"
    for name in chapters if verdict == SURVIVED else ():
        code = _forked(lambda name=name: _chapter(mutant, name), 300.0)
        if code != 0:
            verdict = HUNG if code is None else KILLED
            by = "number" if code == _NUMBER else "verdict"
            break
    return Outcome(verdict, by, time.monotonic() - begun)


_VERDICT, _NUMBER = 3, 4


def _forked(run: Any, patience: float) -> int | None:
    """The exit code of `run` in a child, or None where it was stopped for taking too long."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setsid()
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            code = run()
        except BaseException:
            code = 1
        finally:
            os._exit(code)
    ends = time.monotonic() + patience
    while time.monotonic() < ends:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def install(mutant: Mutant) -> None:
    """From here on the changed source is what importing the module reads."""
    path, changed = str(ROOT / mutant.path), mutant.source().encode()
    honest = importlib.machinery.SourceFileLoader.get_data

    def get_data(self: Any, asked: str) -> bytes:
        if asked == path:
            return changed
        if Path(asked).suffix == ".pyc" and Path(asked).name.startswith(f"{Path(path).stem}."):
            raise OSError("compiled before the change")
        return honest(self, asked)

    importlib.machinery.SourceFileLoader.get_data = get_data  # type: ignore[method-assign]
    if "numba" in changed.decode():  # its cache looks at the file, which has not changed
        import numba  # which has read its environment before

        numba.config.CACHE_DIR = tempfile.mkdtemp(prefix="mutant-")


def _tests(mutant: Mutant, tests: list[str]) -> int:
    import pytest

    os.chdir(ROOT)
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = tempfile.mkdtemp(prefix="mutant-")
    install(mutant)
    # Plain asserts: to rewrite them pytest would read the modules by itself, from disk.
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--assert=plain"]
    code = pytest.main([*options, "--hypothesis-seed=0", *tests])
    return int(code != pytest.ExitCode.OK)


def _chapter(mutant: Mutant, name: str) -> int:
    os.chdir(ROOT)
    install(mutant)
    rows = play(name)
    if not all(row.sound for row in rows):
        return _VERDICT
    from mutants.covering import honest_rows

    honest = {row.anchor(): row for row in honest_rows(name)}
    same = all(row.anchor() in honest and row.agrees(honest[row.anchor()]) for row in rows)
    return 0 if same else _NUMBER


def play(name: str) -> list[Any]:
    """The rows of a chapter's code, run in this process; an error of a cell is raised."""
    import matplotlib
    import nbformat
    import pytest
    from controls.cells import read_cells
    from controls.stage import Stage

    matplotlib.use("agg")
    book = nbformat.read(ROOT / "book" / f"{name.removeprefix('chapter:')}.ipynb", as_version=4)
    stage = Stage(read_cells(book), {})
    with pytest.MonkeyPatch.context() as patch:
        stage.listen(patch)
        for cell in stage.cells:
            stage.run(cell)
    return stage.rows


def preload() -> None:
    """What children need and what has nothing of attnflow in it."""
    import hypothesis  # noqa: F401
    import matplotlib.pyplot  # noqa: F401
    import nbformat  # noqa: F401
    import numba  # noqa: F401
    import numpy  # noqa: F401
    import ot  # noqa: F401
    import pytest  # noqa: F401
    import scipy.integrate
    import scipy.optimize
    import scipy.sparse.linalg
    import scipy.special
    import scipy.stats  # noqa: F401

    loaded = [name for name in sys.modules if name.split(".")[0] == "attnflow"]
    if loaded:
        raise RuntimeError(f"attnflow must not be loaded before a mutation, got {loaded[:3]}")
