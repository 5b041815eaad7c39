"""Files that a hostile hand could write: safetensors and GGUF. Each is made when it is asked for."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Write = Callable[[Path], Path]  #: into an empty directory; returns what is to be opened
RAW = np.arange(6, dtype=np.float32).tobytes()
CORRUPT = "is truncated or corrupt: "


class Case(NamedTuple):
    write: Write
    rule: str  #: what the refusal says
    ask: str = "weights"


def file(content: bytes, name: str = "hostile.file", size: int = 0) -> Write:
    """A file with this content, filled up to a size with zeros that take no space on the disk."""

    def write(path: Path) -> Path:
        with open(path / name, "wb") as out:
            out.write(content)
            out.truncate(max(size, len(content)))
        return path / name

    return write


def large(make: Callable[[], Write]) -> Write:
    """A file whose content is not made before it is written."""
    return lambda path: make()(path)


# --- safetensors ---------------------------------------------------------------------------------


def header(text: bytes, raw: bytes = RAW) -> Write:
    return file(struct.pack("<Q", len(text)) + text + raw)


def entry(**changes: Any) -> bytes:
    return json.dumps({"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]} | changes).encode()


def tensors(**entries: bytes) -> bytes:
    return b"{" + b",".join(b'"%s":%s' % (n.encode(), e) for n, e in entries.items()) + b"}"


def _many_axes(count: int, axis: bytes = b"1") -> bytes:
    return b'{"x":{"dtype":"F32","shape":[%s],"data_offsets":[0,4]}}' % b",".join([axis] * count)


LIMIT = "must have a header of at most 4194304 bytes"
AXES = "must give as shape of 'x' at most 64 whole numbers"
LIBRARY = CORRUPT + "Error while deserializing header"

SAFETENSORS = {
    "400000 axes": Case(large(lambda: header(_many_axes(400_000, b"9" * 18))), LIMIT),
    "1000000 axes in a small header": Case(large(lambda: header(_many_axes(1_000_000))), AXES),
    "200000 large axes in a small header": Case(large(lambda: header(_many_axes(200_000, b"9" * 18))), AXES),
    "sizes of 4000 digits": Case(large(lambda: header(_many_axes(900, b"9" * 4000))), "at most 20 digits, got one of 4000"),
    "one size of 4000 digits": Case(header(_many_axes(1, b"9" * 4000)), "at most 20 digits"),
    "sizes of 20 digits": Case(header(_many_axes(60, b"9" * 20)), AXES),
    "a header of 30 MB": Case(large(lambda: header(b'{"x":[' + b"{}," * 10**7 + b"{}]}")), LIMIT),
    "a header as large as allowed, of lists": Case(large(lambda: header(b'{"x":[' + b"[]," * 1_398_000 + b"[]]}")), "must tell kind, shape and place of 'x'"),
    "a header as large as allowed, of objects": Case(large(lambda: header(b'{"x":[' + b'{"a":0},' * 524_000 + b"0]}")), "must tell kind, shape and place of 'x'"),
    "a header longer than any file": Case(file(struct.pack("<Q", 2**60) + b"{}"), LIMIT),
    "a header longer than the file": Case(file(struct.pack("<Q", 99) + b"{}"), "has 10 bytes, but a tensor in"),
    "a deep header": Case(header(b'{"x":' + b"[" * 100_000), CORRUPT + "too deep"),
    "a header that is no text": Case(header(b'{"\xff\xfe":1}'), CORRUPT),
    "half a surrogate as a name": Case(header(tensors(**{"\\ud800": entry()})), LIBRARY),
    "a name of 3 MB": Case(large(lambda: header(tensors(**{"x" * 3_000_000: entry(dtype="F8")}))), "names of at most 512 characters, got 3000000"),
    "a kind of 3 MB": Case(large(lambda: header(tensors(x=entry(dtype="F" * 3_000_000)))), "a kind unknown here, 'FFF"),
    "a kind that is a list": Case(header(tensors(x=entry(dtype=["F32"]))), "a kind unknown here, a list of 1"),
    "overlapping tensors": Case(header(tensors(x=entry(), y=entry())), LIBRARY),
    "tensors that share a part": Case(header(tensors(x=entry(shape=[4], data_offsets=[0, 16]), y=entry(shape=[4], data_offsets=[8, 24]))), LIBRARY),
    "a hole between tensors": Case(header(tensors(x=entry(shape=[2], data_offsets=[0, 8]), y=entry(shape=[2], data_offsets=[16, 24]))), LIBRARY),
    "a hole before the first": Case(header(tensors(x=entry(shape=[5], data_offsets=[4, 24]))), LIBRARY),
    "bytes after the last": Case(header(tensors(x=entry()), RAW + b"more"), LIBRARY),
    "two tensors of one name": Case(header(b'{"x":%s,"x":%s}' % (entry(), entry())), "every name once in an object, got 'x' twice"),
    "two shapes of one tensor": Case(header(b'{"x":%s,"shape":[6]}}' % entry()[:-1]), "got 'shape' twice"),
    "two sets of metadata": Case(header(b'{"__metadata__":{},"__metadata__":{},"x":%s}' % entry()), "twice"),
    "metadata that are no texts": Case(header(b'{"__metadata__":{"a":1},"x":%s}' % entry()), LIBRARY),
    "negative sizes": Case(header(tensors(x=entry(shape=[-2, -3]))), AXES),
    "fractions as sizes": Case(header(tensors(x=entry(shape=[2.0, 3]))), AXES),
    "truth as a size": Case(header(tensors(x=entry(shape=[True, 6]))), AXES),
    "sizes whose product is 2^64": Case(header(tensors(x=entry(shape=[2**32, 2**32]))), LIBRARY),
    "sizes whose product is 2^60 and no byte": Case(header(tensors(x=entry(shape=[0, 2**60], data_offsets=[0, 0])), b"1234"), LIBRARY),
    "a place before the file": Case(header(tensors(x=entry(data_offsets=[-24, 0]))), "place of 'x' at most 2 whole"),
    "a place of three numbers": Case(header(tensors(x=entry(data_offsets=[0, 24, 24]))), "place of 'x'"),
    "a place that ends before it begins": Case(header(tensors(x=entry(data_offsets=[24, 0]))), LIBRARY),
    "a tensor without a shape": Case(header(b'{"x":{"dtype":"F32","data_offsets":[0,24]}}'), "shape of 'x'"),
    "a tensor that is a number": Case(header(b'{"x":7}'), "must tell kind, shape and place"),
    "not a number": Case(header(b'{"x":NaN}'), "finite numbers, got 'NaN'"),
    "a number beyond all floats": Case(header(b'{"x":1e999}'), "finite numbers, got '1e999'"),
}  # fmt: skip


# --- GGUF ----------------------------------------------------------------------------------------

U8, U32, I32, F32, BOOL, TEXT, LIST, U64 = 0, 4, 5, 6, 7, 8, 9, 10


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def fact(key: str | bytes, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def u32(value: int) -> bytes:
    return struct.pack("<I", value)


def listed(kind: int, values: list[bytes]) -> bytes:
    return struct.pack("<IQ", kind, len(values)) + b"".join(values)


def placed(name: str, *shape: int, kind: int = 0, offset: int = 0) -> bytes:
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


def gguf(
    facts: list[bytes], entries: list[bytes], raw: bytes = b"", *, counts: tuple[int, int] | None = None,
    align: int = 32, version: int = 3,
) -> bytes:  # fmt: skip
    count, known = counts or (len(entries), len(facts))
    start = b"GGUF" + struct.pack("<IQQ", version, count, known) + b"".join(facts + entries)
    return start + bytes(-len(start) % align) + raw


def _facts(*facts: bytes, **options: Any) -> Write:
    return file(gguf(list(facts), [], **options))


def _entries(*entries: bytes, raw: bytes = bytes(128), **options: Any) -> Write:
    return file(gguf([], list(entries), raw, **options))


def _aligned(kind: int, value: bytes) -> Write:
    return file(gguf([fact("general.alignment", kind, value)], [placed("x", 8)], bytes(32)))


POWER = "general.alignment must be a power of 2, got "
NEXT = "must have its tensors one after another, got "

GGUF = {
    "250000 axes": Case(large(lambda: _entries(placed("x", *[2**62] * 250_000))), "from 1 to 4 axes, got 250000"),
    "five axes": Case(_entries(placed("x", 1, 1, 1, 1, 1)), "from 1 to 4 axes, got 5"),
    "no axis": Case(_entries(placed("x")), "from 1 to 4 axes, got 0"),
    "an axis of nothing": Case(_entries(placed("x", 8, 0)), "whole numbers >= 1"),
    "axes of 2^64 - 1": Case(_entries(placed("x", *[2**64 - 1] * 4)), "whole numbers >= 1"),
    "axes of 2^62": Case(_entries(placed("x", *[2**62] * 4)), "but a tensor in"),
    "a list of sixty million": Case(file(gguf([fact("a", LIST, struct.pack("<IQ", U8, 60_000_000))], []), size=60_000_100), "at most 1048576 values in lists, got a list of 60000000"),
    "a list of 2^62": Case(_facts(fact("a", LIST, struct.pack("<IQ", U64, 2**62))), "values in lists"),
    "a list longer than the file": Case(_facts(fact("a", LIST, struct.pack("<IQ", U64, 10**6))), "but a list of 8000000"),
    "texts longer than the file": Case(_facts(fact("a", LIST, struct.pack("<IQ", TEXT, 10**6))), "but a number of 8"),
    "many lists": Case(large(lambda: _facts(*(fact(f"a{i}", LIST, struct.pack("<IQ", U8, 2**17) + bytes(2**17)) for i in range(9)))), "values in lists"),
    "a list as long as allowed, of texts": Case(large(lambda: _facts(fact("a", LIST, listed(TEXT, [text("é")] * 2**20)), fact("a", U8, b"1"))), "got 'a' twice"),
    "a list in a list": Case(_facts(fact("a", LIST, struct.pack("<IQ", LIST, 1))), "a list of 1 of kind 9"),
    "a list of an unknown kind": Case(_facts(fact("a", LIST, struct.pack("<IQ", 77, 1))), "a list of 1 of kind 77"),
    "a fact of an unknown kind": Case(_facts(fact("a", 77, b"")), "kind unknown here, 77"),
    "a text longer than any file": Case(_facts(fact("a", TEXT, struct.pack("<Q", 2**63))), "but a text of"),
    "a text of 20 MB": Case(file(gguf([fact("a", TEXT, struct.pack("<Q", 20_000_000))], []), size=20_000_100), "header of at most 16777216 bytes"),
    "a key of a megabyte": Case(large(lambda: _facts(fact("a" * 10**6, U8, b"1"))), "names of at most 512"),
    "a key that is no text": Case(_facts(fact(b"\xff\xfe", U8, b"1")), CORRUPT),
    "2^60 tensors": Case(_facts(counts=(2**60, 0)), "at most 65536 tensors"),
    "2^60 facts": Case(_facts(counts=(0, 2**60)), "65536 entries of metadata"),
    "more facts than there are": Case(_facts(fact("a", U8, b"1"), counts=(0, 9)), "has 64 bytes, but a"),
    "more tensors than there are": Case(_entries(placed("x", 8), counts=(2, 0), raw=b""), "has|must"),
    "two facts of one name": Case(_facts(fact("a", U8, b"1"), fact("a", U8, b"1")), "every entry of metadata once, got 'a' twice"),
    "two tensors of one name": Case(_entries(placed("x", 8), placed("x", 8, offset=32)), "every tensor once, got 'x' twice"),
    "a negative alignment": Case(_aligned(I32, struct.pack("<i", -32)), POWER + "-32"),
    "no alignment": Case(_aligned(U32, u32(0)), POWER + "0"),
    "an alignment of three": Case(_aligned(U32, u32(3)), POWER + "3"),
    "an alignment that is true": Case(_aligned(BOOL, b"\1"), POWER + "True"),
    "an alignment that is a text": Case(_aligned(TEXT, text("32")), POWER + "'32'"),
    "an alignment that is a list": Case(_aligned(LIST, listed(U32, [u32(32)] * 1000)), POWER + "a list of 1000"),
    "an alignment of 2^31": Case(_aligned(U32, u32(2**31)), "but a tensor in"),
    "overlapping tensors": Case(_entries(placed("x", 8), placed("y", 8)), NEXT + "'y' at 0, not 32"),
    "a hole between tensors": Case(_entries(placed("x", 8), placed("y", 8, offset=96)), NEXT + "'y' at 96, not 32"),
    "a tensor off the grid": Case(_entries(placed("x", 8, offset=4)), NEXT + "'x' at 4, not 0"),
    "a tensor at 2^64 - 1": Case(_entries(placed("x", 8, offset=2**64 - 1)), NEXT),
    "bytes after the last": Case(_entries(placed("x", 8), raw=bytes(100)), "has 68 bytes that belong to no tensor"),
    "numbers that are missing": Case(_entries(placed("x", 8), raw=bytes(20)), "but a tensor in"),
    "quantised in an unknown way": Case(_entries(placed("x", 8, kind=999)), CORRUPT + "999"),
    "half a block": Case(_entries(placed("x", 8, kind=8)), "in blocks of 32"),
    "numbers that are no floats": Case(_entries(placed("x", 8, kind=26), raw=bytes(32)), CORRUPT),
    "an unknown version": Case(_facts(version=1), "version 2 or 3, got 1"),
    "the other order of bytes": Case(_facts(version=3 << 24), "version 2 or 3, got 50331648"),
    "a header that ends": Case(file(b"GGUF\3\0\0\0"), "has 8 bytes, but a number of 8"),
}  # fmt: skip
