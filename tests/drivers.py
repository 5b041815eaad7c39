"""Real `attnflow` processes, and every process that they started, wherever it is now."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from conftest import make_project, write_chapter

from attnflow.book.chapters.project import Project

#: Writes down each time that it is executed, then does what `mode` says.
PROBE = (
    "# A probe",
    "point: int = 0  # which, in [0, 999]\n"
    'mode: str = "quick"  # what it does, one of quick | sleep | multiply | backtrack | child | die\n'
    "deaths: int = 0  # how often it kills itself, in [0, 9]",
    "import os, signal, time\n"
    "from attnflow.claims import check\n"
    "with open(os.environ['PROBE_LOG'], 'a') as file:\n"
    "    print(point, os.getpid(), file=file)",
    "if mode == 'sleep':\n"
    "    time.sleep(120)\n"
    "elif mode == 'multiply':\n"
    "    x = 3 ** 20_000_000 ** 2\n"
    "elif mode == 'backtrack':\n"
    "    import re\n"
    "    re.match(r'(a+)+$', 'a' * 60 + 'b')\n"
    "elif mode == 'child':\n"
    "    import subprocess\n"
    "    subprocess.run(['sleep', '120'])\n"
    "elif mode == 'die':\n"
    "    tries = [s.split()[0] for s in open(os.environ['PROBE_LOG'])].count(str(point))\n"
    "    if tries <= deaths:\n"
    "        os.kill(os.getpid(), signal.SIGKILL)",
    "check('mini.probe', predicted=point, measured=point, tol=0.5)",
)
#: What users start; signals end it also where whoever runs the tests ignores them (nohup, `&`).
COMMAND = [
    sys.executable,
    "-c",
    "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
    "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "from attnflow.book.entry import main; main()",
]


def probing(root: Path) -> Project:
    """A project with the probe."""
    project = make_project(root)
    write_chapter(project, "probe", *PROBE)
    return project


class Driver:
    """One command in a process of its own; `mark` is in the environment of all it starts."""

    def __init__(self, project: Project, *args: str, **environment: str) -> None:
        self.mark = uuid.uuid4().hex
        self.log = project.root / "probe.log"
        self.files = [project.root / f"{self.mark}.{name}" for name in ("out", "err")]
        settings = {
            **os.environ, "ATTNFLOW_ROOT": str(project.root), "PROBE_LOG": str(self.log),
            "DRIVER_MARK": self.mark, **environment,
        }  # fmt: skip
        with self.files[0].open("wb") as out, self.files[1].open("wb") as err:
            self.process = subprocess.Popen([*COMMAND, *args], env=settings, stdout=out, stderr=err)

    def __enter__(self) -> Driver:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        for pid in self.left():
            os.kill(pid, 9)
        self.process.kill()
        self.process.wait()

    @property
    def out(self) -> str:
        return self.files[0].read_text(encoding="utf-8")

    @property
    def err(self) -> str:
        return self.files[1].read_text(encoding="utf-8")

    def executions(self) -> list[tuple[int, int]]:
        """(point, process) for every time that the probe was executed in this project."""
        if not self.log.exists():
            return []
        lines = self.log.read_text(encoding="utf-8").splitlines()
        return [(int(point), int(pid)) for point, pid in map(str.split, lines)]

    def left(self) -> list[int]:
        """Living processes that it started, reparented ones too, and itself."""
        return [
            pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if self._mine(pid)
        ]

    def works(self) -> bool:
        """Whether it has a thread for a run: all that a call can get wrong is behind it."""
        return len(os.listdir(f"/proc/{self.process.pid}/task")) > 1

    def _mine(self, pid: int) -> bool:
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return False
        return f"DRIVER_MARK={self.mark}".encode() in environment.split(b"\0") and state != "Z"

    def finish(self, timeout: float = 120) -> int:
        """Its exit code, when it ends by itself."""
        return self.process.wait(timeout)


def wait_until(true: Callable[[], Any], timeout: float) -> float:
    """Seconds until something is true; fails after `timeout`."""
    started = time.monotonic()
    while not true():
        if time.monotonic() - started > timeout:
            raise AssertionError(f"not within {timeout} s")
        time.sleep(0.02)
    return time.monotonic() - started
