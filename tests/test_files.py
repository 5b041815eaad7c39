"""Files are whole or absent, whatever interrupts the writing."""

from __future__ import annotations

import errno
import os
import platform
from pathlib import Path
from typing import Any

import pytest
from conftest import Finished

from attnflow.book.chapters.notebooks import write_notebook
from attnflow.book.chapters.parameters import BookError, require_writable
from attnflow.files import draft, write_text


def test_a_write_that_fails_leaves_the_old_file_and_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kept.txt"
    write_text("old", path)

    def half(self: Path, text: str, **kwargs: Any) -> int:
        self.write_bytes(text[: len(text) // 2].encode())
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", half)
        with pytest.raises(OSError, match="no space left"):
            write_text("new and longer", path)
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_move_that_fails_leaves_the_old_notebook_and_no_draft(
    finished: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "slope.ipynb"
    write_notebook(finished.runs["slope"].whole, path)
    old = path.read_bytes()

    def refuse(*args: Any) -> None:
        raise OSError("no such luck")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", refuse)
        with pytest.raises(OSError, match="no such luck"):
            write_notebook(finished.runs["distance"].whole, path)
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]


def test_an_interruption_leaves_the_old_file_and_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "kept.txt"
    write_text("old", path)

    def interrupted() -> None:
        with draft(path) as name:
            name.write_text("half", encoding="utf-8")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_two_writers_of_one_file_do_not_share_a_draft(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "kept.txt"
    with draft(path) as first:
        first.write_text("first", encoding="utf-8")
        with draft(path) as second:
            second.write_text("second", encoding="utf-8")
        assert path.read_text(encoding="utf-8") == "second"
    assert path.read_text(encoding="utf-8") == "first"
    assert list(path.parent.iterdir()) == [path]


def test_a_disk_that_is_full_while_a_file_is_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "new.txt"

    def full(self: Path, text: str, **kwargs: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full)
        with pytest.raises(OSError, match="No space left") as caught:
            write_text("text", path)
    assert caught.value.filename == str(path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_can_be_written_is_made_and_left_empty(tmp_path: Path) -> None:
    require_writable(tmp_path / "a" / "b")
    assert list((tmp_path / "a" / "b").iterdir()) == []


@pytest.mark.parametrize("name", ["file", "file/inside", "x" * 300, "a\0b"])
def test_a_folder_that_cannot_be_is_refused_with_its_name(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(BookError, match=r"cannot write in .*: \w"):
        require_writable(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_full_disk_is_noticed_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, data: bytes) -> int:
        self.touch()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(BookError, match="No space left on device"):
        require_writable(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_draft_of_a_killed_process_goes_with_the_next_write(tmp_path: Path) -> None:
    path = tmp_path / "kept.txt"
    dead, ours = (
        tmp_path / f".kept.txt.{platform.node()}-{pid}-0123abcd.tmp"
        for pid in (2**22 + 1, os.getpid())
    )
    other = tmp_path / f".other.txt.{platform.node()}-{2**22 + 1}-0123abcd.tmp"
    for old in (dead, ours, other):
        old.write_text("half", encoding="utf-8")
    write_text("whole", path)
    assert sorted(tmp_path.iterdir()) == sorted([path, ours, other])
