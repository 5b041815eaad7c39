"""Downloads by pip and apt-get: what is asked of them, and what is passed on when they fail."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from toy_assets import (
    CONTENTS,
    TOY,
    assert_nothing_left,
    fetch,
    refusal,
)

from attnflow import assets
from attnflow.assets import fetching


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
    cache_root: Path, monkeypatch: pytest.MonkeyPatch, last: str
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
    assert_nothing_left(cache_root)


def test_failed_download_keeps_versions(cache_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    last = b"ERROR: No matching distribution found for toy-package==1.2"
    done = subprocess.CompletedProcess([], 1, b"", last)
    monkeypatch.setattr(fetching.subprocess, "run", lambda *_, **__: done)
    assert last.decode() in refusal()


def test_without_pip(cache_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching.importlib.util, "find_spec", lambda name: None)
    assert "takes pip, not installed here" in refusal()


def test_without_debian_programs(cache_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching.shutil, "which", lambda name: None)
    assert "takes apt-get and dpkg-deb, not installed here" in refusal("fashion-mnist")


@pytest.mark.parametrize("complete", [True, False])
def test_debian_package(cache_root: Path, monkeypatch: pytest.MonkeyPatch, complete: bool) -> None:
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
        assert_nothing_left(cache_root)


def test_colours_of_the_terminal_do_not_hide_what_was_said(
    cache_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = b"\x1b[31mERROR: first\x1b[0m\x1b[31m\nERROR: No matching distribution\x1b[0m\n\x1b[0m"

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
        return subprocess.CompletedProcess(command, 1, b"", said)

    monkeypatch.setattr(fetching.subprocess, "run", run)
    message = refusal()
    assert "it said: ERROR: No matching distribution.\n" in message
    assert "\x1b" not in message
