"""Which modules of the package a chapter reaches: a change in one of them, and only there, reruns it.

An ``__init__`` that does nothing but show names of its folder again is looked through: who imports
``flow`` from ``attnflow.sphere`` reaches the module in which `flow` lives and what that imports, and
not its neighbours. :func:`needed` lists what must lie there for the imports to succeed, which is more.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import lru_cache
from importlib.util import resolve_name
from pathlib import Path
from typing import NamedTuple

from IPython.core.inputtransformer2 import TransformerManager

_ROOT = "attnflow"
#: Texts whose parts are remembered: those of the package, its chapters' cells, and a few versions of each.
_REMEMBERED = 4096


class Want(NamedTuple):
    """One name of a module; None for all of it, and "" for its being imported at all."""

    module: str
    name: str | None = None


def reach(package: Path, sources: Iterable[str]) -> dict[str, Path]:
    """The modules on whose text these cells depend, directly or through one another."""
    return _followed(package, sources, look_through=True)


def needed(package: Path, sources: Iterable[str]) -> dict[str, Path]:
    """The modules without which these cells cannot be imported."""
    return _followed(package, sources, look_through=False)


def _followed(package: Path, sources: Iterable[str], look_through: bool) -> dict[str, Path]:
    found, seen = dict[str, Path](), set[Want]()
    todo = [want for source in sources for want in _wants(package, as_python(source))]
    while todo:
        want = todo.pop()
        path = module_file(package, want.module)
        if path is None or want in seen:
            continue
        seen.add(want)
        folder = path.name == "__init__.py"
        todo.append(Want(want.module.rpartition(".")[0], ""))  # runs before it
        shown = shown_again(path) if look_through and folder else None
        if shown is None and want.module not in found:
            found[want.module] = path
            inside = want.module if folder else want.module.rpartition(".")[0]
            todo += _wants(package, path.read_text(encoding="utf-8"), inside)
        if want.name is None:
            todo += [Want(home, name) for name, home in (shown or {}).items()]
        elif want.name:
            home = (shown or {}).get(want.name)
            todo.append(Want(home, want.name) if home else Want(f"{want.module}.{want.name}"))
    return dict(sorted(found.items()))


def shown_again(path: Path) -> dict[str, str] | None:
    """Name by name the module it is imported from; None if the file does anything else.

    A file without a single import is no such file: it may hold what others read, as a version.
    """
    return _shown(path.read_text(encoding="utf-8"))


@lru_cache(_REMEMBERED)
def _shown(text: str) -> dict[str, str] | None:
    shown = dict[str, str]()
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            if node.module.split(".")[0] != _ROOT or any(a.name == "*" for a in node.names):
                return None
            shown |= {alias.asname or alias.name: node.module for alias in node.names}
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue  # its docstring
        elif not (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"):
            return None
    return shown or None


def module_file(package: Path, name: str) -> Path | None:
    """Where a module of the package is, or None for what is no module of it."""
    root, *parts = name.split(".")
    if root != _ROOT:
        return None
    for path in (
        package.joinpath(*parts).with_suffix(".py") if parts else None,
        package.joinpath(*parts, "__init__.py"),
    ):
        if path is not None and path.is_file():
            return path
    return None


@lru_cache(_REMEMBERED)
def as_python(cell: str) -> str:
    """The cell as plain Python: magics become calls, and what a cell magic wraps is looked into."""
    if not cell.lstrip().startswith("%%"):
        return TransformerManager().transform_cell(cell)
    body = TransformerManager().transform_cell(cell.lstrip().partition("\n")[2])
    try:
        ast.parse(body)
    except SyntaxError:  # %%bash and the like
        return ""
    return body


def _wants(package: Path, source: str, inside: str = "") -> list[Want]:
    """What a source imports; of a module that it names only before a dot, only those names."""
    out: list[Want] = []
    for used in _imports(source):
        if used.name is None:
            out.append(Want(used.module))
        else:
            out += _wanted(package, resolve_name(used.module, inside), used)
    return [want for want in out if want.module.split(".")[0] == _ROOT]


def _wanted(package: Path, module: str, used: _Import) -> list[Want]:
    home = module_file(package, module)
    shown = shown_again(home) if home is not None and home.name == "__init__.py" else None
    if used.name == "*":
        return [Want(module)]
    whole = f"{module}.{used.name}"
    if used.name in (shown or {}) or module_file(package, whole) is None:
        return [Want(module, used.name)]
    if used.asked is None:
        return [Want(whole)]
    return [Want(whole, name) for name in used.asked or ("",)]


class _Import(NamedTuple):
    """One name that a source imports, and what it does with it."""

    module: str  # with leading dots, as it is written
    name: str | None  # None: the module itself is imported
    asked: (
        tuple[str, ...] | None
    )  # the attributes that are asked of it; None if it is used otherwise


@lru_cache(_REMEMBERED)
def _imports(source: str) -> tuple[_Import, ...]:
    """What a source imports, by its text alone."""
    nodes = list(ast.walk(ast.parse(source)))
    uses = Counter(node.id for node in nodes if isinstance(node, ast.Name))
    dotted, asked = Counter[str](), defaultdict[str, set[str]](set)
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            dotted[node.value.id] += 1
            asked[node.value.id].add(node.attr)
    out = []
    for node in nodes:
        if isinstance(node, ast.Import):
            out += [_Import(alias.name, None, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            for alias in node.names:
                here = alias.asname or alias.name
                plain = uses[here] == dotted[here]
                found = tuple(sorted(asked[here])) if plain else None
                out.append(_Import(module, alias.name, found))
    return tuple(out)
