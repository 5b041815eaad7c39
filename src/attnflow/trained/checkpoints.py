"""Trained weights as they lie in files, opened without running anything the files say.

Three formats: safetensors; GGUF, whose numbers are quantised in small blocks; and PyTorch's
``.bin``. What the file is shows in its first bytes. Every offset is checked against the size of
the file before a number is read. Safetensors are read here in twenty lines, for their own library
gives no brain floats to numpy.
"""

from __future__ import annotations

import json
import math
import struct
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.errors import MissingPackage
from attnflow.trained import unpickle
from attnflow.trained.weights import (
    BRAIN_FLOAT,
    Bytes,
    CheckpointError,
    Tensor,
    Weights,
    blame,
    map_file,
    numbers,
    span,
    width,
)

try:
    import gguf
except ImportError as error:
    raise MissingPackage.named("gguf", "reading trained weights", "trained") from error

# fmt: off
SAFETENSORS = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": BRAIN_FLOAT, "I64": "int64",
    "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool",
}
# fmt: on
#: GGUF's kinds of numbers as struct spells them, by their code.
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
TEXT, LIST = 8, 9  #: the two other codes


def open_weights(path: str | Path) -> Weights:
    """The tensors of one file, or of the safetensors or .bin files of a directory."""
    path = Path(path)
    if path.is_dir():
        return _directory(path)
    with blame(path):
        with open(path, "rb") as file:
            start = file.read(16)
        if not start:
            raise CheckpointError("is empty")
        if start[:4] == b"GGUF":
            return _gguf(path)
        if start[:4] == b"PK\x03\x04":
            return unpickle.read_zip(path)
        if start[8:9] == b"{":
            return _safetensors(path)
        if start[:1] == b"\x80":
            return unpickle.read_legacy(path)
    raise CheckpointError(
        f"{path.name} is no checkpoint: expected safetensors, GGUF or PyTorch, "
        f"got a file that starts with {start[:8]!r}"
    )


def _directory(path: Path) -> Weights:
    for index in ("model.safetensors.index.json", "pytorch_model.bin.index.json"):
        if (path / index).is_file():
            with blame(path / index):
                parts = sorted(
                    set(json.loads((path / index).read_text("utf-8"))["weight_map"].values())
                )
                if any(Path(part).name != part for part in parts):
                    raise CheckpointError(f"must name files beside it, got {parts}")
            files = [open_weights(path / part) for part in parts]
            return Weights(path, {name: t for file in files for name, t in file.tensors.items()})
    for name in ("model.safetensors", "pytorch_model.bin"):
        if (path / name).is_file():
            return open_weights(path / name)
    for file in path.glob("*.gguf"):
        return open_weights(file)
    raise CheckpointError(
        f"{path} must hold model.safetensors, pytorch_model.bin or one .gguf file, got none of them"
    )


def _safetensors(path: Path) -> Weights:
    """Eight bytes: the length of a header; the header, JSON: shapes and offsets; the numbers."""
    data = map_file(path)
    (length,) = struct.unpack("<Q", data[:8].tobytes())
    header = json.loads(span(data, 8, 8 + length).tobytes())
    rest = data[8 + length :]
    metadata = header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        if entry["dtype"] not in SAFETENSORS:
            raise CheckpointError(
                f"has numbers of a kind unknown here, {entry['dtype']}, in {name}"
            )
        dtype, shape = SAFETENSORS[entry["dtype"]], tuple(entry["shape"])
        raw = span(rest, *entry["data_offsets"])
        if min(shape, default=0) < 0 or len(raw) != math.prod(shape) * width(dtype):
            raise CheckpointError(f"gives {name} {len(raw)} bytes for {dtype} of shape {shape}")
        tensors[name] = Tensor(shape, partial(_plain, raw, dtype, shape))
    return Weights(path, tensors, metadata)


def _plain(raw: Bytes, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    return numbers(raw, dtype).reshape(shape)


class _Cursor:
    """Numbers and texts one after another."""

    def __init__(self, data: Bytes) -> None:
        self.data, self.at = data.data, 0

    def number(self, code: str) -> Any:
        (value,) = struct.unpack_from("<" + code, self.data, self.at)
        self.at += struct.calcsize("<" + code)
        return value

    def text(self) -> str:
        length = self.number("Q")
        if length > len(self.data) - self.at:
            raise CheckpointError(f"has {len(self.data)} bytes, but a text of {length}")
        self.at += length
        return str(self.data[self.at - length : self.at], "utf-8")

    def value(self, kind: int) -> Any:
        if kind == TEXT:
            return self.text()
        if kind == LIST:
            kind, count = self.number("I"), self.number("Q")
            if kind == LIST or count > len(self.data) - self.at:
                raise CheckpointError(f"has a list of {count} of kind {kind}")
            return [self.value(kind) for _ in range(count)]
        return self.number(NUMBERS[kind])


def _gguf(path: Path) -> Weights:
    """Magic, version, two counts, metadata, names with shapes and offsets, padding, numbers."""
    data = map_file(path)
    cursor = _Cursor(data)
    cursor.number("I")
    if (version := cursor.number("I")) not in (2, 3):
        raise CheckpointError(f"must be GGUF of version 2 or 3, got {version}")
    count, facts = cursor.number("Q"), cursor.number("Q")
    metadata = {cursor.text(): cursor.value(cursor.number("I")) for _ in range(facts)}
    entries = []
    for _ in range(count):
        name, axes = cursor.text(), cursor.number("I")
        shape = tuple(cursor.number("Q") for _ in range(axes))[::-1]
        entries.append(
            (name, shape, gguf.GGMLQuantizationType(cursor.number("I")), cursor.number("Q"))
        )
    align = metadata.get("general.alignment", 32)
    start = -(-cursor.at // align) * align
    tensors = {}
    for name, shape, kind, offset in entries:
        block, size = gguf.GGML_QUANT_SIZES[kind]
        if not shape or shape[-1] % block:
            raise CheckpointError(f"gives {name} shape {shape} in blocks of {block}")
        length = math.prod(shape) // block * size
        raw = span(data, start + offset, start + offset + length)
        tensors[name] = Tensor(shape, partial(_dequantised, raw, kind, shape))
    return Weights(path, tensors, metadata)


def _dequantised(
    raw: Bytes, kind: gguf.GGMLQuantizationType, shape: tuple[int, ...]
) -> NDArray[Any]:
    rows = raw.reshape(math.prod(shape[:-1]), -1)
    return np.asarray(gguf.dequantize(rows, kind)).reshape(shape)
