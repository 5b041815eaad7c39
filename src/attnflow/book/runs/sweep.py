"""Many runs of one chapter over a grid of parameters -> one tidy table and a plot.

Every run is kept under its key as soon as it is done, so a sweep that was interrupted goes on
where it stopped: the runs that finished are read back. The grid is never held as a whole and the
table is written as it grows, in the order of the grid, so ten thousand points are as good as ten.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from attnflow.book.chapters.parameters import BookError
from attnflow.book.chapters.project import Project, recipe
from attnflow.book.runs.keep import CHECKS, Shelf
from attnflow.book.runs.kernels import Runner
from attnflow.book.runs.run import Job, Run, execute_all
from attnflow.book.runs.table import Row, Table, rows
from attnflow.files import draft

#: A plot of more points than this is a cloud.
DRAWN = 2000


class Grid:
    """Every combination of some values, the other parameters at their defaults."""

    def __init__(self, project: Project, name: str, values: Mapping[str, Sequence[Any]]) -> None:
        chapter = project.chapter(name)
        self.chapter, self.axes = chapter.name, dict[str, list[Any]]()
        for axis, options in values.items():
            if not options:
                raise BookError(f"{axis} has no values to sweep over")
            self.axes[axis] = []
            for option in options:
                value = chapter.resolve({axis: option})[axis]
                if value not in self.axes[axis]:
                    self.axes[axis].append(value)
        self.defaults = chapter.default_parameters

    @property
    def values(self) -> dict[str, list[Any]]:
        """Every value that each parameter takes."""
        return {name: self.axes.get(name, [value]) for name, value in self.defaults.items()}

    def __len__(self) -> int:
        return math.prod(len(values) for values in self.axes.values())

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for point in itertools.product(*self.axes.values()):
            yield {**self.defaults, **dict(zip(self.axes, point, strict=True))}


class Summary(NamedTuple):
    """What came of a sweep."""

    runs: int
    known: int
    rows: int
    stopped: tuple[str, ...]  #: why runs stopped, one line each
    unsound: int  #: checks that fail and controls that do not
    drawn: bool


def sweep(
    project: Project,
    grid: Grid,
    runner: Runner,
    table: Path,
    *,
    what: str = CHECKS,
    plot_path: Path | None = None,
    finished: Callable[[Job, Run | BookError], None] = lambda job, result: None,
) -> Summary:
    """Run every point and write `table`, whose ending says whether it is CSV or Parquet."""
    known, unsound, stopped, kept = 0, 0, list[str](), list[Row]()
    jobs = (Job(grid.chapter, point) for point in grid)
    with (
        Table(table, grid.values) as out,
        closing(execute_all(project, jobs, runner, what=what)) as results,
    ):
        for index, result in results:
            point = _at(grid, index)
            made = rows(point, result)
            out.add(index, made)
            if isinstance(result, Run):
                known += result.cached
                unsound += len(result.unsound)
                if len(grid) <= DRAWN:
                    kept += [row for row in made if not row["control"]]
            else:
                stopped.append(str(result))
            finished(Job(grid.chapter, point), result)
    drawn = plot_path is not None and plot(kept, list(grid.axes), plot_path)
    return Summary(len(grid), known, out.written, tuple(stopped), unsound, drawn)


class Forecast(NamedTuple):
    """What a sweep would take."""

    runs: int
    known: int
    seconds: float | None  #: of one run, the median of those that are kept; None if there is none


def forecast(project: Project, grid: Grid, what: str = CHECKS) -> Forecast:
    """Count the runs of a sweep, and those that are known, without running anything."""
    prepared = recipe(project, grid.chapter)
    shelf = Shelf(project.build / "runs")
    known = sum(shelf.holds(grid.chapter, prepared.key(point), what) for point in grid)
    spent = shelf.seconds(grid.chapter)
    return Forecast(len(grid), known, statistics.median(spent) if spent else None)


def _at(grid: Grid, index: int) -> dict[str, Any]:
    """The point at a place of the grid."""
    point = {}
    for axis, values in reversed(grid.axes.items()):
        index, place = divmod(index, len(values))
        point[axis] = values[place]
    return {**grid.defaults, **point}


def plot(kept: Sequence[Row], swept: Sequence[str], path: Path) -> bool:
    """Measured against predicted for every check, over the first numeric swept parameter.

    The other swept parameters tell the lines apart. False where there is nothing to draw.
    """
    from matplotlib.figure import Figure

    numeric = [p for p in swept if all(isinstance(r[p], int | float) for r in kept)]
    panels = list(dict.fromkeys((r["claim"], r["case"]) for r in kept))
    if not numeric or not panels:
        return False
    axis, others = numeric[0], [p for p in swept if p != numeric[0]]
    columns = min(3, len(panels))
    lines = math.ceil(len(panels) / columns)
    fig = Figure(figsize=(4.2 * columns, 2.9 * lines), layout="constrained")
    for k, (claim, case) in enumerate(panels):
        ax = fig.add_subplot(lines, columns, k + 1)
        mine = [r for r in kept if (r["claim"], r["case"]) == (claim, case)]
        for group in dict.fromkeys(tuple(str(r[p]) for p in others) for r in mine):
            part = [r for r in mine if tuple(str(r[p]) for p in others) == group]
            part.sort(key=lambda r: float(r[axis]))
            label = ", ".join(f"{p}={v}" for p, v in zip(others, group, strict=True))
            at = [r[axis] for r in part]
            ax.plot(at, [r["measured"] for r in part], "o-", label=label or "measured")
            ax.plot(at, [r["predicted"] for r in part], "k--", lw=0.8)
        low, high = min(r[axis] for r in mine), max(r[axis] for r in mine)
        if low > 0 and high / low >= 8:
            ax.set_xscale("log")
        ax.set_title(f"{claim} [{case}]" if case else claim, fontsize=8)
        ax.set_xlabel(axis)
        if others and k == 0:
            ax.legend(fontsize=7)
    with draft(path) as name:
        fig.savefig(name, format="png", dpi=130)
    return True
