"""What a run costs beyond its cells, here and through Dask, and what very many would need.

    python benchmarks/cluster.py

A miniature chapter that does next to nothing is run by kernels of this machine and by a Dask
cluster of two workers (the programs `dask scheduler` and `dask worker`, on loopback). Then: bytes
kept of a run of every chapter, how many trivial tasks the scheduler passes on a second, and the
memory of a driver with 10^4 points whose runs are made up. It uses all cores, and the extras `book`
and `cluster`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import report  # isort: split

import cloudpickle
import nbformat
from nbformat.v4 import new_code_cell, new_notebook

from attnflow.book.chapters.notebooks import checks, tidy
from attnflow.book.chapters.parameters import BookError
from attnflow.book.chapters.project import Project, Recipe, find_project, recipe
from attnflow.book.runs import bundle
from attnflow.book.runs.cluster import _checks_alone, connect, connected
from attnflow.book.runs.keep import CHECKS, Kept, Shelf
from attnflow.book.runs.kernels import Executed, Kernels, Runner
from attnflow.book.runs.run import Job, Run
from attnflow.book.runs.sweep import Grid, sweep

RUNS, TASKS, POINTS = 8, 2000, (100, 10_000)
ROUNDS = 3  #: of which the fastest counts, as the machine may be shared
#: How long its own cells took is what the chapter measures.
CELLS = (
    "size: int = 1  # which run, in [1, 1000000]",
    "import time\nbegun = time.perf_counter()",
    "from attnflow.claims import check",
    "check('mini.time', predicted=0, measured=time.perf_counter() - begun, tol=60)",
)


def miniature(root: Path) -> Project:
    """A checkout with the chapter `mini`; the package is a link to this one."""
    (root / "book").mkdir(parents=True)
    (root / "src").symlink_to(find_project().root / "src")
    (root / "_toc.yml").write_text("format: jb-book\nroot: book/mini\n", encoding="utf-8")
    (root / "requirements.lock").write_text("", encoding="utf-8")
    cells = [new_code_cell(source) for source in CELLS]
    cells[0].metadata["tags"] = ["parameters"]
    nbformat.write(new_notebook(cells=cells), root / "book" / "mini.ipynb")
    return Project(root)


@contextmanager
def two_workers(folder: Path) -> Iterator[str]:
    """The address of a scheduler with two workers, programs of their own."""
    note, programs = folder / "scheduler.json", list[subprocess.Popen[bytes]]()
    common = ("--host", "127.0.0.1", "--no-dashboard", "--dashboard-address", "127.0.0.1:0")

    def start(*words: str) -> None:
        command = [sys.executable, "-m", "dask", *words, *common]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        programs.append(subprocess.Popen(command, cwd=folder, **quiet))

    try:
        start("scheduler", "--port", "0", "--scheduler-file", str(note))
        while not (note.is_file() and note.read_text()):
            time.sleep(0.1)
        address = json.loads(note.read_text())["address"]
        for _ in range(2):
            start("worker", address, "--nthreads", "1", "--no-nanny", "--memory-limit", "0")
        with connected(address, None) as client:
            client.wait_for_workers(2)
        yield address
    finally:
        for program in reversed(programs):
            program.terminate()
            program.wait()


def overhead(where: str, runner: Runner, at_once: int) -> dict[str, Any]:
    """Seconds of a core for a run, and those that its cells do not account for."""
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        project, size = miniature(Path(folder) / "mini"), 1
        for count in (at_once, *ROUNDS * [RUNS]):  # the first round warms up
            grid, seen = Grid(project, "mini", {"size": list(range(size, size + count))}), Seen()
            started = time.perf_counter()
            sweep(project, grid, runner, project.build / "mini.csv", finished=seen)
            spent = (time.perf_counter() - started) * at_once / count
            rounds.append((spent, statistics.median(seen.seconds)))
            size += count
    spent, inside = min(rounds[1:])
    return {
        "where": where,
        "at once": at_once,
        "core seconds a run": spent,
        "of them in cells": inside,
        "overhead": spent - inside,
    }


class Seen:
    """Collects what runs measured."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def __call__(self, job: Job, run: Run | BookError) -> None:
        if isinstance(run, BookError):
            raise run
        self.seconds += [row.measured for row in run.checks]


def overheads() -> list[dict[str, Any]]:
    rows = [overhead("kernels here", Kernels(n), n) for n in (1, 2)]
    with (
        tempfile.TemporaryDirectory() as folder,
        two_workers(Path(folder)) as address,
        connect(address, None) as runner,
    ):
        rows.append(overhead("Dask, two workers", runner, 2))
    return rows


def bytes_kept() -> list[dict[str, Any]]:
    """What a run of each chapter leaves on the shelf, and what travels to a worker once."""
    project = find_project()
    sizes: dict[str, list[int]] = {"checks": [], "notebook": [], "bundle, once": []}
    with tempfile.TemporaryDirectory() as folder:
        shelf = Shelf(Path(folder))
        for name, chapter in project.chapters().items():
            notebook = tidy(chapter.read())
            rows = checks(notebook)
            for what, held in (("checks", None), ("notebook", notebook)):
                shelf.write(name, what, Kept(held, rows, 1.0))
                (path,) = Path(folder).glob(f"{name}-{what}.*")
                sizes[what].append(path.stat().st_size)
            sizes["bundle, once"].append(len(bundle.pack(recipe(project, name)).content))
    return [
        {"what": what, "chapters": len(found), "least kB": min(found) / 1e3,
         "median kB": statistics.median(found) / 1e3, "most kB": max(found) / 1e3}
        for what, found in sizes.items()
    ]  # fmt: skip


def trivial(number: int) -> int:
    return number


def throughput() -> list[dict[str, Any]]:
    """Tasks a second through one scheduler: all handed over, and as sweeps do."""
    with (
        tempfile.TemporaryDirectory() as folder,
        two_workers(Path(folder)) as address,
        connected(address, None) as client,
        ThreadPoolExecutor(64) as pool,
    ):
        # sent by value, since the workers do not have this script
        task = cloudpickle.loads(cloudpickle.dumps(lambda number: number))

        def single(number: int) -> Any:
            return client.submit(task, number, pure=False).result()

        def together() -> Any:
            return client.gather(client.map(task, range(TASKS), pure=False))

        ways = {
            "all handed over": together,
            "one by one, 64 in flight": lambda: list(pool.map(single, range(TASKS))),
        }
        client.submit(task, 0).result()
        rows = []
        for how, way in ways.items():
            spent = []
            for _ in range(ROUNDS):
                started = time.perf_counter()
                assert sum(way()) == sum(range(TASKS))
                spent.append(time.perf_counter() - started)
            rows.append({"how": how, "tasks": TASKS, "tasks a second": TASKS / min(spent)})
    return rows


class Fake:
    """A runner of no work at all: every run has the checks of a real chapter."""

    slots = 8

    def __init__(self) -> None:
        self.notebook = _checks_alone(tidy(find_project().chapter("attention").read()))

    def run(self, recipe: Recipe, parameters: Any, what: str) -> Executed:
        return Executed(self.notebook, 1.0)

    def stop(self) -> None:
        pass


def driver(points: int) -> dict[str, Any]:
    """The memory of a process that sweeps over so many points, and how fast it can."""
    with tempfile.TemporaryDirectory() as folder:
        project, runner = miniature(Path(folder) / "mini"), Fake()
        grid = Grid(project, "mini", {"size": list(range(1, points + 1))})
        before, started = report.peak_memory(), time.perf_counter()
        done = sweep(project, grid, runner, project.build / "mini.csv", what=CHECKS)
        spent = time.perf_counter() - started
        table = (project.build / "mini.csv").stat().st_size
    return {
        "points": points,
        "rows": done.rows,
        "table MB": table / 1e6,
        "peak MB": report.peak_memory() / 1e6,
        "of them before": before / 1e6,
        "runs a second": points / spent,
    }


def million(tables: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """What 10^6 runs of 30 s on 1,000 cores would need, from what was measured."""
    runs, seconds, cores = 10**6, 30.0, 1000
    extra = tables["overhead"][-1]["overhead"]
    kept = {row["what"]: row["median kB"] for row in tables["kept"]}
    passed = tables["throughput"][-1]["tasks a second"]
    needed = cores / (seconds + extra)
    rows = [
        ("in cells", runs * seconds / cores / 3600, "hours"),
        ("with the overhead", runs * (seconds + extra) / cores / 3600, "hours"),
        ("the overhead's share", 100 * extra / (seconds + extra), "%"),
        ("tasks that the cores ask for", needed, "a second"),
        ("tasks that one scheduler passed here, one by one", passed, "a second"),
        ("runs that the driver kept here", tables["driver"][-1]["runs a second"], "a second"),
        ("checks kept", runs * kept["checks"] / 1e6, "GB"),
        ("notebooks, were they kept", runs * kept["notebook"] / 1e6, "GB"),
        ("answers on the network", needed * kept["checks"] / 1e3, "MB a second"),
    ]
    return [{"what": what, "value": value, "unit": unit} for what, value, unit in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--driver", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.driver:
        print(json.dumps(driver(options.driver)))
        return
    if hasattr(os, "sched_setaffinity"):  # workers and scheduler beside the driver: all cores
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
    tables: dict[str, list[dict[str, Any]]] = {
        "overhead": overheads(),
        "kept": bytes_kept(),
        "throughput": throughput(),
        "driver": [report.apart(__file__, "--driver", points) for points in POINTS],
    }
    tables["million"] = million(tables)
    for rows in tables.values():
        report.show(rows, dict.fromkeys(rows[0], _shown))
    report.store("cluster", tables)


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
