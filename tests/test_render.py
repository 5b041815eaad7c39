"""What is laid out for the renderer."""

from __future__ import annotations

import os

import nbformat
from conftest import Finished, append

from attnflow.book.chapters import Project
from attnflow.book.render import stage


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
