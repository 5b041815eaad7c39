"""One suite on two workers: what belongs together runs on one of them, what takes long comes first.

`make test` runs units, controls, doctests, notebooks and pages in a single session, so that no
worker waits for the other at the end of each part. The cells of a notebook share a kernel, the
controls of a chapter share a pass over it, pages share a browser, and the tests of a file share
its fixtures: each of these is a group that one worker takes as a whole (``--dist loadgroup``; the
cells are grouped by book/conftest.py), in the order in which they are sorted here (``--no-loadscope-reorder``).
"""

from __future__ import annotations

import pytest

#: Files whose tests take long, or wait for other processes; first come those that take longest.
LONG = ("test_stress", "test_supervision", "test_pages", "test_cluster", "test_covflow", "test_run")
#: Files whose tests need not stay together, and would keep one worker busy at the end if they did.
SPREAD = ("test_flows", "test_geometry", "test_trained", "test_meanfield")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        together = item.get_closest_marker("xdist_group") or item.path.stem in SPREAD
        if not together and not _is_cell(item):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
    items.sort(key=_rank)


def _is_cell(item: pytest.Item) -> bool:
    return item.path.suffix == ".ipynb"


def _rank(item: pytest.Item) -> tuple[int, int]:
    """Notebooks and controls first, then long files, then the rest as they were collected."""
    name = item.path.stem
    if _is_cell(item) or name == "test_controls":
        return 0, 0
    return (1, LONG.index(name)) if name in LONG else (2, 0)
