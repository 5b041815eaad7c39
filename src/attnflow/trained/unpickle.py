"""PyTorch's files of weights, read without PyTorch and without running anything they say.

Such a file is a pickle, which can name any function for the reader to call. Here it may name those
that put tensors together and no other; and these only note where the numbers lie. It is a program,
too: of its instructions only those are followed that PyTorch writes, each at a cost of its own
length. What it builds is checked as it is built, so that nothing deep or shared many times over is
ever compared, hashed or printed.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from attnflow.trained.weights import BRAIN_FLOAT, CheckpointError, describe, size, sizes

# fmt: off
STORAGES = {
    "DoubleStorage": "float64", "FloatStorage": "float32", "HalfStorage": "float16",
    "BFloat16Storage": BRAIN_FLOAT, "LongStorage": "int64", "IntStorage": "int32",
    "ShortStorage": "int16", "CharStorage": "int8", "ByteStorage": "uint8", "BoolStorage": "bool",
}
#: The instructions that PyTorch's own pickles consist of, under protocols 2 to 5.
FOLLOWED = (
    "PROTO", "FRAME", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2",
    "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "EMPTY_TUPLE", "TUPLE1", "TUPLE2",
    "TUPLE3", "TUPLE", "EMPTY_LIST", "APPEND", "APPENDS", "EMPTY_DICT", "SETITEM", "SETITEMS",
    "GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD", "BINPERSID", "BINPUT", "LONG_BINPUT", "MEMOIZE",
    "BINGET", "LONG_BINGET",
)
# fmt: on
NAMES = {ord(op.code): op.name for op in pickletools.opcodes}  #: of instructions, by their code
PICKLE = 2**20  #: bytes; a tensor needs about two hundred
ARGUMENTS = 8  #: of a call; tensors are put together from seven
KEY = 200  #: characters of a storage's name


class Storage(NamedTuple):
    """A run of numbers of one kind, under a name by which the file keeps it."""

    dtype: str
    key: str
    length: int


class View(NamedTuple):
    """A tensor: where in its storage it begins, and how far apart its numbers are."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def _dictionary() -> dict[str, Any]:
    return {}


def _tensor(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> View:
    if not isinstance(storage, Storage):
        raise CheckpointError(f"must take tensors from storages, got {describe(storage)}")
    shape, strides = sizes(shape, "shape"), sizes(strides, "strides")
    offset = size(offset, "offset")
    if len(shape) != len(strides):
        raise CheckpointError(
            f"must give as many strides as axes, got {len(strides)}, {len(shape)}"
        )
    count = math.prod(shape)
    end = offset + sum((s - 1) * t for s, t in zip(shape, strides, strict=True)) + 1
    if count > storage.length or (count and end > storage.length):
        raise CheckpointError(
            f"gives a tensor shape {describe(shape)}, strides {describe(strides)} and offset "
            f"{offset} in a storage of {storage.length}"
        )
    return View(storage, offset, shape, strides)


def _parameter(tensor: Any, *_: Any) -> View:
    if not isinstance(tensor, View):
        raise CheckpointError(f"must make parameters of tensors, got {describe(tensor)}")
    return tensor


CALLED: dict[tuple[str, str], Callable[..., Any]] = {
    ("collections", "OrderedDict"): _dictionary,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch._utils", "_rebuild_parameter"): _parameter,
}


# The unpickler written in C keeps a table that a hostile file can make fill the memory, and no
# table of instructions that can be shortened.
class TensorsOnly(pickle._Unpickler):
    """Unpickles dictionaries of tensors, and notes where the numbers of each lie."""

    stack: list[Any]
    metastack: list[list[Any]]
    pop_mark: Callable[[], list[Any]]
    load_stop: Callable[[], None]

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.storages: dict[str, Storage] = {}

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and name in STORAGES:
            return STORAGES[name]
        if (module, name) not in CALLED:
            asked = describe(f"{module}.{name}").strip("'\"")
            raise CheckpointError(f"asks to call {asked}, which builds no tensor: refused")
        return CALLED[module, name]

    def persistent_load(self, pid: Any) -> Storage:
        if type(pid) is not tuple or not 5 <= len(pid) <= 6:
            raise CheckpointError(f"must refer to plain storages of numbers, got {describe(pid)}")
        kind, dtype, key, _, length, *view = pid
        plain = type(kind) is type(dtype) is type(key) is str and view in ([], [None])
        if not plain or kind != "storage" or dtype not in STORAGES.values() or len(key) > KEY:
            raise CheckpointError(
                f"must refer to plain storages of numbers, got {describe(kind)}, {describe(dtype)}, "
                f"{describe(key)}"
            )
        found = Storage(dtype, key, size(length, "length of a storage"))
        if self.storages.setdefault(key, found) != found:
            raise CheckpointError(f"must tell one thing of storage {describe(key)}, got two")
        return found

    def _call(self) -> None:
        arguments, called = self.stack.pop(), self.stack[-1]
        if not callable(called):
            raise CheckpointError(f"asks to call {describe(called)}: refused")
        if type(arguments) is not tuple or len(arguments) > ARGUMENTS:
            raise CheckpointError(
                f"calls with {describe(arguments)}, which builds no tensor: refused"
            )
        self.stack[-1] = called(*arguments)

    def _attributes(self) -> None:
        self.stack.pop()  # what is written into objects is not needed

    def _item(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._put(key, value)

    def _items(self) -> None:
        items = self.pop_mark()
        for key, value in zip(items[::2], items[1::2], strict=True):
            self._put(key, value)

    def _put(self, key: Any, value: Any) -> None:
        target = self.stack[-1]
        if type(target) is not dict or type(key) is not str:
            raise CheckpointError(f"must have names as keys of dictionaries, got {describe(key)}")
        if key in target:
            raise CheckpointError(f"must name every entry once, got {describe(key)} twice")
        target[key] = value

    def _end(self) -> None:
        if len(self.stack) != 1 or self.metastack:
            raise CheckpointError(f"must build one thing, got {len(self.stack)} at its end")
        self.load_stop()

    def _refuse(self, code: int) -> None:
        name = NAMES.get(code, f"of code {code}")
        raise CheckpointError(f"has an instruction {name}, which builds no tensor: refused")


def _instructions() -> dict[int, Callable[[Any], None]]:
    """What is done at each code; nothing but what is listed above."""
    base = pickle._Unpickler.dispatch
    codes = {name: code for code, name in NAMES.items()}
    found: dict[int, Callable[[Any], None]] = {
        code: partial(lambda code, self: self._refuse(code), code) for code in range(256)
    }
    found |= {codes[name]: base[codes[name]] for name in FOLLOWED}
    return found | {
        codes["STOP"]: TensorsOnly._end,
        codes["REDUCE"]: TensorsOnly._call,
        codes["BUILD"]: TensorsOnly._attributes,
        codes["SETITEM"]: TensorsOnly._item,
        codes["SETITEMS"]: TensorsOnly._items,
    }


TensorsOnly.dispatch = _instructions()
