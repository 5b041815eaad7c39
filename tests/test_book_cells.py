"""Cells that only show something may be left out: no number of a later cell may depend on them.

A sweep that keeps checks skips figures. Read statically, in the order of the cells: no compared
cell takes a name that a shown-only cell bound or changed last (directly or through a function that
looks it up when it is called), and no shown-only cell draws from a generator of others.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import pytest

from attnflow.book.chapters.notebooks import SHOWN_ONLY
from attnflow.book.chapters.project import find_project
from attnflow.book.chapters.reach import as_python

CHAPTERS = find_project().chapters()
#: Methods that change what they are called on.
CHANGING = (
    "append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse", "update", "add",
    "setdefault", "discard", "fill", "put",
)  # fmt: skip
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


class Reader:
    """Follows which cell bound or changed each name last, and complains."""

    def __init__(self) -> None:
        self.shown = False  #: whether the present cell only shows
        self.by_shown: dict[str, bool] = {}  #: name -> whether such a cell bound it last
        self.looked_up: dict[str, set[str]] = {}  #: function -> what it looks up when called
        self.generators: set[str] = set()
        self.modules: set[str] = set()
        self.complaints: list[str] = []

    def cell(self, source: str, shown: bool) -> None:
        self.shown = shown
        self.block(ast.parse(source).body)

    def block(self, body: list[Any]) -> None:
        for statement in body:
            self.statement(statement)

    def statement(self, node: Any) -> None:
        """What it loads, then what it binds, in the order in which Python does so."""
        if isinstance(node, ast.FunctionDef):
            for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
                self.load(default)
            self.bind(node.name)
            self.looked_up[node.name] = free(node)
        elif isinstance(node, ast.For):
            self.load(node.iter)
            self.store(node.target)
            self.block(node.body + node.orelse)
        elif isinstance(node, ast.If | ast.While):
            self.load(node.test)
            self.block(node.body + node.orelse)
        elif isinstance(node, ast.With):
            for item in node.items:
                self.load(item.context_expr)
                if item.optional_vars:
                    self.store(item.optional_vars)
            self.block(node.body)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            self.load(node.value)
            if isinstance(node, ast.AugAssign):
                self.load_name(getattr(node.target, "id", ""))
            for target in getattr(node, "targets", [getattr(node, "target", None)]):
                self.store(target)
                self.remember(target, node.value)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                name = (alias.asname or alias.name).split(".")[0]
                self.bind(name)
                self.modules.add(name)
        else:
            self.load(node)

    def load(self, node: Any) -> None:
        for name in sorted(free(node)):
            self.load_name(name)
        for call in (n for n in ast.walk(node) if isinstance(n, ast.Call)):
            if isinstance(call.func, ast.Attribute) and call.func.attr in CHANGING:
                self.change(call.func.value)
        for inner in (n for n in ast.walk(node) if isinstance(n, ast.NamedExpr)):
            self.store(inner.target)

    def load_name(self, name: str, through: tuple[str, ...] = ()) -> None:
        said = " <- ".join((name, *through[::-1]))
        if self.shown and name in self.generators and self.by_shown.get(name) is False:
            self.complaints.append(f"a shown-only cell draws from {said}")
        if not self.shown and self.by_shown.get(name):
            self.complaints.append(f"a compared cell takes {said} of a shown-only one")
        if name not in through:
            for deeper in sorted(self.looked_up.get(name, ())):
                self.load_name(deeper, (*through, name))

    def store(self, target: Any) -> None:
        for node in ast.walk(target):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self.bind(node.id)
            elif isinstance(node, ast.Subscript | ast.Attribute) and isinstance(
                node.ctx, ast.Store
            ):
                self.load(node.value)
                self.change(node.value)

    def bind(self, name: str) -> None:
        self.by_shown[name] = self.shown
        self.looked_up.pop(name, None)
        self.generators.discard(name)
        self.modules.discard(name)

    def remember(self, target: Any, value: Any) -> None:
        if not isinstance(target, ast.Name) or value is None:
            return
        if isinstance(value, ast.Call) and ast.unparse(value.func).endswith("default_rng"):
            self.generators.add(target.id)
        if isinstance(value, ast.Lambda):
            self.looked_up[target.id] = free(value)

    def change(self, node: Any) -> None:
        while isinstance(node, ast.Subscript | ast.Attribute):
            node = node.value
        if self.shown and isinstance(node, ast.Name) and node.id not in self.modules:
            self.by_shown[node.id] = True


def free(node: Any) -> set[str]:
    """The names that a piece of code takes from around it."""
    if isinstance(node, ast.Name):
        return {node.id} if isinstance(node.ctx, ast.Load) else set()
    inner = {name for child in ast.iter_child_nodes(node) for name in free(child)}
    if isinstance(node, Function):
        every = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        own = {a.arg for a in (*every, node.args.vararg, node.args.kwarg) if a is not None}
        return inner - own - (stored(node) if not isinstance(node, ast.Lambda) else set())
    if isinstance(node, Comprehension):
        return inner - {name for part in node.generators for name in stored(part.target)}
    return inner


def stored(node: Any) -> set[str]:
    """The names that a piece of code binds, functions within functions included."""
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and not _loads(n)}
    return names | {n.name for n in ast.walk(node) if isinstance(n, ast.FunctionDef)}


def _loads(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Load)


def complaints(cells: Iterator[tuple[str, bool]]) -> list[str]:
    reader = Reader()
    for source, shown in cells:
        reader.cell(as_python(source), shown)
    return reader.complaints


@pytest.mark.parametrize("name", list(CHAPTERS))
def test_cells_that_are_only_shown_change_no_number_of_later_cells(name: str) -> None:
    cells = (c for c in CHAPTERS[name].read().cells if c.cell_type == "code")
    found = complaints((c.source, SHOWN_ONLY in c.metadata.get("tags", [])) for c in cells)
    assert found == []


DRAW = "import numpy as np\nrng = np.random.default_rng(0)\nx = rng.normal(size=3)\ny = [1]"


@pytest.mark.parametrize(
    ("shown", "later", "says"),
    [
        ("z = x + 1", "print(z)", "takes z"),
        ("x = 2 * x", "print(x.sum())", "takes x"),
        ("x += 1", "total = [v for v in x]", "takes x"),
        ("for x in range(3):\n    pass", "print(x)", "takes x"),
        ("def f():\n    return 1", "f()", "takes f"),
        ("import math", "math.pi", "takes math"),
        ("print(rng.normal())", "", "draws from rng"),
        ("print([rng.normal() for _ in range(2)])", "", "draws from rng"),
        ("y.append(2)", "print(y)", "takes y"),
        ("x[0] = 1.0", "print(x)", "takes x"),
        ("x[0] += 1.0", "print(x)", "takes x"),
    ],
)
def test_what_would_change_a_number_is_noticed(shown: str, later: str, says: str) -> None:
    found = complaints(iter([(DRAW, False), (shown, True), (later, False)]))
    assert any(says in complaint for complaint in found), found


def test_what_a_function_looks_up_when_it_is_called_counts() -> None:
    cells = [
        (
            DRAW + "\ndef noisy():\n    return rng.normal()\ndef twice():\n    return 2 * scale",
            False,
        ),
        ("noisy()\nscale = 3", True),
        ("print(twice())", False),
    ]
    assert complaints(iter(cells)) == [
        "a shown-only cell draws from rng <- noisy",
        "a compared cell takes scale <- twice of a shown-only one",
    ]


@pytest.mark.parametrize(
    ("shown", "later"),
    [
        ("z = x + 1\nprint(z)", "z = 1\nprint(z)"),
        ("own = np.random.default_rng(1)\nown.normal()", "print(rng.normal())"),
        ("a = [k for k in x]", "for k in x:\n    print(k)"),
        ("a = {}\na['x'] = 1\na.update(b=2)", "print(x)"),
        ("y.append(2)\nx[0] = 1.0\nprint(np.sort(x))", "print(np.pi, rng)"),
        ("fig = x", "def f(fig):\n    return fig\nf(1)"),
    ],
)
def test_names_and_generators_of_its_own_are_a_cells_own(shown: str, later: str) -> None:
    assert complaints(iter([(DRAW, False), (shown, True), (later, False)])) == []
