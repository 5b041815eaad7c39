"""Fetching assets, without a network: what is kept where, what is verified, what the registry holds."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from refusals import said_without
from toy_assets import (
    CONTENTS,
    TOY,
    Registry,
    fetch,
    refusal,
)

from attnflow import assets
from attnflow.assets import AssetError


def test_fetch_puts_checked_files_in_the_cache(cache_root: Path, registry: Registry) -> None:
    assert not assets.available("toy")
    place = fetch()
    assert place == assets.directory("toy") == cache_root / "attnflow" / "assets" / "toy" / "1.2"
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


def test_directory_by_hand(
    cache_root: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(assets.VARIABLE, str(cache_root / "mine"))
    place = cache_root / "mine" / "toy"
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


@pytest.mark.parametrize(
    ("package", "module"),
    [("platformdirs", "places"), ("filelock", "fetching"), ("tqdm", "fetching")],
)
def test_a_missing_package_is_named_with_what_brings_it(package: str, module: str) -> None:
    said = said_without(package, f"attnflow.assets.{module}")
    assert f"needs {package}, which is not installed: pip install 'attnflow[trained]'" in said
