"""Chapters: where they are, what parameters they take, which modules they reach, their key.

A chapter is a notebook in book/ with a cell tagged ``parameters``, and its text (see
:mod:`attnflow.book.chapters.pairs`).
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
import yaml

from attnflow.book.chapters.myst import trimmed
from attnflow.book.chapters.pairs import load, notebook_paths, text_path
from attnflow.book.chapters.parameters import BookError, Parameter, parse_parameters
from attnflow.book.chapters.reach import needed, reach
from attnflow.claims import read_claims
from attnflow.files import write_text

#: In place of requirements.lock where only its digest is known.
LOCK_DIGEST = "requirements.sha256"
#: In book/: by chapter, the key of the run whose outputs are stored in its notebook.
STORED = "stored.yml"
#: Python 3.11 parses wrongly when two threads parse at once ("recursion depth mismatch").
_PARSING = threading.Lock()


class Chapter(NamedTuple):
    """A notebook that takes parameters."""

    name: str
    path: Path
    title: str
    parameters: tuple[Parameter, ...]

    def read(self) -> nbformat.NotebookNode:
        """The notebook as committed, or with the cells of its text where that was edited."""
        return load(self.path).current()

    @property
    def default_parameters(self) -> dict[str, Any]:
        """Every parameter's default."""
        return {p.name: p.default for p in self.parameters}

    def changed(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Those parameters that are not at their defaults."""
        default = self.default_parameters
        return {name: value for name, value in parameters.items() if value != default[name]}

    def resolve(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """All parameters, defaults filled in; a BookError for anything that is not allowed."""
        known = {p.name: p for p in self.parameters}
        for name in given:
            if name not in known:
                listed = "\n".join(f"  {p.name}: {p.allowed}" for p in self.parameters)
                raise BookError(f"{self.name} has no parameter {name!r:.80}; it takes\n{listed}")
        return {n: p.parse(given[n]) if n in given else p.default for n, p in known.items()}


#: What has been read, by the path and the digests of its files.
_KNOWN: dict[tuple[Path | str, ...], Chapter | None] = {}


class Project(NamedTuple):
    """A checkout: the book, the sources it calls, and where results go."""

    root: Path

    @property
    def book(self) -> Path:
        return self.root / "book"

    @property
    def build(self) -> Path:
        return self.root / "_build"

    @property
    def package(self) -> Path:
        return self.root / "src" / "attnflow"

    def chapters(self) -> dict[str, Chapter]:
        """Every chapter by name, in the order of the table of contents."""
        found = {}
        for path in notebook_paths(self.book):
            chapter = read_chapter(path)
            if chapter is not None:
                found[chapter.name] = chapter
        rank = {name: i for i, name in enumerate(self.pages())}
        return dict(sorted(found.items(), key=lambda item: rank.get(item[0], len(rank))))

    def pages(self) -> list[str]:
        """All pages by their place in book/, in the order of the table of contents."""
        contents = yaml.safe_load((self.root / "_toc.yml").read_text(encoding="utf-8"))
        return [
            Path(file).with_suffix("").as_posix().removeprefix("book/") for file in _files(contents)
        ]

    def chapter(self, name: str) -> Chapter:
        """One chapter, the only one that is read; a BookError that lists all where it is not there."""
        path = self.book / f"{Path(name).stem}.ipynb"
        found = read_chapter(path) if path in notebook_paths(self.book) else None
        if found is None:
            names = ", ".join(self.chapters())
            raise BookError(f"there is no chapter {path.stem!r:.80}; there are {names}")
        return found

    def claims(self) -> dict[str, dict[str, str]]:
        """claims.yml, by id."""
        try:
            return read_claims(self.book / "claims.yml")
        except ValueError as error:
            raise BookError(f"book/claims.yml: {error}") from None

    def stored(self) -> dict[str, str]:
        """The keys in stored.yml, by chapter."""
        path = self.book / STORED
        try:
            found = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else {}
            return {str(name): str(key) for name, key in (found or {}).items()}
        except (yaml.YAMLError, AttributeError, UnicodeDecodeError):
            raise BookError(
                f"{STORED} is `chapter: key`, line by line: mend it, or remove it and `attnflow store`"
            ) from None

    def store_key(self, name: str, key: str) -> None:
        """Say in stored.yml that the outputs of a chapter are those of the run `key`."""
        now = self.stored() | {name: key}
        if now != self.stored():
            head = "# The run whose outputs each chapter shows. Written by `attnflow store`.\n"
            write_text(head + yaml.safe_dump(now), self.book / STORED)


def _files(contents: Any) -> list[str]:
    """What a table of contents names under `root` and `file`, wherever it stands."""
    if isinstance(contents, list):
        return [file for part in contents for file in _files(part)]
    if not isinstance(contents, dict):
        return []
    own = [contents[name] for name in ("root", "file") if name in contents]
    return own + [file for part in contents.values() for file in _files(part)]


def find_project(start: Path | None = None) -> Project:
    """The checkout that `start` is in: $ATTNFLOW_ROOT, the folders above, or the installed source."""
    here = (start or Path.cwd()).resolve()
    named = os.environ.get("ATTNFLOW_ROOT")
    installed = Path(__file__).resolve().parents[4]
    candidates = [Path(named)] if named else [here, *here.parents, installed]
    for folder in candidates:
        if (folder / "book" / "claims.yml").is_file() and (folder / "_toc.yml").is_file():
            return Project(folder.resolve())
    raise BookError("no book here: run this in a checkout of attnflow, or set ATTNFLOW_ROOT to one")


def read_chapter(path: Path) -> Chapter | None:
    """The chapter at `path`, or None for a notebook without a parameter cell.

    Notebooks are long and asked for often: what was read is remembered by the digests of both files.
    """
    files = [file for file in (path, text_path(path)) if file.is_file()]
    seen: tuple[Path | str, ...] = (path, *map(_digest, files))
    if seen not in _KNOWN:
        _KNOWN[seen] = _parsed(path)
    return _KNOWN[seen]


def _parsed(path: Path) -> Chapter | None:
    notebook = load(path).current()
    cells = [c for c in notebook.cells if "parameters" in c.metadata.get("tags", [])]
    if not cells:
        return None
    heading = next((c.source for c in notebook.cells if c.cell_type == "markdown"), path.stem)
    title = next((s.lstrip("# ") for s in heading.splitlines() if s.startswith("# ")), path.stem)
    return Chapter(path.stem, path, title, parse_parameters(cells[0].source, path.name))


def code(notebook: nbformat.NotebookNode) -> list[str]:
    """The sources of the code cells, in order."""
    return [trimmed(cell.source) for cell in notebook.cells if cell.cell_type == "code"]


class Recipe(NamedTuple):
    """All that a run of a chapter depends on but its parameters, read once."""

    project: Project
    chapter: Chapter
    source: nbformat.NotebookNode
    files: dict[str, Path]  #: modules that its imports run and data that they name, by path in src/
    basis: dict[str, Any]  #: digests of code, of the modules that it reaches, of data and lock

    def key(self, parameters: Mapping[str, Any]) -> str:
        """The name of a run: the same key means the same numbers, so there is nothing to do."""
        parts = {**self.basis, "parameters": dict(sorted(parameters.items()))}
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def recipe(project: Project, name: str) -> Recipe:
    """The chapter `name` with everything that it calls."""
    with _PARSING:
        chapter = project.chapter(name)
        source = chapter.read()
        sources = code(source)
        try:
            modules = reach(project.package, sources)
            imported = needed(project.package, sources)
        except SyntaxError as error:
            said = f"{chapter.name} has a cell that is not valid Python: {error}"
            raise BookError(said) from None
    text = [path.read_text(encoding="utf-8") for path in modules.values()]
    stored = {p.name: p for m in modules.values() for p in (m.parent / "data").glob("*.npz")}
    named = {n: p for n, p in stored.items() if any(n in t for t in text)}
    basis = {
        "code": sources,
        "modules": {n: _digest(p) for n, p in modules.items()},
        "data": {n: _digest(p) for n, p in named.items()},
        "lock": _lock_digest(project),
    }
    paths = [*imported.values(), *named.values()]
    files = {p.relative_to(project.root / "src").as_posix(): p for p in paths}
    return Recipe(project, chapter, source, files, basis)


def key(project: Project, chapter: Chapter, parameters: Mapping[str, Any]) -> str:
    """The key of a run of `chapter`."""
    return recipe(project, chapter.name).key(parameters)


def _lock_digest(project: Project) -> str:
    """The digest of the locked versions; a bundle carries only that."""
    lock, stated = project.root / "requirements.lock", project.root / LOCK_DIGEST
    if lock.is_file():
        return _digest(lock)
    return stated.read_text(encoding="utf-8") if stated.is_file() else ""


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
