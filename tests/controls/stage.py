"""A chapter on stage: its cells run in this process, its checks are written down."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from attnflow import claims
from attnflow.claims import comparing
from controls.cells import SECTION, Cell
from controls.slices import needed

Patch = Callable[[pytest.MonkeyPatch], None]


class Sabotage(NamedTuple):
    """A mistake, the claims whose checks notice it, and from where the chapter runs for them."""

    mistake: Patch
    claims: tuple[str, ...]
    since: str = SECTION
    whole: bool = False  #: whether cells run on which the checks do not depend
    inside: bool = False  #: whether it acts in a function whose answers are remembered


class Trial(NamedTuple):
    """What came of a sabotage for one claim."""

    caught: bool
    account: str  #: what happened, for whoever reads that it was not caught


def reexports() -> list[tuple[ModuleType, str, ModuleType, Any]]:
    """(package, name, the module it lives in, object) of all that attnflow's packages show again.

    A mistake is made where a name lives; whoever imports it from the package must get it too.
    """
    loaded = {n: m for n, m in sys.modules.items() if n.partition(".")[0] == "attnflow"}
    return [
        (package, name, home, value)
        for at, package in loaded.items()
        if hasattr(package, "__path__")
        for within, home in loaded.items()
        if within.startswith(f"{at}.")
        for name, value in list(vars(package).items())
        if not isinstance(value, ModuleType) and vars(home).get(name, _NOTHING) is value
    ]


_NOTHING = object()


class AllCaught(BaseException):
    """Every check that was waited for has failed. No chapter's `except` takes it for its own."""


class Stage:
    """A chapter being run: the names it has defined, the rows its checks returned."""

    def __init__(self, cells: list[Cell], parameters: Mapping[str, Any]) -> None:
        self.cells, self.parameters = cells, parameters
        self.space: dict[str, Any] = {}
        self.rows: list[claims.Check] = []
        self.awaited: set[str] = set()  #: claims of which a check is to fail; the run then stops
        self._compare = comparing._compare

    def listen(self, patch: pytest.MonkeyPatch) -> None:
        """From here on every check is written down."""
        patch.setattr(comparing, "_compare", self._record)

    def _record(self, *given: Any) -> claims.Check:
        row = self._compare(*given)
        self.rows.append(row)
        if row.id in self.awaited and not row.is_control and row.verdict == claims.FAILS:
            self.awaited.remove(row.id)
            if not self.awaited:
                raise AllCaught
        return row

    def run(self, cell: Cell) -> None:
        """Execute one cell."""
        exec(compile(cell.source, cell.section or "the first cells", "exec"), self.space)
        if cell.parameters:
            self.space.update(self.parameters)

    def attempt(self, patch: pytest.MonkeyPatch, wrong: Sabotage, span: range) -> dict[str, Trial]:
        """Make the mistake now, run these cells, and see whether the claims' checks fail.

        As the cells before the span have run in full and those of the span run without a gap, or
        without those on which the checks do not depend, a mistake that changes nothing reproduces
        the honest rows: what fails, fails for the mistake.
        """
        imported, shown = self._imported(self.cells[: span.start]), reexports()
        wrong.mistake(patch)
        for package, name, home, honest in shown:
            if getattr(home, name, honest) is not honest and getattr(package, name) is honest:
                patch.setattr(package, name, getattr(home, name))
        for name, module, attribute in imported:
            self.space[name] = getattr(module, attribute)
        self.rows, self.awaited, raised = [], set(wrong.claims), []
        kept = span if wrong.whole else needed(self.cells, span, wrong.claims, self.space)
        for k in kept:
            try:
                self.run(self.cells[k])
            except AllCaught:
                break
            except Exception as error:
                raised.append(f"{type(error).__name__} under {self.cells[k].section!r}: {error}")
        return {claim: self._trial(claim, raised) for claim in wrong.claims}

    def _trial(self, claim: str, raised: list[str]) -> Trial:
        own = [repr(row) for row in self.rows if row.id == claim and not row.is_control]
        account = [*(own or ["its check did not run"]), *raised]
        return Trial(claim not in self.awaited, "\n".join(account))

    def _imported(self, cells: list[Cell]) -> list[tuple[str, Any, str]]:
        """Names that a `from ... import` of these cells still binds, with where they came from."""
        found = []
        for cell in cells:
            for node in ast.walk(ast.parse(cell.source)):
                if isinstance(node, ast.ImportFrom) and node.module:
                    module = importlib.import_module(node.module)
                    for alias in node.names:
                        name, there = alias.asname or alias.name, getattr(module, alias.name, None)
                        if there is not None and self.space.get(name) is there:
                            found.append((name, module, alias.name))
        return found
