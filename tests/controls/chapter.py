"""One honest pass over a chapter, and a sabotaged child for every claim on the way.

Where a claim's section begins, the process is forked. The child makes the mistake and runs on;
the parent, in which nothing is wrong, forks for the next claim and runs on as well. So what comes
before a section is computed once for all claims, and by honest code.
"""

from __future__ import annotations

import contextlib
import os
import traceback
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from attnflow import claims
from controls.cells import Cell, span
from controls.fork import AVAILABLE, NoAnswer, forked
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
    try:
        return forked(lambda: _pass(stage, planned), CHAPTER_PATIENCE)
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


def _pass(stage: Stage, planned: Plan) -> Report:
    """The honest pass, with a child where each span begins."""
    trials: dict[str, Trial] = {}
    with _listening(stage) as patch:
        for k, cell in enumerate(stage.cells):
            for wrong, cells in planned:
                if cells.start == k:
                    trials.update(_try(stage, patch, wrong, cells))
            try:
                stage.run(cell)
            except Exception:
                return Report(stage.rows, traceback.format_exc(), trials)
    return Report(stage.rows, "", trials)


def _try(
    stage: Stage, patch: pytest.MonkeyPatch, wrong: Sabotage, cells: range
) -> dict[str, Trial]:
    """What a child says that makes the mistake here and runs on."""
    try:
        return forked(lambda: stage.attempt(patch, wrong, cells), PATIENCE)
    except NoAnswer as error:
        return _failed(wrong, error)


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
