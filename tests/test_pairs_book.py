"""Text and notebook of every committed chapter agree, and a changed copy does not."""

from __future__ import annotations

import copy
import subprocess
import tomllib
from collections.abc import Callable

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell

from attnflow.book.chapters import pairs
from attnflow.book.chapters.myst import FILTERS, from_text, to_text
from attnflow.book.chapters.pairs import Pair, composed, load, text_path
from attnflow.book.chapters.project import find_project

BOOK = find_project()


CHAPTERS = BOOK.chapters()


# The committed book.


@pytest.mark.parametrize("name", list(CHAPTERS))
def test_the_committed_pair_agrees_and_making_it_again_changes_no_byte(name: str) -> None:
    pair = load(BOOK.book / f"{name}.ipynb")
    assert pair.text, f"there is no text/{name}.md: attnflow pair {name}"
    assert pair.disagreement() == ""
    assert to_text(from_text(pair.text)) == pair.text
    text, notebook = composed(pair.notebook)
    assert text == pair.text
    assert notebook == pair.path.read_text(encoding="utf-8")
    assert pair.edited() == ""


def test_texts_and_chapters_are_the_same() -> None:
    assert {path.stem for path in (BOOK.book / pairs.FOLDER).iterdir()} == set(CHAPTERS)
    assert set(BOOK.stored()) == set(CHAPTERS)


def _character(cells: list[nbformat.NotebookNode]) -> None:
    cells[0].source = cells[0].source.replace("e", "f", 1)


def _digit(cells: list[nbformat.NotebookNode]) -> None:
    cells[1].source = cells[1].source.replace("24", "25", 1)


def _tag(cells: list[nbformat.NotebookNode]) -> None:
    cells[2].metadata.tags.pop()


def _new_tag(cells: list[nbformat.NotebookNode]) -> None:
    cells[0].metadata["tags"] = ["remove-cell"]


def _delete(cells: list[nbformat.NotebookNode]) -> None:
    del cells[-1]


def _insert(cells: list[nbformat.NotebookNode]) -> None:
    cells.insert(3, new_markdown_cell("A sentence."))


def _insert_code(cells: list[nbformat.NotebookNode]) -> None:
    cells.append(new_code_cell("1"))


def _swap(cells: list[nbformat.NotebookNode]) -> None:
    cells[1], cells[2] = cells[2], cells[1]


def _kind(cells: list[nbformat.NotebookNode]) -> None:
    cells[0] = new_code_cell(cells[0].source)


CHANGES = [_character, _digit, _tag, _new_tag, _delete, _insert, _insert_code, _swap, _kind]


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_copy_does_not_agree(
    change: Callable[[list[nbformat.NotebookNode]], None],
) -> None:
    pair = load(BOOK.book / "attention.ipynb")
    changed = copy.deepcopy(pair.notebook)
    change(changed.cells)
    text, _ = composed(changed)
    assert text != pair.text
    ours = Pair(pair.path, changed, pair.text)
    assert ours.disagreement().startswith("cell ")
    assert ours.edited() == pairs.NOTEBOOK
    theirs = Pair(pair.path, pair.notebook, text)
    assert theirs.disagreement().startswith("cell ")
    assert theirs.edited() == pairs.TEXT
    assert Pair(pair.path, changed, text).edited() == ""
    assert Pair(pair.path, changed, f"Before.\n\n+++\n\n{pair.text}").edited() == pairs.BOTH


def test_jupyterlab_pairs_the_same_files_and_writes_the_same_text() -> None:
    import jupytext
    from jupytext.config import load_jupytext_config
    from jupytext.paired_paths import paired_paths

    path = BOOK.book / "attention.ipynb"
    stated = tomllib.loads((BOOK.book / "jupytext.toml").read_text(encoding="utf-8"))
    assert stated == {"formats": stated["formats"], **FILTERS}
    assert [p for p, _ in paired_paths(str(path), "ipynb", stated["formats"])] == [
        str(path), str(text_path(path)),
    ]  # fmt: skip
    text = jupytext.writes(
        nbformat.read(path, as_version=4), fmt="md:myst", config=load_jupytext_config(str(path))
    )
    assert text == text_path(path).read_text(encoding="utf-8")


@pytest.mark.skipif(not (BOOK.root / ".git").exists(), reason="needs a git checkout")
def test_git_shows_texts_and_not_notebooks() -> None:
    def attributes(path: str) -> dict[str, str]:
        command = ["git", "check-attr", "diff", "merge", "eol", "linguist-generated", "--", path]
        done = subprocess.run(command, cwd=BOOK.root, capture_output=True, text=True, check=True)
        return dict(line.split(": ")[1:] for line in done.stdout.splitlines())

    made = attributes("book/attention.ipynb")
    assert (made["diff"], made["merge"], made["linguist-generated"]) == ("unset", "unset", "set")
    text = attributes("book/text/attention.md")
    assert (text["diff"], text["merge"], text["linguist-generated"]) == ("unspecified",) * 3
    assert made["eol"] == text["eol"] == "lf"
