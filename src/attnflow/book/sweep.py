"""Many runs of one chapter over a grid of parameters -> one tidy table and a plot.

Every run is kept under its key as soon as it is done, so a sweep that was interrupted goes on
where it stopped: the runs that finished are read back. `executor` is the seam to a cluster.
"""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attnflow.book.chapters import Project
from attnflow.book.parameters import BookError
from attnflow.book.run import Job, Run, execute_all, write_text

FORMATS = ("csv", "parquet")


def grid(
    project: Project, chapter_name: str, values: Mapping[str, Sequence[Any]]
) -> list[dict[str, Any]]:
    """Every combination, validated before anything runs."""
    chapter = project.chapter(chapter_name)
    for name, options in values.items():
        if not options:
            raise BookError(f"{name} has no values to sweep over")
    combinations = [
        chapter.resolve(dict(zip(values, point, strict=True)))
        for point in itertools.product(*values.values())
    ]
    unique = []
    for point in combinations:
        if point not in unique:
            unique.append(point)
    return unique


def sweep(
    project: Project,
    chapter_name: str,
    points: Sequence[dict[str, Any]],
    executor: Executor,
    finished: Callable[[Job, Run | BookError], None] = lambda job, result: None,
) -> list[Run | BookError]:
    """Run every point; the order is the order of `points`."""
    jobs = [Job(chapter_name, point) for point in points]
    return execute_all(project, jobs, executor, finished=finished)


def table(
    results: Sequence[Run | BookError], points: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """One row per run and check; a run that stopped has one row with its error."""
    rows = []
    for point, result in zip(points, results, strict=True):
        if isinstance(result, BookError):
            rows.append({**point, "verdict": "error", "error": str(result).splitlines()[0]})
            continue
        for check in result.checks:
            rows.append(
                {
                    **point,
                    "claim": check.id,
                    "case": check.case,
                    "control": check.is_control,
                    "predicted": check.predicted,
                    "measured": check.measured,
                    "tol": check.tol,
                    "relation": check.relation,
                    "verdict": check.verdict,
                    "seconds": result.seconds,
                    "key": result.key,
                    "error": "",
                }
            )
    return rows


def write_table(rows: Sequence[dict[str, Any]], path: Path, form: str) -> None:
    """The table as CSV or Parquet, atomically."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    if form == "parquet":
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError:
            raise BookError("Parquet needs pyarrow: pip install 'attnflow[parquet]'") from None
        path.parent.mkdir(parents=True, exist_ok=True)
        data = pyarrow.table({c: [row.get(c) for row in rows] for c in columns})
        with _draft(path) as draft:
            parquet.write_table(data, draft)
        return
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(buffer.getvalue(), path)


def plot(rows: Sequence[dict[str, Any]], swept: Sequence[str], path: Path) -> bool:
    """Measured against predicted for every check, over the first numeric swept parameter.

    The other swept parameters tell the lines apart. False where there is nothing to draw.
    """
    from matplotlib.figure import Figure

    numeric = [p for p in swept if all(isinstance(r.get(p), int | float) for r in rows)]
    kept = [r for r in rows if r["verdict"] != "error" and not r["control"]]
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
        for group in dict.fromkeys(tuple(r[p] for p in others) for r in mine):
            part = sorted(
                (r for r in mine if tuple(r[p] for p in others) == group), key=lambda r: r[axis]
            )
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
    path.parent.mkdir(parents=True, exist_ok=True)
    with _draft(path) as draft:
        fig.savefig(draft, format="png", dpi=130)
    return True


@contextmanager
def _draft(path: Path) -> Iterator[Path]:
    """A temporary name that becomes `path` if all goes well, and vanishes if not."""
    draft = path.with_suffix(".tmp")
    try:
        yield draft
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
