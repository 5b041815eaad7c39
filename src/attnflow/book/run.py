"""One run: a chapter and parameters -> an executed notebook and its checks.

The book, a single rerun, a sweep and CI all come through :func:`execute`. A finished run is kept
in _build/runs under its key; asking for the same key again reads it back. The cached outputs are
laid over the chapter as it stands now, so editing prose executes nothing.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
from traitlets.config import Config

from attnflow import provenance
from attnflow.book.chapters import BookError, Chapter, Project, key
from attnflow.claims import MIME, Check, from_json

#: One thread per kernel: runs are parallel already, and sums keep their order.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")

#: The folders of a file named in a warning.
_FOLDERS = re.compile(r"(?:/[^\s/:]+)*/(?=[^\s/:]+\.py\b)")


class Run(NamedTuple):
    """What came of one run."""

    chapter: str
    parameters: dict[str, Any]
    key: str
    notebook: nbformat.NotebookNode
    checks: tuple[Check, ...]
    seconds: float
    cached: bool

    @property
    def unsound(self) -> tuple[Check, ...]:
        """Checks that fail and controls that do not."""
        return tuple(row for row in self.checks if not row.sound)


class RunError(BookError):
    """A chapter that stopped: which, in which cell, why, and where its partial notebook is."""

    def __init__(self, message: str, partial: Path | None = None) -> None:
        super().__init__(message)
        self.partial = partial

    def __reduce__(self) -> tuple[Any, ...]:  # crosses process boundaries
        return (RunError, (str(self), self.partial))


def execute(
    project: Project,
    name: str,
    given: Mapping[str, Any] | None = None,
    *,
    cache: bool = True,
    strict: bool = False,
) -> Run:
    """Run a chapter, or read the run back where its key is known.

    `strict` treats text on stderr (a warning, say) as an error, as the book's own runs do.
    """
    chapter = project.chapter(name)
    parameters = chapter.resolve(given or {})
    run_key = key(project, chapter, parameters)
    stored = project.build / "runs" / f"{chapter.name}-{run_key}.ipynb"
    if cache and stored.is_file():
        finished = nbformat.read(stored, as_version=4)
        cached, seconds = True, float(finished.metadata["attnflow"]["seconds"])
    else:
        started = time.monotonic()
        finished = _papermill(project, chapter, parameters, run_key)
        cached, seconds = False, time.monotonic() - started
        finished.metadata["attnflow"] = {"key": run_key, "seconds": round(seconds, 1)}
        write_notebook(finished, stored)
    if strict:
        _refuse_stderr(project, chapter, finished)
    notebook = _overlay(chapter.read(), finished, chapter.default_parameters == parameters)
    stamp(notebook, run_key, seconds)
    return Run(chapter.name, parameters, run_key, notebook, checks(notebook), seconds, cached)


def _papermill(
    project: Project, chapter: Chapter, parameters: dict[str, Any], run_key: str
) -> nbformat.NotebookNode:
    import papermill
    from papermill.exceptions import PapermillExecutionError

    changed = {k: v for k, v in parameters.items() if v != chapter.default_parameters[k]}
    partial = project.build / "failed" / f"{chapter.name}-{run_key}.ipynb"
    partial.parent.mkdir(parents=True, exist_ok=True)
    paths = [str(project.root / "src"), os.environ.get("PYTHONPATH", "")]
    settings = dict.fromkeys(THREADS, "1") | {
        "PYTHONPATH": os.pathsep.join(p for p in paths if p),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }
    with _environment(settings), _sockets() as config:
        try:
            done = papermill.execute_notebook(
                str(chapter.path), str(partial), changed, kernel_name="python3",
                language="python", progress_bar=False, cwd=str(project.book), log_output=False,
                config=config,
            )  # fmt: skip
        except PapermillExecutionError as error:
            raise RunError(
                f"{chapter.name}, code cell {error.exec_count}: {error.ename}: {error.evalue}\n"
                f"  the notebook up to there is in {_relative(project, partial)}",
                partial,
            ) from None
        except Exception as error:  # a kernel that died, a full disk
            raise RunError(f"{chapter.name}: {type(error).__name__}: {error}", partial) from error
    partial.unlink(missing_ok=True)
    return _tidy(done)


@contextmanager
def _environment(settings: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _sockets() -> Iterator[Config]:
    """Sockets of its own for every kernel: parallel runs never race for a port."""
    if os.name != "posix":
        yield Config()
        return
    with tempfile.TemporaryDirectory(prefix="attnflow-", ignore_cleanup_errors=True) as folder:
        yield Config(KernelManager={"transport": "ipc", "ip": f"{folder}/k"})


def _tidy(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Drop what papermill and the machine left: timings, paths, injected-cell bookkeeping."""
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
    )
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        cell.metadata = nbformat.from_dict({"tags": tags} if tags else {})
        if cell.cell_type == "code":
            cell.outputs = _joined(cell.outputs)
    return notebook


def _joined(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """Text that arrived in pieces, whole: where it was cut is an accident of time."""
    out: list[nbformat.NotebookNode] = []
    for output in outputs:
        if output.get("name") == "stderr":
            output["text"] = _FOLDERS.sub("", output["text"])
        streams = output.output_type == "stream" and out and out[-1].output_type == "stream"
        if streams and out[-1].name == output.name:
            out[-1].text += output.text
        else:
            out.append(output)
    return out


def _overlay(
    source: nbformat.NotebookNode, done: nbformat.NotebookNode, defaults: bool
) -> nbformat.NotebookNode:
    """The chapter as it stands, with the outputs (and injected parameters) of a finished run."""
    injected = [c for c in done.cells if "injected-parameters" in c.metadata.get("tags", [])]
    finished = iter([c for c in done.cells if c.cell_type == "code" and c not in injected])
    cells = []
    for cell in source.cells:
        cells.append(cell)
        if cell.cell_type != "code":
            continue
        ran = next(finished)
        cell.outputs, cell.execution_count = ran.outputs, ran.execution_count
        if "parameters" in cell.metadata.get("tags", []) and not defaults:
            cells += injected
    source.cells = cells
    source.metadata = done.metadata
    return source


def stamp(notebook: nbformat.NotebookNode, run_key: str, seconds: float) -> None:
    """Say in the footer which run this is, and how long it took."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if provenance.MIME in output.get("data", {}):
                rows = {"run key": run_key, "run time": f"{seconds:.0f} s"}
                output["data"] = nbformat.from_dict(provenance.stamped(output["data"], **rows))


def _refuse_stderr(project: Project, chapter: Chapter, notebook: nbformat.NotebookNode) -> None:
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.get("name") == "stderr":
                raise RunError(
                    f"{chapter.name}, code cell {cell.execution_count} wrote to stderr:\n"
                    f"  {output['text'].strip()[:500]}"
                )


def _relative(project: Project, path: Path) -> Path:
    return path.relative_to(project.root) if path.is_relative_to(project.root) else path


def checks(notebook: nbformat.NotebookNode) -> tuple[Check, ...]:
    """Every check and control in a notebook's outputs."""
    return tuple(
        from_json(output["metadata"][MIME])
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if MIME in output.get("data", {})
    )


def write_text(text: str, path: Path) -> None:
    """Write under a temporary name and move, so that a reader never sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        draft.write_text(text, encoding="utf-8")
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def write_notebook(notebook: nbformat.NotebookNode, path: Path) -> None:
    """A notebook, atomically, in the one layout the repository uses."""
    write_text(nbformat.writes(notebook) + "\n", path)


def workers(jobs: int | None = None) -> ProcessPoolExecutor:
    """Local processes; anything with `submit`, such as a Dask client's executor, does as well."""
    count = jobs or os.cpu_count() or 1
    return ProcessPoolExecutor(count, mp_context=get_context("spawn"))


class Job(NamedTuple):
    """A run to be done."""

    chapter: str
    parameters: dict[str, Any]


def execute_all(
    project: Project,
    jobs: Iterable[Job],
    executor: Executor,
    *,
    cache: bool = True,
    strict: bool = False,
    finished: Callable[[Job, Run | BookError], None] = lambda job, result: None,
) -> list[Run | BookError]:
    """All runs, in the order of `jobs`; one that fails does not stop the others."""
    listed = list(jobs)
    futures = {
        executor.submit(
            execute, project, job.chapter, job.parameters, cache=cache, strict=strict
        ): i
        for i, job in enumerate(listed)
    }
    results: dict[int, Run | BookError] = {}
    for future in as_completed(futures):
        index = futures[future]
        try:
            results[index] = future.result()
        except BookError as error:
            results[index] = error
        except Exception as error:  # a worker that died: name the chapter, go on
            results[index] = RunError(f"{listed[index].chapter}: {type(error).__name__}: {error}")
        finished(listed[index], results[index])
    return [results[i] for i in range(len(listed))]
