"""Sweeps: the grid, the plot, the forecast, and going on after an interruption."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from conftest import Fake, Finished
from matplotlib.figure import Figure
from toys import run_with, toy_rows

from attnflow.book.chapters.parameters import BookError
from attnflow.book.chapters.project import Project
from attnflow.book.runs import sweep as sweeping
from attnflow.book.runs.keep import CHECKS, NOTEBOOK
from attnflow.book.runs.kernels import Runner
from attnflow.book.runs.run import execute, local
from attnflow.book.runs.sweep import Forecast, Grid, Summary, forecast
from attnflow.book.runs.table import rows
from attnflow.claims import check

PNG = b"\x89PNG\r\n\x1a\n"


def swept(
    project: Project, runner: Runner, path: Path, what: str = CHECKS, **values: list[Any]
) -> tuple[Summary, list[dict[str, str]]]:
    """A sweep of the chapter `ending`, and the rows of its table."""
    grid = Grid(project, "ending", values)
    summary = sweeping.sweep(project, grid, runner, path, what=what)
    with path.open(encoding="utf-8", newline="") as file:
        return summary, list(csv.DictReader(file))


@pytest.mark.usefixtures("no_kernel")
def test_the_grid_is_every_combination_in_order(project: Project) -> None:
    points = list(Grid(project, "distance", {"gap": ["1", "2"], "n": [4, 5]}))
    assert points == [
        {"n": 4, "gap": 1.0},
        {"n": 5, "gap": 1.0},
        {"n": 4, "gap": 2.0},
        {"n": 5, "gap": 2.0},
    ]


def test_the_same_point_written_twice_is_one_run(project: Project) -> None:
    points = Grid(project, "distance", {"gap": ["1", "1.0", "2"]})
    assert [point["gap"] for point in points] == [1.0, 2.0]


@pytest.mark.parametrize(
    ("chapter", "values", "says"),
    [
        ("nowhere", {"n": [2]}, "no chapter 'nowhere'"),
        ("distance", {"m": [2]}, "no parameter 'm'"),
        ("distance", {"n": [2, 3, 65]}, r"n must be int in \[2, 64\], got 65"),
        ("distance", {"n": [2], "gap": [1.0, "wide"]}, "gap must be float"),
        ("distance", {"n": []}, "n has no values"),
    ],
)
def test_a_grid_with_one_wrong_value_is_refused_as_a_whole(
    project: Project, chapter: str, values: dict[str, list[Any]], says: str
) -> None:
    with pytest.raises(BookError, match=says):
        Grid(project, chapter, values)


def test_the_length_of_a_grid_is_known_without_walking_it(project: Project) -> None:
    grid = Grid(project, "ending", {"size": list(range(1, 9)), "mode": ["holds", "fails"]})
    assert len(grid) == len(list(grid)) == 16
    assert grid.values == {"mode": ["holds", "fails"], "size": list(range(1, 9))}


def test_every_place_of_a_grid_is_its_point(project: Project) -> None:
    axes = {"size": [3, 1, 2], "mode": ["holds", "fails"]}
    grid = Grid(project, "ending", axes)
    assert [sweeping._at(grid, index) for index in range(len(grid))] == list(grid)


def test_a_plot_is_made_of_the_points_that_finished(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "toy.png"
    assert sweeping.plot([row for row in toy_rows() if not row["control"]][:2], ["n"], path)
    assert path.read_bytes().startswith(PNG)
    assert list(path.parent.iterdir()) == [path]


def test_the_other_swept_parameters_tell_the_lines_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Figure] = []
    save = Figure.savefig

    def keep(self: Figure, *args: Any, **kwargs: Any) -> None:
        drawn.append(self)
        save(self, *args, **kwargs)

    monkeypatch.setattr(Figure, "savefig", keep)
    points = [{"n": n, "kind": kind} for kind in ("a", "b") for n in (16, 1)]
    made = [
        row
        for p in points
        for row in rows(p, run_with(p, check("toy.law", predicted=0.0, measured=p["n"], tol=1.0)))
    ]
    assert sweeping.plot(made, ["kind", "n"], tmp_path / "toy.png")
    (ax,) = drawn[0].axes
    lines = {line.get_label(): line for line in ax.lines if line.get_marker() == "o"}
    assert set(lines) == {"kind=a", "kind=b"}
    assert list(lines["kind=a"].get_xdata()) == [1, 16]
    assert list(lines["kind=a"].get_ydata()) == [1, 16]
    assert ax.get_xlabel() == "n"
    assert ax.get_xscale() == "log"


def test_without_numbers_or_finished_points_there_is_no_plot(tmp_path: Path) -> None:
    assert not sweeping.plot(toy_rows()[:1], ["kind"], tmp_path / "toy.png")
    assert not sweeping.plot([], ["n"], tmp_path / "toy.png")
    assert list(tmp_path.iterdir()) == []


def test_a_plot_that_fails_leaves_the_old_one_and_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "toy.png"
    path.write_bytes(b"old")

    def half(self: Figure, target: Path, **kwargs: Any) -> None:
        Path(target).write_bytes(PNG)
        raise OSError("no space left")

    monkeypatch.setattr(Figure, "savefig", half)
    with pytest.raises(OSError, match="no space left"):
        sweeping.plot(toy_rows()[:1], ["n"], path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_larger_sweep_runs_only_the_new_points(known: Project, tmp_path: Path) -> None:
    two, _ = swept(known, local(1), tmp_path / "two.csv", size=[1, 2])
    assert (two.runs, two.known, two.stopped) == (2, 1, ())
    fake = Fake()
    three, table = swept(known, fake, tmp_path / "three.csv", size=[3, 2, 1])
    assert (three.runs, three.known) == (3, 2)
    assert [point["size"] for point in fake.ran] == [3]
    measured = [(r["size"], r["measured"]) for r in table if r["control"] == "False"]
    assert measured == [("3", "3.0"), ("2", "2.0"), ("1", "1.0")]


def test_an_interrupted_sweep_keeps_what_was_finished(
    project: Project, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    def interrupt(point: Mapping[str, Any]) -> None:
        if point["size"] == 3:
            raise KeyboardInterrupt

    grid = Grid(project, "ending", {"size": [2, 3]})
    fake = Fake(before=interrupt)
    with pytest.raises(KeyboardInterrupt):
        sweeping.sweep(project, grid, fake, tmp_path / "ending.csv")
    assert fake.stopped
    assert list(tmp_path.glob("ending*")) == []
    request.getfixturevalue("no_kernel")
    assert execute(project, "ending", next(iter(grid)), what=CHECKS).cached


def test_a_point_that_fails_is_one_row_and_the_others_finish(
    known: Project, tmp_path: Path
) -> None:
    summary, table = swept(known, local(1), tmp_path / "ending.csv", size=[9, 1])
    assert [(row["size"], row["verdict"]) for row in table] == [
        ("9", "error"),
        ("1", "holds"),
        ("1", "fails"),
    ]
    assert "ValueError: the chapter stops here" in table[0]["error"]
    assert len(summary.stopped) == 1
    assert "ValueError: the chapter stops here" in summary.stopped[0]


def test_a_sweep_tells_of_every_run_and_counts_what_is_unsound(
    project: Project, tmp_path: Path
) -> None:
    told: list[Any] = []
    grid = Grid(project, "ending", {"size": [1, 2], "mode": ["holds", "fails"]})
    summary = sweeping.sweep(
        project, grid, Fake(slots=2), tmp_path / "t.csv",
        finished=lambda job, result: told.append(job.parameters),
    )  # fmt: skip
    assert sorted(map(repr, told)) == sorted(map(repr, grid))
    assert (summary.runs, summary.rows, summary.unsound, summary.drawn) == (4, 4, 0, False)


def test_what_is_kept_of_a_run_is_a_choice(project: Project, tmp_path: Path) -> None:
    kept = project.build / "runs"
    swept(project, Fake(), tmp_path / "t.csv", size=[1, 2])
    assert {path.suffix for path in kept.iterdir()} == {".json"}
    again, _ = swept(project, Fake(), tmp_path / "t.csv", NOTEBOOK, size=[1, 2])
    assert again.known == 0
    assert {path.suffix for path in kept.iterdir()} == {".json", ".ipynb"}
    last, _ = swept(project, Fake(before=pytest.fail), tmp_path / "t.csv", size=[1, 2])
    assert last.known == 2


@pytest.mark.usefixtures("no_kernel")
def test_a_forecast_counts_runs_and_runs_nothing(finished: Finished, known: Project) -> None:
    seconds = finished.runs["ending"].seconds
    grid = Grid(known, "ending", {"size": [1, 2, 3]})
    assert forecast(known, grid) == Forecast(3, 1, seconds)
    assert forecast(known, Grid(known, "slope", {"power": [3, 4]})).known == 0


@pytest.mark.usefixtures("no_kernel")
def test_without_kept_runs_the_time_is_unknown(project: Project) -> None:
    assert forecast(project, Grid(project, "ending", {"size": [1]})) == Forecast(1, 0, None)
    assert not project.build.exists()


def test_a_sweep_of_ten_thousand_points_is_as_good_as_one_of_ten(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = itertools.count()
    monkeypatch.setattr(sweeping, "execute_all", lambda *a, **k: results())

    def results() -> Any:
        for index in range(10_000):
            next(points)
            yield index ^ 1, run_with({}, check("toy.law", predicted=0, measured=index, tol=1))

    values = {"gap": [1 + k / 8 for k in range(2500)], "n": [2, 3, 4, 5]}
    grid = Grid(project, "distance", values)
    path = tmp_path / "distance.csv"
    summary = sweeping.sweep(project, grid, Fake(), path, plot_path=tmp_path / "p.png")
    assert (summary.runs, summary.rows, next(points)) == (10_000, 10_000, 10_000)
    with path.open(encoding="utf-8", newline="") as file:
        back = [(float(row["gap"]), int(row["n"])) for row in csv.DictReader(file)]
    assert back == list(itertools.product(values["gap"], values["n"]))
    assert not summary.drawn
