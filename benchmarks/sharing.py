"""Which statements of a chapter do the same whatever some parameters are: they need not run again.

Names decide. A statement is changed if it reads, before it has bound it, a name that a changed one
bound; a name that is bound again by one that is not changed is as before. What a function of the
chapter reads, whoever names it reads. Who uses a random generator alters it, and so does who assigns
to an item, or calls a method that does: then the statements that made the object count as changed,
too. A function that is given an array is trusted not to alter it; a survey compares ordinary runs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

#: Methods that change their object.
ALTERING = frozenset(
    [
        "append",
        "extend",
        "insert",
        "remove",
        "pop",
        "popitem",
        "clear",
        "sort",
        "reverse",
        "update",
        "add",
        "discard",
        "setdefault",
        "fill",
        "resize",
        "partition",
        "put",
    ]
)


class Names(ast.NodeVisitor):
    """What a piece of code does to the names around it, in the order in which it does it."""

    def __init__(self, code: ast.AST, own: Iterable[str] = ()) -> None:
        self.read = set[str]()  #: before the code itself has bound them
        self.bound = set[str](own)
        self.altered = set[str]()
        self.functions: dict[str, Names] = {}
        for child in ast.iter_child_nodes(code):
            self.visit(child)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.read |= {node.id} - self.bound
        else:
            self.bound.add(node.id)

    def visit_Assign(self, node: ast.Assign | ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            self.visit(target)

    visit_AnnAssign = visit_Assign

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)
        if base := _base(node.target):
            self.read |= {base} - self.bound
            self.altered.add(base)
        self.visit(node.target)

    def visit_Subscript(self, node: ast.Subscript | ast.Attribute) -> None:
        if not isinstance(node.ctx, ast.Load) and (base := _base(node)):
            self.altered.add(base)
        self.generic_visit(node)

    visit_Attribute = visit_Subscript

    def visit_Call(self, node: ast.Call) -> None:
        method = node.func.attr if isinstance(node.func, ast.Attribute) else None
        if method in ALTERING and (base := _base(node.func)):
            self.altered.add(base)
        self.generic_visit(node)

    def visit_For(self, node: ast.For) -> None:
        self.visit(node.iter)
        self.visit(node.target)
        for child in [*node.body, *node.orelse]:
            self.visit(child)
        if _names(node.target) & self.altered:  # it may be a part of what the loop goes over
            self.altered |= _names(node.iter)

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        self.bound |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}

    visit_ImportFrom = visit_Import

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.ClassDef) -> None:
        around = [*node.decorator_list, *_defaults(node)]
        for child in around:
            self.visit(child)
        inner = Names(ast.Module(node.body, []), _arguments(node))
        inner.read |= Names(ast.List(around, ast.Load())).read  # a default is used by every call
        self.functions[node.name] = inner
        self.functions |= inner.functions
        self.bound.add(node.name)

    visit_ClassDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        for child in _defaults(node):
            self.visit(child)
        self._within(Names(ast.Expression(node.body), self.bound | _arguments(node)))

    def visit_ListComp(self, node: Any) -> None:
        inner = Names(ast.Module([], []), self.bound)
        for part in node.generators:
            for child in (part.iter, part.target, *part.ifs):
                inner.visit(child)
        for child in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
            inner.visit(child)
        self._within(inner)

    visit_SetComp = visit_GeneratorExp = visit_DictComp = visit_ListComp

    def _within(self, inner: Names) -> None:
        """Names bound in there are not bound here."""
        self.read |= inner.read - self.bound
        self.altered |= inner.altered


def changed(
    statements: Sequence[ast.stmt], names: Iterable[str], space: Mapping[str, Any]
) -> tuple[list[int], list[frozenset[str]]]:
    """Which run again when `names` change, and what each of them all binds.

    `space` holds what all have bound; the cell that sets `names` is not among them.

    >>> code = "x = a; y = b; z = x + y; x = 3; w = [x for x in (z, y)]; v = x"
    >>> changed(ast.parse(code).body, ["a"], {})[0]
    [0, 2, 4]
    >>> code = "draw = maker(7); x = draw.normal(); y = a * draw.normal(); b = 1"
    >>> changed(ast.parse(code).body, ["a"], {"draw": np.random.default_rng(7)})[0]
    [0, 1, 2]
    >>> code = "rng = maker(a); f = 2\\ndef draw(rng=rng): return rng.normal()\\nx = draw(); y = f"
    >>> changed(ast.parse(code).body, ["a"], {"rng": np.random.default_rng(7)})[0]
    [0, 2, 3]
    >>> code = "rows = {1: []}; b = 2\\nfor k, values in rows.items():\\n    values.append(a)"
    >>> changed(ast.parse(code).body, ["a"], {})[0]
    [0, 2]
    """
    found = [Names(ast.Module([statement], [])) for statement in statements]
    functions = [function for one in found for function in one.functions.items()]
    random = {name for name, value in space.items() if isinstance(value, np.random.Generator)}
    reads, alters = [], []
    for one in found:
        read, altered = _closed(one, functions)
        reads.append(read)
        alters.append(altered | (read & random))
    made = set[int]()  # statements that made what a changed one alters
    while True:
        tainted, out, hurt = set(names), list[int](), set[str]()
        for k, one in enumerate(found):
            if k in made or tainted & reads[k]:
                out.append(k)
                tainted |= (one.bound - one.functions.keys()) | alters[k]
                hurt |= alters[k]
            else:
                tainted -= one.bound
        more = {k for k, one in enumerate(found) if hurt & (one.bound | alters[k])} - {*out}
        if not more:
            return out, [frozenset(one.bound) for one in found]
        made |= more


def _closed(one: Names, functions: Iterable[tuple[str, Names]]) -> tuple[set[str], set[str]]:
    """What is read and altered by a statement, and by the functions that it names."""
    read, altered, waiting = set(one.read), set(one.altered), set(one.read)
    seen = set[str]()
    while waiting - seen:
        now = waiting - seen
        seen |= now
        for name, inner in functions:
            if name in now:
                read |= inner.read
                altered |= inner.altered
                waiting |= inner.read
    return read, altered


def _base(node: ast.AST) -> str | None:
    """The name before dots, brackets and calls."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def _names(node: ast.AST) -> set[str]:
    return {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}


def _defaults(node: Any) -> list[ast.AST]:
    if isinstance(node, ast.ClassDef):
        return [*node.bases]
    return [*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)]


def _arguments(node: Any) -> set[str]:
    if isinstance(node, ast.ClassDef):
        return set()
    given = node.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return {argument.arg for argument in every if argument is not None}
