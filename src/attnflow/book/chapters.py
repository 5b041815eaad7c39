"""Chapters: where they are, what parameters they take, which modules they reach, their key.

A chapter is a notebook in book/ with a cell tagged ``parameters``. Each parameter stands on a
line of its own, annotated and documented, with its range in interval notation where some values
make no sense::

    beta: float = 4.0  # inverse temperature, in (0, 50]
    kind: str = "softmax"  # which attention, one of softmax | l2

That line is the only place a parameter is declared: the page shows it, papermill overrides it,
and this module reads and enforces it.
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import math
import os
import re
import tokenize
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
import yaml

TYPES: dict[str, type] = {"int": int, "float": float, "str": str, "bool": bool}
LISTS: dict[str, type] = {"list[int]": int, "list[float]": float}
_INTERVAL = re.compile(r",?\s*in\s*([\[(])\s*([^,\s]+)\s*,\s*([^,\s]+)\s*([\])])\s*$")
_CHOICES = re.compile(r",?\s*one of\s+(\S+(?:\s*\|\s*\S+)+)\s*$")


class BookError(Exception):
    """A mistake a user can mend; shown without a traceback."""


class Parameter(NamedTuple):
    """One line of a parameter cell."""

    name: str
    type: str
    default: Any
    help: str
    interval: tuple[str, float, float, str] | None = None
    choices: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        """The rule in words."""
        if self.choices:
            return f"{self.type}, one of {' | '.join(self.choices)}"
        if self.interval:
            left, low, high, right = self.interval
            return f"{self.type} in {left}{low:g}, {high:g}{right}"
        return self.type

    def parse(self, value: Any) -> Any:
        """`value`, perhaps text from a command line, as this parameter's type and in its range."""
        value = value.item() if hasattr(value, "item") else value  # numpy scalars
        try:
            out = self._convert(value)
        except (ValueError, SyntaxError, TypeError):
            raise BookError(f"{self.name} must be {self.allowed}, got {value!r}") from None
        for entry in out if isinstance(out, list) else [out]:
            if not self._admits(entry):
                raise BookError(f"{self.name} must be {self.allowed}, got {value!r}")
        return out

    def _convert(self, value: Any) -> Any:
        if self.type in LISTS:
            entries = ast.literal_eval(value) if isinstance(value, str) else value
            if not isinstance(entries, list | tuple):
                raise ValueError
            return [_scalar(entry, LISTS[self.type]) for entry in entries]
        return _scalar(value, TYPES[self.type])

    def _admits(self, value: Any) -> bool:
        if self.choices and value not in self.choices:
            return False
        if isinstance(value, float) and math.isnan(value):
            return False
        if not self.interval:
            return True
        left, low, high, right = self.interval
        above = value >= low if left == "[" else value > low
        below = value <= high if right == "]" else value < high
        return above and below


def _scalar(value: Any, kind: type) -> Any:
    if kind is bool:
        if isinstance(value, bool):
            return value
        return {"true": True, "false": False, "1": True, "0": False}[str(value).lower()]
    if isinstance(value, bool):
        raise ValueError
    if kind is int:
        number = float(value)
        if number != int(number):
            raise ValueError
        return int(value) if not isinstance(value, str) or "e" not in value.lower() else int(number)
    return kind(value)


class Chapter(NamedTuple):
    """A notebook that takes parameters."""

    name: str
    path: Path
    title: str
    parameters: tuple[Parameter, ...]

    def read(self) -> nbformat.NotebookNode:
        """The notebook as committed."""
        return nbformat.read(self.path, as_version=4)

    def resolve(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """All parameters, defaults filled in; a BookError for anything that is not allowed."""
        known = {p.name: p for p in self.parameters}
        for name in given:
            if name not in known:
                listed = "\n".join(f"  {p.name}: {p.allowed}" for p in self.parameters)
                raise BookError(f"{self.name} has no parameter {name!r}; it takes\n{listed}")
        return {n: p.parse(given[n]) if n in given else p.default for n, p in known.items()}


def parse_parameters(source: str, where: str = "parameters") -> tuple[Parameter, ...]:
    """Read a parameter cell.

    >>> [p.allowed for p in parse_parameters("n: int = 8  # tokens, in [2, 64]")]
    ['int in [2, 64]']
    """
    comments = {
        token.start[0]: token.string.lstrip("# ").strip()
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    out = []
    for node in ast.parse(source).body:
        if not isinstance(node, ast.AnnAssign) or node.value is None:
            raise BookError(f"{where}: every parameter is `name: type = value  # help`")
        name, kind = ast.unparse(node.target), ast.unparse(node.annotation)
        if kind not in TYPES and kind not in LISTS:
            allowed = ", ".join([*TYPES, *LISTS])
            raise BookError(f"{where}: {name} must have one of the types {allowed}, got {kind}")
        text = comments.get(node.end_lineno or 0, "")
        if not text:
            raise BookError(f"{where}: {name} has no comment that says what it is")
        interval, choices = None, ()
        if found := _INTERVAL.search(text):
            interval = (found[1], float(found[2]), float(found[3]), found[4])
            text = text[: found.start()]
        elif found := _CHOICES.search(text):
            choices = tuple(part.strip() for part in found[1].split("|"))
            text = text[: found.start()]
        plain = Parameter(name, kind, None, text, interval, choices)
        out.append(plain._replace(default=plain.parse(ast.literal_eval(node.value))))
    return tuple(out)


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
        for path in sorted(self.book.glob("*.ipynb")):
            chapter = read_chapter(path)
            if chapter is not None:
                found[chapter.name] = chapter
        order = re.findall(r"book/(\w+)", (self.root / "_toc.yml").read_text(encoding="utf-8"))
        rank = {name: i for i, name in enumerate(order)}
        return dict(sorted(found.items(), key=lambda item: rank.get(item[0], len(rank))))

    def chapter(self, name: str) -> Chapter:
        """One chapter; a BookError that lists the others where there is none of that name."""
        chapters = self.chapters()
        name = Path(name).stem
        if name not in chapters:
            raise BookError(f"there is no chapter {name!r}; there are {', '.join(chapters)}")
        return chapters[name]

    def claims(self) -> dict[str, dict[str, Any]]:
        """claims.yml, by id."""
        rows = yaml.safe_load((self.book / "claims.yml").read_text(encoding="utf-8"))
        return {row["id"]: row for row in rows}


def find_project(start: Path | None = None) -> Project:
    """The checkout that `start` is in: $ATTNFLOW_ROOT, the folders above, or the installed source."""
    here = (start or Path.cwd()).resolve()
    named = os.environ.get("ATTNFLOW_ROOT")
    installed = Path(__file__).resolve().parents[3]
    candidates = [Path(named)] if named else [here, *here.parents, installed]
    for folder in candidates:
        if (folder / "book" / "claims.yml").is_file() and (folder / "_toc.yml").is_file():
            return Project(folder.resolve())
    raise BookError("no book here: run this in a checkout of attnflow, or set ATTNFLOW_ROOT to one")


def read_chapter(path: Path) -> Chapter | None:
    """The chapter at `path`, or None for a notebook without a parameter cell."""
    try:
        notebook = nbformat.read(path, as_version=4)
    except Exception as error:
        raise BookError(f"{path.name} is no valid notebook: {error}") from error
    cells = [c for c in notebook.cells if "parameters" in c.metadata.get("tags", [])]
    if not cells:
        return None
    heading = next((c.source for c in notebook.cells if c.cell_type == "markdown"), path.stem)
    title = next((s.lstrip("# ") for s in heading.splitlines() if s.startswith("# ")), path.stem)
    return Chapter(path.stem, path, title, parse_parameters(cells[0].source, path.name))


def code(notebook: nbformat.NotebookNode) -> list[str]:
    """The sources of the code cells, in order."""
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


def reach(project: Project, sources: Iterable[str]) -> dict[str, Path]:
    """The attnflow modules that these sources import, directly or through one another."""
    found: dict[str, Path] = {}
    todo = [name for source in sources for name in _imports(source)]
    while todo:
        name = todo.pop()
        path = _module_file(project, name)
        if path is None or name in found:
            continue
        found[name] = path
        todo += [name.rpartition(".")[0], *_imports(path.read_text(encoding="utf-8"))]
    return dict(sorted(found.items()))


def _imports(source: str) -> list[str]:
    lines = [s for s in source.splitlines() if not s.lstrip().startswith(("%", "!"))]
    out = []
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, ast.Import):
            out += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            out += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return [name for name in out if name.split(".")[0] == "attnflow"]


def _module_file(project: Project, name: str) -> Path | None:
    parts = name.split(".")[1:]
    for path in (
        project.package.joinpath(*parts).with_suffix(".py") if parts else None,
        project.package.joinpath(*parts, "__init__.py"),
    ):
        if path is not None and path.is_file():
            return path
    return None


def key(project: Project, chapter: Chapter, parameters: Mapping[str, Any]) -> str:
    """The name of a run: the same key means the same numbers, so there is nothing to do."""
    sources = code(chapter.read())
    lock = project.root / "requirements.lock"
    parts = {
        "code": sources,
        "modules": {n: _digest(p) for n, p in reach(project, sources).items()},
        "lock": _digest(lock) if lock.is_file() else "",
        "parameters": dict(sorted(parameters.items())),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
