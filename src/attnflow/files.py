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


@contextmanager
def draft(path: Path) -> Iterator[Path]:
    """A temporary name beside `path` that becomes it if all goes well, and vanishes if not.

    Drafts of the same file that killed processes of this machine left behind go, too.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with draft(Path(folder) / "note.txt") as name:
    ...         _ = name.write_text("all of it")
    ...     [path.name for path in Path(folder).iterdir()]
    ['note.txt']
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
    """Add to an error of a write which file it was for; a full disk does not say.

    >>> error = OSError(28, "No space left on device")
    >>> name_file(error, Path("table.csv"))
    >>> error.filename
    'table.csv'
    """
    if error.errno is not None and error.filename is None:
        error.filename = str(path)


def growing(path: Path) -> Path:
    """A name beside `path` for a file that grows for hours, one for every process.

    Those that killed processes of this machine left behind are removed.

    >>> growing(Path("table.csv")).name.startswith("table.growing-")
    True
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
    """Whether there is a process of this number.

    >>> alive(os.getpid())
    True
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def write_text(text: str, path: Path) -> None:
    """Write a text file so that a reader never sees half of it.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_text("all of it", Path(folder) / "new" / "note.txt")
    ...     (Path(folder) / "new" / "note.txt").read_text()
    'all of it'
    """
    with draft(path) as name:
        name.write_text(text, encoding="utf-8")
