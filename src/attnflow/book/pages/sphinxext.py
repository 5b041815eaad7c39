"""What the rendered book needs of Sphinx beyond Jupyter Book.

* ``{ledger}``, ``{score}``: every claim with its source, statement, checks, controls and verdicts, read from
  the outputs of the notebooks that are being rendered.
* ``{errata}``: the misprints of the source documents, each with the check that decides it.
* ``{measured}``, ``{chart}``: a table and a log-log chart from the results of the benchmarks.
* MathJax comes from an installed package, so no page asks for anything outside.
"""

from __future__ import annotations

import json
import shutil
from importlib.metadata import files
from pathlib import Path
from typing import Any

import yaml
from sphinx.application import Sphinx

from attnflow.book.chapters.project import find_project
from attnflow.book.pages.badges import erratum_anchor
from attnflow.book.pages.charts import Chart
from attnflow.book.pages.ledger import Ledger, Score
from attnflow.book.pages.tables import Table
from attnflow.claims import Check

_MATHJAX = "tex-svg-full.js"


class Errata(Table):
    """The misprints of the source documents."""

    def lines(self) -> list[str]:
        path = Path(self.env.srcdir) / "book" / "errata.yml"
        documents = yaml.safe_load(path.read_text("utf-8"))
        found = {
            row.anchor(): (row, chapter) for chapter, rows in self.rows().items() for row in rows
        }
        out: list[str] = []
        for document in documents:
            out += [f"## {document['title']}", "", document["about"].strip(), ""]
            for entry in document["entries"]:
                out += [
                    ":::{div} af-erratum",
                    f"<span id='{erratum_anchor(document['title'], entry)}'></span>**{entry['where']}** {entry['printed'].strip()}",
                    "",
                    f"*Read:* {entry['read'].strip()}",
                    "",
                    *(f"- {_evidence(anchor, found)}" for anchor in entry.get("decided", [])),
                    *([f"- {entry['because'].strip()}"] if "because" in entry else []),
                    ":::",
                    "",
                ]
        return out


class Measured(Table):
    """A section of a result file of the benchmarks as a table: ``{measured} FILE SECTION``.

    The content names the columns to show, one a line; without it all are shown.
    """

    required_arguments = 2
    has_content = True

    def lines(self) -> list[str]:
        path = find_project().root / "benchmarks" / "results" / self.arguments[0]
        self.env.note_dependency(str(path))
        section = json.loads(path.read_text("utf-8"))[self.arguments[1]]
        rows = section if isinstance(section, list) else [section]
        columns = list(self.content) or list(dict.fromkeys(name for row in rows for name in row))
        return [
            f"| {' | '.join(columns)} |",
            f"|{'---|' * len(columns)}",
            *(f"| {' | '.join(_cell(row.get(name, '')) for name in columns)} |" for row in rows),
        ]


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "–" if value in (None, "") else f"{value:,}" if isinstance(value, int) else str(value)


def _evidence(anchor: str, found: dict[str, tuple[Check, str]]) -> str:
    if anchor not in found:
        raise ValueError(f"errata.yml names {anchor}, which no chapter computes")
    row, chapter = found[anchor]
    shown = row.shown()
    what = f"control, {row.removes}" if row.is_control else f"`{shown['claim']}`"
    return (
        f"<a href='{chapter}.html#{anchor}'>Computed</a>: {what}, predicted {shown['predicted']}, "
        f"measured {shown['measured']}: **{shown['verdict']}**"
    )


def _offline(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Thebe's script raises an error, and nothing needs it."""
    context["script_files"] = [s for s in context["script_files"] if not _is_thebe(s)]


def _is_thebe(script: Any) -> bool:
    name, attributes = getattr(script, "filename", script), getattr(script, "attributes", {})
    return "thebe" in str(name) or "THEBE" in str(attributes.get("body", ""))


def _copy_mathjax(app: Sphinx) -> None:
    """Put MathJax where Sphinx looks for static files."""
    target = Path(app.outdir) / "_static" / _MATHJAX
    if target.is_file():
        return
    found = [f for f in files("sphinx-mathjax-offline") or [] if f.name == _MATHJAX]
    if not found:
        raise FileNotFoundError(f"the package sphinx-mathjax-offline holds no {_MATHJAX}")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(str(found[0].locate()), target)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("ledger", Ledger)
    app.add_directive("score", Score)
    app.add_directive("errata", Errata)
    app.add_directive("measured", Measured)
    app.add_directive("chart", Chart)
    app.connect("builder-inited", _copy_mathjax)
    app.connect("html-page-context", _offline, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
