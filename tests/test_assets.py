"""Fetching assets, without a network: a small wheel stands for what a registry would serve."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from refusals import said_without

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
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, and the toy in the registry."""
    monkeypatch.delenv(assets.VARIABLE, raising=False)
    monkeypatch.setattr(places.platformdirs, "user_cache_dir", lambda app: str(tmp_path / app))
    monkeypatch.setitem(assets.ASSETS, "toy", TOY)
    return tmp_path


@pytest.fixture
def registry(root: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
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


def assert_nothing_left(root: Path) -> None:
    assert not assets.available("toy")
    assert [path for path in root.rglob("*") if not path.is_dir()] == []
    assert list(root.rglob(".*")) == []


def test_fetch_puts_checked_files_in_the_cache(root: Path, registry: Registry) -> None:
    assert not assets.available("toy")
    place = fetch()
    assert place == assets.directory("toy") == root / "attnflow" / "assets" / "toy" / "1.2"
    assert {path.name: path.read_bytes() for path in place.iterdir()} == {
        path.split("/")[-1]: data for path, data in CONTENTS.items()
    }
    assert list(place.parent.iterdir()) == [place]
    assert assets.available("toy")
    assets.verify("toy")


def test_second_fetch_downloads_nothing(registry: Registry) -> None:
    assert fetch() == fetch()
    assert registry.calls == 1


@pytest.mark.parametrize("progress", [True, False, None])
def test_progress_goes_to_stderr_and_only_to_a_terminal_unless_told(
    registry: Registry, capsys: pytest.CaptureFixture[str], progress: bool | None
) -> None:
    assets.fetch("toy", progress=progress)
    out, err = capsys.readouterr()
    assert out == ""
    assert ("toy (3.0 MB to download)" in err and "100%" in err) == bool(progress)
    assert bool(err) == bool(progress)


def test_checksum_mismatch_names_both_hashes(root: Path, registry: Registry) -> None:
    registry.contents["toy/config.json"] = b'{"d": 3}'
    message = refusal()
    assert "config.json: expected sha256" in message
    assert FILES[1].sha256 in message
    assert hashlib.sha256(b'{"d": 3}').hexdigest() in message
    assert_nothing_left(root)


@pytest.mark.parametrize("length", [0, 10, 1_000_000, -1])
def test_truncated_wheel(root: Path, registry: Registry, length: int) -> None:
    registry.damage = lambda data: data[:length]
    assert "truncated or corrupt" in refusal()
    assert_nothing_left(root)


@pytest.mark.parametrize("start", [0, 5000])
def test_hole_in_the_wheel(root: Path, registry: Registry, start: int) -> None:
    registry.damage = lambda data: data[:start] + bytes(5000) + data[start + 5000 :]
    assert "truncated or corrupt" in refusal()
    assert_nothing_left(root)


def test_wheel_without_its_beginning(root: Path, registry: Registry) -> None:
    registry.damage = lambda data: data[1000:]
    refusal()
    assert_nothing_left(root)


def test_member_missing(root: Path, registry: Registry) -> None:
    del registry.contents["toy/config.json"]
    assert "no item named 'toy/config.json'" in refusal()
    assert_nothing_left(root)


def test_only_listed_members_are_written(root: Path, registry: Registry) -> None:
    outside = root / "absolute.txt"
    registry.contents |= {"../../../../slip.txt": b"x", str(outside): b"x", "toy/other.py": b"x"}
    place = fetch()
    files = [path for path in root.rglob("*") if path.is_file()]
    assert sorted(files) == sorted(place / file.name for file in FILES)
    assert not outside.exists()


def test_interruption_leaves_nothing(
    root: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
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
    assert_nothing_left(root)
    fetch()
    assets.verify("toy")


def test_full_disk(root: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(path: Path, mode: str) -> Any:
        file = open(path, mode)  # noqa: SIM115
        if mode == "wb" and path.name == "config.json":
            file.close()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return file

    monkeypatch.setattr(fetching, "open", opened, raising=False)
    assert os.strerror(errno.ENOSPC) in refusal()
    assert_nothing_left(root)


def test_cache_that_cannot_be_made(root: Path, registry: Registry) -> None:
    (root / "attnflow").write_text("a file where the cache should be")
    assert "cannot unpack it" in refusal()
    assert registry.calls == 0


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

    def __init__(self, root: Path) -> None:
        self.wheel, self.log = write_wheel(root / "toy.whl"), root / "downloads"
        self.log.touch()
        self.shared = root / "shared"

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


def test_processes_at_once_download_once(root: Path) -> None:
    fetches = Fetches(root)
    running = [fetches.start(0.5) for _ in range(3)]
    assert [process.wait(timeout=60) for process in running] == [0, 0, 0]
    assert len(fetches.downloads) == 1
    fetches.assert_whole()


def test_a_fetch_that_is_killed_does_not_block_the_next(root: Path) -> None:
    fetches = Fetches(root)
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


def test_incomplete_directory_is_mended_and_keeps_other_files(registry: Registry) -> None:
    place = assets.directory("toy")
    place.mkdir(parents=True)
    (place / "weights.bin").write_bytes(b"half")
    (place / "notes.txt").write_text("mine")
    assert not assets.available("toy")
    fetch()
    assets.verify("toy")
    assert (place / "notes.txt").read_text() == "mine"


def test_verify_finds_what_sizes_do_not_show(registry: Registry) -> None:
    changed = fetch() / "config.json"
    changed.write_bytes(b'{"d": 3}')
    assert assets.available("toy")
    with pytest.raises(AssetError, match=r"config\.json: expected .* delete it and fetch again"):
        assets.verify("toy")
    changed.unlink()
    with pytest.raises(AssetError, match=r"cannot read config\.json"):
        assets.verify("toy")
    fetch()
    assets.verify("toy")


def test_directory_by_hand(root: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(assets.VARIABLE, str(root / "mine"))
    place = root / "mine" / "toy"
    assert assets.directory("toy") == place
    place.mkdir(parents=True)
    for path, data in CONTENTS.items():
        (place / path.split("/")[-1]).write_bytes(data)
    assert fetch() == place
    assert registry.calls == 0
    (place / "weights.bin").unlink()
    fetch()
    assert registry.calls == 1
    assets.verify("toy")


@pytest.mark.parametrize("act", [assets.fetch, assets.directory, assets.available, assets.verify])
def test_unknown_name_lists_the_known(act: Callable[[str], object]) -> None:
    with pytest.raises(AssetError, match=r"no asset 'gpt5'.*minilm, albert"):
        act("gpt5")


def test_opt_in(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    message = refusal("iglm")
    assert "accept_licence=True" in message
    assert "non-commercial" in message
    assert registry.calls == 0
    monkeypatch.setitem(assets.ASSETS, "toy", TOY._replace(opt_in=True))
    refusal()
    assets.fetch("toy", progress=False, accept_licence=True)
    refusal()
    assert registry.calls == 1


@pytest.mark.parametrize(
    "last",
    [
        "ERROR: Could not reach https://user:secret@mirror.example.org/simple/toy-package/",
        "E: Failed to fetch http://mirror.example.org/pool/x.deb  Connection refused",
        "HTTPSConnectionPool(host='mirror', port=443): Max retries exceeded",
        "Failed to resolve 'mirror' ([Errno -2] Name or service not known)",
        "Could not connect to mirror.example.org:80 (192.0.2.7), connection timed out",
    ],
)
def test_failed_download_passes_on_the_last_line_without_hosts(
    root: Path, monkeypatch: pytest.MonkeyPatch, last: str
) -> None:
    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
        assert command[:4] == [sys.executable, "-m", "pip", "download"]
        assert command[-1] == "toy-package==1.2"
        return subprocess.CompletedProcess(command, 1, b"", f"first line\n{last}\n\n".encode())

    monkeypatch.setattr(fetching.subprocess, "run", run)
    message = refusal()
    assert "no network, or the registry refused" in message
    assert "[address]" in message
    assert "first line" not in message
    assert not re.search(r"mirror|secret|example|192\.0", message)
    assert_nothing_left(root)


def test_failed_download_keeps_versions(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    last = b"ERROR: No matching distribution found for toy-package==1.2"
    done = subprocess.CompletedProcess([], 1, b"", last)
    monkeypatch.setattr(fetching.subprocess, "run", lambda *_, **__: done)
    assert last.decode() in refusal()


def test_without_pip(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching.importlib.util, "find_spec", lambda name: None)
    assert "takes pip, not installed here" in refusal()


def test_without_debian_programs(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching.shutil, "which", lambda name: None)
    assert "takes apt-get and dpkg-deb, not installed here" in refusal("fashion-mnist")


@pytest.mark.parametrize("complete", [True, False])
def test_debian_package(root: Path, monkeypatch: pytest.MonkeyPatch, complete: bool) -> None:
    def run(command: list[str], cwd: Path, **_: Any) -> subprocess.CompletedProcess[bytes]:
        if command[0] == "apt-get":
            assert command == ["apt-get", "download", "toy-package=1.2"]
            (cwd / "toy-package_1.2_all.deb").touch()
        else:
            assert command[:2] == ["dpkg-deb", "-x"]
            for path, data in list(CONTENTS.items())[: None if complete else 1]:
                target = Path(command[3]) / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
        return subprocess.CompletedProcess(command, 0, b"", b"")

    monkeypatch.setitem(assets.ASSETS, "toy", TOY._replace(channel="debian"))
    monkeypatch.setattr(fetching.shutil, "which", lambda name: name)
    monkeypatch.setattr(fetching.subprocess, "run", run)
    if complete:
        fetch()
        assets.verify("toy")
    else:
        assert "toy/config.json" in refusal()
        assert_nothing_left(root)


def test_registry_is_sane() -> None:
    counts = {name: len(asset.files) for name, asset in assets.ASSETS.items()}
    assert counts == {
        "minilm": 3,
        "albert": 3,
        "smollm2": 1,
        "alice": 1,
        "news": 1,
        "iglm": 3,
        "fashion-mnist": 4,
    }
    assert [name for name, asset in assets.ASSETS.items() if asset.opt_in] == ["iglm"]
    for name, asset in assets.ASSETS.items():
        assert asset.name == name
        assert asset.channel in ("pypi", "debian")
        assert asset.version
        assert asset.licence
        assert asset.summary
        assert 1e6 < asset.size < 1e8
        assert len({file.name for file in asset.files}) == len(asset.files)
        for file in asset.files:
            assert re.fullmatch(r"[0-9a-f]{64}", file.sha256)
            assert file.path.endswith(f"/{file.name}")
            assert ".." not in file.path
            assert not file.path.startswith("/")
            assert 100 < file.size < 1e8


def test_colours_of_the_terminal_do_not_hide_what_was_said(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = b"\x1b[31mERROR: first\x1b[0m\x1b[31m\nERROR: No matching distribution\x1b[0m\n\x1b[0m"

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
        return subprocess.CompletedProcess(command, 1, b"", said)

    monkeypatch.setattr(fetching.subprocess, "run", run)
    message = refusal()
    assert "it said: ERROR: No matching distribution.\n" in message
    assert "\x1b" not in message


@pytest.mark.parametrize(
    ("package", "module"),
    [("platformdirs", "places"), ("filelock", "fetching"), ("tqdm", "fetching")],
)
def test_a_missing_package_is_named_with_what_brings_it(package: str, module: str) -> None:
    said = said_without(package, f"attnflow.assets.{module}")
    assert f"needs {package}, which is not installed: pip install 'attnflow[trained]'" in said
