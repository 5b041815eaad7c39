"""All that a run of a chapter needs, as one content-addressed parcel for a machine without our disk.

The chapter's code, the modules that it reaches, their data and the digest of the lock. Unpacked,
it is a project in which the run has the same key as here, which the other side computes anew.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import os
import re
import shutil
import uuid
import zipfile
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import NamedTuple

import nbformat
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from attnflow.book.chapters.parameters import BookError
from attnflow.book.chapters.project import LOCK_DIGEST, Project, Recipe

#: Every file carries this date: the same content gives the same parcel.
_DATE = (1980, 1, 1, 0, 0, 0)
#: Bytes that a parcel may fill when it is opened; a chapter with its data fills two million.
LARGEST = 2**28


class Bundle(NamedTuple):
    """A zip archive and its SHA-256."""

    digest: str
    content: bytes


def pack(recipe: Recipe) -> Bundle:
    """The parcel of a chapter, without its outputs."""
    bare = copy.deepcopy(recipe.source)
    for cell in bare.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    name = recipe.chapter.name
    parts = {
        "_toc.yml": f"format: jb-book\nroot: book/{name}\n".encode(),
        f"book/{name}.ipynb": nbformat.writes(bare).encode(),
        LOCK_DIGEST: recipe.basis["lock"].encode(),
        **{f"src/{path}": file.read_bytes() for path, file in recipe.files.items()},
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(parts):
            archive.writestr(zipfile.ZipInfo(path, _DATE), parts[path], zipfile.ZIP_DEFLATED)
    content = buffer.getvalue()
    return Bundle(hashlib.sha256(content).hexdigest(), content)


def unpack(bundle: Bundle, folder: Path) -> Project:
    """Lay a parcel out below `folder`, once for each digest; refused if it is not what it says."""
    found = hashlib.sha256(bundle.content).hexdigest()
    if found != bundle.digest:
        raise BookError(f"a bundle arrived damaged: expected sha256 {bundle.digest}, got {found}")
    target = folder / bundle.digest
    if not target.is_dir():
        work = folder / f".{uuid.uuid4().hex}"
        work.mkdir(parents=True)
        try:
            with zipfile.ZipFile(io.BytesIO(bundle.content)) as archive:
                _inspect(archive)
                archive.extractall(work)
            os.rename(work, target)
        except zipfile.BadZipFile as error:
            raise BookError(f"a bundle cannot be opened: {error}") from None
        except OSError:
            if not target.is_dir():  # another thread was faster
                raise
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return Project(target)


def _inspect(archive: zipfile.ZipFile) -> None:
    """Refuse what would be written elsewhere, or without end."""
    for path in archive.namelist():
        if not re.fullmatch(r"(?!.*\.\.)[\w.-]+(/[\w.-]+)*", path):
            raise BookError(f"a bundle holds the strange path {path!r}")
    if (size := sum(part.file_size for part in archive.infolist())) > LARGEST:
        raise BookError(f"a bundle would fill {size} bytes, more than {LARGEST}")


def versions(extra: str = "book") -> dict[str, str]:
    """The installed packages that a run may use: what the extra `book` asks for, and they in turn."""
    found: dict[str, str] = {}
    todo = [Requirement(f"attnflow[{extra}]")]
    while todo:
        wanted = todo.pop()
        name = canonicalize_name(wanted.name)
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue
        if name in found and not wanted.extras:
            continue
        found[name] = package.version
        for line in package.requires or []:
            needed, extras = Requirement(line), wanted.extras or {""}
            applies = not needed.marker or any(needed.marker.evaluate({"extra": e}) for e in extras)
            if applies and canonicalize_name(needed.name) not in found:
                todo.append(needed)
    return dict(sorted(found.items()))


def differences(wanted: dict[str, str]) -> list[str]:
    """Where the packages installed here are not those that are wanted, one line each."""
    out = []
    for name, there in wanted.items():
        try:
            here = version(name)
        except PackageNotFoundError:
            here = "missing"
        if here != there:
            out.append(f"{name} {here}, not {there}")
    return out


def to_text(parts: Iterable[str]) -> str:
    """A few differences in words."""
    listed = list(parts)
    more = f" and {len(listed) - 8} more" if len(listed) > 8 else ""
    return "; ".join(listed[:8]) + more


def dumped(notebook: nbformat.NotebookNode) -> tuple[str, str]:
    """A notebook as text and its digest."""
    text = json.dumps(notebook, ensure_ascii=False, sort_keys=True)
    return text, hashlib.sha256(text.encode()).hexdigest()
