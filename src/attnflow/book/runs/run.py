"""One run: a chapter and parameters -> an executed notebook and its checks.

The book, a single rerun, a sweep and CI all come through :func:`execute`. A finished run is kept
under its key; asking for the same key again reads it back. Kept outputs are laid over the chapter
as it stands now, so editing prose executes nothing. :func:`execute_all` does many: one that fails
does not stop the others, and an interruption leaves nothing running and loses nothing finished.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import nbformat

from attnflow.book.chapters.notebooks import checks, on_stderr, overlaid, stamp, write_notebook
from attnflow.book.chapters.parameters import BookError
from attnflow.book.chapters.project import Project, Recipe, recipe
from attnflow.book.runs.keep import NOTEBOOK, Kept, Shelf
from attnflow.book.runs.kernels import Executed, KernelDied, Kernels, Runner
from attnflow.claims import Check

#: A run whose kernel died is tried this often in all.
TRIES = 2
#: Seconds between two looks for Ctrl-C: the system may give the signal to another thread than ours,
#: one that is just starting a kernel, and that does not wake us.
ATTENTIVE = 0.2


class Run(NamedTuple):
    """What came of one run; `notebook` is None where only its checks were wanted."""

    chapter: str
    parameters: dict[str, Any]
    key: str
    notebook: nbformat.NotebookNode | None
    checks: tuple[Check, ...]
    seconds: float
    cached: bool

    @property
    def whole(self) -> nbformat.NotebookNode:
        """The notebook of a run that was asked for it."""
        if self.notebook is None:
            raise ValueError(f"of the run {self.key} only checks were wanted, got no notebook")
        return self.notebook

    @property
    def unsound(self) -> tuple[Check, ...]:
        """Checks that fail and controls that do not."""
        return tuple(row for row in self.checks if not row.sound)


class RunError(BookError):
    """A chapter that stopped: which, in which cell, why, and where its partial notebook is."""

    code = 1

    def __init__(self, message: str, partial: Path | None = None) -> None:
        super().__init__(message)
        self.partial = partial


def execute(
    project: Project,
    name: str,
    given: Mapping[str, Any] | None = None,
    *,
    what: str = NOTEBOOK,
    cache: bool = True,
    strict: bool = False,
    runner: Runner | None = None,
) -> Run:
    """Run a chapter, or read the run back where its key is known.

    `what` is wanted: the notebook, or its checks alone (figures are not drawn then). `strict`
    treats text on stderr (a warning, say) as an error, as the book's own runs do.
    """
    prepared = recipe(project, name)
    parameters = prepared.chapter.resolve(given or {})
    return perform(
        prepared, parameters, runner or Kernels(1), what=what, cache=cache, strict=strict
    )


def perform(
    prepared: Recipe,
    parameters: dict[str, Any],
    runner: Runner,
    *,
    what: str = NOTEBOOK,
    cache: bool = True,
    strict: bool = False,
    given_up: Callable[[], bool] = lambda: False,
) -> Run:
    """One run of a prepared chapter. Whoever makes it holds the lock of its key.

    Where another process holds it we wait, unless `given_up` says that nobody wants the run now.
    """
    name, key = prepared.chapter.name, prepared.key(parameters)
    shelf = Shelf(prepared.project.build / "runs")
    quiet = Shelf(shelf.folder, warn=lambda text: None)
    kept = quiet.read(name, key, what) if cache else None
    made = False
    if kept is None:
        with shelf.lock(name, key, given_up):
            kept = shelf.read(name, key, what) if cache else None  # made while we waited
            if kept is None:
                kept, made = _make(prepared, parameters, key, runner, what), True
                shelf.write(name, key, kept)
    notebook = None
    if what == NOTEBOOK:
        assert kept.notebook is not None
        if strict and (said := on_stderr(kept.notebook)):
            raise RunError(f"{name}, code cell {said[0]} wrote to stderr:\n  {said[1][:500]}")
        defaults = prepared.chapter.default_parameters == parameters
        notebook = overlaid(prepared.source, kept.notebook, defaults)
        stamp(notebook, key, kept.seconds)
    return Run(name, parameters, key, notebook, kept.checks, kept.seconds, not made)


def _make(
    prepared: Recipe, parameters: dict[str, Any], key: str, runner: Runner, what: str
) -> Kept:
    project, name = prepared.project, prepared.chapter.name
    partial = project.build / "failed" / f"{name}-{key}.ipynb"
    done = _tried(prepared, parameters, runner, what)
    if done.failure is not None:
        cell, ename, evalue = done.failure
        write_notebook(done.notebook, partial)
        raise RunError(
            f"{name}, code cell {cell}: {ename}: {evalue}\n"
            f"  the notebook up to there is in {_relative(project, partial)}",
            partial,
        )
    partial.unlink(missing_ok=True)
    rows = checks(done.notebook)
    return Kept(done.notebook if what == NOTEBOOK else None, rows, done.seconds)


def _tried(prepared: Recipe, parameters: dict[str, Any], runner: Runner, what: str) -> Executed:
    for left in reversed(range(TRIES)):
        try:
            return runner.run(prepared, parameters, what)
        except KernelDied as error:
            if not left:
                raise RunError(
                    f"{prepared.chapter.name}: its kernel died {TRIES} times ({error})"
                ) from error
    raise AssertionError("TRIES must be at least 1")


def _relative(project: Project, path: Path) -> Path:
    return path.relative_to(project.root) if path.is_relative_to(project.root) else path


def local(jobs: int | None = None) -> Kernels:
    """Kernels on this machine, as many at once as `jobs` or as there are cores."""
    return Kernels(jobs or os.cpu_count() or 1)


class Job(NamedTuple):
    """A run to be done."""

    chapter: str
    parameters: dict[str, Any]


def execute_all(
    project: Project,
    jobs: Iterable[Job],
    runner: Runner,
    *,
    what: str = NOTEBOOK,
    cache: bool = True,
    strict: bool = False,
) -> Generator[tuple[int, Run | BookError], None, None]:
    """All runs, as they finish, each with its place in `jobs`; one that fails stops no other.

    No more than the runner's slots are under way, so `jobs` may be long. Leaving the iterator
    early, by an exception or by closing it, ends what is under way.
    """
    recipes, reading, leaving = dict[str, Recipe](), threading.Lock(), threading.Event()

    def one(job: Job) -> Run:
        with reading:
            if job.chapter not in recipes:
                recipes[job.chapter] = recipe(project, job.chapter)
            prepared = recipes[job.chapter]
        parameters = prepared.chapter.resolve(job.parameters)
        return perform(
            prepared, parameters, runner,
            what=what, cache=cache, strict=strict, given_up=leaving.is_set,
        )  # fmt: skip

    source, waiting = iter(enumerate(jobs)), dict[Future[Run], int]()
    pool = ThreadPoolExecutor(runner.slots, thread_name_prefix="attnflow-run")
    try:
        while True:
            for index, job in islice(source, 2 * runner.slots - len(waiting)):
                waiting[pool.submit(one, job)] = index
            if not waiting:
                return
            done, _ = wait(waiting, timeout=ATTENTIVE, return_when=FIRST_COMPLETED)
            for future in sorted(done, key=lambda f: waiting[f]):
                yield waiting.pop(future), _outcome(future)
    except BaseException:
        leaving.set()
        runner.stop()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _outcome(future: Future[Run]) -> Run | BookError:
    try:
        return future.result()
    except BookError as error:
        if error.fatal:
            raise
        return error
