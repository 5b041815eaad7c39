"""Runs on a Dask cluster, by the real programs on loopback, each with folders of its own."""

from __future__ import annotations

import csv
import hashlib
import json
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import append, make_project, write_chapter
from dask_programs import SLOW, Farm, Program, Programs, joined, until

from attnflow import assets
from attnflow.book.chapters.project import Project, recipe
from attnflow.book.runs import cluster
from attnflow.book.runs.cluster import ClusterError, connect
from attnflow.book.runs.keep import CHECKS, NOTEBOOK, Shelf
from attnflow.book.runs.kernels import KernelDied, Stopped
from attnflow.book.runs.run import Job, RunError, execute, execute_all, local
from attnflow.book.runs.sweep import Grid, Summary, sweep

#: Reads an asset that no registry has.
TEXT = b"a few words\n"
READS = (
    "# Reads",
    "size: int = 1  # what is measured, in [1, 9]",
    "from attnflow import assets\nfrom attnflow.claims import check\n"
    "text = (assets.fetch('words') / 'words.txt').read_bytes()\n"
    "print(text)\n"
    "check('mini.ending', predicted=size, measured=size, tol=0.5)",
)
ASSET = f"""
ASSETS["words"] = Asset("words", "no-such-package", "1", "pypi", "none", "a text", 1, False,
    (Member("words.txt", "words.txt", "{hashlib.sha256(TEXT).hexdigest()}", {len(TEXT)}),))
"""


@pytest.fixture(scope="module")
def programs(programs: Programs) -> Programs:
    append(programs.package / "attnflow" / "assets" / "catalogue.py", ASSET)
    return programs


@pytest.fixture
def project(project: Project) -> Project:
    """A miniature checkout with a slow chapter, and one that reads an asset."""
    write_chapter(project, "slow", *SLOW)
    write_chapter(project, "reads", *READS)
    append(project.package / "assets" / "catalogue.py", ASSET)
    return project


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scheduler that is away for four seconds is taken for gone."""
    monkeypatch.setattr(cluster, "PATIENCE", 4.0)


def swept(
    project: Project, runner: Any, chapter: str, what: str = CHECKS, name: str = "t",
    **values: list[Any],
) -> tuple[Summary, list[dict[str, str]]]:  # fmt: skip
    """A sweep and its table, read back, without the times."""
    path = project.build / f"{name}.csv"
    done = sweep(project, Grid(project, chapter, values), runner, path, what=what)
    with path.open(encoding="utf-8", newline="") as file:
        rows = [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]
    return done, rows


@contextmanager
def beside(task: Callable[[], Any]) -> Iterator[Callable[[], Any]]:
    """Do something while a task runs in a thread; what is handed over waits for its answer."""
    box: dict[str, Any] = {}

    def run() -> None:
        try:
            box["answer"] = task()
        except BaseException as error:
            box["error"] = error

    thread = threading.Thread(target=run)
    thread.start()

    def answer() -> Any:
        thread.join(90)
        assert not thread.is_alive(), "it does not end"
        if "error" in box:
            raise box["error"]
        return box["answer"]

    try:
        yield answer
    finally:
        thread.join(90)


def busy(programs: Programs, program: Program) -> list[Any]:
    """The kernels of a worker, once it has some."""
    return until(lambda: programs.kernels(program), f"{program.folder.name} is at work")


# what comes back


def test_a_sweep_gives_the_same_table_as_a_local_one(
    farm: Farm, project: Project, tmp_path: Path
) -> None:
    """Bit for bit, but for the times; a point that stops is the same row too."""
    with connect(farm.address, None) as runner:
        joined(runner.client, 2)
        done, rows = swept(project, runner, "ending", size=[1, 2, 9])
        assert len(runner.client.has_what()) == 2
    other = make_project(tmp_path / "other")
    assert recipe(other, "ending").basis == recipe(project, "ending").basis
    here, expected = swept(other, local(1), "ending", size=[1, 2, 9])
    assert rows == expected
    assert [row["verdict"] for row in rows] == ["holds", "fails", "holds", "fails", "error"]
    assert (done.runs, done.known, done.rows, done.unsound) == (3, 0, 5, 0)
    assert done.stopped == here.stopped
    kept = sorted(path.name for path in (project.build / "runs").iterdir())
    assert kept == sorted(path.name for path in (other.build / "runs").iterdir())
    assert all(path.stat().st_size < 4000 for path in (project.build / "runs").iterdir())
    again, same = swept(project, _Nobody(), "ending", size=[1, 2])
    assert (again.known, same) == (2, rows[:4])


class _Nobody:
    """A runner that must not be asked."""

    slots = 1

    def run(self, *given: Any) -> Any:
        raise AssertionError("a known run was asked for again")

    def stop(self) -> None:
        pass


def test_a_whole_notebook_comes_back_as_it_would_be_here(
    farm: Farm, project: Project, tmp_path: Path
) -> None:
    with connect(farm.address, None) as runner:
        there = execute(project, "distance", {"n": 5}, runner=runner, strict=True)
    here = execute(make_project(tmp_path / "other"), "distance", {"n": 5})
    assert there.key == here.key
    assert there.checks == here.checks
    assert there.whole.metadata.pop("attnflow")["key"] == here.whole.metadata.pop("attnflow")["key"]
    assert _timeless(there.whole) == _timeless(here.whole)
    assert Shelf(project.build / "runs").read("distance", there.key, NOTEBOOK) is not None


def _timeless(notebook: Any) -> list[Any]:
    cells = [dict(cell) for cell in notebook.cells if "injected" not in str(cell.metadata)]
    return [c for c in cells if "run time" not in json.dumps(c)]


def test_a_chapter_that_stops_leaves_its_notebook_here(farm: Farm, project: Project) -> None:
    with (
        connect(farm.address, None) as runner,
        pytest.raises(RunError, match="ending, code cell 4: ValueError: the chapter stops") as said,
    ):
        execute(project, "ending", {"mode": "raises"}, runner=runner, what=CHECKS)
    assert said.value.partial is not None
    assert "the chapter stops here" in said.value.partial.read_text(encoding="utf-8")
    assert said.value.partial.is_relative_to(project.build)


def test_a_chapter_travels_once_and_workers_see_nothing_of_our_disk(
    farm: Farm, project: Project
) -> None:
    with connect(farm.address, None) as runner:
        swept(project, runner, "slow", size=[1, 2, 3, 4], wait=[0.5])
        assert len(runner._bundles) == 1
    for program in farm.workers:
        (folder,) = program.folder.glob("tmp/dask-scratch-space/worker-*/attnflow")
        chapters = [path.name for path in folder.glob("*/book/*.ipynb")]
        assert chapters.count("slow.ipynb") == 1
        assert not list(program.folder.rglob("requirements.lock"))


# what dies


def test_a_killed_worker_costs_nothing_even_if_it_alone_held_the_chapter(
    programs: Programs, project: Project
) -> None:
    address, _ = programs.scheduler()
    first = programs.worker(address)
    with connect(address, None) as runner:
        task = lambda: swept(project, runner, "slow", size=[1, 2], wait=[1.5])  # noqa: E731
        with beside(task) as answer:
            kernels = busy(programs, first)
            first.kill()
            programs.worker(address)
            done, rows = answer()
    assert [kernel for kernel in kernels if kernel.is_running()] == []
    assert (done.runs, done.known, done.stopped, done.unsound) == (2, 0, (), 0)
    assert [(row["measured"], row["verdict"]) for row in rows] == [
        ("1.0", "holds"),
        ("2.0", "holds"),
    ]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Dask's sockets
@pytest.mark.usefixtures("impatient")
def test_a_killed_scheduler_is_said_and_the_sweep_goes_on_with_another(
    programs: Programs, farm: Farm, project: Project
) -> None:
    address, scheduler = programs.scheduler()
    worker = programs.worker(address)
    with connect(address, None) as runner:
        task = lambda: swept(project, runner, "slow", size=[1, 2, 3], wait=[1.0])  # noqa: E731
        with beside(task) as answer:
            until(lambda: list((project.build / "runs").glob("*.json")), "a finished run")
            scheduler.kill()
            with pytest.raises(ClusterError, match=f"the scheduler at {address} is gone; what was"):
                answer()
    kept = len(list((project.build / "runs").glob("*.json")))
    assert kept >= 1
    assert not list((project.build / "runs").glob(".*.lock"))
    with connect(farm.address, None) as runner:
        done, rows = swept(project, runner, "slow", size=[1, 2, 3], wait=[1.0])
    assert (done.runs, done.known) == (3, kept)
    assert [row["measured"] for row in rows] == ["1.0", "2.0", "3.0"]
    until(lambda: not programs.kernels(worker), "the kernel of a lost driver ends")


def test_a_run_that_is_given_up_ends_on_its_worker(farm: Farm, project: Project) -> None:
    with connect(farm.address, None) as runner:
        runs = execute_all(project, [Job("slow", {"wait": 60})], runner, what=CHECKS)
        with beside(lambda: list(runs)) as answer:
            until(farm.kernels, "a kernel")
            runner.stop()
            with pytest.raises(Stopped):
                answer()
        until(lambda: not farm.kernels(), "the kernel ends", 20)


@pytest.mark.usefixtures("impatient")
def test_an_address_where_nobody_answers_is_a_sentence() -> None:
    with (
        pytest.raises(ClusterError, match=r"no scheduler answers at tcp://127\.0\.0\.1:9: "),
        connect("tcp://127.0.0.1:9", None),
    ):
        pass


def test_without_dask_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ClusterError, match=r"attnflow\[cluster\]"), connect(None, 1):
        pass


# who is refused


def other_numpy(folder: Path, package: Path) -> str:
    """A path on which numpy says that it is another."""
    (folder / "numpy-9.9.dist-info").mkdir(parents=True)
    (folder / "numpy-9.9.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: numpy\nVersion: 9.9\n", encoding="utf-8"
    )
    return f"{folder}:{package}"


@pytest.mark.filterwarnings("ignore:Mismatched versions")  # what Dask says of it
def test_a_worker_with_another_numpy_or_without_attnflow_is_refused_and_others_do_the_work(
    programs: Programs, project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address, _ = programs.scheduler()
    programs.worker(address, PYTHONPATH=other_numpy(tmp_path / "fake", programs.package))
    programs.worker(address, PYTHONPATH=str(programs.hollow))
    with connect(address, None) as runner:
        unfit = joined(runner.client, 2)
        with pytest.raises(ClusterError, match=r"no worker of .* is fit for these runs:") as said:
            swept(project, runner, "ending", size=[1])
        assert set(runner.refused) == set(unfit)
    lines = sorted(line.partition(": ")[2] for line in str(said.value).splitlines()[1:])
    assert lines[0].startswith(
        "it cannot import what runs chapters (No module named 'attnflow.book')"
    )
    assert re.fullmatch(r"its packages differ: numpy 9\.9, not 2\.\S+", lines[1])
    assert not list((project.build / "runs").glob("*.json"))
    programs.worker(address)
    capsys.readouterr()
    with connect(address, None) as runner:
        joined(runner.client, 3)
        done, _ = swept(project, runner, "ending", size=[1, 2, 3])
        assert set(runner.refused) <= set(unfit)
        assert capsys.readouterr().err.count("is refused: ") == len(runner.refused)
    assert (done.runs, done.stopped, done.unsound) == (3, (), 0)


def test_an_asset_that_a_worker_cannot_fetch_is_sent_to_it(
    farm: Farm, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(assets.ASSETS, "words", None)  # gone again after the test
    exec(ASSET, vars(assets))
    monkeypatch.setenv(assets.VARIABLE, str(tmp_path / "assets"))
    with connect(farm.address, None) as runner:
        with pytest.raises(RunError, match="AssetError: asset words: cannot download it"):
            execute(project, "reads", runner=runner, what=CHECKS)
        (tmp_path / "assets" / "words").mkdir(parents=True)
        (tmp_path / "assets" / "words" / "words.txt").write_bytes(TEXT)
        done, _ = swept(project, runner, "reads", size=[1, 2])
    assert (done.runs, done.stopped, done.unsound) == (2, (), 0)
    found = [path for p in farm.workers for path in p.folder.glob("assets/words/words.txt")]
    assert found
    assert all(path.read_bytes() == TEXT for path in found)


@pytest.mark.parametrize(
    "change", [{"key": "0" * 16}, {"digest": "0" * 64}, {"notebook": '{"cells": []}'}]
)
def test_an_answer_is_believed_only_with_its_key_and_digest(change: dict[str, str]) -> None:
    notebook = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    text, digest = cluster.bundle.dumped(notebook)
    answer = {
        "worker": "w", "key": "k" * 16, "digest": digest, "notebook": text, "failure": None,
        "seconds": 1.0,
    }  # fmt: skip
    assert cluster._believed(answer, "k" * 16).seconds == 1.0
    with pytest.raises(KernelDied, match="the answer of w is not what it says it is"):
        cluster._believed({**answer, **change}, "k" * 16)


def test_a_worker_on_which_the_key_differs_is_refused(
    farm: Farm, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it would if something there read the chapter otherwise."""
    prepared = recipe(project, "ending")
    packed = cluster.bundle.pack(prepared)
    other = prepared._replace(basis={**prepared.basis, "lock": "another"})
    monkeypatch.setattr(cluster.bundle, "pack", lambda asked: packed)
    with (
        connect(farm.address, None) as runner,
        pytest.raises(ClusterError, match=r"the run \w{16} has the key \w{16} there"),
    ):
        runner.run(other, prepared.chapter.default_parameters, CHECKS)
