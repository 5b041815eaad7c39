"""Which cells of a span a claim's check depends on: the others need not run for its sabotage.

Names decide. A cell is kept if it binds or changes a name that a later kept cell reads. What a
function of the chapter reads, whoever calls it reads; who uses a random generator changes it. A
function that is given an array is trusted not to change it: `pytest --replay` runs every cell.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from controls.cells import Cell

#: What a method call or an assignment to an item may change.
CHANGEABLE = (list, dict, set, bytearray, np.ndarray, np.random.Generator)


class Names(NamedTuple):
    """What a piece of code does to the names around it."""

    read: frozenset[str]
    bound: frozenset[str]
    changed: frozenset[str]  #: objects of these names are assigned to, or have methods called


def names(code: ast.AST) -> Names:
    """The names of a piece of code; those of its functions count as its own."""
    read, bound, changed = set(), set(), set()
    for node in ast.walk(code):
        if isinstance(node, ast.Name):
            (read if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            bound |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            read.add(node.target.id)
            changed.add(node.target.id)
        if isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load):
            changed |= _base(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            changed |= _base(node.func)
    return Names(frozenset(read), frozenset(bound), frozenset(changed))


def needed(
    cells: list[Cell], span: range, claims: Iterable[str], space: Mapping[str, Any]
) -> list[int]:
    """The cells of a span without which the claims' checks cannot run as they would.

    `space` holds what was defined before the span.
    """
    trees = [ast.parse(cell.source) for cell in cells]
    functions = {
        node.name: names(node)
        for tree in trees[: span.stop]
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    }
    random = {name for name, value in space.items() if isinstance(value, np.random.Generator)}
    kept, wanted = [], set[str]()
    for k in reversed(span):
        found = names(trees[k])
        read, touched = _closure(found, functions)
        touched = {n for n in touched if n not in space or isinstance(space[n], CHANGEABLE)}
        touched |= read & random
        checks = any(_checks(trees[k], cells[k], claim) for claim in claims)
        if checks or cells[k].parameters or wanted & (found.bound | touched):
            kept.append(k)
            wanted |= read
    return kept[::-1]


def _closure(found: Names, functions: Mapping[str, Names]) -> tuple[set[str], set[str]]:
    """What is read and what is changed, by the code and by the functions that it reads."""
    read, touched, waiting = set(found.read), set(found.changed), list(found.read)
    while waiting:
        inner = functions.get(waiting.pop())
        if inner is not None:
            waiting += inner.read - read
            read |= inner.read
            touched |= inner.changed
    return read, touched


def _checks(tree: ast.AST, cell: Cell, claim: str) -> bool:
    """Whether a cell names a claim other than in its controls."""
    if not cell.names(claim):
        return False
    named = sum(isinstance(n, ast.Constant) and n.value == claim for n in ast.walk(tree))
    controls = sum(
        isinstance(n, ast.Call)
        and isinstance(n.func, ast.Name)
        and n.func.id == "control"
        and bool(n.args)
        and isinstance(n.args[0], ast.Constant)
        and n.args[0].value == claim
        for n in ast.walk(tree)
    )
    return named > controls


def _base(node: ast.AST) -> set[str]:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return {node.id} if isinstance(node, ast.Name) else set()
