"""A fetch that goes wrong says so and leaves nothing: damaged wheels, interruptions, full disks."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
from toy_assets import (
    FILES,
    Registry,
    assert_nothing_left,
    fetch,
    refusal,
)

from attnflow import assets
from attnflow.assets import fetching


def test_checksum_mismatch_names_both_hashes(cache_root: Path, registry: Registry) -> None:
    registry.contents["toy/config.json"] = b'{"d": 3}'
    message = refusal()
    assert "config.json: expected sha256" in message
    assert FILES[1].sha256 in message
    assert hashlib.sha256(b'{"d": 3}').hexdigest() in message
    assert_nothing_left(cache_root)


@pytest.mark.parametrize("length", [0, 10, 1_000_000, -1])
def test_truncated_wheel(cache_root: Path, registry: Registry, length: int) -> None:
    registry.damage = lambda data: data[:length]
    assert "truncated or corrupt" in refusal()
    assert_nothing_left(cache_root)


@pytest.mark.parametrize("start", [0, 5000])
def test_hole_in_the_wheel(cache_root: Path, registry: Registry, start: int) -> None:
    registry.damage = lambda data: data[:start] + bytes(5000) + data[start + 5000 :]
    assert "truncated or corrupt" in refusal()
    assert_nothing_left(cache_root)


def test_wheel_without_its_beginning(cache_root: Path, registry: Registry) -> None:
    registry.damage = lambda data: data[1000:]
    refusal()
    assert_nothing_left(cache_root)


def test_member_missing(cache_root: Path, registry: Registry) -> None:
    del registry.contents["toy/config.json"]
    assert "no item named 'toy/config.json'" in refusal()
    assert_nothing_left(cache_root)


def test_only_listed_members_are_written(cache_root: Path, registry: Registry) -> None:
    outside = cache_root / "absolute.txt"
    registry.contents |= {"../../../../slip.txt": b"x", str(outside): b"x", "toy/other.py": b"x"}
    place = fetch()
    files = [path for path in cache_root.rglob("*") if path.is_file()]
    assert sorted(files) == sorted(place / file.name for file in FILES)
    assert not outside.exists()


def test_interruption_leaves_nothing(
    cache_root: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted:
        blocks = 0

        def update(self, block: bytes) -> None:
            self.blocks += 1
            if self.blocks == 2:
                raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(fetching.hashlib, "sha256", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            fetch()
    assert_nothing_left(cache_root)
    fetch()
    assets.verify("toy")


def test_full_disk(cache_root: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(path: Path, mode: str) -> Any:
        file = open(path, mode)  # noqa: SIM115
        if mode == "wb" and path.name == "config.json":
            file.close()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return file

    monkeypatch.setattr(fetching, "open", opened, raising=False)
    assert os.strerror(errno.ENOSPC) in refusal()
    assert_nothing_left(cache_root)


def test_cache_that_cannot_be_made(cache_root: Path, registry: Registry) -> None:
    (cache_root / "attnflow").write_text("a file where the cache should be")
    assert "cannot unpack it" in refusal()
    assert registry.calls == 0
