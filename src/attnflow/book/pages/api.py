"""The reference pages: every public name of the package with its formula, source and example.

* ``{api} attnflow.sphere attnflow.flows``: the folders and modules named, a section each: what a
  file is about, then its public names, each with the chapters that use it.
* At the end of every chapter: the names that it uses, as links to these pages.

A name is documented where users import it from: ``attnflow.sphere.flow``, not the file it lives in.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, NamedTuple

import nbformat
from docutils import nodes
from docutils.statemachine import StringList
from nbformat.v4 import new_markdown_cell, reads_json, writes_json
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import attnflow
from attnflow.book.chapters.project import code
from attnflow.book.chapters.reach import as_python

#: What every chapter is written with; its own list leaves them out.
_HOUSEHOLD = ("claims", "figures", "prose", "provenance")
#: What autodoc calls each kind of thing.
_FUNCTION, _CLASS, _DATA = "autofunction", "autoclass", "autodata"


class Name(NamedTuple):
    """A public name: where users import it from, and the module it lives in."""

    module: str
    name: str
    home: str

    @property
    def path(self) -> str:
        """As it is written in full."""
        return f"{self.module}.{self.name}"


def modules() -> list[str]:
    """What the reference documents: every folder and module but the machinery."""
    names = [found.name for found in iter_modules(attnflow.__path__) if found.name != "book"]
    return [f"attnflow.{name}" for name in names]


def files(module: str) -> list[str]:
    """The modules of a folder, those without public names last; or the module itself."""
    found = importlib.import_module(module)
    if not hasattr(found, "__path__"):
        return [module]
    homes = {name.home for name in public(module)}
    inside = [f"{module}.{part.name}" for part in iter_modules(found.__path__)]
    return sorted(inside, key=lambda name: (name not in homes, name))


@cache
def public(module: str) -> list[Name]:
    """The public names of a module or folder, in the order in which they are written."""
    found = importlib.import_module(module)
    if not hasattr(found, "__path__"):
        return [Name(module, name, module) for name in _defined(found)]
    shown = {name: value for name, value in vars(found).items() if not name.startswith("_")}
    homes = {name: _home(found, name, value) for name, value in shown.items()}
    out = []
    for home in dict.fromkeys(home for home in homes.values() if home):
        inside = _defined(importlib.import_module(home))
        out += [Name(module, name, home) for name in inside if homes.get(name) == home]
    return out


def _home(package: ModuleType, name: str, value: Any) -> str | None:
    """The file of the folder in which a name is defined; None for what is not its own."""
    if isinstance(value, ModuleType):
        return None
    home = getattr(value, "__module__", "")
    return home if home.startswith(f"{package.__name__}.") else None


def _defined(module: ModuleType) -> Iterator[str]:
    """Functions and classes written in a module, from top to bottom."""
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def used(notebook: nbformat.NotebookNode) -> dict[str, None]:
    """The names of the package that a chapter imports, or asks of a module that it imports."""
    out: dict[str, None] = {}
    trees = [ast.parse(as_python(source)) for source in code(notebook)]
    known: dict[str, str] = {}  # modules by the name they have in the chapter
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "attnflow":
            for alias in node.names:
                if node.module == "attnflow":
                    known[alias.asname or alias.name] = f"attnflow.{alias.name}"
                else:
                    out[f"{node.module}.{alias.name}"] = None
    for node in (node for tree in trees for node in ast.walk(tree)):
        match node:
            case ast.Attribute(ast.Name(name), attribute) if name in known:
                out[f"{known[name]}.{attribute}"] = None
    return out


@cache
def _used_by(path: Path, changed: int) -> dict[str, None]:
    """The names that the chapter at `path` uses: asked by every page, read once."""
    return used(reads_json(path.read_text(encoding="utf-8")))


class Api(SphinxDirective):
    """The public names of modules and folders."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        book = Path(self.env.srcdir) / "book"
        self.env.note_dependency(__file__)
        users = defaultdict(list)
        for path in sorted(book.glob("*.ipynb")):
            self.env.note_dependency(str(path))
            for name in _used_by(path, path.stat().st_mtime_ns):
                users[name].append(path.stem)
        lines = [
            line for module in self.arguments[0].split() for line in _written(module, dict(users))
        ]
        for module in self.arguments[0].split():
            for name in files(module):
                self.env.note_dependency(inspect.getfile(importlib.import_module(name)))
        holder = nodes.section()
        holder.document = self.state.document
        self.state.nested_parse(StringList(lines, source="the package"), 0, holder, match_titles=1)
        return holder.children


def _written(module: str, users: dict[str, list[str]]) -> Iterator[str]:
    """A section of MyST for a module, whose body is reStructuredText as docstrings are."""
    documented, inside = public(module), files(module)
    level = "##"
    if inside != [module]:  # a folder says what it is about
        yield from (f"## {module.removeprefix('attnflow.')}/", "", "```{eval-rst}")
        yield from (f".. automodule:: {module}", "   :no-members:", "```", "")
        level = "###"
    for home in inside:
        title = home.removeprefix("attnflow.").replace(".", "/") + ".py"
        yield from (f"{level} {title}", "", "```{eval-rst}")
        yield from (f".. automodule:: {home}", "   :no-members:", "")
        for name in documented:
            if name.home != home:
                continue
            yield from _entry(name, users.get(name.path, []) + users.get(f"{home}.{name.name}", []))
        yield from ("```", "")


def _entry(name: Name, users: list[str]) -> Iterator[str]:
    value = getattr(importlib.import_module(name.home), name.name)
    kind = _CLASS if inspect.isclass(value) else _FUNCTION if callable(value) else _DATA
    yield from (f".. {kind}:: {name.path}", "   :members:" if kind == _CLASS else "", "")
    if users:
        pages = ", ".join(f":doc:`/book/{chapter}`" for chapter in dict.fromkeys(users))
        yield from ("   .. container:: af-users", "", f"      In the book: {pages}.", "")


def _link_chapters(app: Sphinx, document: str, source: list[str]) -> None:
    """Add to a chapter the list of the names it uses."""
    if not source[0].lstrip().startswith("{") or not app.env.doc2path(document).endswith(".ipynb"):
        return
    notebook = reads_json(source[0])
    told = [m for m in modules() if m.removeprefix("attnflow.") not in _HOUSEHOLD]
    known = {name.path for module in told for name in public(module)}
    names = [name for name in used(notebook) if name in known]
    if names:
        links = ", ".join(f"{{py:obj}}`~{name}`" for name in names)
        text = f":::{{div}} af-uses\nFunctions of this chapter, in the reference: {links}.\n:::"
        notebook.cells.append(new_markdown_cell(text, id="af-uses"))
        source[0] = writes_json(notebook)


def setup(app: Sphinx) -> dict[str, bool]:
    app.setup_extension("sphinx.ext.autodoc")
    app.add_directive("api", Api)
    app.connect("source-read", _link_chapters)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
