"""The list of claims (claims.yml) and the ledger: every claim with what the runs say of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from attnflow.claims.rows import FAILS, HOLDS, OUTSIDE, Check
from attnflow.errors import MissingPackage

KINDS = ("identity", "bound", "limit", "rate", "illustration")
#: What every row of claims.yml says.
FIELDS = ("id", "chapter", "kind")


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

    >>> from attnflow.claims import check
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
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same, ten times as fast
    rows = yaml.load(Path(path).read_text(encoding="utf-8"), loader)
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
