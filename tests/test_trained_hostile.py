"""Files written to do harm are refused in words, soon, and without much memory."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import hostile_files
import hostile_folders
import hostile_pickles
import pytest
import tiny_checkpoints as tiny
from bounded_reader import MEGABYTES, SECONDS, Reader

pytestmark = pytest.mark.skipif(
    not hasattr(os, "fork"), reason="files are read in copies of a process"
)

CASES = (
    {f"safetensors: {name}": case for name, case in hostile_files.SAFETENSORS.items()}
    | {f"gguf: {name}": case for name, case in hostile_files.GGUF.items()}
    | hostile_pickles.CASES
    | hostile_folders.CASES
)
SENTENCE = 400  #: characters; what a file says is quoted in part


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    found = Reader()
    yield found
    found.close()


@pytest.mark.parametrize("name", CASES)
def test_a_hostile_file_is_refused_in_words(name: str, reader: Reader, tmp_path: Path) -> None:
    write, rule, ask = CASES[name]
    answer = reader(ask, write(tmp_path))
    assert answer.kind == "CheckpointError", answer
    assert re.search(rule, answer.said), answer
    assert len(answer.said) < SENTENCE
    assert answer.seconds < SECONDS, answer
    assert answer.megabytes < MEGABYTES, answer


@pytest.mark.parametrize("kind", ["bert", "albert", "gpt2"])
def test_a_good_model_is_read_by_the_same_process(
    kind: str, reader: Reader, tmp_path: Path
) -> None:
    assert reader("model", tiny.write(tmp_path, kind)).kind == "read"


def test_a_good_gguf_model_is_read_by_the_same_process(reader: Reader, tmp_path: Path) -> None:
    path = tiny.write_gguf(tmp_path / "model.gguf")
    assert reader("model", path).kind == "read"
    assert reader("text", path).kind == "read"


def test_the_good_forms_of_crafted_files_are_read(reader: Reader, tmp_path: Path) -> None:
    """So that a refusal is due to what was changed."""
    pickled = hostile_pickles.one(hostile_pickles.tensor())
    good = [
        hostile_files.header(hostile_files.tensors(x=hostile_files.entry())),
        hostile_files.file(hostile_files.gguf([], [hostile_files.placed("x", 8)], bytes(32))),
        hostile_pickles.archive(*hostile_pickles.GOOD),
        lambda path: tiny.write_legacy(path / "old.bin", pickled, {"0": hostile_files.RAW}),
        hostile_folders.indexed({"a": "one.safetensors"}),
    ]
    for write in good:
        assert reader("weights", write(tmp_path)).kind == "read"
    asked = hostile_folders.tokenizer(pre_tokenizer=hostile_folders.split("a+"))
    (tmp_path / "text").mkdir()
    assert reader("text", asked(tmp_path / "text")).kind == "read"


def test_the_reader_sees_time_memory_and_death(reader: Reader, tmp_path: Path) -> None:
    """What the limits above rest on."""
    assert reader("burn", tmp_path).kind == "killed"
    held = reader("hold", tmp_path)
    assert held.kind == "read"
    assert held.megabytes > MEGABYTES
