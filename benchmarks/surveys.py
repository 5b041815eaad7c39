"""A chapter run at many values of its parameters: what every row of it says there.

Runs are kept under their keys like those of a sweep, so an interrupted command goes on where it
stopped. A result file is written after every chapter; a chapter whose code changed since is
measured again when it is named.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from attnflow.book.chapters.parameters import BookError
from attnflow.book.chapters.project import Project
from attnflow.book.commands.terminal import Progress
from attnflow.book.runs.keep import CHECKS
from attnflow.book.runs.run import Job, Run, execute_all, local
from attnflow.claims import OUTSIDE, Check
from attnflow.files import write_text


def survey(
    project: Project, name: str, places: list[dict[str, Any]], jobs: int | None
) -> dict[str, Any]:
    """What every row of a chapter says at these parameters, in their order."""
    todo = [Job(name, place) for place in places]
    rows: dict[str, dict[str, Any]] = {}
    stopped: dict[str, str] = {}
    with (
        Progress(len(todo), "runs") as note,
        closing(execute_all(project, todo, local(jobs), what=CHECKS)) as runs,
    ):
        for index, result in in_order(runs):
            note(todo[index], result)
            if isinstance(result, BookError):
                stopped[str(index)] = str(result).splitlines()[0]
                continue
            for check in result.checks:
                add(rows.setdefault(check.anchor(), blank(check)), check, index)
    return {"stopped": stopped, "rows": rows}


def in_order(runs: Any) -> Iterator[tuple[int, Run | BookError]]:
    """(index, result) in the order of the runs."""
    early: dict[int, Run | BookError] = {}
    following = 0
    for index, result in runs:
        early[index] = result
        while following in early:
            yield following, early.pop(following)
            following += 1


def blank(check: Check) -> dict[str, Any]:
    """A row before any run."""
    return {"claim": check.id, "case": check.case, "control": check.is_control,
            "used": [], "outside": 0, "unsound": []}  # fmt: skip


def add(row: dict[str, Any], check: Check, index: int) -> None:
    """One more run: what part of the tolerance is used, or how far away a control is."""
    if check.verdict == OUTSIDE:
        row["outside"] += 1
        return
    used = check.distance if check.is_control else 1 / check.slack
    row["used"].append(float(f"{min(used, 1e6):.3g}") if not math.isnan(used) else None)
    if not check.sound:
        row["unsound"].append(index)


def write(results: Path, order: list[str], name: str, measured: dict[str, Any]) -> None:
    """One chapter's survey, beside what the file has of the others."""
    known = json.loads(results.read_text("utf-8")) if results.is_file() else {}
    known[name] = measured
    ordered = {chapter: known[chapter] for chapter in order if chapter in known}
    write_text(json.dumps(ordered, ensure_ascii=False, indent=0) + "\n", results)
    bad = sum(len(row["unsound"]) for row in measured["rows"].values())
    stops = len(measured["stopped"])
    print(f"{name}: {len(measured['rows'])} rows, {bad} not as they must, {stops} runs stopped")
