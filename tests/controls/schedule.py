"""Who runs which tests: the controls of a chapter in one worker, the others file by file.

The tests of a chapter share one pass over it, so two workers would make it twice. (The marker
`xdist_group` is for this, but pytest-xdist 3.8 under pytest 9.2 ignores it without a word.)
"""

from __future__ import annotations

from typing import Any

import pytest


def scope(nodeid: str) -> str:
    """What stays together: the controls of a chapter, or a file of other tests.

    >>> scope("tests/test_controls.py::test_sound[clustering]")
    'controls of clustering'
    >>> scope("tests/test_controls.py::test_fails[clustering.queue]")
    'controls of clustering'
    >>> scope("tests/test_rates.py::test_a_slope[2]")
    'tests/test_rates.py'
    """
    file, _, rest = nodeid.partition("::")
    if file.endswith("test_controls.py") and "[" in rest:
        return "controls of " + rest.partition("[")[2].rstrip("]").partition(".")[0]
    return file


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The controls first: with the longest of all tests at the end, a worker would end alone."""
    items.sort(key=lambda item: item.path.stem != "test_controls")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """In place of xdist's own for `--dist loadscope`."""
    if config.getoption("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ByChapter(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope(nodeid)

    return ByChapter(config, log)
