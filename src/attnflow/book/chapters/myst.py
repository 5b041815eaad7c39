"""Cells as text: MyST Markdown as jupytext writes it, every cell and its tags, no outputs."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from itertools import zip_longest
from typing import Any, NamedTuple

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_raw_cell

from attnflow.book.chapters.notebooks import METADATA
from attnflow.book.chapters.parameters import BookError

#: What of a notebook is in its text. JupyterLab is told the same, by book/jupytext.toml and by
#: every notebook: without the latter it would find that a younger notebook lacks a header.
FILTERS = {"cell_metadata_filter": "tags,-all", "notebook_metadata_filter": "-all"}
FORMAT = {"extension": ".md", "format_name": "myst", **FILTERS}
_NEW = {"code": new_code_cell, "markdown": new_markdown_cell, "raw": new_raw_cell}
_BLANK_LINES = re.compile(r"\A(?:[^\S\n]*\n)+")


class Cell(NamedTuple):
    """What a text says of a cell."""

    kind: str
    source: str
    tags: tuple[str, ...]

    def __str__(self) -> str:
        tags = f" [{', '.join(self.tags)}]" if self.tags else ""
        return f"{self.kind}{tags} {self.source!r:.60}"


def trimmed(source: str) -> str:
    """A cell without blank lines around it, which a text cannot hold."""
    return _BLANK_LINES.sub("", source).rstrip()


def cells(notebook: nbformat.NotebookNode) -> list[Cell]:
    """The cells of a notebook that say something."""
    found = [
        Cell(cell.cell_type, trimmed(cell.source), tuple(cell.metadata.get("tags", ())))
        for cell in notebook.cells
    ]
    return [cell for cell in found if cell.source]


def first_difference(ours: list[Cell], theirs: list[Cell]) -> tuple[int, str, str] | None:
    """The number of the first cell that differs, and both in words; None where all are the same."""
    for number, (a, b) in enumerate(zip_longest(ours, theirs), 1):
        if a != b:
            return number, str(a or "missing"), str(b or "missing")
    return None


def to_text(listed: list[Cell], where: str = "a notebook") -> str:
    """These cells as MyST; a BookError for one that would not be the same when it is read again."""
    import jupytext

    if not listed:
        return ""
    plain = [_NEW[c.kind](c.source, metadata=_metadata(c)) for c in listed]
    text: str = jupytext.writes(new_notebook(cells=plain, metadata=METADATA), fmt=dict(FORMAT))
    if found := first_difference(listed, from_text(text, where)):
        number, cell, again = found
        raise BookError(
            f"{where}: cell {number} cannot be written as MyST: it is {cell}, and would be read "
            f"as {again}"
        )
    return text


def from_text(text: str, where: str = "a text") -> list[Cell]:
    """The cells of a text; a BookError for what is not understood, or would be lost."""
    import jupytext

    try:
        read = jupytext.reads(text, fmt="md:myst")
    except Exception as error:  # whatever its parsers say of what was typed
        why = str(error).partition("\n")[0]
        raise BookError(f"{where} is no valid MyST: {why:.300}") from None
    for number, cell in enumerate(read.cells, 1):
        if other := sorted(set(cell.metadata) - {"tags"}):
            raise BookError(f"{where}: a cell has tags only, got {other[0]!r:.80} in cell {number}")
    return cells(read)


def to_notebook(
    listed: list[Cell], before: nbformat.NotebookNode | None = None
) -> nbformat.NotebookNode:
    """A notebook of these cells. Code that stands in `before`, too, has its outputs from there."""
    known = defaultdict(list)
    for cell in reversed(before.cells if before is not None else []):
        if cell.cell_type == "code":
            known[trimmed(cell.source)].append(cell)
    made, taken = [], set[str]()
    for cell in listed:
        fields: dict[str, Any] = {"id": _id(cell.source, taken), "metadata": _metadata(cell)}
        if cell.kind == "code" and known[cell.source]:
            ran = known[cell.source].pop()
            fields |= {"outputs": ran.outputs, "execution_count": ran.execution_count}
        made.append(_NEW[cell.kind](cell.source, **fields))
    return new_notebook(cells=made, metadata=METADATA)


def _metadata(cell: Cell) -> dict[str, Any]:
    return {"tags": list(cell.tags)} if cell.tags else {}


def _id(source: str, taken: set[str]) -> str:
    """An id made of what a cell says, so that the same cells have the same ids wherever they are made."""
    found, again = _hex(source), 1
    while found in taken:
        again += 1
        found = _hex(f"{source}\n{again}")
    taken.add(found)
    return found


def _hex(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()[:8]
