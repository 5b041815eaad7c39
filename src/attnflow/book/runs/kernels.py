"""Where runs happen on this machine: kernels, each driven by a thread, none left behind.

A kernel is a process already, so there is no pool of processes on top. A cell that raises is a
result like any other (:class:`Executed`); a kernel that dies is an exception, and its run may be
tried again. Kernels end with the process that drives them, whatever ends it (see kernel.py).
"""

from __future__ import annotations

import asyncio
import atexit
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import nbformat
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from attnflow.book.chapters.notebooks import SHOWN_ONLY, parametrised, tidy
from attnflow.book.chapters.project import Recipe
from attnflow.book.runs.keep import CHECKS
from attnflow.files import alive

#: One thread per kernel: runs are parallel already, and sums keep their order.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_PREFIX = "attnflow-"
#: Between two looks whether all kernels are gone, and after how many whoever waits is told to leave.
_MOMENT, _PATIENT = 0.05, 40
#: Letters in the folder of a socket; with its name they are at most 103 on any system.
LONGEST_SOCKET = 95


class Failure(NamedTuple):
    """The cell that stopped a run, and why."""

    cell: int
    ename: str
    evalue: str


class Executed(NamedTuple):
    """A notebook after its run; up to the cell that failed, if one did."""

    notebook: nbformat.NotebookNode
    seconds: float
    failure: Failure | None = None


class KernelDied(Exception):
    """The process that ran a chapter is gone; nothing is wrong with the chapter as such."""


class Stopped(Exception):
    """The run was stopped from outside."""


class Runner(Protocol):
    """Something that executes chapters: kernels here, or a cluster."""

    @property
    def slots(self) -> int:
        """How many runs it takes at once."""

    def run(self, recipe: Recipe, parameters: Mapping[str, Any], what: str) -> Executed:
        """Execute a chapter; what is wanted of it (notebook or checks) says whether to draw."""

    def stop(self) -> None:
        """End what is under way; runs in progress raise Stopped."""


class Kernels:
    """Kernels of this Python on this machine."""

    def __init__(self, slots: int, watch: Callable[[int], None] = lambda cell: None) -> None:
        """So many at once; `watch` hears the number of every code cell that begins."""
        self._slots, self._watch = slots, watch
        self._live: dict[AsyncKernelManager, _Work] = {}
        self._guard = threading.Lock()
        self._stopped = False
        _clear_scratch()

    @property
    def slots(self) -> int:
        """How many kernels at once."""
        return self._slots

    def run(self, recipe: Recipe, parameters: Mapping[str, Any], what: str) -> Executed:
        """Execute a chapter in a kernel of its own."""
        started = time.monotonic()
        changed = recipe.chapter.changed(parameters)
        notebook = parametrised(recipe.source, changed)
        with tempfile.TemporaryDirectory(
            prefix=f"{_PREFIX}{os.getpid()}-", ignore_cleanup_errors=True
        ) as folder:
            manager = _manager(Path(folder))
            client = NotebookClient(
                notebook, km=manager, timeout=None, startup_timeout=180,
                shutdown_kernel="immediate", on_cell_start=self._go_on,
                resources={"metadata": {"path": str(recipe.project.book)}},
                **({"skip_cells_with_tag": SHOWN_ONLY} if what == CHECKS else {}),
            )  # fmt: skip
            failure = None
            work = _Work()
            with self._registered(manager, work):
                try:
                    work.done(client.async_execute(env=_environment(recipe), cleanup_kc=True))
                except CellExecutionError as error:
                    failure = Failure(_last_cell(notebook), error.ename, error.evalue)
                except asyncio.CancelledError:
                    with suppress(Exception):  # its own clearing up may have been cut short
                        manager.context.destroy(linger=0)
                    raise Stopped from None
                except Exception as error:  # whatever a dying kernel makes of its driver
                    if self._stopped:
                        raise Stopped from None
                    raise KernelDied(f"{type(error).__name__}: {error}") from error
                finally:  # nbclient forgets this where a kernel did not start
                    atexit.unregister(client._cleanup_kernel)
        seconds = round(time.monotonic() - started, 1)
        return Executed(tidy(notebook), seconds, failure)

    def stop(self) -> None:
        """Kill every kernel, and start none any more.

        One that is being started has no process yet to kill, and whoever waits for an answer of a
        kernel need not notice its death: we stay until there is none.
        """
        self._stopped, look = True, 0
        while True:
            with self._guard:
                live = dict(self._live)
            if not live:
                return
            look += 1
            for manager, work in live.items():
                _kill(manager)
                if look % _PATIENT == 0:
                    work.cancel()
            time.sleep(_MOMENT)

    def _go_on(self, **cell: Any) -> None:
        """Before every cell: none begins once we are stopped."""
        if self._stopped:
            raise Stopped
        self._watch(int(cell.get("cell_index", 0)))

    @contextmanager
    def _registered(self, manager: AsyncKernelManager, work: _Work) -> Iterator[None]:
        with self._guard:
            if self._stopped:
                raise Stopped
            self._live[manager] = work
        try:
            yield
        finally:
            _kill(manager, wait=True)
            with self._guard:
                del self._live[manager]


class _Work:
    """What is awaited in an event loop of its own, and can be given up from another thread."""

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None

    def done(self, work: Coroutine[Any, Any, Any]) -> None:
        """Do the work, in a loop that is closed after it; also where one is running (Jupyter)."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            asyncio.run(self._noted(work))
            return
        with ThreadPoolExecutor(1) as aside:
            aside.submit(asyncio.run, self._noted(work)).result()

    async def _noted(self, work: Coroutine[Any, Any, Any]) -> None:
        self._task = asyncio.current_task()
        await work

    def cancel(self) -> None:
        """Have whatever is awaited raise CancelledError; again, if cleaning up awaits something."""
        task = self._task
        if task is not None and not task.done():
            with suppress(RuntimeError):  # the loop was closed meanwhile
                task.get_loop().call_soon_threadsafe(task.cancel)


class _OwnPython(KernelSpecManager):
    """This very Python, whichever kernels are installed beside it."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        script = Path(__file__).with_name("kernel.py")
        argv = [sys.executable, "-P", str(script)]
        return KernelSpec(
            argv=[*argv, "-f", "{connection_file}"], display_name="Python 3", language="python"
        )


def _manager(folder: Path) -> AsyncKernelManager:
    """Sockets and files of its own for every kernel: parallel runs never race for a port.

    The name of a socket may be short only; in a deep temporary folder kernels use ports.
    """
    place = {"connection_file": str(folder / "kernel.json")}
    if os.name == "posix" and len(os.fsencode(folder)) <= LONGEST_SOCKET:
        place |= {"transport": "ipc", "ip": str(folder / "k")}
    return AsyncKernelManager(kernel_name="python3", kernel_spec_manager=_OwnPython(), **place)


def _environment(recipe: Recipe) -> dict[str, str]:
    paths = [str(recipe.project.root / "src"), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        **dict.fromkeys(THREADS, "1"),
        "PYTHONPATH": os.pathsep.join(p for p in paths if p),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        "MPLBACKEND": os.environ.get("MPLBACKEND", "agg"),
    }


def _kill(manager: AsyncKernelManager, wait: bool = False) -> None:
    process = getattr(manager.provisioner, "process", None)
    if process is not None and process.poll() is None:
        with suppress(OSError):
            process.send_signal(getattr(signal, "SIGKILL", signal.SIGTERM))
        if wait:
            process.wait()


def _last_cell(notebook: nbformat.NotebookNode) -> int:
    counts = [c.execution_count for c in notebook.cells if c.cell_type == "code"]
    return max(count for count in counts if count is not None)


def _clear_scratch() -> None:
    """Remove the folders of kernels whose driver was killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}[0-9]*-*"):
        found = re.match(rf"{_PREFIX}(\d+)-", folder.name)
        if found and not alive(int(found[1])):
            shutil.rmtree(folder, ignore_errors=True)
