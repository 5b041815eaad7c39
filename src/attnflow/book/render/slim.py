"""What a reader does not need is not in the built book.

The notebooks that pages offer for download come without outputs: whoever downloads one runs it, and
the page has the outputs. Source maps are for the authors of the theme, its translations for books in
other languages. Its icons come twice, as a font and as a script that replaces each by a drawing: the font
stays, in the one format that every browser reads. Words are looked up on the page of results, and only there the
index is loaded. Pages are written without what cannot be seen (`lean`).
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import nbformat
from sphinx.application import Sphinx

from attnflow.book.render.lean import lean
from attnflow.book.render.together import together
from attnflow.book.render.typeset import typeset_rows
from attnflow.files import write_text

#: Files of the theme that no page needs, below _static.
SPARE = ("**/*.map", "vendor/fontawesome/webfonts/*.ttf", "scripts/fontawesome.js*")
#: Scripts that every page of the theme loads: the icons, and the index that only the page of results searches.
_ICONS = re.compile(r'\s*<script[^>]*src="[^"]*/fontawesome\.js[^"]*"></script>')
_INDEX = re.compile(
    r'\s*<script src="[^"]*(?:_static/(?:searchtools|language_data)|searchindex)\.js"></script>'
)


def stripped(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """A notebook without what its cells printed.

    >>> from nbformat.v4 import new_code_cell, new_notebook, new_output
    >>> cell = new_code_cell("1", execution_count=1, outputs=[new_output("stream", text="1")])
    >>> [(c.outputs, c.execution_count) for c in stripped(new_notebook(cells=[cell])).cells]
    [([], None)]
    """
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return notebook


def _slim(app: Sphinx, error: Exception | None) -> None:
    if error is not None:
        return
    out = Path(app.outdir)
    for path in (out / "_sources").rglob("*.ipynb"):
        notebook = nbformat.read(path, as_version=4)
        if any(cell.get("outputs") for cell in notebook.cells):
            write_text(nbformat.writes(stripped(notebook)) + "\n", path)
    for pattern in SPARE:
        for path in (out / "_static").glob(pattern):
            path.unlink()
    shutil.rmtree(out / "_static" / "locales", ignore_errors=True)
    for path in out.rglob("*.html"):
        known = path.read_text("utf-8")
        text = _ICONS.sub("", known)
        if path.name != "search.html":
            text = _INDEX.sub("", text)
        if text != known:
            write_text(text, path)


def _shorten(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    if context.get("body"):
        context["body"] = lean(together(typeset_rows(context["body"])))


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", _shorten, priority=950)
    app.connect("build-finished", _slim)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
