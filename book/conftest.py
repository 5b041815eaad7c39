"""Teaches nbval how to compare what a chapter shows; `pytest --nbval book/` finds this by itself.

Checks and the numbers of sentences carry their unrounded values, and are compared as numbers, to
a stated precision (see attnflow.book.compare). Everything else nbval compares as text.
"""

from __future__ import annotations

from typing import Any

import pytest
from attnflow.book.compare import disagreement, typed


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if hasattr(item, "compare_outputs"):
            item.compare_outputs = _by_kind(item, item.compare_outputs)
            # the cells of a notebook share a kernel, also under `pytest -n 2 --dist loadgroup`
            item.add_marker(pytest.mark.xdist_group(f"notebook {item.path.stem}"))
            item.add_marker(pytest.mark.filterwarnings("ignore"))  # raised by the Jupyter stack


def _by_kind(item: Any, as_text: Any) -> Any:
    """nbval's comparison of a cell's outputs, after those that carry numbers were compared."""

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
        return bool(as_text(*rest, skip_compare))

    return compare
