"""One run: what is executed, what is read back, what is written, how it fails."""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import nbformat
import pytest
from conftest import (
    METADATA,
    Fake,
    Finished,
    append,
    edit_cell,
    make_project,
    run_all,
    write_chapter,
)
from nbformat.v4 import new_markdown_cell

from attnflow.book.chapters.parameters import BookError
from attnflow.book.chapters.project import Project
from attnflow.book.runs.keep import CHECKS
from attnflow.book.runs.kernels import KernelDied
from attnflow.book.runs.run import Job, Run, RunError, execute, execute_all, local


def printed(run: Run) -> str:
    return "".join(
        output.text
        for cell in run.whole.cells
        for output in cell.get("outputs", [])
        if output.output_type == "stream"
    )


def ran(project: Project) -> dict[str, bool]:
    """Runs every chapter at its defaults; which of them were executed."""
    return {name: not execute(project, name).cached for name in project.chapters()}


def test_the_first_run_executes_and_collects_checks_and_controls(finished: Finished) -> None:
    run = finished.runs["distance"]
    assert not run.cached
    assert run.parameters == {"n": 3, "gap": 1.0}
    assert printed(run) == "largest 4.0\n"
    assert [(row.id, row.is_control, row.verdict) for row in run.checks] == [
        ("mini.distance", False, "holds"),
        ("mini.distance", True, "fails"),
    ]
    assert run.unsound == ()


@pytest.mark.usefixtures("no_kernel")
def test_nothing_runs_again_when_nothing_changed(finished: Finished, known: Project) -> None:
    for name, first in finished.runs.items():
        again = execute(known, name)
        assert again.cached
        assert again.checks == first.checks
        assert again.key == first.key
        assert again.whole == first.whole


def test_exactly_the_chapters_that_reach_an_edited_module_run_again(known: Project) -> None:
    append(
        known.package / "kernels" / "dense.py",
        "\n_once = squared_distances\n\n\n"
        "def squared_distances(x, y, scale=1.0):\n    return 2 * _once(x, y, scale)\n",
    )
    assert ran(known) == {"slope": False, "distance": True, "ending": False}
    run = execute(known, "distance")
    assert printed(run) == "largest 8.0\n"
    assert [row.measured for row in run.unsound] == [8.0]


@pytest.mark.usefixtures("no_kernel")
def test_a_prose_edit_runs_nothing_and_is_in_the_notebook(
    finished: Finished, known: Project
) -> None:
    edit_cell(known, "distance", "heading", "# A better title")
    path = known.book / "distance.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.insert(3, new_markdown_cell("A new paragraph.", id="new"))
    nbformat.write(notebook, path)
    run = execute(known, "distance")
    assert run.cached
    assert [cell.id for cell in run.whole.cells] == [cell.id for cell in notebook.cells]
    assert run.whole.cells[0].source == "# A better title"
    assert run.whole.cells[3].source == "A new paragraph."
    assert printed(run) == "largest 4.0\n"
    assert run.checks == finished.runs["distance"].checks


@pytest.mark.usefixtures("no_kernel")
@pytest.mark.parametrize("change", ["code", "lock", "parameter", "asked"])
def test_a_run_that_is_not_known_is_executed(known: Project, change: str) -> None:
    given, cache = {}, True
    if change == "code":
        edit_cell(known, "slope", "code-0", "1 + 1")
    elif change == "lock":
        append(known.root / "requirements.lock", "scipy==1\n")
    elif change == "parameter":
        given = {"power": 3}
    else:
        cache = False
    with pytest.raises((AssertionError, RunError), match="a kernel was started"):
        execute(known, "slope", given, cache=cache)


def test_parameters_are_injected_and_used(known: Project) -> None:
    run = execute(known, "distance", {"n": "5"})
    assert run.parameters == {"n": 5, "gap": 1.0}
    assert printed(run) == "largest 16.0\n"
    assert [row.predicted for row in run.checks] == [16.0, 4.0]
    ids = [cell.id for cell in run.whole.cells]
    injected = run.whole.cells[ids.index("parameters") + 1]
    assert injected.metadata.tags == ["injected-parameters"]
    assert re.search(r"^n = 5$", injected.source, re.MULTILINE)
    assert "gap" not in injected.source
    original = known.chapter("distance").read()
    assert [i for i in ids if i != injected.id] == [cell.id for cell in original.cells]
    nbformat.validate(run.whole)
    assert execute(known, "distance", {"n": 5}).whole == run.whole


def test_a_chapter_without_kernel_metadata_takes_parameters(project: Project) -> None:
    path = project.book / "ending.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.metadata = nbformat.from_dict({})
    nbformat.write(notebook, path)
    assert execute(project, "ending", {"size": 2}).checks[0].measured == 2.0


def test_at_defaults_the_notebook_is_the_chapter_with_outputs(finished: Finished) -> None:
    for name, run in finished.runs.items():
        source = finished.project.chapter(name).read()
        assert [cell.id for cell in run.whole.cells] == [cell.id for cell in source.cells]
        assert [cell.source for cell in run.whole.cells] == [c.source for c in source.cells]
        nbformat.validate(run.whole)


def test_the_notebook_holds_no_machine_paths_and_no_papermill_metadata(
    finished: Finished,
) -> None:
    for run in finished.runs.values():
        text = nbformat.writes(run.whole)
        assert "papermill" not in text
        assert str(finished.project.root) not in text
        assert str(Path.home()) not in text
        assert "ipykernel_" not in text
        assert set(run.whole.metadata) == {*METADATA, "attnflow"}
        assert run.whole.metadata.language_info == METADATA["language_info"]
        for cell in run.whole.cells:
            assert set(cell.metadata) <= {"tags"}


def test_the_footer_shows_the_key_of_the_run(finished: Finished) -> None:
    run = finished.runs["distance"]
    footer = run.whole.cells[-1].outputs[0].data
    assert f"run key: {run.key}" in footer["text/plain"]
    assert "parameters: n = 3, gap = 1.0" in footer["text/plain"]
    assert run.key in footer["text/html"]


@pytest.fixture(scope="module")
def untidy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, Run]:
    """A chapter that looks around, and warns from a cell and from the package."""
    project = make_project(tmp_path_factory.mktemp("untidy") / "mini")
    text = "import warnings\n\n\ndef odd():\n    warnings.warn('odd', stacklevel=1)\n"
    (project.package / "loud.py").write_text(text, encoding="utf-8")
    write_chapter(
        project,
        "untidy",
        "# Untidy",
        "n: int = 1  # nothing",
        "import os\nprint(sorted(os.listdir()))",
        "import warnings\nfrom attnflow.loud import odd\nodd()\nwarnings.warn('strange')",
    )
    return project, execute(project, "untidy")


def test_a_run_puts_nothing_next_to_the_chapters(untidy: tuple[Project, Run]) -> None:
    listed = printed(untidy[1]).splitlines()[0]
    names = ["claims.yml", "distance.ipynb", "ending.ipynb", "slope.ipynb", "untidy.ipynb"]
    assert listed == str(names)


def test_warnings_are_shown_without_machine_paths(untidy: tuple[Project, Run]) -> None:
    project, run = untidy
    text = printed(run)
    assert "UserWarning: odd" in text
    assert "UserWarning: strange" in text
    assert str(project.root) not in text
    assert not re.search(r"ipykernel_\d+", text)


def test_a_failing_chapter_names_itself_the_cell_and_the_error(project: Project) -> None:
    environment = dict(os.environ)
    with pytest.raises(RunError) as caught:
        execute(project, "ending", {"mode": "raises"})
    found = re.match(
        r"ending, code cell (\d+): ValueError: the chapter stops here", str(caught.value)
    )
    assert found is not None
    partial = caught.value.partial
    assert partial is not None
    assert str(partial.relative_to(project.root)) in str(caught.value)
    notebook = nbformat.read(partial, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    stopped = cells[int(found[1]) - 1]
    assert "raise ValueError" in stopped.source
    assert [output.output_type for output in stopped.outputs] == ["error"]
    assert cells[int(found[1])].outputs == []
    assert not list((project.build / "runs").glob("*"))
    assert dict(os.environ) == environment


def test_a_run_error_keeps_its_partial_notebook_between_processes() -> None:
    error = pickle.loads(pickle.dumps(RunError("toy stopped", Path("toy.ipynb"))))
    assert isinstance(error, RunError)
    assert (str(error), error.partial) == ("toy stopped", Path("toy.ipynb"))


def test_a_kernel_that_dies_once_costs_its_run_one_more_try(project: Project) -> None:
    deaths = iter([KernelDied("gone")])

    def die(point: Mapping[str, Any]) -> None:
        for death in deaths:
            raise death

    fake = Fake(before=die)
    assert execute(project, "ending", {"size": 4}, runner=fake).checks[0].measured == 4.0
    assert len(fake.ran) == 1


def test_a_kernel_that_dies_twice_is_a_run_error_that_names_the_chapter(project: Project) -> None:
    tries: list[Mapping[str, Any]] = []

    def die(point: Mapping[str, Any]) -> None:
        tries.append(point)
        raise KernelDied("DeadKernelError: Kernel died")

    (stopped,) = run_all(project, [Job("ending", {})], Fake(before=die))
    assert isinstance(stopped, RunError)
    assert re.search("ending.*2 times.*Kernel died", str(stopped))
    assert len(tries) == 2
    with pytest.raises(RunError, match=r"ending.*Kernel died"):
        execute(project, "ending", runner=Fake(before=die))
    assert not list((project.build / "runs").iterdir())


def test_one_chapter_that_fails_does_not_stop_the_others(known: Project) -> None:
    jobs = [Job("ending", {"mode": "raises"}), Job("slope", {}), Job("none", {}), Job("ending", {})]
    results = run_all(known, jobs, local(1))
    assert [type(result) for result in results] == [RunError, Run, BookError, Run]
    assert [r.chapter for r in results if isinstance(r, Run)] == ["slope", "ending"]


def test_every_run_is_told_as_it_finishes_with_its_place(project: Project) -> None:
    jobs = [Job("ending", {"size": size}) for size in (5, 3, 8)]
    told = dict(execute_all(project, jobs, Fake(slots=2)))
    assert sorted(told) == [0, 1, 2]
    sizes = [told[k].parameters["size"] for k in range(3) if isinstance(told[k], Run)]
    assert sizes == [5, 3, 8]


def test_runs_in_parallel_all_finish(project: Project) -> None:
    jobs = [Job("ending", {"size": size}) for size in (2, 3)]
    results = run_all(project, jobs, local(2))
    assert [r.checks[0].measured if isinstance(r, Run) else str(r) for r in results] == [2.0, 3.0]


def test_a_long_list_of_jobs_is_read_as_runs_finish(project: Project) -> None:
    read: list[int] = []

    def jobs() -> Iterator[Job]:
        for k in range(200):
            read.append(k)
            yield Job("ending", {"size": 1 + k % 8})

    results = execute_all(project, jobs(), Fake(slots=2))
    for done, _ in enumerate(results):
        assert len(read) <= done + 1 + 2 * 2
    assert done == 199


@pytest.mark.parametrize("way", ["close", "interrupt", "broken source"])
def test_leaving_early_stops_the_runner_and_keeps_what_was_finished(
    project: Project, way: str
) -> None:
    def interrupted() -> Iterator[Job]:
        yield Job("ending", {"size": 1})
        yield Job("ending", {"size": 2})
        if way == "broken source":
            raise KeyboardInterrupt
        yield from (Job("ending", {"size": size}) for size in range(3, 9))

    fake = Fake()
    results = execute_all(project, interrupted(), fake)
    if way == "broken source":
        with pytest.raises(KeyboardInterrupt):
            list(results)
    else:
        next(results)
        if way == "close":
            results.close()
        else:
            with pytest.raises(KeyboardInterrupt):
                results.throw(KeyboardInterrupt)
    assert fake.stopped
    assert len(fake.ran) < 8
    for point in fake.ran:
        assert execute(project, "ending", point, runner=Fake(before=pytest.fail)).cached


def test_checks_alone_are_kept_in_a_small_file_and_draw_nothing(project: Project) -> None:
    edit_cell(project, "ending", "code-2", "print('drawn')")
    path = project.book / "ending.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[4].metadata["tags"] = ["nbval-ignore-output"]
    notebook.cells[4].source = "raise ValueError('a figure is drawn')"
    nbformat.write(notebook, path)
    run = execute(project, "ending", what=CHECKS)
    assert [row.verdict for row in run.checks] == ["holds", "fails"]
    assert run.notebook is None
    with pytest.raises(ValueError, match="only checks were wanted"):
        run.whole  # noqa: B018
    (kept,) = (project.build / "runs").iterdir()
    assert kept.suffix == ".json"
    assert kept.stat().st_size < 4096
    again = execute(project, "ending", what=CHECKS, runner=Fake(before=pytest.fail))
    assert again == run._replace(cached=True)
    with pytest.raises(RunError, match="a figure is drawn"):
        execute(project, "ending")


@pytest.mark.usefixtures("no_kernel")
def test_checks_are_read_from_a_notebook_that_is_kept(finished: Finished, known: Project) -> None:
    run = execute(known, "ending", what=CHECKS)
    assert run.cached
    assert run.checks == finished.runs["ending"].checks


def test_strict_refuses_text_on_stderr_also_of_a_known_run(known: Project) -> None:
    run = execute(known, "ending", {"mode": "warns"})
    assert not run.unsound
    for cache in (True, False):
        with pytest.raises(RunError, match=r"ending, code cell 5 wrote to stderr:\n  careful"):
            execute(known, "ending", {"mode": "warns"}, strict=True, cache=cache)


@pytest.mark.usefixtures("no_kernel")
def test_strict_accepts_a_quiet_run(known: Project) -> None:
    assert execute(known, "ending", strict=True).cached


@pytest.mark.usefixtures("no_kernel")
@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        ("nowhere", {}, "no chapter 'nowhere'"),
        ("distance", {"m": 1}, "no parameter 'm'"),
        ("distance", {"n": "many"}, "n must be int"),
        ("distance", {"n": 2.5}, "n must be int"),
        ("distance", {"n": True}, "n must be int"),
        ("distance", {"n": 65}, r"n must be int in \[2, 64\], got 65"),
        ("distance", {"gap": 0.0}, r"gap must be float in \(0, inf\), got 0.0"),
        ("distance", {"gap": float("nan")}, "gap must be"),
        ("ending", {"mode": "other"}, "mode must be str, one of"),
    ],
)
def test_wrong_parameters_are_refused_before_a_kernel_starts(
    project: Project, name: str, given: dict[str, Any], says: str
) -> None:
    with pytest.raises(BookError, match=says) as caught:
        execute(project, name, given)
    assert not isinstance(caught.value, RunError)
    assert not project.build.exists()


def test_a_finished_run_leaves_only_its_notebook(finished: Finished) -> None:
    build = finished.project.build
    kept = {path.name for path in (build / "runs").iterdir()}
    assert kept == {f"{name}-{run.key}.ipynb" for name, run in finished.runs.items()}
    assert [path.name for path in build.iterdir()] == ["runs"]
