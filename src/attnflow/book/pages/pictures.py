"""Figures as files, and pages made of them.

* ``{cards}``: a card for each chapter it lists (``name: sentence``, a line each) with its first figure.
* ``{gallery}``: every figure of the book with its caption and its chapter.

A drawing in a chapter takes its colours from the page. As a file it cannot, so cards are white and have files
of their own, without what cannot be seen at their size.
"""

from __future__ import annotations

import re
from html import escape, unescape
from pathlib import Path
from typing import NamedTuple

import nbformat
from docutils import nodes
from sphinx.application import Sphinx

from attnflow.book.pages import reading
from attnflow.book.pages.ledger import inline
from attnflow.book.pages.tables import Table
from attnflow.book.render.lean import lean_svg
from attnflow.files import write_text

FOLDER = "pictures"  #: of _static
_FIGURE = re.compile(
    r'<figure class="af-figure[^"]*" id="fig-([a-z0-9-]+)">(.*?)</figure>', flags=re.DOTALL
)
_CAPTION = re.compile(r"<figcaption[^>]*>(.*?)</figcaption>", flags=re.DOTALL)
_ALT = re.compile(r'aria-label="([^"]*)"')


class Picture(NamedTuple):
    """A figure of a chapter; `svg` is empty where it moves."""

    name: str
    svg: str
    alt: str
    caption: str


def pictures(notebook: nbformat.NotebookNode) -> list[Picture]:
    """The figures of an executed notebook, in their order.

    >>> from nbformat.v4 import new_code_cell, new_notebook, new_output
    >>> html = '<figure class="af-figure" id="fig-a"><svg aria-label="A line"></svg></figure>'
    >>> shown = new_output("display_data", {"text/html": html})
    >>> pictures(new_notebook(cells=[new_code_cell("", outputs=[shown])]))[0][:3]
    ('a', '<svg aria-label="A line"></svg>', 'A line')
    """
    out = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            html = output.get("data", {}).get("text/html", "")
            out += [_picture(name, body) for name, body in _FIGURE.findall(html)]
    return out


def _picture(name: str, body: str) -> Picture:
    start, end = body.find("<svg"), body.rfind("</svg>")
    svg = body[start : end + len("</svg>")] if 0 <= start < end else ""
    alt, caption = _ALT.search(body), _CAPTION.search(body)
    return Picture(name, svg, unescape(alt[1]) if alt else "", caption[1] if caption else "")


def book_pictures(book: Path) -> dict[str, list[Picture]]:
    """The figures of the notebooks in a folder, by chapter, in the order of the book."""
    found = {path.stem: path for path in book.glob("*.ipynb")}
    order = [name for name in reading.chapters() if name in found]
    return {name: pictures(reading.notebook(found[name])) for name in order}


def image(picture: Picture, above: str = "..") -> str:
    """A figure as a lazy image, or a word where it moves."""
    if not picture.svg:
        return '<span class="af-moves">it moves: open the chapter</span>'
    return (
        f'<img loading="lazy" src="{above}/_static/{FOLDER}/{picture.name}.svg" '
        f'alt="{escape(picture.alt)}">'
    )


def as_file(svg: str) -> str:
    """A drawing of a page as a file, which must say what it is.

    >>> as_file('<svg viewBox="0 0 9 9"></svg>')
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9" />'
    """
    if "xmlns=" not in svg[: svg.find(">")]:
        svg = svg.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    return lean_svg(svg)


class Cards(Table):
    """A card for each chapter of the content."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        self.depend()
        chapters = reading.chapters()
        drawn = book_pictures(Path(self.env.srcdir) / "book")
        out = []
        for line in self.content:
            name, _, sentence = line.partition(":")
            first = next((p for p in drawn.get(name, []) if p.svg), None)
            if name not in chapters:
                raise self.error(f"cards names {name!r}, which is no chapter")
            out.append(
                f'<a class="af-card" href="{name}.html">{image(first) if first else ""}'
                f"<strong>{escape(chapters[name].title)}</strong>"
                f"<span>{inline(sentence)}</span></a>"
            )
        return [nodes.raw("", f'<div class="af-cards">{"".join(out)}</div>', format="html")]


class Gallery(Table):
    """Every figure, by chapter."""

    def lines(self) -> list[str]:
        chapters = reading.chapters()
        out: list[str] = []
        for name, drawn in book_pictures(Path(self.env.srcdir) / "book").items():
            out += [f"## [{chapters[name].title}]({name})", "", '<div class="af-cards">']
            for p in drawn:
                caption = re.sub(r"\\\((.*?)\\\)", r"$\1$", p.caption)
                link = f'<a href="{name}.html#fig-{p.name}">{image(p)}</a>'
                out += [f'<figure class="af-card" id="of-{p.name}">{link}<figcaption>', ""]
                out += [caption, "", "</figcaption></figure>", ""]
            source = f"../_sources/book/{name}.ipynb"
            out += ["</div>", "", f'<p><a href="{source}" download>the notebook</a></p>', ""]
        return out


def _write(app: Sphinx) -> None:
    folder = Path(app.outdir) / "_static" / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    wanted = set()
    for drawn in book_pictures(Path(app.srcdir) / "book").values():
        for picture in drawn:
            target = folder / f"{picture.name}.svg"
            svg = as_file(picture.svg) if picture.svg else ""
            if svg and (not target.is_file() or svg != target.read_text("utf-8")):
                write_text(svg, target)
            wanted.add(target)
    for old in set(folder.glob("*.svg")) - wanted:
        old.unlink()


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("cards", Cards)
    app.add_directive("gallery", Gallery)
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
