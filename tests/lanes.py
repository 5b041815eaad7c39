"""One suite on three workers: what belongs together runs on one of them, what waits runs beside what computes.

`make test` runs units, controls, doctests, notebooks and pages in a single session, so that no
worker waits for the other at the end of each part. The cells of a notebook share a kernel, the
controls of a chapter share a pass over it, pages share a browser, the tests of a file its
fixtures: each is a lane that one worker takes as a whole (``--dist loadscope``), in the order
in which tests are sorted here (``--no-loadscope-reorder``). Chapters keep a core busy; tests of
processes and browsers mostly wait for these. So among every few chapters there is a file that
waits, and the third worker has use for two cores. The marker `xdist_group` is for lanes, but
pytest-xdist 3.8 under pytest 9.2 ignores it without a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

#: Files whose tests wait for other processes; those that take longest first.
WAITING = (
    "test_pages",
    "test_stress",
    "test_labs",
    "test_supervision",
    "test_cluster",
    "test_serve",
    "test_cluster_cli",
    "test_book_kernels",
    "test_run",
    "test_disk",
    "test_bad_calls",
    "test_cli",
)
#: One of these among so many chapters.
AMONG = 3
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


def spread(few: Sequence[T], many: Sequence[T], among: int) -> list[T]:
    """One of the few before every so many others, what is left of either at the end.

    >>> "".join(spread("abc", "1234567", 3))
    'a123b456c7'
    """
    out: list[T] = []
    for k, one in enumerate(few):
        out += [one, *many[k * among : (k + 1) * among]]
    return [*out, *many[len(few) * among :]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Chapters and what waits, then the rest as it was collected."""
    lanes: dict[str, list[pytest.Item]] = {}
    for item in items:
        if _is_cell(item):
            item.add_marker(pytest.mark.filterwarnings("ignore"))  # raised by the Jupyter stack
        lanes.setdefault(lane(item.nodeid), []).append(item)
    waiting, chapters, others = list[str](), list[str](), list[str]()
    for name, members in lanes.items():
        file = members[0].path.stem
        if _is_cell(members[0]) or file == "test_controls":
            chapters.append(name)
        else:
            (waiting if file in WAITING else others).append(name)
    waiting.sort(key=lambda name: WAITING.index(lanes[name][0].path.stem))
    order = [*spread(waiting, chapters, AMONG), *others]
    items[:] = [item for name in order for item in lanes[name]]


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
