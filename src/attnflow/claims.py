"""A claim is computed, can fail, and is shown with its verdict.

``check`` compares what a statement predicts with what was measured; ``control`` is the same
comparison after a hypothesis was removed, and must come out *fails*. Both return a row that a
notebook shows as text and HTML and that carries itself as JSON in the output's MIME bundle,
where the ledger and the sweeps read it. What is shown is rounded to a tenth of the tolerance; the
unrounded numbers travel in the output's metadata. Two runs are compared by those
(:meth:`Check.agrees`), never by the text: a number on the edge of a digit prints differently on
another processor and means the same.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from attnflow.errors import MissingPackage

MIME = "application/vnd.attnflow.check+json"
KINDS = ("identity", "bound", "limit", "rate", "illustration")
#: What every row of claims.yml says.
FIELDS = ("id", "chapter", "kind")
RELATIONS = ("==", "<=", ">=")
HOLDS, FAILS, OUTSIDE = "holds", "fails", "outside hypotheses"
#: The fraction of its tolerance by which a number of a check may differ between two processors.
FRACTION = 0.1
#: Where that is finer than the six digits a row prints: half a unit of the sixth.
SIXTH = 5e-6


class Check(NamedTuple):
    """One compared claim, as :func:`check` and :func:`control` return it.

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

    @property
    def is_control(self) -> bool:
        """Whether this row must fail."""
        return bool(self.removes)

    @property
    def sound(self) -> bool:
        """Whether the row came out as it must: a check does not fail, a control does.

        A control that measured nothing (NaN) has shown nothing and is not sound.
        """
        if self.is_control:
            return self.verdict == OUTSIDE or (
                self.verdict == FAILS and not math.isnan(self.measured)
            )
        return self.verdict in (HOLDS, OUTSIDE)

    def agrees(self, other: Check) -> bool:
        """Whether another run says the same: the verdict and all words exactly, numbers closely.

        Close is a tenth of the tolerance, or half a unit of the sixth digit.

        >>> here, there, far = (check("demo.half", predicted=0.5, measured=m, tol=1e-3)
        ...                     for m in (0.50005, 0.50006, 0.5002))
        >>> here.agrees(there), here.agrees(far)
        (True, False)
        """
        words = self._replace(predicted=0.0, measured=0.0, interval=None)
        if words != other._replace(predicted=0.0, measured=0.0, interval=None):
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

        >>> check("demo.half", predicted=0.5, measured=0.50004, tol=1e-3).shown()["measured"]
        '0.5'
        """
        claim = f"{self.id} [{self.case}]" if self.case else self.id
        sign = {"==": "", "<=": "≤ ", ">=": "≥ "}[self.relation]
        slack = f" ± {self.tol:g}" if self.relation == "==" else ""
        measured = rounded(self.measured, self.tol)
        if self.interval is not None:
            low, high = (rounded(end, self.tol) for end in self.interval)
            measured += f" in [{low}, {high}]"
        verdict = self.verdict
        if self.missing:
            verdict += f" ({'; '.join(self.missing)})"
        return {
            "claim": claim,
            "predicted": f"{sign}{rounded(self.predicted, self.tol)}{slack}",
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
) -> Check:
    """Compare a prediction with a measurement.

    `relation` says how: "==" within `tol`, "<=" or ">=" with `tol` as slack. With an `interval`
    (a confidence interval of the measured value) all of it must lie within the tolerance. Where
    one of `hypotheses` (text -> met?) is not met the verdict is "outside hypotheses".

    >>> check("demo.half", predicted=0.5, measured=0.5004, tol=1e-3)
    demo.half: predicted 0.5 ± 0.001, measured 0.5004: holds
    >>> check("demo.half", predicted=0.5, measured=0.7, tol=1e-3).verdict
    'fails'
    >>> check("demo.half", predicted=1, measured=2, tol=1e-3, hypotheses={"n > 1": False}).verdict
    'outside hypotheses'
    """
    return _compare(id, predicted, measured, tol, relation, case, interval, _met(hypotheses), "")


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
    good = all(_meets(end, predicted, tol, relation) for end in (measured, *(span or ())))
    verdict = OUTSIDE if missing else HOLDS if good else FAILS
    return Check(id, case, predicted, measured, tol, relation, span, missing, removes, verdict)


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


def _close(a: float, b: float, tol: float) -> bool:
    if not (math.isfinite(a) and math.isfinite(b)):
        return a == b or (math.isnan(a) and math.isnan(b))
    return abs(a - b) <= max(FRACTION * tol, SIXTH * max(abs(a), abs(b)))


def rounded(value: float, tol: float) -> str:
    """`value` as text: to a tenth of the first digit of `tol`, and to six digits at most.

    >>> rounded(0.333341, 0.02), rounded(3e-16, 1e-10), rounded(12.3456789, 0)
    ('0.333', '0', '12.3457')
    """
    if not math.isfinite(value):
        return str(value)
    if tol > 0:
        value = round(value, 1 - math.floor(math.log10(tol)))
    return f"{value + 0.0:.6g}"


class Entry(NamedTuple):
    """One line of the ledger: a claim and what the runs say of it.

    >>> ledger([], ["demo.half"])
    [Entry(id='demo.half', verdict='', checks=(), controls=())]
    """

    id: str
    verdict: str  #: the worst over its checks; "" where none ran
    checks: tuple[Check, ...]
    controls: tuple[Check, ...]


def ledger(runs: Iterable[Check], claims: Iterable[str] | None = None) -> list[Entry]:
    """Checks and controls gathered by claim, in the order of `claims` (or of appearance).

    >>> rows = [check("demo.half", predicted=0.5, measured=m, tol=1e-3) for m in (0.5, 0.7)]
    >>> [(entry.id, entry.verdict) for entry in ledger(rows, ["demo.third", "demo.half"])]
    [('demo.third', ''), ('demo.half', 'fails')]
    """
    rows = _listed(runs, "runs", Check)
    named = _listed(() if claims is None else claims, "claims", str)
    ids = dict.fromkeys([*named, *(row.id for row in rows)])
    out = []
    for id in ids:
        checks = tuple(r for r in rows if r.id == id and not r.is_control)
        controls = tuple(r for r in rows if r.id == id and r.is_control)
        verdicts = {r.verdict for r in checks}
        worst = next((v for v in (FAILS, OUTSIDE, HOLDS) if v in verdicts), "")
        out.append(Entry(id, worst, checks, controls))
    return out


def _listed(values: Any, name: str, kind: type) -> list[Any]:
    try:
        out = list(values)
    except TypeError:
        raise TypeError(f"{name} must be a list, got {values!r:.80}") from None
    for value in out:
        if not isinstance(value, kind):
            raise TypeError(f"{name} must hold {kind.__name__} only, got {value!r:.80}")
    return out


def from_json(fields: Mapping[str, Any]) -> Check:
    """A check read back from :meth:`Check.exact`.

    >>> row = check("demo.half", predicted=0.5, measured=float("nan"), tol=1e-3)
    >>> from_json(row.exact()).agrees(row)
    True
    """
    known = {key: fields[key] for key in Check._fields}
    known["predicted"], known["measured"] = float(known["predicted"]), float(known["measured"])
    known["missing"] = tuple(known["missing"])
    span = known["interval"]
    known["interval"] = None if span is None else (float(span[0]), float(span[1]))
    return Check(**known)


def read_claims(path: str | Path) -> dict[str, dict[str, str]]:
    """The rows of claims.yml by id: what is claimed, by whom, and in which chapter.

    A row has an id that no other has, a chapter, and one of the KINDS; what else it says is text.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "claims.yml"
    ...     _ = path.write_text("- {id: demo.half, chapter: demo, kind: identity}")
    ...     read_claims(path)
    {'demo.half': {'id': 'demo.half', 'chapter': 'demo', 'kind': 'identity'}}
    """
    try:
        import yaml
    except ImportError:
        raise MissingPackage.named("pyyaml", "claims.yml", "book") from None
    rows = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise ValueError(f"claims must be a list of rows, got {rows!r:.80}")
    out: dict[str, dict[str, str]] = {}
    for row in rows:
        missing = [field for field in FIELDS if not str(row.get(field) or "").strip()]
        if missing:
            raise ValueError(f"a claim must have {', '.join(FIELDS)}, got {row!r:.80}")
        for field, value in row.items():
            if not isinstance(value, str):
                raise ValueError(f"{field} of {row['id']} must be text, got {value!r:.80}")
        if row["kind"] not in KINDS:
            raise ValueError(
                f"kind of {row['id']} must be one of {', '.join(KINDS)}, got {row['kind']!r:.80}"
            )
        if row["id"] in out:
            raise ValueError(f"a claim must be listed once, got {row['id']} twice")
        out[row["id"]] = dict(row)
    return out


def _json(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)
