"""What the honest pass has computed: handed to children, never in the way of a mistake."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from controls import memory
from controls.cells import Cell
from controls.chapter import survey
from controls.fork import AVAILABLE, Child, forked
from controls.memory import Memory
from controls.stage import Patch, Sabotage
from drivers import wait_until

from attnflow.claims import HOLDS

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="processes cannot fork here")
CELLS = [
    Cell("from attnflow.claims import check\nfrom rulers import length", "Setup"),
    Cell("long = length(3)", "Straight"),
    Cell("check('mini.now', predicted=3, measured=long, tol=0.1)", "Straight"),
]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A slow function, `rulers.length`, and the file in which it writes down the calls of it."""
    path, module = tmp_path / "calls", ModuleType("rulers")

    def length(x: float) -> float:
        with path.open("a") as file:
            file.write(f"{os.getpid()}\n")
        return module.unit * float(x)  # type: ignore[attr-defined, no-any-return]

    module.length, module.unit = length, 1.0  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "rulers", module)
    monkeypatch.setattr(memory, "SLOW", (("rulers", "length"),))
    return path


def tried(mistake: Patch, *, whole: bool = False) -> bool:
    report = survey(CELLS, {}, [Sabotage(mistake, ("mini.now",), "Straight", whole)])
    assert report.stopped == ""
    assert [row.verdict for row in report.rows] == [HOLDS]
    return report.trials["mini.now"].caught


def doubled(patch: pytest.MonkeyPatch) -> None:
    honest = sys.modules["rulers"].length
    patch.setattr(sys.modules["rulers"], "length", lambda x: 2 * honest(x))


def test_a_mistake_around_a_slow_function_costs_no_second_call(calls: Path) -> None:
    assert tried(doubled)
    assert len(calls.read_text().split()) == 1


def test_a_mistake_inside_a_slow_function_is_found_afresh(calls: Path) -> None:
    def wrong_unit(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(sys.modules["rulers"], "unit", 2.0)

    assert tried(wrong_unit)
    assert len(set(calls.read_text().split())) == 2


def test_no_mistake_is_not_caught_by_either_way(calls: Path) -> None:
    assert not tried(lambda patch: None)
    assert len(calls.read_text().split()) == 2


def test_who_asks_for_the_whole_chapter_gets_no_memory(calls: Path) -> None:
    assert tried(doubled, whole=True)
    assert len(calls.read_text().split()) == 2


def test_only_the_writer_writes(tmp_path: Path) -> None:
    kept = Memory(tmp_path)
    square = kept.remembering(lambda x: x * x, "square")
    assert forked(lambda: square(3), 10) == 9
    assert not list(tmp_path.iterdir())
    assert square(3) == 9
    assert len(list(tmp_path.iterdir())) == 1


def test_answers_are_told_apart_by_all_that_is_given(tmp_path: Path) -> None:
    kept = Memory(tmp_path)
    power = kept.remembering(lambda x, k=1: np.asarray(x) ** k, "power")
    x = np.arange(3.0)
    assert power(x, k=2)[2] == 4
    assert power(x, k=3)[2] == 8
    assert power(x + 1e-16 * x, k=2)[2] == 4  # the same numbers
    assert power(np.nextafter(x, 9), k=2)[2] > 4
    assert len(list(tmp_path.iterdir())) == 3


class Huge:
    """As large as a network."""


def test_large_objects_are_told_apart_if_they_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "LARGE", ((__name__, "Huge"),))
    kept, one, other = Memory(tmp_path), Huge(), Huge()
    seen: list[Huge] = []
    look = kept.remembering(lambda x: seen.append(x), "look")
    kept.acquaint([one, "not large"])
    for thing in (one, one, other, other):
        look(thing)
    assert seen == [one, other, other]


def test_a_child_that_nobody_asks_ends_with_its_parent(tmp_path: Path) -> None:
    place = tmp_path / "pid"

    def parent() -> None:
        first, second = Child(lambda: 1, 10), Child(lambda: 2, 10)
        place.write_text(f"{first.pid} {second.pid}")
        os._exit(0)

    with pytest.raises(Exception, match="no answer"):
        forked(parent, 10)
    wait_until(lambda: not any(_runs(int(pid)) for pid in place.read_text().split()), 5)


def _runs(pid: int) -> bool:
    """Whether a process is there and not merely unburied."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
