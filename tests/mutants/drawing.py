"""Where a mutation is possible, and a fair sample of them.

The operators are cosmic-ray's. Left out are those that only make nonsense of floating point numbers
(shifts, bits, ``is``): every test notices them, so they would only flatter the result. Left out,
too, are numbers changed by less than a millionth of themselves (1e10 + 1), which nobody can notice.
cosmic-ray is imported where it is used: `make mutants` installs it, the lock does not have it.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "attnflow"
#: What is not mathematics: machinery, pictures, readers of files, words.
LEFT_OUT = (
    "book", "figures", "assets", "claims", "errors.py", "files.py", "validate.py", "prose.py",
    "provenance.py", "images.py", "trained/checkpoints.py", "trained/weights.py",
    "trained/unpickle.py", "trained/tokens.py", "trained/loading.py",
)  # fmt: skip
_ARITHMETIC = ("Add", "Sub", "Mul", "Div", "FloorDiv", "Mod", "Pow")
_COMPARISONS = ("Eq", "NotEq", "Lt", "LtE", "Gt", "GtE")
_OTHERS = (
    "AddNot", "NumberReplacer", "ReplaceAndWithOr", "ReplaceOrWithAnd", "ReplaceBreakWithContinue",
    "ReplaceContinueWithBreak", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue",
    "ReplaceUnaryOperator_Delete_Not", "ReplaceUnaryOperator_Delete_USub",
    "ReplaceUnaryOperator_USub_UAdd", "ZeroIterationForLoop",
)  # fmt: skip


class Mutant(NamedTuple):
    """One change: the module, the operator, which of its places, and the line."""

    path: str  #: within the repository
    operator: str
    occurrence: int
    line: int

    @property
    def key(self) -> str:
        """A name for tables."""
        return f"{self.path}:{self.line} {self.operator} {self.occurrence}"

    def source(self) -> str:
        """The module with the change made."""
        from cosmic_ray.mutating import mutate_code

        operator = _operator(self.operator)
        changed = mutate_code((ROOT / self.path).read_text("utf-8"), operator, self.occurrence)
        if changed is None:
            raise ValueError(f"no such mutation: {self.key}")
        return changed

    def change(self) -> tuple[str, str]:
        """The line that differs, before and after."""
        before = (ROOT / self.path).read_text("utf-8").splitlines()
        after = self.source().splitlines()
        for old, new in zip(before, after, strict=False):
            if old != new:
                return old.strip(), new.strip()
        return "", ""


def _operator(name: str) -> Any:
    from cosmic_ray import plugins

    return plugins.get_operator(f"core/{name}")()


@cache
def operators() -> tuple[str, ...]:
    """The names of the operators that are used."""
    wanted = {f"ReplaceBinaryOperator_{a}_{b}" for a in _ARITHMETIC for b in _ARITHMETIC}
    wanted |= {f"ReplaceComparisonOperator_{a}_{b}" for a in _COMPARISONS for b in _COMPARISONS}
    wanted |= set(_OTHERS)
    from cosmic_ray import plugins

    known = {name.removeprefix("core/") for name in plugins.operator_names()}
    return tuple(sorted(wanted & known))


def modules() -> list[Path]:
    """The modules of the mathematics."""
    out = []
    for path in sorted(PACKAGE.rglob("*.py")):
        within = path.relative_to(PACKAGE)
        if (
            path.name != "__init__.py"
            and str(within) not in LEFT_OUT
            and within.parts[0] not in LEFT_OUT
        ):
            out.append(path)
    return out


def places(path: Path) -> Iterator[Mutant]:
    """Every possible mutation of one module that is in the body of code that runs."""
    from cosmic_ray.ast import Visitor, get_ast

    class Places(Visitor):  # type: ignore[misc]
        """Counts the places of an operator as cosmic-ray's own visitor does, with their lines."""

        def visit(self, node: Any) -> Any:
            lines.extend(start[0] for start, _ in operator.mutation_positions(node))
            return node

    source = path.read_text("utf-8")
    tree, silent = get_ast(source), _silent(source)
    for name in operators():
        operator, lines = _operator(name), list[int]()
        Places().walk(tree)
        for occurrence, line in enumerate(lines):
            if line not in silent:
                yield Mutant(str(path.relative_to(ROOT)), name, occurrence, line)


def _silent(source: str) -> set[int]:
    """Lines of annotations and of what only a type checker reads."""
    out: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        parts: list[ast.AST | None] = []
        if (isinstance(node, ast.AnnAssign) and node.value is None) or (
            isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        ):
            parts = [node]
        for part in parts:
            out |= set(range(part.lineno, (part.end_lineno or part.lineno) + 1))
    return out


def draw(number: int, seed: int) -> list[Mutant]:
    """`number` mutants: a line at random among all that can be mutated, then one of its changes.

    Choosing the line first keeps a line with many operators from being drawn many times.
    """
    by_line: dict[tuple[str, int], list[Mutant]] = {}
    for path in modules():
        for mutant in places(path):
            by_line.setdefault((mutant.path, mutant.line), []).append(mutant)
    rng = random.Random(seed)
    lines = sorted(by_line)
    rng.shuffle(lines)
    chosen = (rng.choice(by_line[line]) for line in lines)
    return list(islice((mutant for mutant in chosen if noticeable(*mutant.change())), number))


def noticeable(before: str, after: str) -> bool:
    """Whether more than the last digits of one number differ.

    >>> noticeable("LARGE = 1e10", "LARGE = 10000000001.0"), noticeable("n = 2", "n = 3")
    (False, True)
    """
    digits = r"(?<![\w.])\d[\d_]*\.?\d*(?:e[-+]?\d+)?"
    if re.split(digits, before.replace(" ", "")) != re.split(digits, after.replace(" ", "")):
        return True
    old, new = (
        list(map(float, re.findall(digits, line.replace(" ", "")))) for line in (before, after)
    )
    return any(abs(a - b) > 1e-6 * max(abs(a), abs(b)) for a, b in zip(old, new, strict=True))
