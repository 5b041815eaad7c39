"""Files that are whole or absent: written under a temporary name, then moved."""

from __future__ import annotations

import glob
import os
import platform
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from attnflow.book.parameters import BookError


@contextmanager
def draft(path: Path) -> Iterator[Path]:
    """A temporary name beside `path` that becomes it if all goes well, and vanishes if not.

    Drafts of the same file that killed processes of this machine left behind go, too.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    start = f".{path.name}.{platform.node()}-"
    _remove_left_behind(path.parent, start, r"-\w+\.tmp")
    name = path.with_name(f"{start}{os.getpid()}-{uuid.uuid4().hex[:8]}.tmp")
    try:
        yield name
        os.replace(name, path)
    except OSError as error:
        name_file(error, path)
        raise
    finally:
        with suppress(OSError):
            name.unlink(missing_ok=True)


def name_file(error: OSError, path: Path) -> None:
    """Add to an error of a write which file it was for; a full disk does not say."""
    if error.errno is not None and error.filename is None:
        error.filename = str(path)


def growing(path: Path) -> Path:
    """A name beside `path` for a file that grows for hours, one for every process.

    Those that killed processes of this machine left behind are removed.
    """
    start = f"{path.stem}.growing-{platform.node()}-"
    _remove_left_behind(path.parent, start, re.escape(path.suffix))
    return path.with_name(f"{start}{os.getpid()}{path.suffix}")


def _remove_left_behind(folder: Path, start: str, end: str) -> None:
    """Remove files named by `start`, the number of a process that is gone, and the pattern `end`."""
    for old in folder.glob(f"{glob.escape(start)}*"):
        found = re.fullmatch(rf"{re.escape(start)}(\d+){end}", old.name)
        if found and not alive(int(found[1])):
            with suppress(OSError):
                old.unlink(missing_ok=True)


def alive(pid: int) -> bool:
    """Whether there is a process of this number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def write_text(text: str, path: Path) -> None:
    """Write a text file so that a reader never sees half of it."""
    with draft(path) as name:
        name.write_text(text, encoding="utf-8")


def require_writable(folder: Path) -> None:
    """Refuse a folder in which nothing can be written, before any work is done for it."""
    probe = folder / f".{uuid.uuid4().hex[:8]}.probe"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"x" * 4096)
    except (OSError, ValueError) as error:  # a name with a null byte is a ValueError
        why = getattr(error, "strerror", None) or error
        raise BookError(f"cannot write in {folder}: {why}") from None
    finally:
        with suppress(OSError, ValueError):
            probe.unlink(missing_ok=True)
