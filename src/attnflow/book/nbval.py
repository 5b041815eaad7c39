"""Teaches nbval how to compare what a chapter shows: a plugin that pytest finds by itself.

Checks and the numbers of sentences carry their unrounded values, and are compared as numbers, to
a stated precision (see attnflow.book.chapters.compare). Everything else nbval compares as text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Put the comparison of numbers before nbval's comparison of text, in every cell."""
    for item in items:
        if hasattr(item, "compare_outputs"):
            item.compare_outputs = _by_kind(item, item.compare_outputs)


def _by_kind(item: Any, as_text: Callable[..., bool]) -> Callable[..., bool]:
    from attnflow.book.chapters.compare import disagreement, typed

    def compare(test: list[Any], ref: list[Any], skip_compare: Any = None) -> bool:
        fresh, stored = ([o for o in outputs if typed(o)] for outputs in (test, ref))
        if len(fresh) != len(stored):
            item.comparison_traceback = [f"{len(stored)} checks and numbers, now {len(fresh)}"]
            return False
        for a, b in zip(stored, fresh, strict=True):
            if why := disagreement(a, b):
                item.comparison_traceback = [why]
                return False
        rest = [[o for o in outputs if not typed(o)] for outputs in (test, ref)]
        return as_text(*rest, skip_compare)

    return compare
