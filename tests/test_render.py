"""What is laid out for the renderer."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path
from typing import Any

import nbformat
import pytest
from conftest import Finished, append

from attnflow.book.chapters.parameters import BookError
from attnflow.book.chapters.project import Project
from attnflow.book.render import html as render
from attnflow.book.render.html import build_page, stage


def test_staging_lays_the_runs_over_the_book_and_rewrites_only_what_changed(
    finished: Finished, known: Project
) -> None:
    (known.root / "_config.yml").write_text("title: Mini\n", encoding="utf-8")
    folder = known.build / "source"
    notebooks = {name: run.whole for name, run in finished.runs.items()}
    stage(known, notebooks, folder)
    staged = nbformat.read(folder / "book" / "slope.ipynb", as_version=4)
    assert staged == notebooks["slope"]
    assert nbformat.read(known.book / "slope.ipynb", as_version=4) != staged
    for path in folder.rglob("*"):
        os.utime(path, (1, 1))
    (folder / "book" / "gone.md").write_text("# Gone\n", encoding="utf-8")
    append(known.book / "claims.yml", "# more\n")
    stage(known, notebooks, folder)
    touched = {p.name for p in folder.rglob("*") if p.is_file() and p.stat().st_mtime > 1}
    assert touched == {"claims.yml"}
    assert not (folder / "book" / "gone.md").exists()


def test_a_page_that_is_not_rendered_leaves_only_what_the_renderer_said(
    finished: Finished, known: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", "first\nOSError: no space left\n")

    (known.root / "_config.yml").write_text("title: Mini\n", encoding="utf-8")
    monkeypatch.setattr("subprocess.run", refuse)
    out = tmp_path / "out"
    with pytest.raises(BookError, match=r"render\.log\):\nOSError: no space left$"):
        build_page(known, "slope", finished.runs["slope"].whole, out)
    assert [path.name for path in out.iterdir()] == ["render.log"]
    assert "first" in (out / "render.log").read_text(encoding="utf-8")


def test_a_disk_that_is_full_before_the_page_is_rendered_leaves_nothing(
    finished: Finished, known: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (known.root / "_config.yml").write_text("title: Mini\n", encoding="utf-8")
    monkeypatch.setattr(Path, "write_bytes", full)
    out = tmp_path / "out"
    with pytest.raises(OSError, match="No space left"):
        build_page(known, "slope", finished.runs["slope"].whole, out)
    assert list(out.iterdir()) == []


def test_pages_are_rendered_again_exactly_when_something_changed(
    known: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendered: list[bool] = []

    def pretend(source: Path, output: Path, strict: bool) -> Path:
        rendered.append(strict)
        (output / "_build" / "html").mkdir(parents=True, exist_ok=True)
        (output / "_build" / "html" / "index.html").write_text("<p>", encoding="utf-8")
        return output / "_build" / "html"

    monkeypatch.setattr(render, "_jupyter_book", pretend)
    page = known.build / "html" / "index.html"
    for change in (
        lambda: None,
        lambda: append(known.book / "claims.yml", "# more\n"),
        lambda: append(known.package / "rates.py", "\n"),
        lambda: append(known.root / "requirements.lock", "more==1\n"),
        page.unlink,
    ):
        change()
        assert render.build(known, known.root) == page
        count = len(rendered)
        render.build(known, known.root)
        assert len(rendered) == count
    assert len(rendered) == 5
    render.build(known, known.root, strict=True)
    assert rendered[-1]


def test_pages_that_could_not_be_rendered_are_not_taken_for_done(
    known: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(source: Path, output: Path, strict: bool) -> Path:
        raise BookError("no")

    html = known.build / "html"
    html.mkdir(parents=True)
    (html / "index.html").write_text("<p>", encoding="utf-8")
    (html / ".rendered").write_text("another", encoding="utf-8")
    monkeypatch.setattr(render, "_jupyter_book", fail)
    for _ in range(2):
        with pytest.raises(BookError, match="no"):
            render.build(known, known.root)
    assert not (html / ".rendered").exists()
