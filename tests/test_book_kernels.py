"""Kernels on this machine: driven by threads, stopped at once, and gone without a trace."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import make_project, write_chapter
from drivers import PROBE, wait_until
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.provisioning import LocalProvisioner
from nbclient import NotebookClient

from attnflow.book.chapters.notebooks import checks
from attnflow.book.chapters.project import Project, Recipe, recipe
from attnflow.book.runs.keep import CHECKS
from attnflow.book.runs.kernels import Executed, KernelDied, Kernels, Stopped, _OwnPython


@pytest.fixture
def probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recipe:
    project = make_project(tmp_path / "mini")
    write_chapter(project, "probe", *PROBE)
    monkeypatch.setenv("PROBE_LOG", str(tmp_path / "probe.log"))
    (tmp_path / "probe.log").touch()
    return recipe(project, "probe")


@pytest.fixture
def deep() -> Iterator[Path]:
    """A temporary folder whose name is too long for a socket."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("deep" * 20)
        path.mkdir()
        yield path


def at(prepared: Recipe, **given: object) -> dict[str, object]:
    return prepared.chapter.resolve(given)


def measured(done: Executed) -> list[float]:
    return [row.measured for row in checks(done.notebook)]


def lines(prepared: Recipe) -> list[str]:
    return (prepared.project.root.parent / "probe.log").read_text(encoding="utf-8").splitlines()


def scratch(folder: str | Path | None = None) -> list[Path]:
    return list(Path(folder or tempfile.gettempdir()).glob(f"attnflow-{os.getpid()}-*"))


def test_a_run_leaves_no_event_loop_no_file_and_no_process(probe: Recipe) -> None:
    gc.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        assert measured(Kernels(1).run(probe, at(probe, point=5), CHECKS)) == [5.0]
        gc.collect()
    assert scratch() == []
    pid = int(lines(probe)[0].split()[1])
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), 5)


def test_a_run_is_made_where_an_event_loop_is_running(probe: Recipe) -> None:
    async def cell() -> Executed:
        return Kernels(1).run(probe, at(probe, point=6), CHECKS)

    assert measured(asyncio.run(cell())) == [6.0]


def test_in_a_deep_temporary_folder_kernels_use_ports(
    probe: Recipe, deep: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    assert measured(Kernels(1).run(probe, at(probe, point=7), CHECKS)) == [7.0]
    assert scratch(deep) == []


def test_a_kernel_that_dies_is_said_to_have_died(probe: Recipe) -> None:
    with pytest.raises(KernelDied, match="Kernel died"):
        Kernels(1).run(probe, at(probe, mode="die", deaths=9), CHECKS)
    assert len(lines(probe)) == 1
    assert scratch() == []


def test_a_runner_that_was_stopped_starts_no_kernel(probe: Recipe) -> None:
    kernels = Kernels(2)
    kernels.stop()
    with pytest.raises(Stopped):
        kernels.run(probe, at(probe), CHECKS)
    assert lines(probe) == []
    assert scratch() == []


@pytest.mark.parametrize("moment", ["at once", "before there is a process", "in a cell", "deaf"])
def test_stopping_ends_a_run_whenever_it_comes(
    probe: Recipe, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels, ended = Kernels(1), list[Exception]()
    if moment == "before there is a process":
        idle = KernelSpec(argv=[sys.executable, "-c", "import time; time.sleep(60)"])
        launch = LocalProvisioner.launch_kernel

        async def later(*args: Any, **kwargs: Any) -> Any:
            await asyncio.sleep(0.5)
            return await launch(*args, **kwargs)

        monkeypatch.setattr(_OwnPython, "get_kernel_spec", lambda self, name: idle)
        monkeypatch.setattr(LocalProvisioner, "launch_kernel", later)

    def run() -> None:
        try:
            kernels.run(probe, at(probe, mode="sleep"), CHECKS)
        except Stopped as stopped:
            ended.append(stopped)

    if moment == "deaf":

        async def for_ever(*args: Any, **kwargs: Any) -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(NotebookClient, "async_execute", for_ever)
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    wait_until(lambda: lines(probe) if moment == "in a cell" else kernels._live, 60)
    started = time.monotonic()
    kernels.stop()
    thread.join(30)
    assert len(ended) == 1
    assert time.monotonic() - started < 5
    assert scratch() == []


def test_folders_of_killed_drivers_go_and_those_of_running_ones_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    names = ["attnflow-999999999-abc", f"attnflow-{os.getpid()}-abc", "attnflow-notes", "other"]
    for name in names:
        (tmp_path / name).mkdir()
    Kernels(1)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names[1:])


def test_the_chapter_calls_the_package_of_its_own_project(project: Project) -> None:
    write_chapter(
        project, "where", "# Where", "n: int = 1  # nothing",
        "import attnflow, os\nprint(attnflow.__file__, os.getcwd(), os.environ['OMP_NUM_THREADS'])",
    )  # fmt: skip
    prepared = recipe(project, "where")
    done = Kernels(1).run(prepared, {"n": 1}, CHECKS)
    text = done.notebook.cells[-1].outputs[0].text.split()
    assert text == [str(project.package / "__init__.py"), str(project.book), "1"]
