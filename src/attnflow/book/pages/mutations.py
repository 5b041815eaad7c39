"""``{mutations} FILE``: how many random changes of the mathematics somebody noticed.

The file is written by ``make mutants``. A mutant is *noticed* if a test fails, a check or control of a
chapter comes out otherwise, or a number is another than without the change; those that cannot be noticed are
listed with the reason in ``tests/mutants/equivalent.yml``.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import yaml
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from attnflow.book.chapters.project import find_project

_SURVIVED = "survived"
_PACKAGE = "src/attnflow/"


class Line(NamedTuple):
    """What came of the changes in one folder of the package, or in its single files."""

    folder: str
    noticed: int
    equal: int  #: changes that nobody can notice
    unnoticed: int


def lines(rows: Mapping[str, Mapping[str, Any]], equal: Mapping[str, str]) -> list[Line]:
    """The mutants by folder.

    >>> changes = "src/attnflow/rates.py: a -> b", "src/attnflow/sphere/gram.py: a -> b"
    >>> rows = {str(k): {"verdict": "survived", "change": c} for k, c in enumerate(changes)}
    >>> for line in lines(rows, {changes[0]: "the same"}):
    ...     print(*line)
    single files 0 1 0
    sphere 0 0 1
    """
    found: dict[str, list[int]] = {}
    for row in rows.values():
        path = row["change"].partition(":")[0]
        folder, slash, _ = path.removeprefix(_PACKAGE).partition("/")
        counts = found.setdefault(folder if slash else "single files", [0, 0, 0])
        alive = row["verdict"] == _SURVIVED
        counts[0 if not alive else 1 if row["change"] in equal else 2] += 1
    return [Line(folder, *found[folder]) for folder in sorted(found)]


class Mutations(SphinxDirective):
    """A sentence, a table by folder, and every change that was not noticed."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        root = find_project().root
        path = root / "benchmarks" / "results" / self.arguments[0]
        known = root / "tests" / "mutants" / "equivalent.yml"
        for file in (path, known):
            self.env.note_dependency(str(file))
        held = json.loads(path.read_text("utf-8")) if path.is_file() else None
        listed = yaml.safe_load(known.read_text("utf-8")) if known.is_file() else None
        equal = {row["change"]: row["reason"] for row in listed or ()}
        return [nodes.raw("", _page(held, equal), format="html")]


def _page(held: Mapping[str, Any] | None, equal: Mapping[str, str]) -> str:
    if held is None:
        return "<p>No campaign is stored yet: <code>make mutants</code> runs one.</p>"
    rows = held["mutants"]
    found = lines(rows, equal)
    noticed, same, missed = (
        sum(getattr(line, k) for line in found) for k in ("noticed", "equal", "unnoticed")
    )
    share = noticed / max(noticed + missed, 1)
    body = "".join(
        f"<tr><td>{line.folder}</td><td>{line.noticed}</td><td>{line.unnoticed}</td>"
        f"<td>{line.equal}</td></tr>"
        for line in found
    )
    alive = sorted(row["change"] for row in rows.values() if row["verdict"] == _SURVIVED)
    told = "".join(
        f"<li><code>{html.escape(text)}</code> {html.escape(equal.get(text, 'not noticed'))}</li>"
        for text in alive
    )
    return (
        f"<p><strong>{noticed} of {noticed + missed} changes were noticed, {share:.1%}</strong>; "
        f"{same} more cannot be noticed.</p><div style='overflow-x:auto'><table class='table'>"
        "<thead><tr><th>folder</th><th>noticed</th><th>not noticed</th><th>cannot be</th></tr></thead>"
        f"<tbody>{body}</tbody></table></div><details><summary>Changes that were not noticed</summary>"
        f"<ul>{told}</ul></details><p><code>{html.escape(held['command'])}</code></p>"
    )


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("mutations", Mutations)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
