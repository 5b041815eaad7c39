"""Where a statement is from, said beside its title: the source, *corrected*, or *new here*.

Read from the claims that name the box. A box is *corrected* where an erratum is decided by a row of
one of its claims; the badge leads there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pybtex.database import parse_file

from attnflow.book.render.typeset import from_tex, typeset
from attnflow.claims import Entry

_CITE = re.compile(r"\{cite:[a-z]+\}`([^`]+)`")


@cache
def authors(bibliography: Path) -> dict[str, str]:
    """Entries of a bibliography as "Castin et al. 2024", by key."""
    out = {}
    for key, entry in parse_file(str(bibliography)).entries.items():
        names = [" ".join(p.prelast_names + p.last_names) for p in entry.persons.get("author", [])]
        names = [name.translate({ord("{"): None, ord("}"): None}) for name in names] or [key]
        who = names[0] if len(names) == 1 else f"{names[0]} and {names[1]}"
        if len(names) > 2:
            who = f"{names[0]} et al."
        out[key] = f"{who} {entry.fields.get('year', '')}".strip()
    return out


def from_where(source: str, known: Mapping[str, str]) -> str:
    """A source as plain words.

    >>> from_where("{cite:t}`castin2024`, Theorem 1.", {"castin2024": "Castin et al. 2024"})
    'Castin et al. 2024, Theorem 1'
    """
    source = re.sub(r"\$([^$]+)\$", lambda formula: from_tex(formula[1]), source)
    named = _CITE.sub(lambda m: ", ".join(known.get(k.strip(), k) for k in m[1].split(",")), source)
    return re.sub(r"[*`$]", "", named).strip().rstrip(".")


@cache
def corrections(errata: Path) -> dict[str, str]:
    """The rows (by anchor) that decide an erratum, with the anchor of the erratum."""
    out: dict[str, str] = {}
    for document in yaml.safe_load(errata.read_text("utf-8")):
        for entry in document["entries"]:
            for row in entry.get("decided", ()):
                out.setdefault(row, erratum_anchor(document["title"], entry))
    return out


def erratum_anchor(title: str, entry: Mapping[str, Any]) -> str:
    """The id of an erratum on its page.

    >>> erratum_anchor("A talk", {"where": "Result 1.", "printed": "The sign is $+$."})
    'erratum-a-talk-result-1-the-sign-is'
    """
    words = f"{title} {entry['where']} {entry['printed']}".lower()
    return "erratum-" + "-".join(re.findall(r"[a-z0-9]+", re.sub(r"\$[^$]*\$", "", words))[:12])


def badge(
    entries: Iterable[Entry],
    claims: Mapping[str, Mapping[str, str]],
    known: Mapping[str, str],
    corrected: Mapping[str, str],
) -> str:
    """The badges of one box, as HTML."""
    entries = list(entries)
    sources = list(dict.fromkeys(claims[entry.id]["source"].strip() for entry in entries))
    out = []
    old = [s for s in sources if not s.lower().startswith("this book")]
    if old:
        said = typeset(from_where(old[0], known))
        out.append(f'<a class="af-badge" href="references.html">{said}</a>')
    if len(old) < len(sources):
        out.append('<span class="af-badge af-new">new here</span>')
    rows = [row.anchor() for entry in entries for row in (*entry.checks, *entry.controls)]
    wrong = next((corrected[row] for row in rows if row in corrected), "")
    if wrong:
        out.append(f'<a class="af-badge af-corrected" href="errata.html#{wrong}">corrected</a>')
    return f'<span class="af-badges">{"".join(out)}</span>'
