"""A hundred runs under fire: drivers and kernels are killed, and nothing is lost or done twice."""

from __future__ import annotations

import contextlib
import csv
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import pytest
from conftest import Fake
from drivers import Driver, probing, wait_until

from attnflow.book.chapters.project import Project, recipe
from attnflow.book.runs import sweep as sweeping
from attnflow.claims import check

RUNS = 100
DRIVERS, KERNELS = 4, 8  #: how many are killed
SLOTS = 2
POINTS = ",".join(map(str, range(RUNS)))


class Siege:
    """The sweep, started again until it ends by itself; what was kept and executed meanwhile."""

    def __init__(self, project: Project, seed: int) -> None:
        self.project, self.random = project, random.Random(seed)
        self.drivers: list[Driver] = []
        #: Before each start: the points that were kept, and how many executions there had been.
        self.starts: list[tuple[set[int], int]] = []
        plan = [("driver", at) for at in self.random.sample(range(3, RUNS - 5), DRIVERS)]
        plan += [("kernel", at) for at in self.random.sample(range(1, RUNS - 5), KERNELS)]
        self.plan = sorted(plan, key=lambda act: -act[1])
        prepared = recipe(project, "probe")
        defaults = prepared.chapter.default_parameters
        self.keys = {prepared.key({**defaults, "point": k}): k for k in range(RUNS)}

    def kept(self) -> set[int]:
        files = (self.project.build / "runs").glob("probe-*.json")
        return {self.keys[path.stem.removeprefix("probe-")] for path in files}

    def go_on(self) -> int | None:
        """Start the sweep; its exit code, or None where it was killed."""
        executed = len(self.drivers[-1].executions()) if self.drivers else 0
        self.starts.append((self.kept(), executed))
        driver = Driver(self.project, "sweep", "probe", "-p", f"point={POINTS}", "-j", str(SLOTS))
        self.drivers.append(driver)
        with driver:
            while driver.process.poll() is None:
                if self.plan and len(self.kept()) >= self.plan[-1][1]:
                    time.sleep(self.random.uniform(0.0, 0.5))
                    victim, _ = self.plan.pop()
                    if victim == "driver":
                        driver.process.kill()
                        driver.process.wait()  # the next shot at a driver is at another one
                    else:
                        self._kill_a_kernel(driver)
                time.sleep(0.05)
            wait_until(lambda: not driver.left(), 5.0)
            return None if driver.finish() == -signal.SIGKILL else driver.finish()

    def _kill_a_kernel(self, driver: Driver) -> None:
        for _ in range(100):  # a kernel may end by itself between the look and the shot
            at_work = {pid for _, pid in driver.executions()} & set(driver.left())
            others = set(driver.left()) - {driver.process.pid}
            victims = sorted(at_work or others)
            if not victims:
                return
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.random.choice(victims), signal.SIGKILL)
                return


def undisturbed(project: Project, folder: Path) -> list[dict[str, str]]:
    """The table of the same computation without kernels."""
    grid = sweeping.Grid(project, "probe", {"point": list(range(RUNS))})
    fake = Fake(
        row=lambda p: check("mini.probe", predicted=p["point"], measured=p["point"], tol=0.5)
    )
    calm = Project(folder)
    folder.joinpath("_build").mkdir(parents=True)
    for name in ("book", "src", "_toc.yml", "requirements.lock"):
        (folder / name).symlink_to(project.root / name)
    sweeping.sweep(calm, grid, fake, folder / "calm.csv")
    return rows(folder / "calm.csv")


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return [{**row, "seconds": ""} for row in csv.DictReader(file)]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_sweep_under_fire_loses_nothing_repeats_nothing_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    project = probing(tmp_path / "mini")
    siege = Siege(project, seed=2026)
    while siege.go_on() != 0:
        assert len(siege.drivers) <= 2 * (DRIVERS + KERNELS), siege.drivers[-1].err
    assert siege.plan == []
    assert len(siege.drivers) > DRIVERS

    lost = set(range(RUNS)) - siege.kept()
    assert lost == set()
    found = rows(project.build / "sweeps" / "probe" / "probe.csv")
    assert [int(row["point"]) for row in found] == list(range(RUNS))
    assert found == undisturbed(project, tmp_path / "calm")

    executed = [point for point, _ in siege.drivers[-1].executions()]
    for kept, before in siege.starts:
        assert kept & set(executed[before:]) == set(), "a run that was kept was computed again"
    assert RUNS <= len(executed) <= RUNS + KERNELS + SLOTS * DRIVERS

    assert [pid for driver in siege.drivers for pid in driver.left()] == []
    scratch = Path(tempfile.gettempdir())
    assert [p for d in siege.drivers for p in scratch.glob(f"attnflow-{d.process.pid}-*")] == []
    names = [path.name for path in project.build.rglob("*") if path.is_file()]
    assert [name for name in names if "growing" in name or name.endswith(".lock")] == []
