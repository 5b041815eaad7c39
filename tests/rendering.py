"""The stored book as pages, for tests that look at them: rendered once a session.

The first worker that comes to such a test renders, with warnings as errors; the others wait for it
there. So nobody waits at the beginning of the session, when there is all else to do.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache

import pytest
from filelock import FileLock

from attnflow.book.chapters.project import find_project

#: Tests with one of these markers look at the built book.
MARKERS = ("built", "browser")
START = "from attnflow.book.entry import main; main()"
COMMAND = (sys.executable, "-c", START, "book", "--stored", "--strict")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if any(item.get_closest_marker(name) for name in MARKERS) and (why := _complaint()):
        pytest.fail(why, pytrace=False)


@cache
def _complaint() -> str:
    """Why the book could not be rendered, or "" once it has been, in this session."""
    project = find_project()
    build = project.build
    build.mkdir(exist_ok=True)
    session = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    with FileLock(build / "rendered.lock"):
        done = build / "rendered"
        told, _, said = (done.read_text("utf-8") if done.is_file() else "").partition("\n")
        if told == session:
            return said
        run = subprocess.run(COMMAND, cwd=project.root, capture_output=True, text=True, check=False)
        said = (
            "" if run.returncode == 0 else f"the book was not rendered:\n{run.stdout}{run.stderr}"
        )
        done.write_text(f"{session}\n{said}", "utf-8")
        return said
