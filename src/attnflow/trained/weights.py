"""Tensors by name, each read from its file when asked for: what every file format turns into.

What a file says is not to be trusted. Its shapes are checked before they are multiplied, its
objects are quoted briefly and never printed in full, and what goes wrong with it becomes a
:class:`CheckpointError` that names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnflow.errors import Trouble

Bytes = NDArray[np.uint8]

BRAIN_FLOAT = "bfloat16"  #: the upper half of a float32; numpy has no name for it
AXES = 64  #: numpy's own limit
TENSORS = 2**16  #: in one file; the largest models have some thousands
NAME = 512  #: characters of a name
QUOTED = 60  #: characters of a file's own words in a message
LARGEST = 2**63  #: sizes lie below


class CheckpointError(Trouble, ValueError):
    """A file of weights that is damaged, unsafe, or not of the kind expected."""

    named = False  #: whether the message begins with the file's name


class Tensor(NamedTuple):
    """What a file says of one tensor, and how to read it."""

    shape: tuple[int, ...]
    read: Callable[[], NDArray[Any]]


class Weights(Mapping[str, NDArray[np.float32]]):
    """Tensors by name, float32 and read-only, each read when asked for."""

    def __init__(
        self, path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, Any] | None = None
    ) -> None:
        self.path, self.tensors, self.metadata = path, dict(tensors), dict(metadata or {})

    def __getitem__(self, name: str) -> NDArray[np.float32]:
        tensor = self.tensors[name]
        with blame(self.path):
            found = np.require(tensor.read(), np.float32, "A")
        found.flags.writeable = False
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __contains__(self, name: object) -> bool:
        return name in self.tensors

    def __len__(self) -> int:
        return len(self.tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor, without reading it."""
        return self.tensors[name].shape


# --- what is said of a file ----------------------------------------------------------------------


def describe(value: object) -> str:
    """A value from a file in a few words, however large or deep it is.

    >>> describe((2, 3)), describe("x" * 1000)[-5:], describe([[[]]]), describe(range(9))
    ('(2, 3)', "x'...", 'a list of 1', 'a range')
    """
    if isinstance(value, str | bytes):
        return repr(value[:QUOTED]) + "..." * (len(value) > QUOTED)
    if isinstance(value, int) and value.bit_length() > 64:
        return f"a whole number of {value.bit_length()} bits"
    if value is None or isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple | dict):
        short = not isinstance(value, dict) and len(value) <= 4
        if short and all(type(v) is int and v.bit_length() <= 64 for v in value):
            return repr(value)
        return f"a {type(value).__name__} of {len(value)}"
    return f"a {type(value).__name__}"


def is_panic(error: BaseException | None) -> bool:
    """Whether a library written in Rust gave up, which Python does not count as an Exception."""
    return type(error).__module__ == "pyo3_runtime"


def reason(error: BaseException) -> str:
    """What an exception says, in a few words; it may carry an object of the file."""
    if isinstance(error, RecursionError | MemoryError):
        return "too deep or too large to be read"
    if all(isinstance(a, str | int | float | None) for a in error.args):
        said = str(error)
        return said[: 3 * QUOTED] + "..." * (len(said) > 3 * QUOTED)
    return type(error).__name__


class blame:
    """What goes wrong with a file becomes a CheckpointError that names it; our own slips do not."""

    def __init__(self, path: Path, what: str = "is truncated or corrupt") -> None:
        self.path, self.what = path, what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or getattr(error, "named", False):
            return
        if isinstance(error, CheckpointError):
            raise self._named(str(error)) from None
        if isinstance(error, OSError):
            raise self._named(error.strerror or "cannot be read") from None
        slip = isinstance(error, NameError | ImportError) or not isinstance(error, Exception)
        if is_panic(error) or not slip:
            raise self._named(f"{self.what}: {reason(error)}") from error

    def _named(self, why: str) -> CheckpointError:
        found = CheckpointError(f"{self.path.name} {why}")
        found.named = True
        return found


# --- bytes ---------------------------------------------------------------------------------------


def size(value: Any, what: str) -> int:
    """A length or an offset as a file tells it.

    >>> size(True, "a length")
    Traceback (most recent call last):
        ...
    attnflow.trained.weights.CheckpointError: must give as a length a whole number >= 0, got True
    """
    if type(value) is not int or not 0 <= value < LARGEST:
        raise CheckpointError(f"must give as {what} a whole number >= 0, got {describe(value)}")
    return value


def sizes(value: Any, what: str, least: int = 0, axes: int = AXES) -> tuple[int, ...]:
    """A shape or strides as a file tells them: a few whole numbers, checked before any is used.

    >>> sizes([2, 3], "x")
    (2, 3)
    >>> sizes([2, True], "x")
    Traceback (most recent call last):
        ...
    attnflow.trained.weights.CheckpointError: must give as x at most 64 whole numbers >= 0, got a list of 2
    """
    few = isinstance(value, list | tuple) and len(value) <= axes
    if not few or not all(type(v) is int and least <= v < LARGEST for v in value):
        raise CheckpointError(
            f"must give as {what} at most {axes} whole numbers >= {least}, got {describe(value)}"
        )
    return tuple(value)


def unique(names: Iterable[str], what: str, most: int = TENSORS, longest: int = NAME) -> None:
    """Refuse a name that stands for two things or is very long, and more names than a model has."""
    seen: set[str] = set()
    for name in names:
        if len(name) > longest:
            raise CheckpointError(
                f"must have names of at most {longest} characters, got {len(name)}"
            )
        if name in seen:
            raise CheckpointError(f"must name every {what} once, got {describe(name)} twice")
        seen.add(name)
    if len(seen) > most:
        raise CheckpointError(f"must hold at most {most} of kind {what}, got {len(seen)}")


def numbers(raw: Bytes, dtype: str) -> NDArray[Any]:
    """Bytes as numbers, little-endian; brain floats as the whole numbers that they are halves of."""
    return raw.view("<u2" if dtype == BRAIN_FLOAT else np.dtype(dtype).newbyteorder("<"))


def widened(found: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Brain floats as floats, other numbers as they are."""
    if dtype != BRAIN_FLOAT:
        return found
    return (found.astype(np.uint32) << 16).view(np.float32)


def width(dtype: str) -> int:
    return 2 if dtype == BRAIN_FLOAT else np.dtype(dtype).itemsize


def span(data: Bytes, start: int, stop: int) -> Bytes:
    if not 0 <= start <= stop <= len(data):
        raise CheckpointError(f"has {len(data)} bytes, but a tensor in [{start}, {stop})")
    return data[start:stop]


def map_file(path: Path) -> Bytes:
    """The bytes of a file, brought into memory as they are looked at."""
    return np.asarray(np.memmap(path, np.uint8, "r"))
