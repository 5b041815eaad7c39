"""A chapter at many values of its parameters: what every row of it says there.

The chapter is run once at its defaults, in this process and without its figures. For every other place
the process forks, and the child runs only the statements that depend on what is changed (see
sharing.py); the others' rows are those of the parent. The first place and the last are run in the
ordinary way, too, and a survey whose rows differ there is not written. Places that are known already are kept under
the key of the chapter's run, so an interrupted command goes on where it stopped.
"""

from __future__ import annotations

import ast
import json
import math
import multiprocessing
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
from sharing import changed
from tqdm import tqdm

from attnflow.book.chapters.notebooks import SHOWN_ONLY
from attnflow.book.chapters.project import Project, recipe
from attnflow.book.runs.keep import CHECKS
from attnflow.book.runs.run import RunError, execute
from attnflow.claims import OUTSIDE, Check, comparing
from attnflow.files import write_text

Place = dict[str, Any]
#: How much two runs of the same may differ, of a tolerance or of what is used of it.
ROUNDING = 0.02
#: More than this of a tolerance is not told apart: a bound that is missed with another sign has no slack at all.
MOST = 1e6


class Row(NamedTuple):
    """What a survey keeps of a check."""

    anchor: str
    claim: str
    case: str
    control: bool
    used: float | None  #: part of the tolerance, or how far away a control is
    outside: bool
    sound: bool


class Told(NamedTuple):
    """What came of one place."""

    rows: list[Row]
    stopped: str = ""


def survey(project: Project, name: str, places: list[Place], jobs: int | None) -> dict[str, Any]:
    """What every row of a chapter says at these parameters, in their order."""
    if not places:
        return {"stopped": {}, "rows": {}}
    prepared = recipe(project, name)
    places = [prepared.chapter.changed(prepared.chapter.resolve(place)) for place in places]
    journal = Journal(project.build / "surveys" / f"{name}-{prepared.key({})}.jsonl")
    todo = [place for place in places if place not in journal]
    if todo:
        PLAYED.append(Play(prepared))
        context = multiprocessing.get_context("fork")
        with context.Pool(jobs or os.cpu_count(), maxtasksperchild=1) as pool:
            tried = pool.imap(_tried, todo)
            for place, told in zip(tqdm(todo, unit="runs"), tried, strict=True):
                journal.add(place, told)
    for place in (places[0], places[-1]):
        compare(project, name, place, journal[place])
    return gathered([journal[place] for place in places])


def compare(project: Project, name: str, place: Place, told: Told) -> None:
    """An ordinary run must say the same."""
    try:
        ordinary = [row_of(c) for c in execute(project, name, place, what=CHECKS).checks]
    except RunError as error:
        if told.stopped and told.stopped in str(error):
            return
        raise
    differ = [pair for pair in zip(ordinary, told.rows, strict=False) if not alike(*pair)]
    if differ or len(ordinary) != len(told.rows):
        raise SystemExit(
            f"{name} at {place}: {len(told.rows)} rows here and {len(ordinary)} in an ordinary run"
            f"{told.stopped and ', stopped by ' + told.stopped}; {differ[:3]}"
        )


def alike(one: Row, other: Row) -> bool:
    """The same row, but for rounding: another process has its arrays at other places."""
    used = (math.nan if row.used is None else row.used for row in (one, other))
    same = math.isclose(*used, rel_tol=ROUNDING, abs_tol=ROUNDING) or one.used == other.used
    return same and one._replace(used=None) == other._replace(used=None)


class Play:
    """A chapter that has run at its defaults, and can run on with others."""

    def __init__(self, prepared: Any) -> None:
        self.statements: list[ast.stmt] = []
        self.space: dict[str, Any] = {}
        self.rows: list[list[Row]] = []
        self.left: list[dict[str, Any]] = []  #: what every statement has bound
        self._now: list[Row] = []
        self._listen()
        mpl.use("agg")
        cells = [cell for cell in prepared.source.cells if cell.cell_type == "code"]
        for cell in cells:
            tags = cell.metadata.get("tags", [])
            if "parameters" in tags:
                exec(cell.source, self.space)
            elif SHOWN_ONLY not in tags:
                self.statements += ast.parse(cell.source).body
        _, names = changed(self.statements, [], {})
        for statement, bound in zip(self.statements, names, strict=True):
            self._run(statement)
            self.rows.append(self._now)
            self.left.append({n: self.space[n] for n in bound if n in self.space})

    def at(self, place: Place) -> list[Row]:
        """The rows at a place. Run in a child: what it changes stays changed."""
        again, _ = changed(self.statements, place, self.space)
        self.space.update(place)
        rows = []
        for k, statement in enumerate(self.statements):
            if k in again:
                self._run(statement)
                rows += self._now
            else:
                self.space.update(self.left[k])
                rows += self.rows[k]
        return rows

    def _run(self, statement: ast.stmt) -> None:
        self._now = []
        with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
            exec(compile(ast.Module([statement], []), "chapter", "exec"), self.space)

    def _listen(self) -> None:
        compare = comparing._compare

        def heard(*given: Any) -> Check:
            check = compare(*given)
            self._now.append(row_of(check))
            return check

        comparing._compare = heard


#: The last is the chapter that is asked; children have it as it was when they were forked.
PLAYED: list[Play] = []


def _tried(place: Place) -> Told:
    try:
        return Told(PLAYED[-1].at(place))
    except Exception as error:
        return Told([], f"{type(error).__name__}: {error}".splitlines()[0])


class Journal:
    """Places that are known, a line each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: dict[str, Told] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text("utf-8").splitlines() if path.is_file() else []
        for line in lines:
            try:
                place, rows, stopped = json.loads(line)
            except ValueError:  # cut short
                continue
            self.known[self._name(place)] = Told([Row(*row) for row in rows], stopped)

    def __contains__(self, place: Place) -> bool:
        return self._name(place) in self.known

    def __getitem__(self, place: Place) -> Told:
        return self.known[self._name(place)]

    def add(self, place: Place, told: Told) -> None:
        """Remember a place."""
        self.known[self._name(place)] = told
        with self.path.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps([place, *told]) + "\n")

    @staticmethod
    def _name(place: Place) -> str:
        return json.dumps(place, sort_keys=True)


def row_of(check: Check) -> Row:
    """One check of one run."""
    outside = check.verdict == OUTSIDE
    used = check.distance if check.is_control else 1 / max(check.slack, 1 / MOST)
    part = None if outside else float(f"{min(used, MOST):.3g}")
    return Row(
        check.anchor(), check.id, check.case, check.is_control, part, outside, bool(check.sound)
    )


def gathered(runs: list[Told]) -> dict[str, Any]:
    """The same by rows, and which runs stopped."""
    rows: dict[str, dict[str, Any]] = {}
    stopped: dict[str, str] = {}
    for index, told in enumerate(runs):
        if told.stopped:
            stopped[str(index)] = told.stopped
        for row in told.rows:
            kept = rows.setdefault(row.anchor, {
                "claim": row.claim, "case": row.case, "control": row.control,
                "used": [], "outside": 0, "unsound": []})  # fmt: skip
            if row.outside:
                kept["outside"] += 1
                continue
            kept["used"].append(row.used)
            if not row.sound:
                kept["unsound"].append(index)
    return {"stopped": stopped, "rows": rows}


def write(results: Path, order: list[str], name: str, measured: dict[str, Any]) -> None:
    """One chapter's survey, beside what the file has of the others."""
    known = json.loads(results.read_text("utf-8")) if results.is_file() else {}
    known[name] = measured
    ordered = {chapter: known[chapter] for chapter in order if chapter in known}
    write_text(json.dumps(ordered, ensure_ascii=False, indent=0) + "\n", results)
    bad = sum(len(row["unsound"]) for row in measured["rows"].values())
    stops = len(measured["stopped"])
    print(f"{name}: {len(measured['rows'])} rows, {bad} not as they must, {stops} runs stopped")
    sys.stdout.flush()
