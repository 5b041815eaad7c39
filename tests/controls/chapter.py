"""One honest pass over a chapter, and a sabotaged child for every claim on the way.

Where a claim's section begins, the process is forked. The child waits, while the parent, in which
nothing is wrong, forks for the next claim and runs on to the end. Then each child makes its mistake
and runs on from where it stands. So what comes before a section is computed once for all claims, and
by honest code; and what the parent computed after it is remembered for children that ask the same.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import traceback
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from attnflow import claims
from controls.cells import Cell, span
from controls.fork import AVAILABLE, Child, NoAnswer, forked
from controls.memory import Memory
from controls.stage import Sabotage, Stage, Trial

#: Seconds of computing for one sabotage, and for an honest pass. They take 1 and 10, at most 30.
PATIENCE, CHAPTER_PATIENCE = 120, 300
Plan = list[tuple[Sabotage, range]]


class Report(NamedTuple):
    """What came of a chapter."""

    rows: list[claims.Check]  #: of the honest pass
    stopped: str  #: why the honest pass did not reach the end, or ""
    trials: dict[str, Trial]


def survey(
    cells: list[Cell], parameters: Mapping[str, Any], sabotages: Iterable[Sabotage]
) -> Report:
    """The honest rows of a chapter, and the trial of every claim's sabotage."""
    planned, lost = [], {}
    for wrong in sabotages:
        try:
            planned.append((wrong, span(cells, wrong.claims, wrong.since)))
        except ValueError as error:
            lost.update(_failed(wrong, error))
    stage = Stage(cells, parameters)
    found = _forked(stage, planned) if AVAILABLE else _replayed(stage, planned)
    return found._replace(trials=found.trials | lost)


def _forked(stage: Stage, planned: Plan) -> Report:
    """All in one child, whose memory is given back at its end, and its children."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            return forked(lambda: _pass(stage, planned, Path(folder)), CHAPTER_PATIENCE)
        except NoAnswer as error:
            return Report([], str(error), {})


def _replayed(stage: Stage, planned: Plan) -> Report:
    """The same where processes cannot fork: every sabotage runs its chapter from the first cell."""
    trials: dict[str, Trial] = {}
    for wrong, cells in planned:
        again = Stage(stage.cells, stage.parameters)
        with _listening(again) as patch:
            try:
                trials.update(again.attempt(patch, wrong, range(cells.stop)))
            except Exception as error:
                trials.update(_failed(wrong, error))
    return _pass(stage, [])._replace(trials=trials)


def _pass(stage: Stage, planned: Plan, folder: Path | None = None) -> Report:
    """The honest pass; where each span begins a child that is tried at the end."""
    waiting: list[tuple[Sabotage, Child]] = []
    stopped = ""
    with _listening(stage) as patch:
        memory = None
        if folder is not None and not all(wrong.whole for wrong, _ in planned):
            memory = Memory(folder)
            memory.install(patch)
        for k, cell in enumerate(stage.cells):
            if memory is not None:
                memory.acquaint(stage.space.values())
            for wrong, cells in planned:
                if cells.start == k:
                    trial = partial(_try, stage, patch, wrong, cells, memory)
                    waiting.append((wrong, Child(trial, PATIENCE)))
            try:
                stage.run(cell)
            except Exception:
                stopped = traceback.format_exc()
                break
        honest = list(stage.rows)
        trials: dict[str, Trial] = {}
        for wrong, child in waiting:
            try:
                trials.update(child.answer())
            except NoAnswer as error:
                trials.update(_failed(wrong, error))
    return Report(honest, stopped, trials)


def _try(
    stage: Stage, patch: pytest.MonkeyPatch, wrong: Sabotage, cells: range, memory: Memory | None
) -> dict[str, Trial]:
    """The mistake is made here: with what is remembered, and if that hides it, afresh."""
    if memory is not None and not wrong.whole:
        if not wrong.inside:
            with contextlib.suppress(NoAnswer):
                found = forked(lambda: stage.attempt(patch, wrong, cells), PATIENCE)
                if all(trial.caught for trial in found.values()):
                    return found
        memory.used = False
    return stage.attempt(patch, wrong, cells)


def _failed(wrong: Sabotage, error: Exception) -> dict[str, Trial]:
    """A sabotage that could not be tried has been noticed by nobody."""
    return {claim: Trial(False, f"{type(error).__name__}: {error}") for claim in wrong.claims}


@contextlib.contextmanager
def _listening(stage: Stage) -> Iterator[pytest.MonkeyPatch]:
    """A stage that writes down its checks, silently; what is patched is mended at the end."""
    with (
        pytest.MonkeyPatch.context() as patch,
        open(os.devnull, "w", encoding="utf-8") as nowhere,
        contextlib.redirect_stdout(nowhere),
    ):
        stage.listen(patch)
        yield patch
