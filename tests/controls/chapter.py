"""One honest pass over a chapter, and a sabotaged child for every claim on the way.

Where a claim's section begins, the process is forked. The child makes the mistake and runs on;
the parent, in which nothing is wrong, forks for the next claim and runs on as well. So what comes
before a section is computed once for all claims, and by honest code.
"""

from __future__ import annotations

import contextlib
import os
import traceback
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from attnflow import claims
from controls.cells import Cell, span
from controls.fork import AVAILABLE, NoAnswer, forked
from controls.stage import Sabotage, Stage, Trial

#: Seconds for one sabotage, and for a chapter with all of its own. They take 1 and 60 or so.
PATIENCE, CHAPTER_PATIENCE = 180, 1800


class Report(NamedTuple):
    """What came of a chapter."""

    rows: list[claims.Check]  #: of the honest pass
    stopped: str  #: why the honest pass did not reach the end, or ""
    trials: dict[str, Trial]


def survey(
    cells: list[Cell], parameters: Mapping[str, Any], sabotages: Mapping[str, Sabotage]
) -> Report:
    """The honest rows of a chapter, and the trial of every sabotage."""
    spans, lost = {}, {}
    for claim, wrong in sabotages.items():
        try:
            spans[claim] = span(cells, claim, wrong.since)
        except ValueError as error:
            lost[claim] = Trial(False, str(error))
    stage = Stage(cells, parameters)
    found = _forked(stage, sabotages, spans) if AVAILABLE else _replayed(stage, sabotages, spans)
    return found._replace(trials=found.trials | lost)


def _forked(stage: Stage, sabotages: Mapping[str, Sabotage], spans: Mapping[str, range]) -> Report:
    """All in one child, whose memory is given back at its end, and its children."""
    try:
        return forked(lambda: _pass(stage, sabotages, spans), CHAPTER_PATIENCE)
    except NoAnswer as error:
        return Report([], str(error), {})


def _replayed(
    stage: Stage, sabotages: Mapping[str, Sabotage], spans: Mapping[str, range]
) -> Report:
    """The same where processes cannot fork: every sabotage runs its chapter from the first cell."""
    trials = {}
    for claim, cells in spans.items():
        again = Stage(stage.cells, stage.parameters)
        with _listening(again) as patch:
            try:
                whole = range(cells.stop)
                trials[claim] = again.attempt(patch, sabotages[claim].mistake, claim, whole)
            except Exception:
                trials[claim] = Trial(False, traceback.format_exc())
    return _pass(stage, {}, {})._replace(trials=trials)


def _pass(stage: Stage, sabotages: Mapping[str, Sabotage], spans: Mapping[str, range]) -> Report:
    """The honest pass, with a child where each span begins."""
    trials: dict[str, Trial] = {}
    with _listening(stage) as patch:
        for k, cell in enumerate(stage.cells):
            for claim in [c for c in spans if spans[c].start == k]:
                trials[claim] = _trial(stage, patch, sabotages[claim], claim, spans[claim])
            try:
                stage.run(cell)
            except Exception:
                return Report(stage.rows, traceback.format_exc(), trials)
    return Report(stage.rows, "", trials)


def _trial(
    stage: Stage, patch: pytest.MonkeyPatch, wrong: Sabotage, claim: str, cells: range
) -> Trial:
    try:
        return forked(lambda: stage.attempt(patch, wrong.mistake, claim, cells), PATIENCE)
    except NoAnswer as error:
        return Trial(False, str(error))


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
