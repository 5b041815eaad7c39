"""What many pages ask of the book's files is read once, and again when a file has changed.

What is returned is shared: to be read, not changed.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import nbformat

from attnflow.book.chapters.project import Chapter, Project, find_project
from attnflow.claims import read_claims

_Stamp = tuple[int, int]


def notebook(path: Path) -> nbformat.NotebookNode:
    """The notebook at `path`."""
    return _notebook(path, _stamp(path))


def claims(path: Path) -> dict[str, dict[str, str]]:
    """The rows of claims.yml, by id."""
    return _claims(path, _stamp(path))


def chapters() -> dict[str, Chapter]:
    """The chapters of the project, in the order of the book."""
    project = find_project()
    files = [*sorted(project.book.glob("*.ipynb")), *sorted(project.book.glob("text/*.md"))]
    return _chapters(project, tuple((path, _stamp(path)) for path in files))


def _stamp(path: Path) -> _Stamp:
    found = path.stat()
    return found.st_mtime_ns, found.st_size


@lru_cache(64)
def _notebook(path: Path, _: _Stamp) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


@lru_cache(4)
def _claims(path: Path, _: _Stamp) -> dict[str, dict[str, str]]:
    return read_claims(path)


@lru_cache(4)
def _chapters(project: Project, _: tuple[tuple[Path, _Stamp], ...]) -> dict[str, Chapter]:
    return project.chapters()
