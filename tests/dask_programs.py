"""The programs `dask scheduler` and `dask worker`, started on loopback, each in a folder of its own.

They share no folder with the test that drives them: a worker has its own copy of the package, its
own place for assets and its own temporary files. Every process carries a mark in its environment,
which the kernels that it starts inherit, so that what is left over is found and counted.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

import attnflow

MARK = "ATTNFLOW_TEST_PROGRAMS"
#: Seconds that a program may take to do what it is waited for.
LONG = 60.0
#: A chapter that takes its time, without work.
SLOW = (
    "# Slow",
    "size: int = 1  # what is measured, in [1, 9]\nwait: float = 0.0  # seconds, in [0, 60]",
    "import time\nfrom attnflow.claims import check\ntime.sleep(wait)\n"
    "check('mini.ending', predicted=size, measured=size, tol=0.5)",
)


def until(true: Callable[[], Any], what: str, seconds: float = LONG) -> Any:
    """Wait for something to be true, and hand it over."""
    end = time.monotonic() + seconds
    while not (found := true()):
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds:.0f} s in vain: {what}")
        time.sleep(0.05)
    return found


class Program:
    """A running scheduler or worker."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self.process, self.folder = process, folder

    @property
    def said(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")

    def kill(self) -> None:
        """As `kill -9` does: it has no time to say anything."""
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        """Wait for one that was asked to end, then insist."""
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.kill()


class Programs:
    """Starts programs below a folder, and ends all of them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.mark = folder, uuid.uuid4().hex
        self.started: list[Program] = []
        self.package, self.hollow = folder / "installed", folder / "hollow"
        (self.hollow / "attnflow").mkdir(parents=True)
        (self.hollow / "attnflow" / "__init__.py").touch()  # hides the one that is installed
        shutil.copytree(
            Path(attnflow.__file__).parent,
            self.package / "attnflow",
            ignore=shutil.ignore_patterns("__pycache__", "*.npz"),
        )

    def environment(self, **more: str) -> dict[str, str]:
        """For a program of ours: one thread, nothing of the driver's, and the mark."""
        private = ("DASK_", "ATTNFLOW_", "PYTEST_", "COV_")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(private)}
        return {
            **kept,
            "PYTHONPATH": str(self.package),
            "PIP_NO_INDEX": "1",
            "DASK_DISTRIBUTED__ADMIN__TICK__LIMIT": "1h",
            MARK: self.mark,
            **more,
        }

    def start(self, kind: str, *arguments: str, **more: str) -> Program:
        folder = self.folder / f"{kind}-{len(self.started)}"
        (folder / "tmp").mkdir(parents=True)
        environment = self.environment(
            **{"TMPDIR": str(folder / "tmp"), "ATTNFLOW_ASSETS": str(folder / "assets"), **more}
        )
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", kind, *arguments], cwd=folder, env=environment,
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip
        self.started.append(Program(process, folder))
        return self.started[-1]

    def scheduler(self, *arguments: str, **more: str) -> tuple[str, Program]:
        """A scheduler and its address; it knows no attnflow, unless told otherwise."""
        note = self.folder / f"scheduler-{len(self.started)}.json"
        program = self.start(
            "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
            "--dashboard-address", "127.0.0.1:0", "--scheduler-file", str(note),
            *arguments, **{"PYTHONPATH": str(self.hollow), **more},
        )  # fmt: skip
        until(lambda: note.is_file() and note.read_text(), f"the scheduler's address: {note}")
        return json.loads(note.read_text())["address"], program

    def worker(self, address: str, *arguments: str, **more: str) -> Program:
        """A worker of one thread."""
        return self.start(
            "worker", address, "--host", "127.0.0.1", "--nthreads", "1", "--no-nanny",
            "--no-dashboard", "--dashboard-address", "127.0.0.1:0", "--death-timeout", "30",
            "--memory-limit", "0", *arguments, **more,
        )  # fmt: skip

    def left(self) -> list[psutil.Process]:
        """Processes that carry the mark, kernels included."""
        return [p for p in psutil.process_iter() if marked(p, self.mark)]

    def kernels(self, program: Program) -> list[psutil.Process]:
        """The kernels that a worker runs now."""
        try:
            children = psutil.Process(program.process.pid).children()
            return [child for child in children if "kernel.py" in " ".join(child.cmdline())]
        except psutil.Error:
            return []

    def end(self) -> None:
        """End every program; an error if a process of theirs is still there afterwards."""
        workers = [p for p in self.started if p.folder.name.startswith("worker")]
        others = [p for p in self.started if p not in workers]
        for group in (workers, others):  # a worker without a scheduler takes its time
            for program in group:
                program.process.terminate()
            for program in group:
                program.end()
        try:
            until(lambda: not self.left(), "processes are left over", 10)
        finally:
            for process in self.left():
                process.kill()


def marked(process: psutil.Process, mark: str) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == mark
    except (psutil.Error, OSError):
        return False


class Farm:
    """A scheduler, two workers, and who started them."""

    def __init__(self, programs: Programs, **more: str) -> None:
        self.programs = programs
        self.address, self.scheduler = programs.scheduler(**more)
        self.workers = [programs.worker(self.address, **more) for _ in range(2)]

    def kernels(self) -> list[psutil.Process]:
        """The kernels that its workers run now."""
        return [kernel for worker in self.workers for kernel in self.programs.kernels(worker)]


@contextmanager
def running(folder: Path) -> Iterator[Programs]:
    """What starts programs; all of them end, whatever happens meanwhile."""
    made = Programs(folder)
    try:
        yield made
    finally:
        made.end()


def joined(client: Any, count: int) -> dict[str, int]:
    """The workers of a client, by address, once there are so many."""
    return until(
        lambda: (found := client.nthreads()) and len(found) >= count and found, f"{count} workers"
    )
