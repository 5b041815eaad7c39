"""Runs are supervised: what is killed is tried again, what is stopped leaves nothing behind."""

from __future__ import annotations

import csv
import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from drivers import Driver, probing, wait_until

from attnflow.book.chapters.project import Project

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
#: Seconds in which everything must be gone.
SOON = 5.0


@pytest.fixture
def probes(tmp_path: Path) -> Project:
    return probing(tmp_path / "mini")


def table(project: Project) -> list[dict[str, str]]:
    path = project.build / "sweeps" / "probe" / "probe.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def kept(project: Project) -> set[str]:
    return {path.name for path in (project.build / "runs").glob("probe-*")}


def assert_nothing_half(project: Project) -> None:
    """No draft, no growing table, no lock."""
    names = [path.name for path in project.build.rglob("*") if path.is_file()]
    assert [n for n in names if n.startswith(".") or "growing" in n or n.endswith(".tmp")] == []


@contextmanager
def one_waits_for_another(project: Project) -> Iterator[tuple[Driver, Driver]]:
    """A run that takes long, and the same run asked for by a second process meanwhile."""
    command = ("run", "probe", "-p", "mode=sleep", "--no-html")
    with Driver(project, *command) as first:
        wait_until(first.executions, 60)
        with Driver(project, *command) as second:
            wait_until(second.works, 60)
            yield first, second


def test_a_kernel_killed_from_outside_costs_its_own_run_one_more_try(probes: Project) -> None:
    with Driver(
        probes, "sweep", "probe", "-p", "point=1,2", "-p", "mode=sleep", "-j", "1"
    ) as driver:
        wait_until(driver.executions, 60)
        (point, victim), *_ = driver.executions()
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: len(driver.executions()) == 2, 60)
        again, pid = driver.executions()[1]
        assert again == point
        assert pid != victim


def test_a_run_that_was_killed_once_has_the_right_result(probes: Project) -> None:
    with Driver(
        probes, "sweep", "probe", "-p", "point=1,2", "-p", "mode=die", "-p", "deaths=1", "-j", "1"
    ) as driver:
        assert driver.finish() == 0
        assert sorted(point for point, _ in driver.executions()) == [1, 1, 2, 2]
        assert [(r["point"], r["measured"], r["verdict"]) for r in table(probes)] == [
            ("1", "1.0", "holds"),
            ("2", "2.0", "holds"),
        ]
        assert "died" not in driver.err
    assert_nothing_half(probes)


def test_a_run_that_dies_twice_is_one_clear_line_and_the_others_finish(probes: Project) -> None:
    with Driver(
        probes,
        "sweep",
        "probe",
        "-p",
        "point=1",
        "-p",
        "mode=die,quick",
        "-p",
        "deaths=9",
        "-j",
        "1",
    ) as driver:
        assert driver.finish() == 1
        (line,) = [s for s in driver.err.splitlines() if "died" in s]
        assert line == "probe: its kernel died 2 times (DeadKernelError: Kernel died)"
        assert "Traceback" not in driver.err
        assert [(r["mode"], r["verdict"]) for r in table(probes)] == [
            ("die", "error"),
            ("quick", "holds"),
        ]
    assert_nothing_half(probes)


def test_ctrl_c_is_exit_130_and_a_sentence_and_finished_runs_are_kept(probes: Project) -> None:
    command = ("sweep", "probe", "-p", "mode=quick,sleep", "-j", "1")
    with Driver(probes, *command) as driver:
        wait_until(lambda: len(driver.executions()) == 2, 60)
        driver.process.send_signal(signal.SIGINT)
        wait_until(lambda: not driver.left(), SOON)
        assert driver.finish(SOON) == 130
        assert driver.err.splitlines()[-1] == (
            "stopped; what was finished is kept: the same command goes on from there"
        )
        assert "Traceback" not in driver.err
    assert len(kept(probes)) == 1
    assert_nothing_half(probes)
    with Driver(probes, "sweep", "probe", "-p", "mode=quick", "-j", "1") as driver:
        assert driver.finish() == 0
        assert "1 runs, 1 known before" in driver.out
        assert len(driver.executions()) == 2


@pytest.mark.parametrize("seconds", [0.0, 0.5])
def test_ctrl_c_while_kernels_start_leaves_nothing(probes: Project, seconds: float) -> None:
    with Driver(probes, "sweep", "probe", "-p", "mode=sleep", "-p", "point=1,2,3") as driver:
        wait_until(lambda: len(driver.left()) > 1, 60)
        time.sleep(seconds)
        driver.process.send_signal(signal.SIGINT)
        wait_until(lambda: not driver.left(), SOON)
        assert driver.finish(SOON) == 130
        assert "Traceback" not in driver.err


def test_ctrl_c_that_another_thread_receives_is_heard(probes: Project) -> None:
    """The system may choose any thread that does not block the signal, and Python tells the first."""
    with Driver(probes, "sweep", "probe", "-p", "mode=sleep", "-p", "point=1,2") as driver:
        wait_until(driver.executions, 60)
        pid = driver.process.pid
        other = next(t for t in map(int, os.listdir(f"/proc/{pid}/task")) if t != pid)
        assert ctypes.CDLL(None).tgkill(pid, other, signal.SIGINT) == 0
        wait_until(lambda: not driver.left(), SOON)
        assert driver.finish(SOON) == 130


@pytest.mark.parametrize(
    ("mode", "sent"),
    [
        ("sleep", signal.SIGTERM),
        ("sleep", signal.SIGHUP),
        ("sleep", signal.SIGKILL),
        ("multiply", signal.SIGKILL),
        ("backtrack", signal.SIGTERM),
        ("child", signal.SIGKILL),
    ],
)
def test_a_driver_that_is_killed_leaves_no_process(
    probes: Project, mode: str, sent: signal.Signals
) -> None:
    with Driver(probes, "run", "probe", "-p", f"mode={mode}", "--no-html") as driver:
        wait_until(driver.executions, 60)
        ((_, kernel),) = driver.executions()
        assert {driver.process.pid, kernel} <= set(driver.left())
        if mode == "child":
            wait_until(lambda: len(driver.left()) == 4, SOON)  # a guard and what the cell started
        driver.process.send_signal(sent)
        driver.process.wait(SOON)
        wait_until(lambda: not driver.left(), SOON)
    assert kept(probes) == set()


def test_ctrl_c_ends_a_cell_that_is_busy_in_compiled_code(probes: Project) -> None:
    with Driver(probes, "run", "probe", "-p", "mode=multiply", "--no-html") as driver:
        wait_until(driver.executions, 60)
        driver.process.send_signal(signal.SIGINT)
        wait_until(lambda: not driver.left(), SOON)
        assert driver.finish(SOON) == 130


def test_ctrl_c_ends_the_wait_for_another_process(probes: Project) -> None:
    with one_waits_for_another(probes) as (first, second):
        second.process.send_signal(signal.SIGINT)
        wait_until(lambda: not second.left(), SOON)
        assert second.finish(SOON) == 130
        assert "Traceback" not in second.err
        assert len(first.executions()) == 1
        assert first.process.poll() is None


def test_the_same_run_asked_for_twice_at_once_is_executed_once(probes: Project) -> None:
    command = ("run", "probe", "-p", "point=7", "--no-html")
    with Driver(probes, *command) as first, Driver(probes, *command) as second:
        assert [first.finish(), second.finish()] == [0, 0]
        assert [point for point, _ in first.executions()] == [7]
        assert sorted(d.out.split("key")[0].split()[-4] for d in (first, second)) == [
            "known",
            "ran",
        ]
    assert_nothing_half(probes)


def test_the_same_sweep_twice_at_once_executes_every_run_once(probes: Project) -> None:
    command = ("sweep", "probe", "-p", "point=1,2,3", "-j", "1")
    with Driver(probes, *command) as first, Driver(probes, *command) as second:
        assert [first.finish(), second.finish()] == [0, 0]
        assert sorted(point for point, _ in first.executions()) == [1, 2, 3]
    assert [row["point"] for row in table(probes)] == ["1", "2", "3"]
    assert_nothing_half(probes)


def test_a_killed_maker_does_not_block_who_waits_for_its_run(probes: Project) -> None:
    with one_waits_for_another(probes) as (first, second):
        assert len(second.executions()) == 1
        first.process.kill()
        wait_until(lambda: len(second.executions()) == 2, 60)
        assert second.executions()[1][1] in second.left()
