"""The layers of the package as its imports make them: what stands on what.

A folder or module of the package stands one above the highest that it imports. `drawing` is the
picture that CONTRIBUTING.md shows and the tests compare; ``{layers}`` is the same on a page.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from html import escape
from importlib.util import resolve_name
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from attnflow.book.chapters.project import find_project

_ROOT = "attnflow"


def imports(package: Path) -> dict[str, set[str]]:
    """Of every folder and module directly in the package, which others it imports.

    The machinery is left out: it stands beside the mathematics.
    """
    out: dict[str, set[str]] = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        if parts[0] in ("__init__", "book"):
            continue
        inside = ".".join([_ROOT, *parts[:-1]])
        out.setdefault(parts[0], set()).update(_imported(path, inside, package))
    return {name: found - {name} for name, found in sorted(out.items())}


def _imported(path: Path, inside: str, package: Path) -> set[str]:
    known = {p.stem if p.suffix == ".py" else p.name for p in package.iterdir()}
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), inside)
            found |= {f"{module}.{alias.name}" for alias in node.names}
    tops = {name.split(".")[1] for name in found if name.startswith(f"{_ROOT}.")}
    return tops & known - {"__init__"}


def levels(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """From the lowest, which imports nothing, to the highest.

    >>> levels({"flows": {"attention", "validate"}, "attention": {"validate"}, "validate": set()})
    [['validate'], ['attention'], ['flows']]
    """
    left, out = dict(graph), list[list[str]]()
    while left:
        free = sorted(name for name, below in left.items() if not below & set(left))
        if not free:
            raise ValueError(f"modules must not import each other in circles, got {sorted(left)}")
        out.append(free)
        for name in free:
            del left[name]
    return out


def drawing(graph: Mapping[str, set[str]]) -> str:
    """The layers as text, the highest first.

    >>> print(drawing({"flows": {"validate"}, "attention": {"validate"}, "validate": set()}))
    attention  flows
    validate
    """
    return "\n".join("  ".join(level) for level in reversed(levels(graph)))


class Layers(SphinxDirective):
    """The drawing on a page: a row a layer; what a box imports is said when it is pointed at."""

    def run(self) -> list[nodes.Node]:
        package = find_project().package
        for path in package.rglob("*.py"):
            self.env.note_dependency(str(path))
        graph = imports(package)
        rows = [
            "<div class='af-layer'>" + "".join(_box(name, graph[name]) for name in level) + "</div>"
            for level in reversed(levels(graph))
        ]
        said = "Layers of the package, from what stands highest: " + "; ".join(
            ", ".join(level) for level in reversed(levels(graph))
        )
        html = (
            f"<div class='af-layers' role='img' aria-label='{escape(said)}'>{''.join(rows)}</div>"
        )
        return [nodes.raw("", html, format="html")]


def _box(name: str, below: set[str]) -> str:
    told = f"imports {', '.join(sorted(below))}" if below else "imports nothing of the package"
    return f"<span title='{escape(told)}'>{escape(name)}</span>"


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("layers", Layers)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
