"""Negative controls: sabotage the package, run the chapter's own code, see its check fail.

Each claim names one sabotage, a plausible mistake. The chapter's code cells then run in this
process, figures aside, and the claim's check must come out "fails". A claim without a sabotage
fails the suite, and so does a chapter whose honest run is not sound.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from attnflow import attention, claims, flows, kernels, transport, validate
from attnflow.book.chapters import find_project

PROJECT = find_project()
SMALL = {"attention": {"n": 10}}
Sabotage = Callable[[pytest.MonkeyPatch], None]
SABOTAGE: dict[str, Sabotage] = {}


def sabotage(claim: str) -> Callable[[Sabotage], Sabotage]:
    def register(patch: Sabotage) -> Sabotage:
        assert claim not in SABOTAGE
        SABOTAGE[claim] = patch
        return patch

    return register


@sabotage("attention.equivariance")
def positions_leak_into_the_weights(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(attention, "_log", lambda w: np.log(w * np.arange(1, len(w) + 1)))


@sabotage("attention.causal-order")
def the_mask_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(attention._RowNormalised, "_causal_rows", lambda self, x, w: self._rows(x, x, w))


@sabotage("attention.causal-prefix")
def the_mask_comes_after_the_softmax(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        attention._RowNormalised, "_causal_rows", lambda self, x, w: np.tril(self._rows(x, x, w))
    )


@sabotage("attention.mean-field")
def weights_are_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(validate, "weights", lambda w, n, name="weights": np.full(n, 1 / n))


@sabotage("attention.half-step")
def softmax_over_columns(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        attention,
        "softmax_rows",
        lambda logits: np.exp(logits - np.logaddexp.reduce(logits, axis=0, keepdims=True)),
    )


@sabotage("attention.doubly-stochastic")
def sinkhorn_stops_after_the_rows(patch: pytest.MonkeyPatch) -> None:
    honest = transport.sinkhorn

    def lazy(scores: Any, *args: Any, **options: Any) -> transport.Potentials:
        found = honest(scores, *args, **options)
        return found._replace(g=np.zeros_like(found.g))

    patch.setattr(attention, "sinkhorn", lazy)


@sabotage("attention.contraction")
def the_kernel_is_not_positive_semidefinite(patch: pytest.MonkeyPatch) -> None:
    def far_is_near(self: kernels.DenseKernel, x: np.ndarray, eps: float) -> None:
        self.x = x
        self.matrix = 1.01 - np.exp(-kernels.squared_distances(x, x, 2 * eps))

    patch.setattr(kernels.DenseKernel, "__init__", far_is_near)


@sabotage("attention.depth")
def layers_step_a_tenth_too_short(patch: pytest.MonkeyPatch) -> None:
    honest = flows.layers
    patch.setattr(
        flows, "layers", lambda a, x, depth, time=1.0: honest(a, x, depth, time=0.9 * time)
    )


@sabotage("attention.bridge")
def the_cost_loses_its_half(patch: pytest.MonkeyPatch) -> None:
    honest = attention.SinkhornAttention.__init__

    def halved(self: Any, *args: Any, eps: float = 1.0, **options: Any) -> None:
        honest(self, *args, eps=eps / 2, **options)

    patch.setattr(attention.SinkhornAttention, "__init__", halved)


@sabotage("attention.multi-head")
def heads_are_averaged(patch: pytest.MonkeyPatch) -> None:
    honest = attention.MultiHead.velocity
    patch.setattr(
        attention.MultiHead,
        "velocity",
        lambda self, x, weights=None: honest(self, x, weights) / len(self.heads),
    )


def run_cells(chapter: str, patch: pytest.MonkeyPatch, *, tolerant: bool) -> list[claims.Check]:
    """The checks of a chapter's code, run here; figure cells are left out."""
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
    rows = run_cells(PROJECT.claims()[claim]["chapter"], monkeypatch, tolerant=True)
    verdicts = {row.verdict for row in rows if row.id == claim and not row.is_control}
    assert claims.FAILS in verdicts
