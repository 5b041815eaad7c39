"""Files that a hostile hand could write: PyTorch's, instruction by instruction."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import tiny_checkpoints as tiny
from hostile_files import CORRUPT, RAW, Case, Write, file, large

START, STOP = b"\x80\x02", b"."
ALLOWED = b"ctorch._utils\n_rebuild_tensor_v2\n"
PLAIN = "must refer to plain storages of numbers"
KEYS = "must have names as keys of dictionaries, got "
SHAPE = "must give as shape at most 64 whole numbers >= 0, got "
STORAGE = tiny.storage("0", 6, False)


def laughs(times: int = 60) -> bytes:
    """A pair of a pair of ... each twice the same: small as a file, 2^60 words when printed."""
    doubled = (b"q" + bytes([i]) + b"h" + bytes([i]) + b"\x86" for i in range(times))
    return tiny.text("lol") + b"".join(doubled)


def tensor(storage: bytes = STORAGE, offset: bytes = b"K\x00", shape: bytes = b"K\x06\x85",
           strides: bytes = b"K\x01\x85") -> bytes:  # fmt: skip
    return ALLOWED + b"(" + storage + offset + shape + strides + b"\x89}tR"


def named(storage: bytes, dtype: bytes = b"ctorch\nFloatStorage\n", kind: bytes | None = None,
          length: bytes = b"K\x06", more: bytes = b"") -> bytes:  # fmt: skip
    kind = tiny.text("storage") if kind is None else kind
    return b"(" + kind + dtype + storage + tiny.text("cpu") + length + more + b"tQ"


def one(value: bytes) -> bytes:
    return START + b"}" + tiny.text("a") + value + b"s" + STOP


def long(value: int, code: bytes = b"\x8a") -> bytes:
    raw = value.to_bytes(200, "little", signed=True)
    return code + bytes([len(raw)]) + raw


KEY = tiny.text("0")
MANY = b"(" + b"N" * 100_000 + b"tq\x00"
PICKLES: dict[str, tuple[bytes | Callable[[], bytes], str]] = {
    "three gigabytes in nine bytes": (START + b"\x96" + struct.pack("<Q", 3 * 10**9) + STOP, "instruction BYTEARRAY8"),
    "bytes of 2^40": (START + b"\x8e" + struct.pack("<Q", 2**40) + STOP, "instruction BINBYTES8"),
    "bytes of 2^31": (START + b"B" + struct.pack("<I", 2**31) + STOP, "instruction BINBYTES"),
    "a text of 2^31": (START + b"X" + struct.pack("<I", 2**31) + STOP, CORRUPT),
    "a text of 2^40": (START + b"\x8d" + struct.pack("<Q", 2**40) + STOP, "instruction BINUNICODE8"),
    "a number of 2^31 bytes": (START + b"\x8b" + struct.pack("<i", 2**31 - 1) + STOP, "instruction LONG4"),
    "a number as text": (START + b"I" + b"9" * 4000 + b"\n" + STOP, "instruction INT"),
    "a frame of 2^62": (b"\x80\x04\x95" + struct.pack("<Q", 2**62) + STOP, "must build one thing, got 0"),
    "400000 axes": (lambda: one(tensor(shape=b"(" + b"K\x01" * 400_000 + b"t")), SHAPE + "a tuple of 400000"),
    "200000 large axes": (lambda: one(tensor(shape=b"(" + tiny.integer(2**31 - 1) * 200_000 + b"t")), SHAPE + "a tuple of 200000"),
    "400000 large axes": (lambda: one(tensor(shape=b"(" + tiny.integer(2**31 - 1) * 400_000 + b"t")), "data.pkl of at most 1048576 bytes"),
    "axes of 200 bytes": (one(tensor(shape=b"(" + long(2**1500) * 60 + b"t")), SHAPE + "a tuple of 60"),
    "an axis of 200 bytes": (one(tensor(shape=long(2**1500) + b"\x85")), SHAPE + "a tuple of 1"),
    "negative axes": (one(tensor(shape=long(-6) + b"\x85")), SHAPE),
    "truth as an axis": (one(tensor(shape=b"\x88\x85")), SHAPE),
    "axes that are no tuple": (one(tensor(shape=b"}")), SHAPE + "a dict of 0"),
    "laughs as a shape": (one(tensor(shape=laughs())), SHAPE + "a tuple of 2"),
    "laughs as strides": (one(tensor(strides=laughs())), "must give as strides at most 64"),
    "laughs as an offset": (one(tensor(offset=laughs())), "must give as offset a whole number >= 0, got a tuple of 2"),
    "laughs as a storage": (one(tensor(storage=laughs())), "must take tensors from storages, got a tuple of 2"),
    "laughs as a reference": (one(laughs() + b"Q"), PLAIN + ", got a tuple of 2"),
    "laughs as the kind of a reference": (one(named(KEY, kind=laughs())), PLAIN),
    "laughs as a kind of numbers": (one(named(KEY, dtype=laughs())), PLAIN),
    "laughs as the name of a storage": (one(named(laughs())), PLAIN),
    "laughs as the length of a storage": (one(named(KEY, length=laughs())), "length of a storage a whole number"),
    "laughs as the view of a storage": (one(named(KEY, more=laughs())), PLAIN),
    "laughs as a key": (START + b"}" + laughs() + b"Ns" + STOP, KEYS + "a tuple of 2"),
    "laughs as a key among several": (START + b"}(" + laughs() + b"Nu" + STOP, KEYS + "a tuple of 2"),
    "laughs as a tensor": (one(laughs()), "must hold a dictionary of tensors, got a dict of 1"),
    "laughs alone": (START + laughs() + STOP, "must hold a dictionary of tensors|none that PyTorch wrote"),
    "laughs as a parameter": (one(tiny.call("torch._utils", "_rebuild_parameter", laughs())), "must make parameters of tensors"),
    "laughs in a dictionary": (one(tiny.call("collections", "OrderedDict", b"](" + laughs() + b"N\x86e")), CORRUPT),
    "laughs as arguments": (one(ALLOWED + laughs() + b"R"), CORRUPT),
    "laughs as a function": (one(laughs() + b")R"), "asks to call a tuple of 2: refused"),
    "laughs in a set": (START + b"\x8f(" + laughs() + b"\x90" + STOP, "instruction EMPTY_SET"),
    "laughs in a frozen set": (START + b"(" + laughs() + b"\x91" + STOP, "instruction FROZENSET"),
    "calls with 100000 arguments": (lambda: START + MANY + (ALLOWED + b"h\x00R") * 9_000 + STOP, "calls with a tuple of 100000"),
    "a tuple a million deep": (lambda: START + b")" + b"\x85" * 10**6 + STOP, "dictionary of tensors, got a tuple of 1"),
    "a million dictionaries": (lambda: START + b"}" * 10**6 + STOP, "must build one thing, got 1000000 at its end"),
    "a million marks": (lambda: START + b"(" * 10**6 + b"N" + STOP, "must build one thing"),
    "a million entries of the table": (lambda: START + b"]" + b"\x94" * 10**6 + STOP, "dictionary of tensors, got \\[\\]"),
    "more than a megabyte": (lambda: START + b"N" * 2**20 + STOP, "data.pkl of at most 1048576 bytes|corrupt"),
    "a dictionary in itself": (START + b"}q\x00" + tiny.text("a") + b"h\x00s" + STOP, "dictionary of tensors, got a dict of 1"),
    "a list in itself": (START + b"]q\x00h\x00a" + STOP, "dictionary of tensors, got a list of 1"),
    "two entries of one name": (START + b"}(" + (tiny.text("a") + tensor()) * 2 + b"u" + STOP, "every entry once, got 'a' twice"),
    "half an entry": (START + b"}(" + tiny.text("a") + b"u" + STOP, CORRUPT),
    "a number as a key": (START + b"}K\x01Ns" + STOP, KEYS + "1"),
    "a key of nothing": (START + b"}NNs" + STOP, KEYS + "None"),
    "an entry of a list": (START + b"]" + tiny.text("a") + b"Ns" + STOP, KEYS),
    "a function of a megabyte": (lambda: START + b"c" + b"x" * 10**6 + b"\nsystem\n" + STOP, "asks to call xxx.*refused"),
    "an instance": (START + b"(ios\nsystem\n" + STOP, "instruction INST"),
    "an object": (START + b"(cos\nsystem\no" + STOP, "instruction OBJ|asks to call os.system"),
    "an extension": (START + b"\x82\x01" + STOP, "instruction EXT1"),
    "a reference as text": (START + b"Px\n" + STOP, "instruction PERSID"),
    "a buffer from outside": (START + b"\x97" + STOP, "instruction NEXT_BUFFER"),
    "an unknown instruction": (START + b"\xff" + STOP, "instruction of code 255"),
    "a protocol of the future": (b"\x80\x63" + STOP, CORRUPT),
    "nothing on the stack": (START + b"s" + STOP, CORRUPT),
    "nothing to end with": (START + STOP, "must build one thing, got 0"),
    "a table without an entry": (START + b"h\x07" + STOP, CORRUPT),
    "a storage of fewer than none": (one(named(KEY, length=long(-1))), "length of a storage a whole number >= 0"),
    "a storage that is true": (one(named(KEY, length=b"\x88")), "whole number >= 0, got True"),
    "a storage of an unknown kind": (one(named(KEY, dtype=tiny.text("complex"))), PLAIN),
    "one storage of two lengths": (START + b"}(" + tiny.text("a") + named(KEY) + tiny.text("b") + named(KEY, length=b"K\x07") + b"u" + STOP, "must tell one thing of storage '0', got two"),
    "a tensor beyond its storage": (one(tensor(offset=b"K\x01")), "in a storage of 6"),
    "strides beyond their storage": (one(tensor(strides=long(2**62) + b"\x85")), "in a storage of 6"),
    "fewer strides than axes": (one(tensor(strides=b")")), "as many strides as axes, got 0, 1"),
}  # fmt: skip


def _made(content: bytes | Callable[[], bytes]) -> bytes:
    return content() if callable(content) else content


def _zipped(content: bytes | Callable[[], bytes]) -> Write:
    return lambda path: tiny.write_zip(path / "hostile.bin", _made(content), {"0": RAW})


def _legacy(content: bytes | Callable[[], bytes]) -> Write:
    return lambda path: tiny.write_legacy(path / "hostile.bin", _made(content), {"0": RAW})


def _first(content: bytes | Callable[[], bytes]) -> Write:
    """A file whose first pickle, where a number is expected, is the hostile one."""
    return large(lambda: file(_made(content)))


# --- the container -------------------------------------------------------------------------------


def archive(*entries: tuple[str, bytes], compress: int = zipfile.ZIP_STORED) -> Write:
    def write(path: Path) -> Path:
        with zipfile.ZipFile(path / "hostile.bin", "w", compress) as out:
            for name, raw in entries:
                out.writestr(zipfile.ZipInfo(name), raw, compress)
        return path / "hostile.bin"

    return write


def _patched(write: Write, change: Callable[[bytearray], None]) -> Write:
    def patched(path: Path) -> Path:
        raw = bytearray(write(path).read_bytes())
        change(raw)
        (path / "hostile.bin").write_bytes(raw)
        return path / "hostile.bin"

    return patched


def _central(field: int, value: bytes, entry: int = 0) -> Callable[[bytearray], None]:
    """Writes into a field of an entry of the table of contents."""

    def change(raw: bytearray) -> None:
        at = raw.index(b"PK\x01\x02")
        for _ in range(entry):
            at = raw.index(b"PK\x01\x02", at + 4)
        raw[at + field : at + field + len(value)] = value

    return change


GOOD = (("archive/data.pkl", one(tensor())), ("archive/data/0", RAW))
SIZE, OFFSET, FLAGS = 20, 42, 8  #: fields of the table of contents
TWICE = (("archive/data.pkl", one(tensor())), ("archive/tata.pkl", one(tensor())))

ARCHIVES = {
    "two pickles": Case(archive(*GOOD, ("other/data.pkl", STOP)), "one data.pkl, got 2"),
    "no pickle": Case(archive(("archive/data/0", RAW)), "one data.pkl, got 0"),
    "compressed": Case(archive(("archive/data.pkl", bytes(10**6)), compress=zipfile.ZIP_DEFLATED), "nothing in it compressed"),
    "encrypted": Case(_patched(archive(*GOOD), _central(FLAGS, b"\1")), "compressed or encrypted"),
    "two entries of one name": Case(_patched(archive(*TWICE), lambda raw: raw.__setitem__(slice(None), raw.replace(b"tata.pkl", b"data.pkl"))), "every entry once, got 'archive/data.pkl' twice"),
    "entries over each other": Case(_patched(archive(*GOOD), _central(OFFSET, bytes(4), entry=1)), "whose entries lie apart"),
    "an entry longer than the file": Case(_patched(archive(*GOOD), _central(SIZE, b"\0\0\0\x7f\0\0\0\x7f")), "entries lie apart|data.pkl of at most"),
    "a storage longer than the file": Case(_patched(archive(*GOOD), _central(SIZE, b"\0\0\0\x7f\0\0\0\x7f", entry=1)), "but a tensor in"),
    "a storage that is missing": Case(archive(GOOD[0]), CORRUPT),
    "a storage too short": Case(archive(GOOD[0], ("archive/data/0", RAW[:8])), "must hold 6 numbers in storage '0', got 8 bytes"),
    "big-endian": Case(archive(*GOOD, ("archive/byteorder", b"big")), "little-endian"),
    "40000 entries": Case(large(lambda: archive(*((f"archive/data/{i}", b"") for i in range(40_000)))), "table of contents of at most 2097152 bytes"),
    "30000 entries": Case(large(lambda: archive(*((f"a/data/{i}", b"") for i in range(30_000)))), "one data.pkl, got 0"),
    "no archive": Case(file(b"PK\x03\x04 and nothing more"), CORRUPT),
}  # fmt: skip


def _old(state: bytes, keys: bytes, raws: bytes, system: bytes = b"}" + tiny.text("little_endian") + b"\x88s") -> Write:  # fmt: skip
    magic = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
    return file(magic + b"\x80\x02M\xe9\x03." + START + system + STOP + state + START + keys + STOP + raws)  # fmt: skip


STATE, LIST = one(tensor()), b"]" + tiny.text("0") + b"a"
STORED = struct.pack("<q", 6) + RAW
SYSTEM = "must be written on a little-endian machine"
LISTED = "must list the storages that tensors lie in, got "
OLD = {
    "laughs as keys": Case(_old(STATE, laughs(), STORED), LISTED + "a tuple of 2"),
    "laughs as a key": Case(_old(STATE, b"]" + laughs() + b"a", STORED), LISTED + "a list of 1"),
    "a key of no storage": Case(_old(STATE, b"]" + tiny.text("9") + b"a", STORED), LISTED),
    "a key twice": Case(_old(STATE, b"](" + KEY + KEY + b"e", STORED), "every storage once, got '0' twice"),
    "no key": Case(_old(STATE, b"]", b""), CORRUPT),
    "laughs as a system": Case(_old(STATE, LIST, STORED, laughs()), SYSTEM),
    "a system of another order": Case(_old(STATE, LIST, STORED, b"}" + tiny.text("little_endian") + b"\x89s"), SYSTEM),
    "a storage of fewer than none": Case(_old(STATE, LIST, struct.pack("<q", -6) + RAW), "but a tensor in"),
    "a storage of 2^62": Case(_old(STATE, LIST, struct.pack("<q", 2**62) + RAW), "but a tensor in"),
    "a storage too short": Case(_old(STATE, LIST, struct.pack("<q", 2) + RAW[:8]), "must hold 6 numbers"),
    "bytes after the last": Case(_old(STATE, LIST, STORED + b"more"), "has 4 bytes that belong to no tensor"),
    "another pickle": Case(file(b"\x80\x02K\x01."), "none that PyTorch wrote"),
}  # fmt: skip

CASES = (
    {f"zip: {name}": Case(_zipped(raw), rule) for name, (raw, rule) in PICKLES.items()}
    | {f"legacy: {name}": Case(_legacy(raw), rule) for name, (raw, rule) in PICKLES.items() if not callable(raw)}
    | {"legacy: more than a megabyte": Case(_legacy(PICKLES["more than a megabyte"][0]), CORRUPT)}
    | {f"first: {n}": Case(_first(PICKLES[n][0]), PICKLES[n][1]) for n in ("three gigabytes in nine bytes", "laughs alone", "laughs as a key")}
    | {f"archive: {name}": case for name, case in ARCHIVES.items()}
    | {f"old: {name}": case for name, case in OLD.items()}
)  # fmt: skip
