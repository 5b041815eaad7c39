"""Finding chapters, what they reach, and the key that names a run."""

from __future__ import annotations

import shutil
from pathlib import Path

import nbformat
import pytest
from conftest import append, edit_cell, make_project, write_chapter
from nbformat.v4 import new_markdown_cell, new_notebook

from attnflow.book.chapters import project as chapters
from attnflow.book.chapters.parameters import BookError
from attnflow.book.chapters.project import Project, find_project, key


def key_of(project: Project, name: str, **given: object) -> str:
    chapter = project.chapter(name)
    return key(project, chapter, chapter.resolve(given))


def test_chapters_stand_in_the_order_of_the_table_of_contents(project: Project) -> None:
    assert list(project.chapters()) == ["slope", "distance", "ending"]
    toc = "root: book/ending\nchapters:\n  - file: book/distance\n  - file: book/slope\n"
    (project.root / "_toc.yml").write_text(toc, encoding="utf-8")
    assert list(project.chapters()) == ["ending", "distance", "slope"]


def test_a_name_with_a_hyphen_keeps_its_place(project: Project) -> None:
    write_chapter(project, "mean-field", "# Many", "n: int = 1  # tokens")
    toc = "root: book/mean-field\nchapters:\n  - file: book/slope\n  - file: book/distance\n"
    (project.root / "_toc.yml").write_text(toc, encoding="utf-8")
    assert next(iter(project.chapters())) == "mean-field"


def test_chapters_that_no_table_names_come_last(project: Project) -> None:
    write_chapter(project, "aside", "# Aside", "n: int = 1  # tokens")
    assert list(project.chapters())[-1] == "aside"


def test_a_chapter_knows_its_title_and_defaults(project: Project) -> None:
    chapter = project.chapter("distance")
    assert chapter.title == "How far apart"
    assert chapter.default_parameters == {"n": 3, "gap": 1.0}
    assert chapter.path == project.book / "distance.ipynb"


def test_a_notebook_without_a_parameter_cell_is_no_chapter(project: Project) -> None:
    nbformat.write(
        new_notebook(cells=[new_markdown_cell("# Loose notes")]), project.book / "notes.ipynb"
    )
    assert "notes" not in project.chapters()


@pytest.mark.parametrize("text", ["{", "[]", '{"cells": 3, "nbformat": 4, "nbformat_minor": 5}'])
@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")
def test_an_invalid_notebook_is_named(project: Project, text: str) -> None:
    (project.book / "torn.ipynb").write_text(text, encoding="utf-8")
    with pytest.raises(BookError, match=r"torn\.ipynb is no valid notebook"):
        project.chapters()


def test_a_broken_parameter_cell_names_its_notebook(project: Project) -> None:
    edit_cell(project, "slope", "parameters", "power = 2.0")
    with pytest.raises(BookError, match=r"slope\.ipynb: every parameter is"):
        project.chapters()


def test_an_unknown_chapter_is_answered_with_the_known(project: Project) -> None:
    with pytest.raises(BookError, match="no chapter 'slop'; there are slope, distance, ending"):
        project.chapter("slop")


def test_a_chapter_may_be_named_by_its_file(project: Project) -> None:
    assert project.chapter("book/slope.ipynb").name == "slope"


def test_a_chapter_does_not_suffer_from_its_neighbours(project: Project) -> None:
    (project.book / "slope.ipynb").write_text("{", encoding="utf-8")
    assert project.chapter("distance").default_parameters == {"n": 3, "gap": 1.0}
    with pytest.raises(BookError, match=r"slope\.ipynb is no valid notebook"):
        project.chapter("slope")


def test_an_unknown_parameter_is_answered_with_what_is_allowed(project: Project) -> None:
    with pytest.raises(BookError) as caught:
        project.chapter("distance").resolve({"m": 4})
    message = str(caught.value)
    assert "distance has no parameter 'm'" in message
    assert "n: int in [2, 64]" in message
    assert "gap: float in (0, inf)" in message


def test_resolve_fills_in_defaults_and_converts_text(project: Project) -> None:
    assert project.chapter("distance").resolve({"n": "5"}) == {"n": 5, "gap": 1.0}


def test_resolve_refuses_a_value_out_of_range(project: Project) -> None:
    with pytest.raises(BookError, match=r"n must be int in \[2, 64\], got 1"):
        project.chapter("distance").resolve({"n": 1})


def test_the_claims_are_read_by_id(project: Project) -> None:
    assert project.claims()["mini.slope"]["kind"] == "rate"


def test_a_cell_that_is_no_python_names_its_chapter(project: Project) -> None:
    edit_cell(project, "slope", "code-0", "this is no python")
    with pytest.raises(BookError, match="slope"):
        key_of(project, "slope")


def test_the_key_of_the_same_run_is_the_same_in_another_folder(
    project: Project, tmp_path: Path
) -> None:
    moved = Project(Path(shutil.copytree(project.root, tmp_path / "elsewhere")))
    assert key_of(project, "distance") == key_of(moved, "distance")


def test_the_key_changes_with_a_parameter(project: Project) -> None:
    assert key_of(project, "distance", n=4) != key_of(project, "distance")
    assert key_of(project, "distance", gap=2.0) != key_of(project, "distance")


def test_writing_a_default_out_does_not_change_the_key(project: Project) -> None:
    assert key_of(project, "distance", gap="1", n="3") == key_of(project, "distance")


def test_the_key_changes_with_a_code_cell(project: Project) -> None:
    before = key_of(project, "distance")
    edit_cell(project, "distance", "code-1", "1 + 1")
    assert key_of(project, "distance") != before


@pytest.mark.parametrize(
    "module", ["kernels/dense", "claims/rows", "provenance", "validate", "__init__"]
)
def test_the_key_changes_with_every_module_the_chapter_reaches(
    project: Project, module: str
) -> None:
    before = key_of(project, "distance")
    append(project.package / f"{module}.py", "\nCHANGED = True\n")
    assert key_of(project, "distance") != before


def test_the_key_changes_with_stored_data_that_a_reached_module_names(project: Project) -> None:
    (project.package / "data").mkdir(exist_ok=True)
    (project.package / "data" / "run.npz").write_bytes(b"one")
    append(project.package / "rates.py", '\nSTORED = "run.npz"\n')
    before = key_of(project, "distance")
    (project.package / "data" / "run.npz").write_bytes(b"two")
    assert key_of(project, "distance") == before
    append(project.package / "claims" / "rows.py", '\nSTORED = "run.npz"\n')
    reached = key_of(project, "distance")
    (project.package / "data" / "run.npz").write_bytes(b"three")
    assert key_of(project, "distance") != reached


@pytest.mark.parametrize(
    "module", ["rates", "transport/bridge", "kernels/fast", "attention/kinds", "book/runs/run"]
)
def test_the_key_does_not_change_with_a_module_out_of_reach(project: Project, module: str) -> None:
    before = key_of(project, "distance")
    append(project.package / f"{module}.py", "\nCHANGED = True\n")
    assert key_of(project, "distance") == before


def test_the_key_changes_with_the_lock(project: Project) -> None:
    before = key_of(project, "distance")
    append(project.root / "requirements.lock", "scipy==1\n")
    assert key_of(project, "distance") != before


def test_the_key_does_not_change_with_prose_or_stored_outputs(project: Project) -> None:
    before = key_of(project, "distance")
    edit_cell(project, "distance", "heading", "# Another title\n\nAnd other words.")
    path = project.book / "distance.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[2].outputs = [nbformat.v4.new_output("stream", text="left over")]
    notebook.cells.insert(1, new_markdown_cell("A new paragraph."))
    nbformat.write(notebook, path)
    assert key_of(project, "distance") == before


def test_the_key_does_not_change_with_another_chapter(project: Project) -> None:
    before = key_of(project, "distance")
    edit_cell(project, "slope", "code-0", "1 + 1")
    assert key_of(project, "distance") == before


def test_a_project_is_found_from_any_folder_in_it(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ATTNFLOW_ROOT", raising=False)
    assert find_project(project.book) == project
    monkeypatch.chdir(project.package)
    assert find_project() == project


def test_the_variable_goes_before_the_folder(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_project(tmp_path / "other")
    monkeypatch.setenv("ATTNFLOW_ROOT", str(other.root))
    assert find_project(project.root) == other


def test_a_variable_that_names_no_book_is_an_error(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATTNFLOW_ROOT", str(tmp_path / "nowhere"))
    with pytest.raises(BookError, match="set ATTNFLOW_ROOT"):
        find_project(project.root)


def test_outside_any_checkout_the_installed_source_is_used_or_the_error_says_what_to_do(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ATTNFLOW_ROOT", raising=False)
    bare = tmp_path / "bare"
    bare.mkdir()
    monkeypatch.setattr(
        chapters, "__file__", str(project.package / "book" / "chapters" / "project.py")
    )
    assert find_project(bare) == project
    monkeypatch.setattr(chapters, "__file__", str(bare / "a" / "b" / "c" / "d" / "project.py"))
    with pytest.raises(BookError, match="no book here"):
        find_project(bare)
