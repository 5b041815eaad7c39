"""One row of evidence: what was predicted, what was measured, and how sharp the comparison is.

A notebook shows a row as text and HTML, and the row carries itself as JSON in the output's MIME
bundle, where the ledger and the sweeps read it. What is shown is rounded to a tenth of the
tolerance; the unrounded numbers travel in the output's metadata. Two runs are compared by those
(:meth:`Check.agrees`), never by the text: a number on the edge of a digit prints differently on
another processor and means the same.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from html import escape
from typing import Any, NamedTuple

MIME = "application/vnd.attnflow.check+json"
HOLDS, FAILS, OUTSIDE = "holds", "fails", "outside hypotheses"
#: A control whose interval lies on both sides of the edge of the tolerance.
UNDECIDED = "undecided"
#: A check that could be this many times worse and still hold must say why it is not sharper...
LOOSE = 10.0
#: ...unless its tolerance is at the level of rounding, relative to what it compares.
ROUNDING = 1e-9
#: The fraction of its tolerance by which a number of a check may differ between two processors.
FRACTION = 0.1
#: Where that is finer than the six digits a row prints: half a unit of the sixth.
SIXTH = 5e-6
#: Tolerances that differ by less than this share are one.
SAME_TOLERANCE = 1e-6


class Check(NamedTuple):
    """One compared claim, as :func:`~attnflow.claims.check` and
    :func:`~attnflow.claims.control` return it.

    >>> from attnflow.claims import check
    >>> row = check("demo.half", case="n 4", predicted=0.5, measured=0.5004, tol=1e-3)
    >>> row.anchor(), row.sound, row.is_control
    ('check-demo-half-n-4', True, False)
    """

    id: str  #: the claim, as in claims.yml
    case: str  #: which of several instances, or ""
    predicted: float
    measured: float
    tol: float
    relation: str  #: measured RELATION predicted, up to tol
    interval: tuple[float, float] | None  #: of the measured value, for rates
    missing: tuple[str, ...]  #: hypotheses that the parameters do not meet
    removes: str  #: for a control: the hypothesis that was removed
    verdict: str
    loose: str = ""  #: for a check with much slack: why a sharper one is not possible

    @property
    def is_control(self) -> bool:
        """Whether this row must fail."""
        return bool(self.removes)

    @property
    def sound(self) -> bool:
        """Whether the row came out as it must: a check does not fail, a control does.

        A control that measured nothing (NaN), or whose interval reaches into the tolerance, has
        shown nothing and is not sound.

        >>> from attnflow.claims import control
        >>> wide = control("demo.half", removes="the mean", predicted=0.5, measured=0.7, tol=0.1,
        ...                interval=(0.55, 0.85))
        >>> wide.verdict, wide.sound
        ('undecided', False)
        """
        if self.is_control:
            return self.verdict in (FAILS, OUTSIDE)
        return self.verdict in (HOLDS, OUTSIDE)

    @property
    def slack(self) -> float:
        """How many times the error (or what a bound bounds) could grow before the check fails.

        >>> from attnflow.claims import check
        >>> check("demo.half", predicted=0.5, measured=0.5625, tol=0.25).slack
        4.0
        >>> check("demo.bound", predicted=6.0, measured=3.0, relation="<=").slack
        2.0
        """
        used = max(_strain(end, self) for end in (self.measured, *(self.interval or ())))
        return math.inf if used == 0 else 1 / used

    @property
    def distance(self) -> float:
        """How many tolerances (or bounds) the nearest end of a control's interval is away.

        Above one it lies outside; where the interval contains the prediction it is zero.

        >>> from attnflow.claims import control
        >>> control("demo.half", removes="the mean", predicted=0.5, measured=1.25, tol=0.25,
        ...         interval=(1.0, 1.5)).distance
        2.0
        """
        ends = (self.measured, *(self.interval or ()))
        if self.relation == "==" and min(ends) <= self.predicted <= max(ends):
            return 0.0
        return min(_strain(end, self) for end in ends)

    @property
    def is_loose(self) -> bool:
        """Whether the row is a check with more slack than it may have without a reason.

        >>> from attnflow.claims import check
        >>> rows = [check("demo.half", predicted=0.5, measured=0.501, tol=t) for t in (0.1, 0.005)]
        >>> [row.is_loose for row in rows]
        [True, False]
        """
        scale = max(abs(self.predicted), abs(self.measured), 1.0)
        rounding = self.relation == "==" and self.tol <= ROUNDING * scale
        return self.verdict == HOLDS and not self.is_control and not rounding and self.slack > LOOSE

    def agrees(self, other: Check) -> bool:
        """Whether another run says the same: the verdict and all words exactly, numbers closely.

        Close is a tenth of the tolerance, or half a unit of the sixth digit. The tolerance itself,
        which may be a share of something computed, is the same to six digits.

        >>> from attnflow.claims import check
        >>> here, there, far = (check("demo.half", predicted=0.5, measured=m, tol=1e-3)
        ...                     for m in (0.50005, 0.50006, 0.5002))
        >>> here.agrees(there), here.agrees(far)
        (True, False)
        """
        words, others = (
            row._replace(predicted=0.0, measured=0.0, tol=0.0, interval=None)
            for row in (self, other)
        )
        if words != others:
            return False
        if abs(self.tol - other.tol) > SAME_TOLERANCE * self.tol:
            return False
        mine, theirs = (
            (row.predicted, row.measured, *(row.interval or ())) for row in (self, other)
        )
        return len(mine) == len(theirs) and all(
            _close(a, b, self.tol) for a, b in zip(mine, theirs, strict=True)
        )

    def exact(self) -> dict[str, Any]:
        """All fields, unrounded, as JSON can hold them."""
        span = None if self.interval is None else [_json(end) for end in self.interval]
        numbers = {"predicted": _json(self.predicted), "measured": _json(self.measured)}
        return {**self._asdict(), **numbers, "interval": span}

    def shown(self) -> dict[str, str]:
        """What a reader sees: claim, predicted, measured, verdict.

        Where no digit that is printed differs from the prediction, the size of the error is said.

        >>> from attnflow.claims import check
        >>> check("demo.half", predicted=0.5, measured=0.50004, tol=1e-3).shown()["measured"]
        '0.5 (off by < 1e-04)'
        """
        claim = f"{self.id} [{self.case}]" if self.case else self.id
        sign, edge = {"==": ("", " ± "), "<=": ("≤ ", " + "), ">=": ("≥ ", " − ")}[self.relation]
        allowed = f"{edge}{_digits(self.tol)}" if self.tol > 0 else ""
        predicted = rounded(self.predicted, self.tol)
        measured = rounded(self.measured, self.tol)
        told = self.relation == "==" and self.interval is None and math.isfinite(self.measured)
        if told and measured == predicted:
            measured += f" ({_size(abs(self.measured - self.predicted))})"
        if self.interval is not None:
            low, high = (rounded(end, self.tol) for end in self.interval)
            measured += f" in [{low}, {high}]"
        verdict = self.verdict
        if self.missing:
            verdict += f" ({'; '.join(self.missing)})"
        return {
            "claim": claim,
            "predicted": f"{sign}{predicted}{allowed}",
            "measured": measured,
            "verdict": verdict,
        }

    def __repr__(self) -> str:
        row = self.shown()
        note = f"  (control: {self.removes})" if self.is_control else ""
        return (
            f"{row['claim']}: predicted {row['predicted']}, "
            f"measured {row['measured']}: {row['verdict']}{note}"
        )

    def anchor(self) -> str:
        """The id of this row in a rendered page."""
        parts = ["control" if self.is_control else "check", self.id, self.case]
        return re.sub(r"[^A-Za-z0-9_]+", "-", "-".join(p for p in parts if p)).strip("-")

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        shown = {**self.shown(), "id": self.id, "case": self.case, "control": self.is_control}
        data = {"text/plain": repr(self), "text/html": self._html(), MIME: shown}
        return data, {MIME: self.exact()}

    def _html(self) -> str:
        row = {key: escape(value) for key, value in self.shown().items()}
        kind = "outside" if self.verdict == OUTSIDE else self.verdict
        label = "control" if self.is_control else "check"
        why = f'<span class="af-why">{escape(self.removes)}</span>' if self.is_control else ""
        return (
            f'<div class="af-check af-{label} af-{kind}" id="{escape(self.anchor())}">'
            f'<span class="af-label">{label}</span> <code>{row["claim"]}</code>{why}'
            f'<span class="af-value"><em>predicted</em> {row["predicted"]}</span> '
            f'<span class="af-value"><em>measured</em> {row["measured"]}</span> '
            f'<strong class="af-verdict">{row["verdict"]}</strong></div>'
        )


def _strain(value: float, row: Check) -> float:
    """How much of what `row` allows `value` uses: at most one inside the tolerance, above outside."""
    if row.relation == "==":
        return abs(value - row.predicted) / row.tol
    sign = 1.0 if row.relation == "<=" else -1.0
    value, edge = sign * value, sign * row.predicted + row.tol  # value <= edge
    if edge > 0:
        return max(value, 0.0) / edge
    if edge == 0:
        return 0.0 if value <= 0 else math.inf
    return edge / value if value < 0 else math.inf


def _close(a: float, b: float, tol: float) -> bool:
    if not (math.isfinite(a) and math.isfinite(b)):
        return a == b or (math.isnan(a) and math.isnan(b))
    return abs(a - b) <= max(FRACTION * tol, SIXTH * max(abs(a), abs(b)))


def _size(error: float) -> str:
    """An error by the power of ten above it, which is the same on every processor but for luck.

    >>> _size(3e-16), _size(0.0)
    ('off by < 1e-15', 'exactly')
    """
    if error == 0:
        return "exactly"
    return f"off by < {_digits(10.0 ** (math.floor(math.log10(error)) + 1))}"


def _digits(value: float) -> str:
    """Six digits at most; below a thousandth as a power of ten, where zeros would have to be counted.

    >>> _digits(0.25), _digits(0.000233554), _digits(1e-4), _digits(-0.0)
    ('0.25', '2.33554e-04', '1e-04', '0')
    """
    text = f"{value + 0.0:.6g}"
    if not 0 < abs(value) < 1e-3 or "e" in text:
        return text
    first, _, power = f"{value:.5e}".partition("e")
    return f"{first.rstrip('0').rstrip('.')}e{power}"


def rounded(value: float, tol: float) -> str:
    """`value` as text: to a tenth of the first digit of `tol`, and to six digits at most.

    >>> rounded(0.333341, 0.02), rounded(3e-16, 1e-10), rounded(12.3456789, 0)
    ('0.333', '0', '12.3457')
    """
    if not math.isfinite(value):
        return str(value)
    if tol > 0:
        value = round(value, 1 - math.floor(math.log10(tol)))
    return _digits(value)


def from_json(fields: Mapping[str, Any]) -> Check:
    """A check read back from :meth:`Check.exact`.

    >>> from attnflow.claims import check
    >>> row = check("demo.half", predicted=0.5, measured=float("nan"), tol=1e-3)
    >>> from_json(row.exact()).agrees(row)
    True
    """
    known = {"loose": ""} | {key: fields[key] for key in Check._fields if key in fields}
    known["predicted"], known["measured"] = float(known["predicted"]), float(known["measured"])
    known["missing"] = tuple(known["missing"])
    span = known["interval"]
    known["interval"] = None if span is None else (float(span[0]), float(span[1]))
    return Check(**known)


def _json(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)
