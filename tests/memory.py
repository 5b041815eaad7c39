"""No process of the suite, nor any it starts, may need more memory than a small machine has.

Each worker looks at its peak after every test; the controller prints the peaks and fails the
session if one of them is over the limit, with the test after which it was.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys
from collections.abc import Generator
from typing import Any

import pytest

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

LIMIT = 1.5  #: GB
MUCH = 0.7  #: GB, from which on freed memory is given back after every file
UNIT = 1e9 if sys.platform == "darwin" else 1e6  #: of ru_maxrss, in one GB
KEY = "peak memory"
PEAKS: dict[str, tuple[float, str]] = {}  #: worker -> its peak in GB, the test that went over


def peak() -> float:
    """The most memory, in GB, that this process or one it waited for has held at once."""
    if resource is None:
        return 0.0
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return max(resource.getrusage(w).ru_maxrss for w in who) / UNIT


def note(name: str, test: str = "") -> None:
    """Write down this process's peak, and the first test after which it is over the limit."""
    found, before = peak(), PEAKS.get(name, (0.0, ""))[1]
    PEAKS[name] = (found, before or (test if found > LIMIT else ""))


def give_back() -> None:
    """What was freed goes back to the system, so that one test's memory is not added to another's."""
    gc.collect()
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL("libc.so.6").malloc_trim(0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, Any, Any]:
    done = yield
    note("here", item.nodeid)
    if peak() > MUCH and (nextitem is None or nextitem.path != item.path):
        give_back()
    return done


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    note("here")
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[KEY] = PEAKS["here"]
    elif session.exitstatus == 0 and max(found for found, _ in PEAKS.values()) > LIMIT:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A worker of xdist has finished: its peak comes with its output."""
    PEAKS[node.gateway.id] = tuple(getattr(node, "workeroutput", {}).get(KEY, (0.0, "")))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for name, (found, test) in sorted(PEAKS.items()):
        over = f", more than {LIMIT} GB since {test or 'its end'}" if found > LIMIT else ""
        terminalreporter.write_line(f"peak memory ({name}): {found:.2f} GB{over}", red=bool(over))
