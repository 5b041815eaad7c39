"""What a reader does not need is not in the built book.

The notebooks that pages offer for download come without outputs: whoever downloads one runs it, and
the page has the outputs. Source maps are for the authors of the theme.
"""

from __future__ import annotations

from pathlib import Path

import nbformat
from sphinx.application import Sphinx

from attnflow.files import write_text


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
    for path in (out / "_static").rglob("*.map"):
        path.unlink()


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", _slim)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
