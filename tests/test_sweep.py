"""Sweeps: the grid, the table, the plot, and going on after an interruption."""

from __future__ import annotations

import csv
import math
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from conftest import Inline
from matplotlib.figure import Figure

from attnflow.book import sweep as sweeping
from attnflow.book.chapters import Project
from attnflow.book.parameters import BookError
from attnflow.book.run import Run, RunError, execute
from attnflow.claims import Check, check, control

PNG = b"\x89PNG\r\n\x1a\n"


def run_with(parameters: dict[str, Any], *checks: Check) -> Run:
    return Run("toy", parameters, "0123", nbformat.v4.new_notebook(), checks, 1.5, False)


def toy_rows() -> list[dict[str, Any]]:
    """Two good points with a check and a control each, one point that stopped."""
    points = [{"n": n, "kind": "a, b"} for n in (1, 2, 3)]
    results: list[Run | BookError] = [
        run_with(
            point,
            check("toy.law", case="one", predicted=1 / 3, measured=0.1 * point["n"], tol=0.4),
            control("toy.law", removes="it", predicted=math.inf, measured=1.0, relation=">="),
        )
        for point in points[:2]
    ]
    results.append(RunError("toy, code cell 2: ValueError: no\n  the notebook is somewhere"))
    return sweeping.table(results, points)


@pytest.mark.usefixtures("no_kernel")
def test_the_grid_is_every_combination_in_order(project: Project) -> None:
    points = sweeping.grid(project, "distance", {"gap": ["1", "2"], "n": [4, 5]})
    assert points == [
        {"n": 4, "gap": 1.0},
        {"n": 5, "gap": 1.0},
        {"n": 4, "gap": 2.0},
        {"n": 5, "gap": 2.0},
    ]


def test_the_same_point_written_twice_is_one_run(project: Project) -> None:
    points = sweeping.grid(project, "distance", {"gap": ["1", "1.0", "2"]})
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
        sweeping.grid(project, chapter, values)


def test_a_row_is_one_check_of_one_run() -> None:
    rows = toy_rows()
    assert len(rows) == 5
    assert rows[2] == {
        "n": 2,
        "kind": "a, b",
        "claim": "toy.law",
        "case": "one",
        "control": False,
        "predicted": 1 / 3,
        "measured": 0.2,
        "tol": 0.4,
        "relation": "==",
        "verdict": "holds",
        "seconds": 1.5,
        "key": "0123",
        "error": "",
    }
    assert [(row["n"], row["verdict"]) for row in rows] == [
        (1, "holds"),
        (1, "fails"),
        (2, "holds"),
        (2, "fails"),
        (3, "error"),
    ]
    assert rows[4]["error"] == "toy, code cell 2: ValueError: no"


def test_csv_keeps_every_row_and_digit(tmp_path: Path) -> None:
    rows = toy_rows()
    path = tmp_path / "deep" / "toy.csv"
    sweeping.write_table(rows, path, "csv")
    with path.open(encoding="utf-8", newline="") as file:
        back = list(csv.DictReader(file))
    assert len(back) == len(rows)
    for row, read in zip(rows, back, strict=True):
        assert read == {name: str(row.get(name, "")) for name in read}
    assert [float(read["predicted"]) for read in back[:4]] == [1 / 3, math.inf, 1 / 3, math.inf]


def test_parquet_keeps_types_and_gaps(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = toy_rows()
    path = tmp_path / "deep" / "toy.parquet"
    sweeping.write_table(rows, path, "parquet")
    back = parquet.read_table(path).to_pylist()
    assert back == [{name: row.get(name) for name in back[0]} for row in rows]


def test_parquet_without_pyarrow_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(BookError, match=r"attnflow\[parquet\]"):
        sweeping.write_table(toy_rows(), tmp_path / "toy.parquet", "parquet")


def test_a_plot_is_made_of_the_points_that_finished(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "toy.png"
    assert sweeping.plot(toy_rows(), ["n"], path)
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
    results = [
        run_with(p, check("toy.law", predicted=0.0, measured=p["n"], tol=1.0)) for p in points
    ]
    assert sweeping.plot(sweeping.table(results, points), ["kind", "n"], tmp_path / "toy.png")
    (ax,) = drawn[0].axes
    lines = {line.get_label(): line for line in ax.lines if line.get_marker() == "o"}
    assert set(lines) == {"kind=a", "kind=b"}
    assert list(lines["kind=a"].get_xdata()) == [1, 16]
    assert list(lines["kind=a"].get_ydata()) == [1, 16]
    assert ax.get_xlabel() == "n"
    assert ax.get_xscale() == "log"


def test_without_numbers_or_finished_points_there_is_no_plot(tmp_path: Path) -> None:
    rows = toy_rows()
    assert not sweeping.plot(rows, ["kind"], tmp_path / "toy.png")
    assert not sweeping.plot(rows[4:], ["n"], tmp_path / "toy.png")
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
        sweeping.plot(toy_rows(), ["n"], path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_parquet_table_that_fails_leaves_the_old_one_and_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "toy.parquet"
    path.write_bytes(b"old")

    def half(data: Any, target: Path) -> None:
        Path(target).write_bytes(b"PAR1")
        raise OSError("no space left")

    monkeypatch.setattr("pyarrow.parquet.write_table", half)
    with pytest.raises(OSError, match="no space left"):
        sweeping.write_table(toy_rows(), path, "parquet")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def cached(results: list[Run | BookError]) -> list[bool]:
    return [result.cached for result in results if isinstance(result, Run)]


def test_a_larger_sweep_runs_only_the_new_points(known: Project) -> None:
    two = sweeping.grid(known, "ending", {"size": [1, 2]})
    assert cached(sweeping.sweep(known, "ending", two, Inline())) == [True, False]
    three = sweeping.grid(known, "ending", {"size": [3, 2, 1]})
    results = sweeping.sweep(known, "ending", three, Inline())
    assert cached(results) == [False, True, True]
    rows = sweeping.table(results, three)
    assert [(r["size"], r["measured"]) for r in rows if not r["control"]] == [
        (3, 3.0),
        (2, 2.0),
        (1, 1.0),
    ]


def test_an_interrupted_sweep_keeps_what_was_finished(
    project: Project, request: pytest.FixtureRequest
) -> None:
    points = sweeping.grid(project, "ending", {"size": [2, 3]})
    with pytest.raises(KeyboardInterrupt):
        sweeping.sweep(project, "ending", points, Inline(interrupt_after=1))
    request.getfixturevalue("no_kernel")
    assert execute(project, "ending", points[0]).cached


def test_a_point_that_fails_is_one_row_and_the_others_finish(known: Project) -> None:
    points = sweeping.grid(known, "ending", {"size": [9, 1]})
    rows = sweeping.table(sweeping.sweep(known, "ending", points, Inline()), points)
    assert [(row["size"], row["verdict"]) for row in rows] == [
        (9, "error"),
        (1, "holds"),
        (1, "fails"),
    ]
    assert "ValueError: the chapter stops here" in rows[0]["error"]
