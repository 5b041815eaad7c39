"""``{new}``: the book's own results, one screen each, from new.yml and the chapters.

An entry of new.yml names a box of a chapter and a figure, and says how sure the result is and what
would refute it. The statement, the picture and the verdict are read from the chapter, so that they
are the chapter's.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import yaml
from sphinx.application import Sphinx

from attnflow.book.pages import reading
from attnflow.book.pages.pictures import book_pictures, image
from attnflow.book.pages.strips import strip
from attnflow.book.pages.tables import Table
from attnflow.claims import ledger

#: How sure a result is.
SURE = ("proved here", "proved here from a cited lemma", "conjecture with evidence", "measured")
_BOX = re.compile(
    r"^(:::+)\{prf:(\w+)\} *([^\n]*)\n:label: (\S+)\n(.*?)\n\1$", flags=re.MULTILINE | re.DOTALL
)


class Result(NamedTuple):
    """One entry of new.yml."""

    box: str  #: the label of the statement
    figure: str  #: the name of a figure of the same chapter
    sure: str  #: one of SURE
    refuted: str  #: what would refute it
    near: str  #: who came close, and what was searched


class Box(NamedTuple):
    """A statement as its chapter has it."""

    kind: str
    title: str
    label: str
    body: str


def bodies(text: str) -> list[Box]:
    """The labelled statements of a text, with what they say.

    >>> bodies(":::{prf:theorem} One\\n:label: os\\n\\nIt is so.\\n:::")
    [Box(kind='theorem', title='One', label='os', body='It is so.')]
    """
    found = _BOX.findall(text)
    return [Box(kind, title, label, body.strip()) for _, kind, title, label, body in found]


def read_new(path: Path) -> list[Result]:
    """The entries of new.yml, checked."""
    out = []
    for entry in yaml.safe_load(path.read_text("utf-8")):
        if set(entry) != set(Result._fields):
            raise ValueError(f"{path.name}: an entry has {', '.join(Result._fields)}; got {entry}")
        if entry["sure"] not in SURE:
            raise ValueError(f"{path.name}: sure is one of {SURE}, got {entry['sure']!r}")
        out.append(Result(**entry))
    return out


class New(Table):
    """Every result of new.yml."""

    def lines(self) -> list[str]:
        book = Path(self.env.srcdir) / "book"
        claims, rows = self.claims(), self.rows()
        entries = ledger([row for found in rows.values() for row in found], claims)
        boxes = {box.label: (name, box) for name in rows for box in _boxes(book, name)}
        drawn = {name: {p.name: p for p in found} for name, found in book_pictures(book).items()}
        chapters = reading.chapters()
        out: list[str] = []
        for result in read_new(book / "new.yml"):
            name, box = boxes[result.box]
            named = [e for e in entries if claims[e.id].get("box") == result.box]
            out += [
                f"## {box.title}",
                "",
                f"{{prf:ref}}`{result.box}` in [{chapters[name].title}]({name}). *{result.sure.capitalize()}.*",
                "",
                ":::{div} af-new-statement",
                box.body,
                ":::",
                "",
                strip(named, f"{name}.html"),
                "",
                f'<figure class="af-card af-wide-card"><a href="{name}.html#fig-{result.figure}">'
                f"{image(drawn[name][result.figure])}</a></figure>",
                "",
                f"*What would refute it:* {result.refuted.strip()}",
                "",
                f"*Close to it:* {result.near.strip()}",
                "",
            ]
        return out


def _boxes(book: Path, name: str) -> list[Box]:
    notebook = reading.notebook(book / f"{name}.ipynb")
    return bodies("\n".join(c.source for c in notebook.cells if c.cell_type == "markdown"))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("new", New)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
