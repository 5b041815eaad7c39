"""Negative controls: sabotage the package, run the chapter's own code, see its check fail.

Each claim names one sabotage, a plausible mistake (see sabotage/). The chapter's code cells then
run in this process, figures aside, and the claim's check must come out "fails". A claim without
a sabotage fails the suite, and so does a chapter whose honest run is not sound.
"""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from typing import Any

import pytest
from sabotage import SABOTAGE

from attnflow import claims
from attnflow.book.chapters import find_project

PROJECT = find_project()
#: Parameters that make a chapter's code cheap where its claims do not need the defaults.
SMALL: dict[str, dict[str, Any]] = {
    "attention": {"n": 10},
    "bridge_langevin": {"smallest": 0.01},
    "clustering": {"n": 24, "crowd": 12, "draws": 64, "horizon": 250.0},
    "limit_geometry": {"n": 12, "draws": 8},
    "lipschitz": {"draws": 4, "largest": 512, "starts": 4, "n": 8},
    "lipschitz_real": {"inputs": 4, "longest": 128, "seed": 1},
    "mean_field": {"n": 6, "draws": 2, "largest": 1024},
    "gaussian_flows": {"draws": 64, "largest": 3, "order": 16},
    "one_step": {"repeats": 12},
    "optimal_transport": {"cells": 120},
    "phase_diagram": {"betas": 8, "realisations": 32, "draws": 3},
    "trained": {"draws": 24, "tokens": 32},
    "uniform_convergence": {"T": 0.2, "plane": 20_000, "images": 200},
}
for module in sorted((Path(__file__).parent / "sabotage").glob("[a-z]*.py")):
    importlib.import_module(f"sabotage.{module.stem}")


def run_cells(
    chapter: str, patch: pytest.MonkeyPatch, *, tolerant: bool, until: str = ""
) -> list[claims.Check]:
    """The checks of a chapter's code, run here up to a failed check of the claim `until`.

    Figure cells are left out.
    """
    rows: list[claims.Check] = []
    honest = claims._compare

    def record(*args: Any) -> claims.Check:
        rows.append(honest(*args))
        return rows[-1]

    patch.setattr(claims, "_compare", record)
    space: dict[str, Any] = {}
    for cell in PROJECT.chapter(chapter).read().cells:
        tags = cell.metadata.get("tags", [])
        if cell.cell_type != "code" or "nbval-ignore-output" in tags:
            continue
        try:
            exec(compile(ast.parse(cell.source), chapter, "exec"), space)
        except Exception:
            if not tolerant:
                raise
        if any(r.id == until and not r.is_control and r.verdict == claims.FAILS for r in rows):
            break
        if "parameters" in tags:
            space.update(SMALL.get(chapter, {}))
    return rows


def test_every_claim_has_a_sabotage_and_every_sabotage_a_claim() -> None:
    assert set(SABOTAGE) == set(PROJECT.claims())


@pytest.mark.parametrize("chapter", list(PROJECT.chapters()))
def test_the_honest_code_is_sound(chapter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = run_cells(chapter, monkeypatch, tolerant=False)
    assert rows
    assert [row for row in rows if not row.sound] == []
    assert {row.verdict for row in rows if not row.is_control} == {claims.HOLDS}


@pytest.mark.parametrize("claim", list(SABOTAGE))
def test_the_check_fails_when_the_code_is_wrong(
    claim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    SABOTAGE[claim](monkeypatch)
    chapter = PROJECT.claims()[claim]["chapter"]
    rows = run_cells(chapter, monkeypatch, tolerant=True, until=claim)
    verdicts = {row.verdict for row in rows if row.id == claim and not row.is_control}
    assert claims.FAILS in verdicts
