"""Safetensors: eight bytes with the length of a header; the header, JSON: shapes and offsets; the numbers.

Their own library checks the file: every byte of it belongs to one tensor, and every tensor has the
bytes its shape needs. What it leaves to its caller is checked here: the size of the header, names
given twice, the number of axes. The numbers are mapped, for the library gives no brain floats to
numpy.
"""

from __future__ import annotations

import struct
from functools import partial
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from attnflow.errors import MissingPackage
from attnflow.trained import jsons
from attnflow.trained.weights import (
    BRAIN_FLOAT,
    Bytes,
    CheckpointError,
    Tensor,
    Weights,
    describe,
    map_file,
    numbers,
    sizes,
    span,
    unique,
    widened,
)

try:
    from safetensors import safe_open
except ImportError as error:
    raise MissingPackage.named("safetensors", "reading trained weights", "trained") from error

# fmt: off
KINDS = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": BRAIN_FLOAT, "I64": "int64",
    "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool",
}
# fmt: on


def read(path: Path) -> Weights:
    """The tensors of a file."""
    data = map_file(path)
    (length,) = struct.unpack("<Q", span(data, 0, 8).tobytes())
    if length > jsons.LIMIT:
        raise CheckpointError(f"must have a header of at most {jsons.LIMIT} bytes, got {length}")
    header = jsons.parse(span(data, 8, 8 + length).tobytes())
    metadata = header.pop("__metadata__", None)
    unique(header, "tensor")
    for name, entry in header.items():
        if not isinstance(entry, dict):
            raise CheckpointError(f"must tell kind, shape and place of {describe(name)}")
        sizes(entry.get("shape"), f"shape of {describe(name)}")
        sizes(entry.get("data_offsets"), f"place of {describe(name)}", axes=2)
        if (kind := entry.get("dtype")) not in tuple(KINDS):
            raise CheckpointError(
                f"has numbers of a kind unknown here, {describe(kind)}, in {describe(name)}"
            )
    with safe_open(path, "np"):  # raises what is wrong with shapes and offsets
        pass
    tensors = {}
    for name, entry in header.items():
        dtype, shape = KINDS[entry["dtype"]], tuple(entry["shape"])
        start, stop = (8 + length + at for at in entry["data_offsets"])
        tensors[name] = Tensor(shape, partial(_plain, span(data, start, stop), dtype, shape))
    return Weights(path, tensors, metadata)


def _plain(raw: Bytes, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    return widened(numbers(raw, dtype).reshape(shape), dtype)
