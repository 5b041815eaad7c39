"""A chapter is two files: text/NAME.md, which people edit, and NAME.ipynb, made of it, with outputs.

The notebook notes what both were when they last agreed. So it is known which of them was edited
since, and that one counts, for every command. Where both were, nothing is guessed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import nbformat
from nbformat.v4 import new_notebook

from attnflow.book.chapters.myst import (
    FILTERS,
    Cell,
    cells,
    first_difference,
    from_text,
    to_notebook,
    to_text,
    trimmed,
)
from attnflow.book.chapters.parameters import BookError
from attnflow.files import write_text

TEXT, NOTEBOOK, BOTH = "text", "notebook", "both"  #: what was edited
FOLDER = "text"  #: inside book/: in one folder Sphinx wants one document of a name


class Pair(NamedTuple):
    """What the two files of a chapter hold; one that is not there is empty."""

    path: Path  #: of the notebook
    notebook: nbformat.NotebookNode
    text: str

    @property
    def texts_cells(self) -> list[Cell]:
        return from_text(self.text, f"{FOLDER}/{self.path.stem}.md")

    @property
    def text_untouched(self) -> bool:
        """Whether the text is the one with which the notebook last agreed."""
        return _noted(self.notebook, TEXT) == digest(self.text)

    def disagreement(self) -> str:
        """Where the two first differ, or "" where they say the same."""
        found = first_difference(cells(self.notebook), self.texts_cells)
        if found is None:
            return ""
        return f"cell {found[0]} is {found[1]} in the notebook, {found[2]} in the text"

    def edited(self) -> str:
        """Which was edited since they agreed: TEXT, NOTEBOOK, BOTH, or "" for neither."""
        if not self.text or not self.notebook.cells:
            return TEXT if self.text else NOTEBOOK
        as_noted = _noted(self.notebook, "cells") == _digest_of(cells(self.notebook))
        if self.text_untouched:
            return "" if as_noted else NOTEBOOK
        if not self.disagreement():
            return ""
        return TEXT if as_noted else BOTH

    def ahead(self) -> bool:
        """Whether the text was edited and the notebook does not say so yet."""
        return self.edited() in (TEXT, BOTH)

    def current(self) -> nbformat.NotebookNode:
        """The chapter as it stands: the notebook, or the cells of its text if that was edited.

        Code that did not change has its outputs. Where nobody touched the text nothing is converted.
        """
        side = NOTEBOOK if self.text_untouched else self.edited()
        if side == BOTH:
            raise self.conflict()
        return to_notebook(self.texts_cells, self.notebook) if side == TEXT else self.notebook

    def conflict(self) -> BookError:
        """Both were edited: what to do."""
        name = self.path.stem
        return BookError(
            f"{FOLDER}/{name}.md and {name}.ipynb were both edited since they agreed: "
            f"{self.disagreement()}\n"
            f"  `attnflow pair {name} --from text` takes the text, `--from notebook` the notebook; "
            "the other is kept in _build/replaced"
        )


def text_path(path: Path) -> Path:
    """Where the text of the notebook at `path` is."""
    return path.parent / FOLDER / f"{path.stem}.md"


def notebook_paths(book: Path) -> list[Path]:
    """Every notebook in `book`, and every one that there is a text for, made or not."""
    names = {p.stem for p in book.glob("*.ipynb")} | {p.stem for p in book.glob(f"{FOLDER}/*.md")}
    return [book / f"{name}.ipynb" for name in sorted(names)]


def chosen(book: Path, names: Iterable[str]) -> list[Path]:
    """The notebooks of these chapters, of all where none is named."""
    known = {path.stem: path for path in notebook_paths(book) if _is_chapter(path)}
    wanted = [Path(name).stem for name in names]
    for name in wanted:
        if name not in known:
            raise BookError(f"there is no chapter {name!r:.80}; there are {', '.join(known)}")
    return [known[name] for name in wanted] or list(known.values())


def _is_chapter(path: Path) -> bool:
    """Whether there is a text, or a notebook with parameters."""
    if text_path(path).is_file():
        return True
    return any("parameters" in cell.tags for cell in cells(load(path).notebook))


def load(path: Path) -> Pair:
    """The two files of the chapter whose notebook is at `path`."""
    try:
        notebook = nbformat.read(path, as_version=4) if path.is_file() else new_notebook()
    except Exception as error:
        raise BookError(f"{path.name} is no valid notebook: {error}") from error
    return Pair(path, notebook, _content(text_path(path)))


def composed(notebook: nbformat.NotebookNode, where: str = "a notebook") -> tuple[str, str]:
    """The text and the notebook file of a chapter, as they are to be committed."""
    listed = cells(notebook)
    text, clean = to_text(listed, where), to_notebook(listed, notebook)
    clean.metadata["attnflow"] = {TEXT: digest(text), "cells": _digest_of(listed)}
    clean.metadata["jupytext"] = FILTERS
    return text, nbformat.writes(clean) + "\n"


def write(notebook: nbformat.NotebookNode, path: Path) -> bool:
    """Write both files of a chapter, where they are not so already; whether one changed.

    The text first: if the second write never happens, the text is right and is known to be ahead.
    """
    text, whole = composed(notebook, path.name)
    changed = False
    for content, file in ((text, text_path(path)), (whole, path)):
        if _content(file) != content:
            write_text(content, file)
            changed = True
    return changed


class Agreed(NamedTuple):
    """What it took to make a pair agree."""

    taken: str  #: which of the two the other took over, or "" where they agreed
    changed: bool  #: whether a file was written
    stale: bool  #: whether its code did not run as it stands: the chapter must be stored
    replaced: Path | None  #: where an edit is that was given up


def agree(path: Path, attic: Path, side: str = "") -> Agreed:
    """Bring the two files of a chapter into agreement, executing nothing.

    The edited one counts, or `side` where it is given; an edit thereby given up goes into `attic`.
    """
    pair = load(path)
    found = pair.edited()
    if found == BOTH and not side:
        raise pair.conflict()
    taken = found and (side or found)
    if taken and not (pair.text if taken == TEXT else pair.notebook.cells):
        raise BookError(f"{path.stem} has no {taken} that could be taken")
    replaced = None
    if found not in ("", taken):
        lost = pair.text if taken == NOTEBOOK else to_text(cells(pair.notebook), path.name)
        replaced = attic / f"{path.stem}-{digest(lost)}.md"
        write_text(lost, replaced)
    notebook = to_notebook(pair.texts_cells, pair.notebook) if taken == TEXT else pair.notebook
    changed = write(notebook, path)
    counts = [
        c.execution_count for c in notebook.cells if c.cell_type == "code" and trimmed(c.source)
    ]
    return Agreed(taken, changed, counts != list(range(1, len(counts) + 1)), replaced)


def digest(text: str) -> str:
    """The name of a text's content."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _digest_of(listed: list[Cell]) -> str:
    return digest(json.dumps(listed, ensure_ascii=False))


def _noted(notebook: nbformat.NotebookNode, what: str) -> str:
    """What the notebook says of the time when the two last agreed."""
    return str(notebook.metadata.get("attnflow", {}).get(what, ""))


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        raise BookError(f"{path.name} is no UTF-8: {error}") from None
