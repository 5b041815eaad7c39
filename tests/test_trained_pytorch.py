"""The two containers of PyTorch: where their entries lie, and how large their parts may be."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
import tiny_checkpoints as tiny

from attnflow.trained.checkpoints import open_weights
from attnflow.trained.pytorch import read_legacy, read_zip
from attnflow.trained.weights import CheckpointError

VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)
RAW = VALUES.tobytes()
PICKLED = tiny.state({"a": tiny.tensor("0", (2, 3))})
MEGABYTE = 2**20


def archive(path: Path, byteorder: bytes | None = None, *, comments: int = 0) -> Path:
    """A zip file of one tensor, whose table of contents has so many remarks of 65535 bytes."""
    entries = [("a/byteorder", byteorder)] if byteorder is not None else []
    entries += [("a/data.pkl", PICKLED), ("a/data/0", RAW)]
    with zipfile.ZipFile(path, "w") as out:
        for name, raw in entries:
            out.writestr(name, raw)
        for index in range(comments):
            info = zipfile.ZipInfo(f"a/extra/{index}")
            info.comment = bytes(2**16 - 1)
            out.writestr(info, b"")
    return path


@pytest.mark.parametrize("byteorder", [None, b"little"])
def test_numbers_are_found_wherever_their_entry_lies(
    byteorder: bytes | None, tmp_path: Path
) -> None:
    found = read_zip(archive(tmp_path / "a.bin", byteorder))
    np.testing.assert_array_equal(found["a"], VALUES)


@pytest.mark.parametrize("byteorder", [b"big", b"", b"little-endian"])
def test_another_order_of_bytes_is_refused(byteorder: bytes, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="must be written on a little-endian machine"):
        read_zip(archive(tmp_path / "a.bin", byteorder))


def test_an_entry_that_says_it_is_encrypted_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.bin")
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"PK\x01\x02") + 8] |= 1  # the first flag in the table of contents
    path.write_bytes(raw)
    with pytest.raises(CheckpointError, match="nothing in it compressed or encrypted"):
        read_zip(path)


def test_a_table_of_contents_of_more_than_two_megabytes_is_refused(tmp_path: Path) -> None:
    np.testing.assert_array_equal(read_zip(archive(tmp_path / "a.bin", comments=31))["a"], VALUES)
    with pytest.raises(CheckpointError, match="table of contents of at most 2097152 bytes"):
        read_zip(archive(tmp_path / "b.bin", comments=33))


def padded(path: Path, length: int) -> Path:
    """A file of the older format whose pickles have this length: a long word is built and dropped."""
    state = tiny.state({"a": tiny.tensor("0", (2, 3), legacy=True)})[:-1]
    before = len(tiny.write_legacy(path, state + tiny.text("") + b"b.", {"0": RAW}).read_bytes())
    word = "x" * (length - (before - 8 - len(RAW)))
    return tiny.write_legacy(path, state + tiny.text(word) + b"b.", {"0": RAW})


@pytest.mark.parametrize("length", [1000, MEGABYTE, MEGABYTE + 1])
def test_the_pickles_of_an_old_file_may_end_with_the_first_byte_after_a_megabyte(
    length: int, tmp_path: Path
) -> None:
    found = read_legacy(padded(tmp_path / "a.bin", length))
    np.testing.assert_array_equal(found["a"], VALUES)


def test_longer_pickles_of_an_old_file_are_not_read_to_their_end(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"a\.bin is truncated or corrupt"):
        open_weights(padded(tmp_path / "a.bin", MEGABYTE + 2))
