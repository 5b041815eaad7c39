"""Runs of a chapter that does not exist, for the tests of tables and plots."""

from __future__ import annotations

import math
from typing import Any

import nbformat

from attnflow.book.chapters.parameters import BookError
from attnflow.book.runs.run import Run, RunError
from attnflow.book.runs.table import Row, rows
from attnflow.claims import Check, check, control


def run_with(parameters: dict[str, Any], *checks: Check) -> Run:
    return Run("toy", parameters, "0123", nbformat.v4.new_notebook(), checks, 1.5, False)


def toy_results() -> list[tuple[dict[str, Any], Run | BookError]]:
    """Two good points with a check and a control each, one point that stopped."""
    points = [{"n": n, "kind": "a, b"} for n in (1, 2, 3)]
    results: list[Run | BookError] = [
        run_with(
            point,
            check("toy.law", case="one", predicted=1 / 3, measured=0.1 * point["n"], tol=0.4),
            control("toy.law", removes="it", predicted=math.inf, measured=1.0, relation=">="),
        )
        for point in points[:2]
    ]
    results.append(RunError("toy, code cell 2: ValueError: no\n  the notebook is somewhere"))
    return list(zip(points, results, strict=True))


def toy_rows() -> list[Row]:
    return [row for point, result in toy_results() for row in rows(point, result)]
