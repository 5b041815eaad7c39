"""PyTorch's files of weights, read without PyTorch and without running anything they say.

Such a file is a pickle, which can name any function for the reader to call. Here it may name those
that put tensors together and no other; and these only note where the numbers lie.
"""

from __future__ import annotations

import math
import pickle
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnflow.trained.weights import (
    BRAIN_FLOAT,
    Bytes,
    CheckpointError,
    Tensor,
    Weights,
    map_file,
    numbers,
    span,
    width,
)

# fmt: off
STORAGES = {
    "DoubleStorage": "float64", "FloatStorage": "float32", "HalfStorage": "float16",
    "BFloat16Storage": BRAIN_FLOAT, "LongStorage": "int64", "IntStorage": "int32",
    "ShortStorage": "int16", "CharStorage": "int8", "ByteStorage": "uint8", "BoolStorage": "bool",
}
# fmt: on
#: The first of the four pickles that open a file of PyTorch's older format.
LEGACY_MAGIC = 0x1950A86A20F9469CFC6C


class _Storage(NamedTuple):
    dtype: str
    key: str
    length: int


class _View(NamedTuple):
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


# The unpickler written in C keeps a table that a hostile file can make fill the memory.
class _TensorsOnly(pickle._Unpickler):
    """Unpickles dictionaries of tensors, and notes where the numbers of each lie."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)
        self.storages: dict[str, _Storage] = {}

    def find_class(self, module: str, name: str) -> Any:
        # Functions made afresh: what a file writes into them is lost with them.
        allowed: dict[tuple[str, str], Any] = {
            ("collections", "OrderedDict"): OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2"): lambda *a: _View(*a[:4]),
            ("torch._utils", "_rebuild_parameter"): lambda *a: a[0],
        }
        if module == "torch" and name in STORAGES:
            return STORAGES[name]
        if (module, name) not in allowed:
            raise CheckpointError(f"asks to call {module}.{name}, which builds no tensor: refused")
        return allowed[module, name]

    def persistent_load(self, pid: Any) -> _Storage:
        kind, dtype, key, _, length, *view = pid
        if kind != "storage" or dtype not in STORAGES.values() or any(view):
            raise CheckpointError(f"must refer to plain storages of numbers, got {pid!r:.80}")
        return self.storages.setdefault(str(key), _Storage(str(dtype), str(key), int(length)))


def read_zip(path: Path) -> Weights:
    """A zip file: NAME/data.pkl, and the numbers of storage k in NAME/data/k, not compressed."""
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.endswith("/data.pkl")]
        if len(names) != 1 or any(i.compress_type for i in archive.infolist()):
            raise CheckpointError("must be a zip file with one data.pkl, nothing in it compressed")
        root = names[0].removesuffix("data.pkl")
        if (
            f"{root}byteorder" in archive.namelist()
            and archive.read(f"{root}byteorder") != b"little"
        ):
            raise CheckpointError("must be written on a little-endian machine")
        with archive.open(names[0]) as file:
            state = _TensorsOnly(file).load()

    def storage(key: str) -> Bytes:
        with zipfile.ZipFile(path) as archive:
            return np.frombuffer(archive.read(f"{root}data/{key}"), np.uint8)

    return _state(path, state, storage)


def read_legacy(path: Path) -> Weights:
    """Pickles (magic number, version, system, tensors, keys), then each storage: length, numbers."""
    with open(path, "rb") as file:
        if _TensorsOnly(file).load() != LEGACY_MAGIC:
            raise CheckpointError("is a pickle, but none that PyTorch wrote")
        _, system = _TensorsOnly(file).load(), _TensorsOnly(file).load()
        reader = _TensorsOnly(file)
        state, keys = reader.load(), _TensorsOnly(file).load()
        start = file.tell()
    if not system["little_endian"]:
        raise CheckpointError("must be written on a little-endian machine")
    data = map_file(path)
    raws = {}
    for key in keys:
        (length,) = struct.unpack("<q", bytes(span(data, start, start + 8)))
        stop = start + 8 + length * width(reader.storages[key].dtype)
        raws[key] = span(data, start + 8, stop)
        start = stop
    return _state(path, state, raws.__getitem__)


def _is_view(value: Any) -> bool:
    return isinstance(value, _View) and isinstance(value.storage, _Storage)


def _state(path: Path, state: Any, storage: Callable[[str], Bytes]) -> Weights:
    """What a state dictionary names, every view checked against its storage."""
    if not isinstance(state, dict) or not all(_is_view(v) for v in state.values()):
        raise CheckpointError(f"must hold a dictionary of tensors, got {type(state).__name__}")
    tensors = {}
    for name, view in state.items():
        known, offset, shape, strides = view
        sizes = (offset, *shape, *strides)
        if len(shape) != len(strides) or not all(isinstance(s, int) and s >= 0 for s in sizes):
            raise CheckpointError(f"gives {name} shape {shape}, strides {strides}, offset {offset}")
        end = offset + sum((s - 1) * t for s, t in zip(shape, strides, strict=True)) + 1
        if math.prod(shape) > known.length or (math.prod(shape) and end > known.length):
            raise CheckpointError(f"gives {name} shape {shape} in a storage of {known.length}")

        def read(view: _View = view) -> NDArray[Any]:
            raw = storage(view.storage.key)
            if len(raw) != view.storage.length * width(view.storage.dtype):
                raise CheckpointError(f"must hold {view.storage}, got {len(raw)} bytes of it")
            flat = numbers(raw, view.storage.dtype)[view.offset :]
            steps = tuple(s * flat.itemsize for s in view.strides)
            return np.lib.stride_tricks.as_strided(flat, view.shape, steps, writeable=False)

        tensors[str(name)] = Tensor(tuple(shape), read)
    return Weights(path, tensors)
