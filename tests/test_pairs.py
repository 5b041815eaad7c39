"""Text and notebook are one chapter: which of them counts, and nothing is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from conftest import append, write_chapter
from nbformat.v4 import new_markdown_cell
from test_cli import invoke

from attnflow.book.chapters import pairs
from attnflow.book.chapters.pairs import load
from attnflow.book.chapters.parameters import BookError
from attnflow.book.chapters.project import Project
from attnflow.book.commands import cli

# A miniature book.


@pytest.fixture
def paired(project: Project) -> Project:
    """The miniature project, with texts."""
    result = invoke(project, "pair")
    assert result.exit_code == 0
    assert "slope: taken from the notebook" in result.output
    return project


def edit_text(project: Project, name: str, old: str, new: str) -> None:
    path = project.book / "text" / f"{name}.md"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def edit_notebook(project: Project, name: str, old: str, new: str) -> None:
    path = project.book / f"{name}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    (cell,) = [cell for cell in notebook.cells if old in cell.source]
    cell.source = cell.source.replace(old, new)
    nbformat.write(notebook, path)


def content(project: Project) -> dict[str, bytes]:
    files = (path for path in project.book.rglob("*") if path.is_file())
    return {path.relative_to(project.book).as_posix(): path.read_bytes() for path in files}


def title(project: Project, name: str) -> str:
    return str(nbformat.read(project.book / f"{name}.ipynb", as_version=4).cells[0].source)


def test_pairing_twice_writes_nothing(paired: Project) -> None:
    for path in paired.book.rglob("*"):
        os.utime(path, (1, 1))
    result = invoke(paired, "pair")
    assert result.exit_code == 0
    assert "taken" not in result.output
    assert all(path.stat().st_mtime == 1 for path in paired.book.rglob("*") if path.is_file())


def test_a_notebook_without_parameters_has_no_text(project: Project) -> None:
    notes = nbformat.v4.new_notebook(cells=[new_markdown_cell("# Loose notes")])
    nbformat.write(notes, project.book / "notes.ipynb")
    assert invoke(project, "pair").exit_code == 0
    assert not (project.book / "text" / "notes.md").exists()


def test_an_edited_text_goes_into_the_notebook_and_outputs_stay(known: Project) -> None:
    assert invoke(known, "store", "slope").exit_code == 0
    stored = nbformat.read(known.book / "slope.ipynb", as_version=4)
    edit_text(known, "slope", "# How steep", "# How very steep")
    result = invoke(known, "pair", "slope")
    assert result.output == "slope: taken from the text\n"
    now = nbformat.read(known.book / "slope.ipynb", as_version=4)
    assert now.cells[0].source.startswith("# How very steep")
    assert now.cells[1:] == stored.cells[1:]

    edit_text(known, "slope", "0.4]", "0.8]")
    result = invoke(known, "pair")
    assert "slope: its code did not run as it stands: attnflow store slope" in result.output
    now = nbformat.read(known.book / "slope.ipynb", as_version=4)
    assert [len(c.outputs) for c in now.cells if c.cell_type == "code"] == [0, 0]
    assert "tol=1e-6" in now.cells[2].source
    assert now.cells[1] == stored.cells[1]


def test_an_edited_notebook_goes_into_the_text(paired: Project) -> None:
    edit_notebook(paired, "slope", "# How steep", "# How very steep")
    assert "slope: taken from the notebook" in invoke(paired, "pair", "slope").output
    text = (paired.book / "text" / "slope.md").read_text(encoding="utf-8")
    assert text.startswith("# How very steep\n")


def test_where_both_were_edited_neither_changes_until_one_is_chosen(paired: Project) -> None:
    edit_text(paired, "slope", "# How steep", "# As a text")
    edit_notebook(paired, "slope", "A power law.", "A law.")
    edit_text(paired, "distance", "# How far", "# So far")
    before = content(paired)
    result = invoke(paired, "pair", "slope")
    assert result.exit_code == 1
    assert (
        "text/slope.md and slope.ipynb were both edited since they agreed: cell 1" in result.stderr
    )
    assert "attnflow pair slope --from text" in result.stderr
    assert content(paired) == before
    for command in (["list"], ["claims"], ["store", "slope"], ["run", "slope"]):
        with pytest.raises(BookError, match=r"slope\.ipynb were both edited"):
            invoke(paired, *command)
    assert content(paired) == before
    assert invoke(paired, "pair").exit_code == 1  # and the others are brought together
    assert title(paired, "distance").startswith("# So far")


@pytest.mark.parametrize(
    ("side", "taken", "lost"), [("text", "# As a text", "A law."), ("notebook", "A law.", "# As a")]
)
def test_what_is_given_up_is_kept(paired: Project, side: str, taken: str, lost: str) -> None:
    edit_text(paired, "slope", "# How steep", "# As a text")
    edit_notebook(paired, "slope", "A power law.", "A law.")
    result = invoke(paired, "pair", "slope", "--from", side)
    assert result.exit_code == 0
    assert f"slope: taken from the {side}" in result.output
    assert load(paired.book / "slope.ipynb").edited() == ""
    assert taken in title(paired, "slope")
    (kept,) = (paired.build / "replaced").iterdir()
    assert kept.name in result.output
    assert lost in kept.read_text(encoding="utf-8")


def test_both_edited_alike_agree(paired: Project) -> None:
    """As JupyterLab leaves them: both written, the note in the notebook an old one."""
    edit_text(paired, "slope", "# How steep", "# How very steep")
    edit_notebook(paired, "slope", "# How steep", "# How very steep")
    assert paired.chapter("slope").title == "How very steep"
    assert "taken" not in invoke(paired, "pair").output
    edit_text(paired, "slope", "# How very steep", "# How steep")
    assert invoke(paired, "pair").exit_code == 0
    assert title(paired, "slope").startswith("# How steep")


@pytest.mark.parametrize("side", ["text", "notebook"])
def test_a_side_that_is_missing_cannot_be_chosen(paired: Project, side: str) -> None:
    gone = paired.book / ("text/slope.md" if side == "text" else "slope.ipynb")
    gone.unlink()
    result = invoke(paired, "pair", "slope", "--from", side)
    assert result.exit_code == 1
    assert f"slope has no {side}" in result.stderr
    assert invoke(paired, "pair", "slope").exit_code == 0
    assert gone.is_file()


def test_a_crash_between_the_two_writes_loses_nothing(
    paired: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def torn(text: str, path: Path) -> None:
        if path.suffix == ".ipynb":
            raise KeyboardInterrupt
        path.write_text(text, encoding="utf-8")

    def interrupted() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(pairs, "write_text", torn)
            pairs.agree(paired.book / "slope.ipynb", paired.build)

    edit_text(paired, "slope", "# How steep", "# One")
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert "slope: taken from the text" in invoke(paired, "pair").output
    edit_notebook(paired, "slope", "# One", "# Two")
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert invoke(paired, "pair").exit_code == 0
    assert title(paired, "slope").startswith("# Two")
    assert load(paired.book / "slope.ipynb").edited() == ""


def test_every_command_takes_an_edited_text_as_it_stands(
    paired: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = content(paired)
    edit_text(paired, "ending", "# How it ends", "# The end")
    edit_text(paired, "ending", "size: int = 1", "size: int = 2")
    assert "ending  The end" in invoke(paired, "list").output
    result = invoke(paired, "run", "ending", "--no-html")
    assert result.exit_code == 0
    assert "mini.ending  2 ± 0.5  2" in result.output
    staged = {}
    monkeypatch.setattr(
        "attnflow.book.render.html.stage", lambda project, done, folder: staged.update(done)
    )
    monkeypatch.setattr(
        "attnflow.book.render.html.build", lambda project, source, strict: source / "index.html"
    )
    result = invoke(paired, "book", "--stored")
    assert "note: as edited in text/, with outputs of unchanged code: ending" in result.output
    assert "_build/source/index.html" in result.output
    assert staged["ending"].cells[0].source == "# The end"
    after = content(paired)
    assert {name for name in after if after[name] != before[name]} == {"text/ending.md"}

    assert invoke(paired, "store", "ending").exit_code == 0
    assert title(paired, "ending") == "# The end"
    assert load(paired.book / "ending.ipynb").edited() == ""
    staged.clear()
    assert "note:" not in invoke(paired, "book", "--stored").output
    assert staged == {}


def test_a_text_alone_is_a_chapter(paired: Project) -> None:
    path = write_chapter(paired, "new", "# New", "n: int = 1  # tokens", "print(n)")
    assert invoke(paired, "pair", "new").exit_code == 0
    path.unlink()
    assert "new  New" in invoke(paired, "list").output
    assert invoke(paired, "store", "new").exit_code == 0
    assert nbformat.read(path, as_version=4).cells[2].outputs[0].text == "1\n"


def test_a_text_that_cannot_be_read_is_named(paired: Project) -> None:
    edit_text(paired, "slope", ":tags: [parameters]", ":tags: [parameters")
    with pytest.raises(BookError, match=r"text/slope\.md is no valid MyST"):
        invoke(paired, "list")
    result = invoke(paired, "pair")
    assert result.exit_code == 1
    assert "text/slope.md is no valid MyST" in result.stderr
    (paired.book / "text" / "slope.md").write_bytes(b"\xff\xfe")
    assert "slope.md is no UTF-8" in invoke(paired, "pair").stderr


def test_an_unknown_chapter_is_answered_with_the_known(project: Project) -> None:
    with pytest.raises(BookError, match="no chapter 'slop'; there are distance, ending, slope"):
        invoke(project, "pair", "slop")


def test_while_nobody_edits_jupytext_is_not_imported(paired: Project) -> None:
    program = (
        "import sys\nfrom attnflow.book.commands.cli import cli\n"
        "cli.main(['list'], standalone_mode=False)\nsys.exit('jupytext' in sys.modules)"
    )

    def imported() -> int:
        settings = {**os.environ, "ATTNFLOW_ROOT": str(paired.root)}
        command = [sys.executable, "-c", program]
        return subprocess.run(command, env=settings, check=False, capture_output=True).returncode

    assert imported() == 0
    edit_text(paired, "slope", "# How steep", "# How very steep")
    assert imported() == 1


def test_a_module_edit_that_changes_no_output_leaves_the_notebooks_untouched(
    known: Project,
) -> None:
    assert invoke(known, "store", "-j", "1").exit_code == 0
    before = content(known)
    append(known.package / "rates.py", "\nCHANGED = True\n")
    assert "note: slope" in invoke(known, "claims").output
    result = invoke(known, "store", "-j", "1")
    assert result.exit_code == 0
    assert result.output.count("unchanged") == 3
    after = content(known)
    assert {name for name in after if after[name] != before.get(name)} == {"stored.yml"}
    assert "note:" not in invoke(known, "claims").output
    first, *rest = (known.book / "stored.yml").read_text(encoding="utf-8").splitlines()
    assert first.startswith("#")
    assert [line.split(":")[0] for line in rest] == ["distance", "ending", "slope"]


@pytest.mark.parametrize(
    ("old", "new"), [("# How steep", "# Steep"), ("[parameters]", "[parameters, hide-input]")]
)
def test_an_edit_made_while_a_chapter_runs_is_not_overwritten(
    known: Project, monkeypatch: pytest.MonkeyPatch, old: str, new: str
) -> None:
    assert invoke(known, "pair").exit_code == 0
    finish = cli.finish

    def slow(*args: Any, **options: Any) -> Any:
        done = finish(*args, **options)
        edit_text(known, "slope", old, new)
        return done

    monkeypatch.setattr(cli, "finish", slow)
    result = invoke(known, "store", "slope")
    assert result.exit_code == 1
    assert "slope was edited while it ran: store it again" in result.stderr
    assert new in (known.book / "text" / "slope.md").read_text(encoding="utf-8")
    assert load(known.book / "slope.ipynb").edited() == pairs.TEXT


def test_keys_that_look_like_numbers_stay_text(project: Project) -> None:
    assert project.stored() == {}
    for name, key in (("b", "1234567890123456"), ("a", "12345678901234e5"), ("b", "0" * 16)):
        project.store_key(name, key)
    assert project.stored() == {"a": "12345678901234e5", "b": "0" * 16}


@pytest.mark.parametrize("text", ["<<<<<<< ours\na: 1\n", "- a\n", "a\n", "a: [\n"])
def test_a_file_of_keys_that_a_merge_broke_is_a_sentence(project: Project, text: str) -> None:
    (project.book / "stored.yml").write_text(text, encoding="utf-8")
    with pytest.raises(BookError, match=r"stored\.yml is `chapter: key`, line by line"):
        project.stored()
