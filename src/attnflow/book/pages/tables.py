"""Directives that write MyST and let Sphinx read it, so that citations, links and maths work."""

from __future__ import annotations

from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from attnflow.book.chapters.notebooks import checks
from attnflow.book.pages import reading
from attnflow.claims import Check


class Table(SphinxDirective):
    """A directive that writes MyST and lets Sphinx read it, so that citations and maths work."""

    def lines(self) -> list[str]:
        raise TypeError("write the page in a subclass")

    def depend(self) -> None:
        """The page is made again when a chapter or what is said of its claims changes."""
        book = Path(self.env.srcdir) / "book"
        for path in [*sorted(book.glob("*.yml")), *sorted(book.glob("*.ipynb"))]:
            self.env.note_dependency(str(path))

    def run(self) -> list[nodes.Node]:
        self.depend()
        book = Path(self.env.srcdir) / "book"
        holder = nodes.container(classes=["af-ledger"])
        content = StringList(self.lines(), source=str(book / "claims.yml"))
        self.state.nested_parse(content, 0, holder)
        return [holder]

    def claims(self) -> dict[str, dict[str, str]]:
        return reading.claims(Path(self.env.srcdir) / "book" / "claims.yml")

    def rows(self) -> dict[str, tuple[Check, ...]]:
        """Checks by chapter, from the notebooks being rendered."""
        book = Path(self.env.srcdir) / "book"
        return {path.stem: checks(reading.notebook(path)) for path in book.glob("*.ipynb")}
