"""``{statements}``: an index of all boxes of the book, by chapter, with source and verdict."""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

from attnflow.book.pages import reading
from attnflow.book.pages.badges import authors, badge, corrections
from attnflow.book.pages.tables import Table
from attnflow.claims import HOLDS, ledger

_BOX = re.compile(r"^:::+\{prf:(\w+)\} *([^\n]*)\n:label: (\S+)$", flags=re.MULTILINE)


def boxes(text: str) -> list[tuple[str, str, str]]:
    """Kind, title and label of the labelled statements in MyST; proofs are none.

    >>> boxes(":::{prf:theorem} One step\\n:label: os\\n\\nText.\\n:::")
    [('theorem', 'One step', 'os')]
    """
    return [found for found in _BOX.findall(text) if found[0] != "proof"]


class Statements(Table):
    """The list, chapter by chapter."""

    def lines(self) -> list[str]:
        book = Path(self.env.srcdir) / "book"
        claims, rows = self.claims(), self.rows()
        entries = ledger([row for found in rows.values() for row in found], claims)
        known, wrong = authors(book / "references.bib"), corrections(book / "errata.yml")
        out: list[str] = []
        for name, chapter in reading.chapters().items():
            notebook = reading.notebook(book / f"{name}.ipynb")
            text = "\n".join(c.source for c in notebook.cells if c.cell_type == "markdown")
            out += [f"## {chapter.title}", ""]
            for _, title, label in boxes(text):
                named = [e for e in entries if claims.get(e.id, {}).get("box") == label]
                verdicts = {entry.verdict for entry in named}
                said = "holds" if verdicts == {HOLDS} else ", ".join(sorted(verdicts))
                where = badge(named, claims, known, wrong) if named else ""
                out.append(f"- {{prf:ref}}`{label}`: {title or label}. {said} {where}")
            out.append("")
        return out


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("statements", Statements)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
