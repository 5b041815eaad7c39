"""Finished runs in _build/runs, each under its key and believed only by its digest.

A run is kept whole, as a notebook, or as its checks alone (a few kB), which is what a large sweep
wants. A file that is truncated or was changed is noticed, named and computed again. Whoever makes
a run holds the lock of its key, so that the same run asked for twice at once is made once.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
from filelock import FileLock, Timeout

from attnflow.book.chapters.notebooks import checks
from attnflow.book.chapters.parameters import BookError, DiskError
from attnflow.claims import Check, from_json
from attnflow.files import write_text

NOTEBOOK, CHECKS = "notebook", "checks"  #: what is kept of a run


class Kept(NamedTuple):
    """A run as it was kept; `notebook` is None where only its checks were."""

    notebook: nbformat.NotebookNode | None
    checks: tuple[Check, ...]
    seconds: float


def _warn(text: str) -> None:
    print(f"attnflow: {text}", file=sys.stderr)


class Shelf:
    """The kept runs of a project; `warn` hears of files that are not believed."""

    def __init__(self, folder: Path, warn: Callable[[str], None] = _warn) -> None:
        self.folder, self.warn = folder, warn

    def read(self, name: str, key: str, what: str) -> Kept | None:
        """The run `key` of the chapter `name` if it is here, or None; checks are in either form."""
        whole = self._believed(self._path(name, key, NOTEBOOK), key, _notebook)
        if whole is not None or what == NOTEBOOK:
            return whole
        return self._believed(self._path(name, key, CHECKS), key, _checks)

    def holds(self, name: str, key: str, what: str) -> bool:
        """Whether a file for this run is here, unread."""
        forms = (NOTEBOOK,) if what == NOTEBOOK else (NOTEBOOK, CHECKS)
        return any(self._path(name, key, form).is_file() for form in forms)

    def write(self, name: str, key: str, kept: Kept) -> None:
        """Keep a run."""
        if kept.notebook is not None:
            kept.notebook.metadata["attnflow"] = {"key": key, "seconds": round(kept.seconds, 1)}
            content = json.loads(nbformat.writes(kept.notebook))
            content["metadata"]["attnflow"]["digest"] = _digest(content)
            path = self._path(name, key, NOTEBOOK)
        else:
            rows = [row.exact() for row in kept.checks]
            content = {"key": key, "seconds": round(kept.seconds, 1), "checks": rows}
            content["digest"] = _digest(content)
            path = self._path(name, key, CHECKS)
        indent = 1 if kept.notebook is not None else None
        try:
            write_text(json.dumps(content, indent=indent, ensure_ascii=False) + "\n", path)
        except OSError as error:
            raise DiskError(
                f"the run {name}-{key} cannot be kept in {self.folder}: {error.strerror or error}"
            ) from None

    @contextmanager
    def lock(
        self, name: str, key: str, given_up: Callable[[], bool] = lambda: False
    ) -> Iterator[None]:
        """Hold the key; whoever asks meanwhile waits, and then finds the run on the shelf."""
        path = self.folder / f".{name}-{key}.lock"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = FileLock(path)
            lock.acquire(cancel_check=given_up)
        except Timeout:
            raise BookError(f"the run {name}-{key} is no longer wanted") from None
        except OSError as error:
            raise DiskError(f"cannot write in {self.folder}: {error.strerror or error}") from None
        try:
            yield
        finally:
            with suppress(OSError):  # a waiter holds the old file and looks on the shelf first
                path.unlink()
            lock.release()

    def seconds(self, name: str) -> list[float]:
        """How long the kept runs of a chapter took."""
        out = []
        for path in sorted(self.folder.glob(f"{name}-*")):
            if path.stem.rpartition("-")[0] != name:
                continue
            with suppress(ValueError, KeyError, OSError, TypeError, RecursionError):
                content = json.loads(path.read_text(encoding="utf-8"))
                stated = content["metadata"]["attnflow"] if "metadata" in content else content
                out.append(float(stated["seconds"]))
        return out

    def _path(self, name: str, key: str, what: str) -> Path:
        return self.folder / f"{name}-{key}{'.ipynb' if what == NOTEBOOK else '.json'}"

    def _believed(self, path: Path, key: str, reader: Callable[[Any, str], Kept]) -> Kept | None:
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            self.warn(f"{path.name} cannot be read ({error}); it is computed again")
            return None
        try:
            return reader(json.loads(text), key)
        except Exception as error:  # whatever a damaged file makes its readers do
            why = str(error) if isinstance(error, BookError) else "it is cut short or garbled"
            self.warn(f"{path.name} is not believed: {why}; it is computed again")
            return None


def _notebook(content: Any, key: str) -> Kept:
    stated = content["metadata"]["attnflow"]
    _verify(content, stated, key)
    notebook = nbformat.reads(json.dumps(content), as_version=4)
    return Kept(notebook, checks(notebook), float(stated["seconds"]))


def _checks(content: Any, key: str) -> Kept:
    _verify(content, content, key)
    rows = tuple(from_json(row) for row in content["checks"])
    return Kept(None, rows, float(content["seconds"]))


def _verify(content: Any, stated: dict[str, Any], key: str) -> None:
    """Take the digest out of `stated` (a part of `content`) and compare."""
    digest = stated.pop("digest", None)
    if stated.get("key") != key:
        raise BookError(f"it says that it is the run {stated.get('key')}")
    if digest != _digest(content):
        raise BookError("its content was changed after it was computed")


def _digest(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
