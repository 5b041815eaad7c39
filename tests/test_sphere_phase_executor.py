"""Phase diagrams over executors: threads, processes and a cluster give the same numbers."""

from __future__ import annotations

import multiprocessing
import threading
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dask_programs import Farm, Programs

from attnflow.book.runs.cluster import connected
from attnflow.sphere import phase

#: 40 draws are two blocks of 16 and one of 8; d = 3 follows tokens, d = 6 inner products.
DIMENSIONS = (3, 6)


@pytest.fixture(scope="module")
def farm(programs: Programs) -> Farm:
    """Its workers use this very package, whose compiled code is kept beside it."""
    return Farm(programs, PYTHONPATH=str(Path(phase.__file__).parents[2]))


def diagram(d: int, **more: Any) -> phase.PhaseDiagram:
    return phase.phase_diagram(5, d, [0.0, 2.0], [0.0, 2.0, 5.0], 0.01, 40, 7, **more)


def same(one: phase.PhaseDiagram, other: phase.PhaseDiagram) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("d", DIMENSIONS)
def test_threads_of_others_change_nothing(d: int) -> None:
    with ThreadPoolExecutor(3) as pool:
        assert same(diagram(d, executor=pool), diagram(d))


def test_processes_change_nothing() -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        for d in DIMENSIONS:
            assert same(diagram(d, executor=pool), diagram(d))


def test_a_cluster_changes_nothing(farm: Farm) -> None:
    calls: list[int] = []
    with connected(farm.address, None) as client:
        pool = client.get_executor(pure=False)
        for d in DIMENSIONS:
            assert same(diagram(d, executor=pool, done=calls.append), diagram(d))
    assert sorted(calls) == [16, 16, 32, 32, 32, 32]


class Backwards(Executor):
    """Does the work when it has all of it, the last first."""

    def __init__(self, blocks: int) -> None:
        self.blocks, self.todo = blocks, list[Any]()

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.todo.append((future := Future[Any](), fn, args))
        if len(self.todo) == self.blocks:
            threading.Thread(target=self._work).start()
        return future

    def _work(self) -> None:
        for future, fn, args in reversed(self.todo):
            future.set_result(fn(*args))


def test_the_order_in_which_blocks_finish_does_not_matter() -> None:
    assert same(diagram(3, executor=Backwards(3)), diagram(3))


def test_progress_counts_blocks_as_they_finish() -> None:
    calls: list[int] = []
    diagram(3, executor=Backwards(3), done=calls.append)
    assert sorted(calls) == [16, 32, 32]  # blocks that have finished both are taken in any order


def test_an_error_of_the_progress_cancels_the_blocks_that_wait() -> None:
    release, begun = threading.Event(), list[Future[Any]]()

    class Slow(ThreadPoolExecutor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            wait = (lambda: None) if not begun else release.wait
            begun.append(super().submit(lambda: (wait(), fn(*args))[1]))
            return begun[-1]

    def done(draws: int) -> None:
        raise KeyError("stop")

    with Slow(1) as pool:
        with pytest.raises(KeyError, match="stop"):
            diagram(3, executor=pool, done=done)
        assert begun[-1].cancelled()
        release.set()


def test_threads_and_an_executor_exclude_each_other() -> None:
    with ThreadPoolExecutor(1) as pool, pytest.raises(ValueError, match="exclude each other"):
        diagram(3, threads=2, executor=pool)
