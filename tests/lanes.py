"""One suite on two workers: what belongs together runs on one of them, what takes long comes first.

`make test` runs units, controls, doctests, notebooks and pages in a single session, so that no
worker waits for the other at the end of each part. The cells of a notebook share a kernel, the
controls of a chapter share a pass over it, pages share a browser, the tests of a file its
fixtures: each is a lane that one worker takes as a whole (``--dist loadscope``), in the order
in which tests are sorted here (``--no-loadscope-reorder``). The marker `xdist_group` is for this,
but pytest-xdist 3.8 under pytest 9.2 ignores it without a word.
"""

from __future__ import annotations

from typing import Any

import pytest

#: Files whose tests take long, or wait for other processes; first come those that take longest.
LONG = (
    "test_stress",
    "test_supervision",
    "test_pages",
    "test_cluster",
    "test_gaussian_diagnosis",
    "test_run",
)
#: Files whose tests need not stay together, and would keep one worker busy at the end if they did.
SPREAD = (
    "test_flows",
    "test_flows_sphere",
    "test_geometry_limits",
    "test_geometry_limits_flows",
    "test_geometry_rescaled",
    "test_trained_model",
    "test_trained_parity",
    "test_trained_wrong",
)


def lane(nodeid: str) -> str:
    """What stays together.

    >>> lane("tests/test_controls.py::test_sound[clustering]")
    'controls of clustering'
    >>> lane("tests/test_controls.py::test_fails[clustering.queue]")
    'controls of clustering'
    >>> lane("book/clustering.ipynb::Cell 3")
    'book/clustering.ipynb'
    >>> lane("tests/test_flows.py::test_a_step[2]")
    'tests/test_flows.py::test_a_step[2]'
    """
    file, _, rest = nodeid.partition("::")
    if file.endswith("test_controls.py") and "[" in rest:
        return "controls of " + rest.partition("[")[2].rstrip("]").partition(".")[0]
    return nodeid if file.endswith(tuple(f"{name}.py" for name in SPREAD)) else file


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _is_cell(item):
            item.add_marker(pytest.mark.filterwarnings("ignore"))  # raised by the Jupyter stack
    items.sort(key=_rank)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """In place of xdist's own for `--dist loadscope`."""
    if config.getoption("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Lanes(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return lane(nodeid)

    return Lanes(config, log)


def _is_cell(item: pytest.Item) -> bool:
    return item.path.suffix == ".ipynb"


def _rank(item: pytest.Item) -> tuple[int, int]:
    """Notebooks and controls first, then long files, then the rest as they were collected."""
    name = item.path.stem
    if _is_cell(item) or name == "test_controls":
        return 0, 0
    return (1, LONG.index(name)) if name in LONG else (2, 0)
