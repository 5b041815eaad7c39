"""Tensors by name, each read from its file when asked for: what every file format turns into."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

BRAIN_FLOAT = "bfloat16"  #: the upper half of a float32; numpy has no name for it


class CheckpointError(ValueError):
    """A file of weights that is damaged, unsafe, or not of the kind expected."""


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


class blame:
    """What goes wrong with a file becomes a CheckpointError that names it; our own slips do not."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, CheckpointError) and str(error).startswith(self.path.name):
            return
        if isinstance(error, CheckpointError | OSError):
            why = error.strerror if isinstance(error, OSError) else error
            raise CheckpointError(f"{self.path.name} {why}") from None
        if isinstance(error, Exception) and not isinstance(error, NameError | ImportError):
            raise CheckpointError(f"{self.path.name} is truncated or corrupt: {error}") from error


def numbers(raw: Bytes, dtype: str) -> NDArray[Any]:
    """Bytes as numbers, little-endian."""
    if dtype == BRAIN_FLOAT:
        return (raw.view("<u2").astype(np.uint32) << 16).view(np.float32)
    return raw.view(np.dtype(dtype).newbyteorder("<"))


def width(dtype: str) -> int:
    return 2 if dtype == BRAIN_FLOAT else np.dtype(dtype).itemsize


def span(data: Bytes, start: int, stop: int) -> Bytes:
    if not 0 <= start <= stop <= len(data):
        raise CheckpointError(f"has {len(data)} bytes, but a tensor in [{start}, {stop})")
    return data[start:stop]


def map_file(path: Path) -> Bytes:
    """The bytes of a file, brought into memory as they are looked at."""
    return np.asarray(np.memmap(path, np.uint8, "r"))
