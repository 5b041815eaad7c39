"""Files cut short or with bytes changed at random: the right numbers or a sentence, and nothing else."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import gguf
import hostile_folders
import numpy as np
import pytest
import tiny_checkpoints as tiny
from bounded_reader import SECONDS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.numpy import load_file, save

from attnflow.trained import CheckpointError, load
from attnflow.trained.checkpoints import open_weights

DATA = Path(__file__).parent / "data"
SMALL = {name: value for name, value in tiny.tensors("bert").items() if "LayerNorm" in name}
FORMS = ("safetensors", "gguf", "zip", "legacy")
Changes = list[tuple[float, int]]
Arrays = dict[str, NDArray[Any]]
T = TypeVar("T")
SENTENCE = 400  #: characters

tried = settings(
    max_examples=60,
    deadline=None,  # processor time is measured below; a busy machine is no fault of a file
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
#: Where, as a share of the file or of its first part, and what is added to the byte there.
CHANGES = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), min_size=1, max_size=4)  # fmt: skip


def _good(form: str, path: Path) -> bytes:
    if form == "safetensors":
        return save(SMALL, metadata={"format": "np"})
    if form == "gguf":
        return tiny.write_gguf(path / "good.gguf").read_bytes()
    return (DATA / f"state_{form}.bin").read_bytes()


def _apart(path: Path) -> bytes:
    """A file of PyTorch's older format whose tensors share no storage."""
    entries = {n: tiny.tensor(n, v.shape, legacy=True) for n, v in SMALL.items()}
    raws = {name: value.tobytes() for name, value in SMALL.items()}
    return tiny.write_legacy(path / "good.bin", tiny.state(entries), raws).read_bytes()


def _changed(whole: bytes, changes: Changes, within: int) -> bytes:
    raw = bytearray(whole)
    for at, added in changes:
        index = int(at * min(within, len(raw)))
        raw[index] = (raw[index] + added) % 256
    return bytes(raw)


def _tried(call: Callable[[], T]) -> T | str:
    """What a call gives soon, or the sentence in which it refuses."""
    start = time.process_time()
    try:
        return call()
    except CheckpointError as error:
        return str(error)
    finally:
        assert time.process_time() - start < SECONDS


def _answer(path: Path, raw: bytes) -> Arrays | None:
    """What is read from these bytes; None where they are refused in a sentence that names the file."""
    path = path / "some.file"
    path.write_bytes(raw)
    found = _tried(lambda: {name: value.copy() for name, value in open_weights(path).items()})
    if isinstance(found, str):
        assert found.startswith("some.file ")
        assert len(found) < SENTENCE
        return None
    return found


def _same(one: Arrays, other: Arrays) -> bool:
    return list(one) == list(other) and all(
        np.array_equal(one[name], other[name], equal_nan=True) for name in one
    )


@pytest.mark.parametrize("form", FORMS)
@tried
@given(share=st.floats(0, 1, exclude_max=True))
def test_a_file_cut_short_is_refused(form: str, tmp_path: Path, share: float) -> None:
    whole = _good(form, tmp_path)
    expected = _answer(tmp_path, whole)
    assert expected
    found = _answer(tmp_path, whole[: int(share * len(whole))])
    assert found is None or _same(found, expected)


@pytest.mark.parametrize("within", [200, 2000, 10**9])
@pytest.mark.parametrize("form", FORMS)
@tried
@given(changes=CHANGES)
def test_changed_bytes_give_what_the_file_now_says(
    form: str, within: int, tmp_path: Path, changes: Changes
) -> None:
    whole = _good(form, tmp_path)
    raw = _changed(whole, changes, within)
    if (found := _answer(tmp_path, raw)) is None:
        return
    path = tmp_path / "some.file"
    if form == "safetensors":
        theirs = {n: v.astype(np.float32) for n, v in load_file(path).items()}
        assert _same(dict(sorted(found.items())), dict(sorted(theirs.items())))
    elif form == "zip":  # every number lies under a sum
        original = _answer(tmp_path, whole)
        assert original is not None
        assert _same(found, original)
    elif form == "gguf":
        theirs = {
            t.name: gguf.dequantize(t.data, t.tensor_type) for t in gguf.GGUFReader(path).tensors
        }
        assert _same(found, theirs)
    else:
        assert all(value.dtype == np.float32 for value in found.values())
        assert sum(value.size for value in found.values()) <= 8 * len(raw)


@pytest.mark.parametrize("form", ["safetensors", "gguf", "legacy"])
@tried
@given(at=st.integers(0, 23), added=st.integers(1, 255))
def test_a_changed_number_changes_no_other(form: str, tmp_path: Path, at: int, added: int) -> None:
    whole = _apart(tmp_path) if form == "legacy" else _good(form, tmp_path)
    expected, changed = _answer(tmp_path, whole), bytearray(whole)
    assert expected
    name, value = next((n, v) for n, v in expected.items() if v.size >= 6)
    changed[whole.index(value.tobytes()) + at] ^= added
    found = _answer(tmp_path, bytes(changed))
    assert found is not None
    assert _same(found | {name: value}, expected)
    differ = found[name].ravel().view(np.uint32) != value.ravel().view(np.uint32)
    assert differ.sum() == 1
    assert differ[at // 4]


@pytest.mark.parametrize("kind", ["bert", "albert", "gpt2"])
@tried
@given(changes=CHANGES)
def test_a_changed_configuration(kind: str, tmp_path: Path, changes: Changes) -> None:
    path = tiny.write(tmp_path / kind, kind)
    raw = json.dumps(tiny.CONFIGS[kind]).encode()
    (path / "config.json").write_bytes(_changed(raw, changes, len(raw)))
    found = _tried(lambda: (load(path), load(path).forward(tiny.IDS)))
    if isinstance(found, str):
        assert len(found) < SENTENCE
    else:
        model, trace = found
        assert trace.hidden.shape == (model.depth + 1, len(tiny.IDS), model.width)


def _names(path: Path) -> list[str]:
    return list(open_weights(path))


def _ids(path: Path) -> list[int]:
    try:
        return load(path).encode("ab a")
    except ValueError as error:  # another list of symbols, and this text is not made of them
        if "symbols the model knows" not in str(error):
            raise
        return [0]


@pytest.mark.parametrize(
    ("write", "name", "ask"),
    [
        (hostile_folders.indexed({"a": "one.safetensors"}), hostile_folders.INDEX, _names),
        (hostile_folders.tokenizer(), "tokenizer.json", _ids),
        (hostile_folders.beside(vocab__json=b'{"a": 0, "b": 1, "ab": 2}', merges__txt=b"a b\n"), "vocab.json", _ids),
        (hostile_folders.beside(vocab__json=b'{"a": 0, "b": 1, "ab": 2}', merges__txt=b"a b\n"), "merges.txt", _ids),
        (hostile_folders.beside(vocab__txt=hostile_folders.PIECES), "vocab.txt", _ids),
    ],
    ids=["index", "tokenizer", "words", "merges", "pieces"],
)  # fmt: skip
@tried
@given(changes=CHANGES)
def test_changed_tables(
    write: Callable[[Path], Path], name: str, ask: Callable[[Path], list[Any]],
    tmp_path_factory: pytest.TempPathFactory, changes: Changes,
) -> None:  # fmt: skip
    path = write(tmp_path_factory.mktemp("changed"))
    raw = (path / name).read_bytes()
    (path / name).write_bytes(_changed(raw, changes, len(raw)))
    found = _tried(lambda: ask(path))
    assert len(found) < SENTENCE if isinstance(found, str) else found
