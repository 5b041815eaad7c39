"""Negative controls: sabotage the package, run the chapter's own code, see its check fail.

Each claim names one sabotage, a plausible mistake (see sabotage/). The chapter's code cells run
outside Jupyter, figures aside, and the claim's check must come out "fails". A claim without a
sabotage fails the suite, and so does a chapter whose honest run is not sound. All tests of a
chapter share one pass over it (see controls/chapter.py), which the first of them waits for.

A sabotage acts from its claim's section on (see sabotage/__init__.py), and cells on which the check
does not depend are left out (see controls/slices.py). With `pytest --replay` all act from the first
cell on and every cell runs: slow, but a mistake that then cancels itself out is found. A chapter's
last section, its own controls, is nbval's: no claim's check is there.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from controls.cells import FIRST_CELL, read_cells
from controls.chapter import Report, survey
from sabotage import SABOTAGE

from attnflow import claims
from attnflow.book.chapters.project import find_project

PROJECT = find_project()
CLAIMS = PROJECT.claims()
#: Parameters that make a chapter's code cheap where its claims do not need the defaults. The
#: chapters that take longest come first, so that they are run first.
SMALL: dict[str, dict[str, Any]] = {
    "lipschitz_real": {"longest": 128, "seed": 1},
    "trained": {"draws": 24, "tokens": 32},
    "sinks": {"seed": 1},
    "phase_diagram": {"betas": 5, "realisations": 32, "draws": 3, "horizon": 20.0},
    "gaussian_flows": {"draws": 64, "largest": 3, "order": 16},
    "mean_field": {"n": 6, "draws": 2, "largest": 1024},
    "lipschitz": {"draws": 4, "largest": 512, "starts": 4, "n": 8},
    "metastability": {"n": 4, "beta": 100.0, "crowd": 40, "draws": 16},
    "clustering": {"n": 24, "crowd": 12, "draws": 64, "horizon": 250.0},
    "limit_geometry": {"n": 12, "draws": 8},
    "uniform_convergence": {"T": 0.4, "plane": 20_000},
    "beyond_heat": {"T": 0.5, "images": 200},
    "bridge_langevin": {"smallest": 0.01},
    "optimal_transport": {"cells": 120},
    "attention": {"n": 10},
    "one_step": {"repeats": 100},
    "normalisation": {"n": 8, "draws": 3},
}
#: The section of a chapter's own controls: nbval compares them, and no sabotage is noticed by one.
CONTROLS = "What would break it"
CHAPTERS = list(dict.fromkeys([*SMALL, *PROJECT.chapters()]))
for module in sorted((Path(__file__).parent / "sabotage").glob("[a-z]*.py")):
    importlib.import_module(f"sabotage.{module.stem}")


@pytest.fixture(scope="session")
def report(request: pytest.FixtureRequest) -> Callable[[str], Report]:
    """What came of a chapter and of the sabotages asked for, computed once a session."""
    cases = [getattr(item, "callspec", None) for item in request.session.items]
    asked = {case.params.get("claim") for case in cases if case is not None}
    replay = {"since": FIRST_CELL, "whole": True} if request.config.getoption("replay") else {}

    @cache
    def of(chapter: str) -> Report:
        chosen = [
            wrong._replace(claims=tuple(c for c in wrong.claims if c in asked), **replay)
            for claim, wrong in SABOTAGE.items()
            if claim in asked and CLAIMS[claim]["chapter"] == chapter
        ]
        cells = [c for c in read_cells(PROJECT.chapter(chapter).read()) if c.section != CONTROLS]
        return survey(cells, SMALL.get(chapter, {}), dict.fromkeys(chosen))

    return of


def test_every_claim_has_a_sabotage_and_every_sabotage_a_claim() -> None:
    assert set(SABOTAGE) == set(CLAIMS)


def test_a_claim_begins_with_the_name_of_its_chapter() -> None:
    """By which its test finds the worker that runs the chapter."""
    assert all(row["chapter"] == claim.partition(".")[0] for claim, row in CLAIMS.items())


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_honest_code_is_sound(chapter: str, report: Callable[[str], Report]) -> None:
    found = report(chapter)
    assert not found.stopped, found.stopped
    assert [row for row in found.rows if not row.sound] == []
    checks = [row for row in found.rows if not row.is_control]
    assert {row.verdict for row in checks} == {claims.HOLDS}
    assert {row.id for row in checks} == {c for c in CLAIMS if CLAIMS[c]["chapter"] == chapter}


@pytest.mark.parametrize("claim", [claim for claim in SABOTAGE if claim in CLAIMS])
def test_the_check_fails_when_the_code_is_wrong(
    claim: str, report: Callable[[str], Report]
) -> None:
    found = report(CLAIMS[claim]["chapter"])
    assert claim in found.trials, found.stopped
    trial = found.trials[claim]
    assert trial.caught, (
        f"{SABOTAGE[claim].mistake.__name__} is not noticed by the check of {claim}, run since "
        f"the {SABOTAGE[claim].since}. Let it act earlier (@sabotage(..., since=...)) or make "
        f"another mistake.\n{trial.account}"
    )
