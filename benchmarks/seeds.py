"""Every chapter with randomness at many seeds: does each check hold for all of them?

    python benchmarks/seeds.py                       seeds 0 to 99 of every chapter
    python benchmarks/seeds.py --seeds 20 attention one_step

Runs are kept under their keys like those of a sweep, so an interrupted command goes on where it
stopped. The result file is written after every chapter; a chapter whose code changed since is
measured again when it is named.
"""

from __future__ import annotations

import argparse
import json
import math
from contextlib import closing
from pathlib import Path
from typing import Any

from attnflow.book.chapters.parameters import BookError
from attnflow.book.chapters.project import Project, find_project
from attnflow.book.commands.terminal import Progress
from attnflow.book.runs.keep import CHECKS
from attnflow.book.runs.run import Job, Run, execute_all, local
from attnflow.claims import OUTSIDE, Check
from attnflow.files import write_text

RESULTS = Path(__file__).parent / "results" / "seeds.json"


def main() -> None:
    """Measure, and write the file."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("chapters", nargs="*")
    asked.add_argument("--seeds", type=int, default=100)
    asked.add_argument("--jobs", type=int)
    given = asked.parse_args()
    project = find_project()
    random = [n for n, c in project.chapters().items() if "seed" in c.default_parameters]
    for name in given.chapters or random:
        measured = survey(project, name, given.seeds, given.jobs)
        known = json.loads(RESULTS.read_text("utf-8")) if RESULTS.is_file() else {}
        known[name] = measured
        ordered = {chapter: known[chapter] for chapter in random if chapter in known}
        write_text(json.dumps(ordered, ensure_ascii=False, indent=0) + "\n", RESULTS)
        bad = sum(len(row["unsound"]) for row in measured["rows"].values())
        print(f"{name}: {given.seeds} seeds, {len(measured['rows'])} rows, {bad} not as they must")


def survey(project: Project, name: str, seeds: int, jobs: int | None) -> dict[str, Any]:
    """What every row of a chapter says at seeds 0, 1, 2, ..."""
    todo = [Job(name, {"seed": seed}) for seed in range(seeds)]
    rows: dict[str, dict[str, Any]] = {}
    stopped: dict[str, str] = {}
    with (
        Progress(seeds, "seeds") as note,
        closing(execute_all(project, todo, local(jobs), what=CHECKS)) as runs,
    ):
        for index, result in sorted_as_they_come(runs):
            note(todo[index], result)
            if isinstance(result, BookError):
                stopped[str(index)] = str(result).splitlines()[0]
                continue
            for check in result.checks:
                add(rows.setdefault(check.anchor(), blank(check)), check, index)
    return {
        "command": f"python benchmarks/seeds.py --seeds {seeds} {name}",
        "seeds": seeds, "stopped": stopped, "rows": rows,
    }  # fmt: skip


def sorted_as_they_come(runs: Any) -> Any:
    """(index, result) in the order of the seeds."""
    early: dict[int, Run | BookError] = {}
    following = 0
    for index, result in runs:
        early[index] = result
        while following in early:
            yield following, early.pop(following)
            following += 1


def blank(check: Check) -> dict[str, Any]:
    """A row before any seed."""
    return {"claim": check.id, "case": check.case, "control": check.is_control,
            "used": [], "outside": 0, "unsound": []}  # fmt: skip


def add(row: dict[str, Any], check: Check, seed: int) -> None:
    """One more seed: what part of the tolerance is used, or how far away a control is."""
    if check.verdict == OUTSIDE:
        row["outside"] += 1
        return
    used = check.distance if check.is_control else 1 / check.slack
    row["used"].append(float(f"{min(used, 1e6):.3g}") if not math.isnan(used) else None)
    if not check.sound:
        row["unsound"].append(seed)


if __name__ == "__main__":
    main()
