"""GGUF, the file format of ggml: metadata, then tensors whose numbers are quantised in small blocks.

Magic, version, two counts, metadata, names with shapes and offsets, padding, numbers. The counts and
lengths in the header are promises of the file: each is checked before anything is made of it. As
in ggml itself, a tensor has at most four axes, and tensors lie one after another, each at the next
multiple of the alignment.
"""

from __future__ import annotations

import math
import struct
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.errors import MissingPackage
from attnflow.trained.weights import (
    TENSORS,
    Bytes,
    CheckpointError,
    Tensor,
    Weights,
    describe,
    map_file,
    sizes,
    span,
    unique,
)

try:
    import gguf
except ImportError as error:
    raise MissingPackage.named("gguf", "reading trained weights", "trained") from error

#: Kinds of numbers as struct spells them, by their code.
NUMBERS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
LENGTH = struct.Struct("<Q")  #: of a text
TEXT, LIST = 8, 9  #: the two other codes
AXES = 4  #: ggml's own limit
HEADER = 2**24  #: bytes before the numbers; a vocabulary of 128000 words needs half of it
FACTS = 2**16  #: entries of metadata
VALUES = 2**20  #: in all lists together
ALIGNMENT = "general.alignment"


class _Cursor:
    """Numbers and texts one after another."""

    def __init__(self, data: Bytes) -> None:
        self.whole = len(data)
        self.data, self.at, self.values = data[:HEADER].tobytes(), 0, 0

    def _take(self, length: int, what: str) -> int:
        """Where the next `length` bytes begin, which now are behind."""
        start = self.at
        if length > len(self.data) - start:
            if length <= self.whole - start:
                raise CheckpointError(f"must have a header of at most {HEADER} bytes")
            raise CheckpointError(f"has {self.whole} bytes, but {what} of {length}")
        self.at += length
        return start

    def number(self, code: str) -> Any:
        start = self._take(struct.calcsize("<" + code), "a number")
        return struct.unpack_from("<" + code, self.data, start)[0]

    def text(self) -> str:
        (length,) = LENGTH.unpack_from(self.data, self._take(8, "a number"))
        start = self._take(length, "a text")
        return self.data[start : start + length].decode()

    def value(self, kind: int) -> Any:
        if kind == TEXT:
            return self.text()
        if kind == LIST:
            return self._list(self.number("I"), self.number("Q"))
        if kind not in NUMBERS:
            raise CheckpointError(f"has metadata of a kind unknown here, {kind}")
        return self.number(NUMBERS[kind])

    def _list(self, kind: int, count: int) -> list[Any]:
        self.values += count
        if kind != TEXT and kind not in NUMBERS:
            raise CheckpointError(f"has a list of {count} of kind {kind}")
        if self.values > VALUES:
            raise CheckpointError(
                f"must have at most {VALUES} values in lists, got a list of {count}"
            )
        if kind == TEXT:
            return [self.text() for _ in range(count)]
        dtype = np.dtype("<" + NUMBERS[kind])
        start = self._take(count * dtype.itemsize, "a list")
        return np.frombuffer(self.data, dtype, count, start).tolist()


def read(path: Path) -> Weights:
    """The tensors and metadata of a file."""
    data = map_file(path)
    cursor = _Cursor(data)
    cursor.number("I")
    if (version := cursor.number("I")) not in (2, 3):
        raise CheckpointError(f"must be GGUF of version 2 or 3, got {version}")
    count, facts = cursor.number("Q"), cursor.number("Q")
    if count > TENSORS or facts > FACTS:
        raise CheckpointError(
            f"must have at most {TENSORS} tensors and {FACTS} entries of metadata, got {count} and {facts}"
        )
    pairs = [(cursor.text(), cursor.value(cursor.number("I"))) for _ in range(facts)]
    unique((key for key, _ in pairs), "entry of metadata")
    metadata = dict(pairs)
    entries = [_entry(cursor) for _ in range(count)]
    unique((name for name, *_ in entries), "tensor")
    align = metadata.get(ALIGNMENT, 32)
    if type(align) is not int or align < 1 or align & (align - 1):
        raise CheckpointError(f"{ALIGNMENT} must be a power of 2, got {describe(align)}")
    start = at = _padded(cursor.at, align)
    tensors = {}
    for name, shape, kind, offset in entries:
        if start + offset != at:
            raise CheckpointError(
                f"must have its tensors one after another, got {describe(name)} at {offset}, not {at - start}"
            )
        raw = span(data, at, at + _length(name, shape, kind))
        tensors[name] = Tensor(shape, partial(_dequantised, raw, kind, shape))
        at = _padded(at + len(raw), align)
    if entries and at < len(data):
        raise CheckpointError(f"has {len(data) - at} bytes that belong to no tensor")
    return Weights(path, tensors, metadata)


def _entry(cursor: _Cursor) -> tuple[str, tuple[int, ...], gguf.GGMLQuantizationType, int]:
    name, axes = cursor.text(), cursor.number("I")
    if not 1 <= axes <= AXES:
        raise CheckpointError(f"must give {describe(name)} from 1 to {AXES} axes, got {axes}")
    stored = [cursor.number("Q") for _ in range(axes)]
    shape = sizes(stored[::-1], f"shape of {describe(name)}", least=1)
    return name, shape, gguf.GGMLQuantizationType(cursor.number("I")), cursor.number("Q")


def _length(name: str, shape: tuple[int, ...], kind: gguf.GGMLQuantizationType) -> int:
    """The bytes of a tensor."""
    block, size = gguf.GGML_QUANT_SIZES[kind]
    if shape[-1] % block:
        raise CheckpointError(f"gives {describe(name)} shape {shape} in blocks of {block}")
    return math.prod(shape) // block * size


def _padded(at: int, align: int) -> int:
    return -(-at // align) * align


def _dequantised(
    raw: Bytes, kind: gguf.GGMLQuantizationType, shape: tuple[int, ...]
) -> NDArray[Any]:
    rows = raw.reshape(math.prod(shape[:-1]), -1)
    return np.asarray(gguf.dequantize(rows, kind)).reshape(shape)
