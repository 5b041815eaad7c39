"""The committed book: claims, checks and controls match; every cell ran."""

from __future__ import annotations

import json
import re

import nbformat
import pytest
import yaml

from attnflow.book.chapters.notebooks import checks
from attnflow.book.chapters.project import find_project
from attnflow.book.pages.statements import boxes
from attnflow.claims import KINDS

PROJECT = find_project()
CHAPTERS = PROJECT.chapters()
ROWS = {name: checks(chapter.read()) for name, chapter in CHAPTERS.items()}
CLAIMS = PROJECT.claims()
BOXES = {
    name: {
        label: kind
        for cell in chapter.read().cells
        if cell.cell_type == "markdown"
        for kind, _, label in boxes(cell.source)
    }
    for name, chapter in CHAPTERS.items()
}


@pytest.mark.parametrize("claim", list(CLAIMS))
def test_a_claim_is_complete_and_has_a_check_and_a_control(claim: str) -> None:
    row = CLAIMS[claim]
    for field in ("source", "statement", "hypotheses", "kind", "chapter"):
        assert row[field].strip(), f"{claim} has no {field}"
    assert row["kind"] in KINDS
    mine = [r for r in ROWS[row["chapter"]] if r.id == claim]
    assert any(not r.is_control for r in mine), f"{claim} has no check"
    assert any(r.is_control for r in mine), f"{claim} has no negative control"


@pytest.mark.parametrize("claim", list(CLAIMS))
def test_a_claim_names_the_box_of_its_chapter_that_states_it(claim: str) -> None:
    boxes = BOXES[CLAIMS[claim]["chapter"]]
    named = CLAIMS[claim].get("box", "")
    assert named in boxes, f"{claim} names {named!r}; its chapter has {', '.join(sorted(boxes))}"


def test_every_box_with_a_statement_has_a_claim() -> None:
    """A definition states nothing; all else that is put into a box is checked."""
    named = {row.get("box") for row in CLAIMS.values()}
    stated = {
        label for boxes in BOXES.values() for label, kind in boxes.items() if kind != "definition"
    }
    assert stated <= named, f"no claim names {', '.join(sorted(stated - named))}"


def test_a_check_with_much_slack_says_why() -> None:
    loose = [repr(row) for rows in ROWS.values() for row in rows if row.is_loose and not row.loose]
    assert not loose, "\n".join(loose)


def test_every_check_has_a_claim_of_its_chapter() -> None:
    for name, rows in ROWS.items():
        for row in rows:
            assert row.id in CLAIMS, f"{name} checks {row.id}, which claims.yml does not list"
            assert CLAIMS[row.id]["chapter"] == name


def test_a_rate_has_an_interval() -> None:
    for rows in ROWS.values():
        for row in rows:
            assert CLAIMS[row.id]["kind"] != "rate" or row.interval is not None


def test_anchors_are_unique() -> None:
    anchors = [row.anchor() for rows in ROWS.values() for row in rows]
    assert len(anchors) == len(set(anchors))


def test_the_committed_outputs_are_sound_and_inside_the_hypotheses() -> None:
    for name, rows in ROWS.items():
        assert rows, f"{name} checks nothing"
        for row in rows:
            assert row.sound, repr(row)
            assert not row.missing, repr(row)


@pytest.mark.parametrize("name", list(CHAPTERS))
def test_every_code_cell_was_run_without_error_or_warning(name: str) -> None:
    cells = [c for c in CHAPTERS[name].read().cells if c.cell_type == "code"]
    assert [c.execution_count for c in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        for output in cell.outputs:
            assert output.output_type != "error"
            assert output.get("name") != "stderr"


@pytest.mark.parametrize("name", list(CHAPTERS))
def test_the_notebook_is_clean(name: str) -> None:
    notebook = CHAPTERS[name].read()
    nbformat.validate(notebook)
    assert set(notebook.metadata) == {"attnflow", "jupytext", "kernelspec", "language_info"}
    assert set(notebook.metadata["attnflow"]) == {"cells", "text"}
    for cell in notebook.cells:
        assert set(cell.metadata) <= {"tags"}
    text = CHAPTERS[name].path.read_text(encoding="utf-8")
    assert not re.search(r"/(home|root|tmp|Users)/\w", text)


@pytest.mark.parametrize("name", list(CHAPTERS))
def test_a_chapter_has_what_readers_expect(name: str) -> None:
    notebook = CHAPTERS[name].read()
    prose = "\n".join(c.source for c in notebook.cells if c.cell_type == "markdown")
    assert "## What would break it" in prose
    assert "{exercise}" in prose
    assert "{solution-start}" in prose
    assert "{prf:" in prose
    assert "{cite" in prose
    html = json.dumps([c.get("outputs", []) for c in notebook.cells])
    assert html.count("af-figure") >= 2
    assert html.count("aria-label") >= html.count('figure class=\\"af-figure')
    assert "af-provenance" in html


def test_pages_in_the_table_of_contents_exist() -> None:
    toc = yaml.safe_load((PROJECT.root / "_toc.yml").read_text(encoding="utf-8"))
    files = [toc["root"]] + [c["file"] for part in toc["parts"] for c in part["chapters"]]
    for file in files:
        assert list(PROJECT.root.glob(f"{file}.*")), f"{file} is not there"
    assert {f"book/{name}" for name in CHAPTERS} <= set(files)
