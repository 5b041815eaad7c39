"""The two containers in which PyTorch keeps pickles and numbers: a zip file, and its older format."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.trained.unpickle import PICKLE, TensorsOnly, View
from attnflow.trained.weights import (
    Bytes,
    CheckpointError,
    Tensor,
    Weights,
    describe,
    map_file,
    numbers,
    span,
    unique,
    widened,
    width,
)

#: The first of the four pickles that open a file of PyTorch's older format.
LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
DIRECTORY = 2**21  #: bytes of a zip file's table of contents
LOCAL = struct.Struct("<4s22xHH")  #: a zip entry's own header: magic, lengths of name and extras
ENCRYPTED = 1  #: a flag of a zip entry


class _Small(io.BufferedReader):
    """A file of which no large piece is read at once: zipfile reads a table of contents whole."""

    def read(self, size: int | None = -1) -> bytes:
        found = super().read(
            DIRECTORY + 1 if size is None or size < 0 else min(size, DIRECTORY + 1)
        )
        if len(found) > DIRECTORY:
            raise CheckpointError(f"must have a table of contents of at most {DIRECTORY} bytes")
        return found


def read_zip(path: Path) -> Weights:
    """A zip file: NAME/data.pkl, and the numbers of storage k in NAME/data/k, not compressed."""
    data, entries = map_file(path), _contents(path)
    pickles = [name for name in entries if name.endswith("/data.pkl")]
    if len(pickles) != 1:
        raise CheckpointError(f"must be a zip file with one data.pkl, got {len(pickles)}")
    root = pickles[0].removesuffix("data.pkl")
    order = entries.get(f"{root}byteorder")
    if order is not None and bytes(_stored(data, order)[:7]) != b"little":
        raise CheckpointError("must be written on a little-endian machine")
    pickled = entries[pickles[0]]
    if pickled.file_size > PICKLE:
        raise CheckpointError(
            f"must have a data.pkl of at most {PICKLE} bytes, got {pickled.file_size}"
        )
    checked: dict[str, Bytes] = {}

    def storage(key: str) -> Bytes:
        if key not in checked:
            checked[key] = _stored(data, entries[f"{root}data/{key}"])
        return checked[key]

    state = TensorsOnly(io.BytesIO(_stored(data, pickled).tobytes())).load()
    return _weights(path, _views(state), storage)


def _contents(path: Path) -> dict[str, zipfile.ZipInfo]:
    """A zip file's entries by name: none compressed, none over another."""
    with _Small(io.FileIO(path)) as file, zipfile.ZipFile(file) as archive:
        found = archive.infolist()
    unique((info.filename for info in found), "entry")
    if any(i.compress_type or i.flag_bits & ENCRYPTED for i in found):
        raise CheckpointError("must be a zip file with nothing in it compressed or encrypted")
    inorder = sorted(found, key=lambda info: info.header_offset)
    for one, next_ in pairwise(inorder):
        if one.header_offset + LOCAL.size + one.file_size > next_.header_offset:
            raise CheckpointError(
                f"must be a zip file whose entries lie apart, got {describe(one.filename)}"
            )
    return {info.filename: info for info in found}


def _stored(data: Bytes, info: zipfile.ZipInfo) -> Bytes:
    """The bytes of an entry, mapped, if their sum is right."""
    header = span(data, info.header_offset, info.header_offset + LOCAL.size)
    magic, *lengths = LOCAL.unpack(header.tobytes())
    start = info.header_offset + LOCAL.size + sum(lengths)
    found = span(data, start, start + info.file_size)
    if magic != b"PK\x03\x04" or zlib.crc32(found.data) != info.CRC:
        raise CheckpointError(f"is truncated or corrupt: {describe(info.filename)} is damaged")
    return found


def read_legacy(path: Path) -> Weights:
    """Pickles (magic number, version, system, tensors, keys), then each storage: length, numbers."""
    data = map_file(path)
    file = io.BytesIO(data[: PICKLE + 1].tobytes())
    magic = TensorsOnly(file).load()
    if type(magic) is not int or magic != LEGACY_MAGIC:
        raise CheckpointError("is a pickle, but none that PyTorch wrote")
    _, system = TensorsOnly(file).load(), TensorsOnly(file).load()
    if type(system) is not dict or system.get("little_endian") is not True:
        raise CheckpointError("must be written on a little-endian machine")
    reader = TensorsOnly(file)
    views, keys = _views(reader.load()), TensorsOnly(file).load()
    if type(keys) is not list or not all(type(k) is str and k in reader.storages for k in keys):
        raise CheckpointError(f"must list the storages that tensors lie in, got {describe(keys)}")
    unique(keys, "storage")
    raws, at = {}, file.tell()
    for key in keys:
        (length,) = struct.unpack("<q", span(data, at, at + 8).tobytes())
        stop = at + 8 + length * width(reader.storages[key].dtype)
        raws[key] = span(data, at + 8, stop)
        at = stop
    if at < len(data):
        raise CheckpointError(f"has {len(data) - at} bytes that belong to no tensor")
    return _weights(path, views, raws.__getitem__)


def _views(state: Any) -> dict[str, View]:
    """What a state dictionary names."""
    if type(state) is not dict or not all(isinstance(v, View) for v in state.values()):
        raise CheckpointError(f"must hold a dictionary of tensors, got {describe(state)}")
    unique(state, "tensor")
    return state


def _weights(path: Path, views: dict[str, View], storage: Callable[[str], Bytes]) -> Weights:
    read = {name: partial(_strided, view, storage) for name, view in views.items()}
    return Weights(path, {name: Tensor(views[name].shape, read[name]) for name in views})


def _strided(view: View, storage: Callable[[str], Bytes]) -> NDArray[Any]:
    """The numbers of a tensor; its view was checked against the length of its storage."""
    dtype, key, length = view.storage
    raw = storage(key)
    if len(raw) != length * width(dtype):
        raise CheckpointError(
            f"must hold {length} numbers in storage {describe(key)}, got {len(raw)} bytes"
        )
    flat = numbers(raw, dtype)[view.offset :]
    steps = tuple(s * flat.itemsize for s in view.strides)
    return widened(np.lib.stride_tricks.as_strided(flat, view.shape, steps, writeable=False), dtype)
