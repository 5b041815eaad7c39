"""Checks and controls: a prediction beside a measurement.

``check`` compares what a statement predicts with what was measured. ``control`` is the same
comparison after a hypothesis was removed, and must come out *fails*: with its whole interval
outside the tolerance, for one that merely touches the outside has shown nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from attnflow.claims.rows import FAILS, HOLDS, OUTSIDE, UNDECIDED, Check

RELATIONS = ("==", "<=", ">=")


def check(
    id: str,
    *,
    predicted: float,
    measured: float,
    tol: float = 0.0,
    relation: str = "==",
    case: str = "",
    interval: tuple[float, float] | None = None,
    hypotheses: Mapping[str, bool] | None = None,
    loose: str = "",
) -> Check:
    """Compare a prediction with a measurement.

    `relation` says how: "==" within `tol`, "<=" or ">=" with `tol` as slack. With an `interval`
    (a confidence interval of the measured value) all of it must lie within the tolerance. Where
    one of `hypotheses` (text -> met?) is not met the verdict is "outside hypotheses". A check with
    much slack (:attr:`Check.is_loose`) says in `loose` why a sharper one is not possible.

    >>> check("demo.half", predicted=0.5, measured=0.5004, tol=1e-3)
    demo.half: predicted 0.5 ± 0.001, measured 0.5004: holds
    >>> check("demo.half", predicted=0.5, measured=0.7, tol=1e-3).verdict
    'fails'
    >>> check("demo.half", predicted=1, measured=2, tol=1e-3, hypotheses={"n > 1": False}).verdict
    'outside hypotheses'
    """
    row = _compare(id, predicted, measured, tol, relation, case, interval, _met(hypotheses), "")
    if not isinstance(loose, str):
        raise TypeError(f"loose must be text, got {loose!r:.80}")
    return row._replace(loose=loose)


def control(
    id: str,
    *,
    removes: str,
    predicted: float,
    measured: float,
    tol: float = 0.0,
    relation: str = "==",
    case: str = "",
    interval: tuple[float, float] | None = None,
    hypotheses: Mapping[str, bool] | None = None,
) -> Check:
    """The comparison of :func:`check` after `removes` was taken away. It must come out "fails".

    With an `interval` all of it must lie outside the tolerance; otherwise the verdict is
    "undecided". So it is where nothing was measured (NaN).

    >>> control("demo.half", removes="the mean", predicted=0.5, measured=0.7, tol=1e-3).sound
    True
    """
    if not removes:
        raise ValueError("removes must say which hypothesis the control takes away, got ''")
    return _compare(
        id, predicted, measured, tol, relation, case, interval, _met(hypotheses), removes
    )


def _compare(
    id: str, predicted: float, measured: float, tol: float, relation: str, case: str,
    interval: tuple[float, float] | None, hypotheses: dict[str, bool], removes: str,
) -> Check:  # fmt: skip
    for name, text in (("id", id), ("case", case), ("removes", removes)):
        if not isinstance(text, str):
            raise TypeError(f"{name} must be text, got {text!r:.80}")
    predicted, measured = _number(predicted, "predicted"), _number(measured, "measured")
    tol = _number(tol, "tol")
    if not isinstance(relation, str) or relation not in RELATIONS:
        raise ValueError(f"relation must be one of {', '.join(RELATIONS)}, got {relation!r:.80}")
    if not (math.isfinite(tol) and tol >= 0):
        raise ValueError(f"tol must be a finite number >= 0, got {tol}")
    if relation == "==" and tol == 0:
        raise ValueError("an equality needs a tolerance tol > 0, got 0")
    span = None if interval is None else _ends(interval)
    missing = tuple(text for text, met in hypotheses.items() if not met)
    ends = (measured, *(span or ()))
    good = all(_meets(end, predicted, tol, relation) for end in ends)
    verdict = OUTSIDE if missing else HOLDS if good else FAILS
    row = Check(id, case, predicted, measured, tol, relation, span, missing, removes, verdict)
    if row.is_control and verdict == FAILS and (any(map(math.isnan, ends)) or row.distance <= 1):
        return row._replace(verdict=UNDECIDED)
    return row


def _number(value: Any, name: str) -> float:
    """A number; NaN and inf are numbers that were measured too."""
    try:
        if isinstance(value, str | bytes) or getattr(value, "mask", False):
            raise TypeError
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be a number, got {value!r:.80}") from None


def _ends(interval: Any) -> tuple[float, float]:
    try:
        low, high = interval
    except (TypeError, ValueError):
        raise ValueError(f"interval must be two numbers, got {interval!r:.80}") from None
    return _number(low, "interval"), _number(high, "interval")


def _met(hypotheses: Any) -> dict[str, bool]:
    if hypotheses is not None and not isinstance(hypotheses, Mapping):
        raise TypeError(f"hypotheses must map text to whether it is met, got {hypotheses!r:.80}")
    return dict(hypotheses or {})


def _meets(measured: float, predicted: float, tol: float, relation: str) -> bool:
    if relation == "<=":
        return measured <= predicted + tol
    if relation == ">=":
        return measured >= predicted - tol
    return abs(measured - predicted) <= tol
