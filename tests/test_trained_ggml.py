"""GGUF files: every kind of number in their metadata, and bytes that belong to nothing."""

from __future__ import annotations

from pathlib import Path

import gguf
import pytest
import tiny_checkpoints as tiny

from attnflow.trained.ggml import read
from attnflow.trained.weights import CheckpointError

#: The ends of every kind of whole number, and fractions that have few digits in base two.
ENDS = {
    "uint8": (0, 2**8 - 1), "int8": (-(2**7), 2**7 - 1),
    "uint16": (0, 2**16 - 1), "int16": (-(2**15), 2**15 - 1),
    "uint32": (0, 2**32 - 1), "int32": (-(2**31), 2**31 - 1),
    "uint64": (0, 2**64 - 1), "int64": (-(2**63), 2**63 - 1),
    "float32": (-0.375, 2.0**100), "float64": (-1 - 2.0**-52, 2.0**1000),
    "bool": (False, True),
}  # fmt: skip


@pytest.mark.parametrize("kind", ENDS)
def test_a_number_in_the_metadata_is_read_as_the_kind_it_is(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "facts.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    for name, value in zip(("low", "high"), ENDS[kind], strict=True):
        getattr(writer, f"add_{kind}")(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    found = read(path).metadata
    assert (found["low"], found["high"]) == ENDS[kind]
    assert type(found["low"]) is type(ENDS[kind][0])


@pytest.mark.parametrize("count", [1, 68])
def test_bytes_after_the_last_tensor_are_counted(count: int, tmp_path: Path) -> None:
    path = tiny.write_gguf(tmp_path / "model.gguf")
    path.write_bytes(path.read_bytes() + bytes(count))
    with pytest.raises(CheckpointError, match=f"has {count} bytes that belong to no tensor"):
        read(path)
