"""Pages that are made of the chapters: figures as files, the gallery, parameters, what is new."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import nbformat
import numpy as np
import pytest
import yaml

from attnflow.book.chapters.project import find_project
from attnflow.book.pages.ledger import is_new
from attnflow.book.pages.new_here import bodies, read_new
from attnflow.book.pages.pictures import FOLDER, as_file, book_pictures, image
from attnflow.book.render.lean import lean, lean_svg, path
from attnflow.book.render.slim import stripped

PROJECT = find_project()
HTML = PROJECT.build / "html"
DRAWN = book_pictures(PROJECT.book)


def test_every_figure_is_found_once_with_its_words() -> None:
    everything = "\n".join(
        output.get("data", {}).get("text/html", "")
        for chapter in PROJECT.chapters().values()
        for cell in chapter.read().cells
        for output in cell.get("outputs", [])
    )
    named = re.findall(r'<figure class="af-figure" id="fig-([^"]+)"', everything)
    found = [picture for drawn in DRAWN.values() for picture in drawn]
    assert sorted(named) == sorted({p.name for p in found})
    assert all(p.alt and p.caption for p in found)
    assert sum(bool(p.svg) for p in found) > 50


def test_a_picture_that_moves_is_no_image() -> None:
    still, moving = (
        [p for drawn in DRAWN.values() for p in drawn if bool(p.svg) is drawing]
        for drawing in (True, False)
    )
    assert all("<img" in image(p) for p in still)
    assert all("<img" not in image(p) for p in moving)


@pytest.mark.built
def test_the_built_book_has_every_picture_and_notebooks_without_outputs() -> None:
    gallery = (HTML / "book" / "gallery.html").read_text("utf-8")
    for name, drawn in DRAWN.items():
        for picture in drawn:
            assert f'href="{name}.html#fig-{picture.name}"' in gallery
            if picture.svg:
                file = HTML / "_static" / FOLDER / f"{picture.name}.svg"
                assert ET.parse(file).getroot().tag == "{http://www.w3.org/2000/svg}svg"
                assert as_file(picture.svg) == file.read_text("utf-8")
        downloaded = nbformat.read(HTML / "_sources" / "book" / f"{name}.ipynb", as_version=4)
        assert not any(cell.get("outputs") for cell in downloaded.cells)
        assert [c.source for c in downloaded.cells] == [
            c.source for c in PROJECT.chapters()[name].read().cells
        ]
    assert not list((HTML / "_static").rglob("*.map"))


def points(d: str) -> list[complex]:
    """The corners of a path of straight lines, absolute or relative."""
    out: list[complex] = []
    for name, body in re.findall(r"([MLlhvz])([^MLlhvz]*)", d):
        numbers = [float(x) for x in re.findall(r"-?(?:\d+\.?\d*|\.\d+)", body)]
        pairs = [complex(*pair) for pair in zip(numbers[::2], numbers[1::2], strict=False)]
        moves = {"h": numbers, "v": [1j * x for x in numbers]}.get(name, pairs)
        for move in moves:
            out.append(move if name in "ML" else out[-1] + move)
    return out


def test_a_path_stays_where_it_was() -> None:
    random = np.random.default_rng(1)
    for _ in range(50):
        corners = np.cumsum(random.normal(scale=3.0, size=(40, 2)), axis=0)
        given = " ".join(f"{'L' if k else 'M'} {x:.6f} {y:.6f}" for k, (x, y) in enumerate(corners))
        kept = np.array(points(path(given, 10)))
        wanted = corners @ [1, 1j]
        assert abs(kept[0] - wanted[0]) <= 0.0708
        assert abs(kept[-1] - wanted[-1]) <= 0.0708
        nearest = np.abs(wanted[:, None] - kept).min(axis=1)
        assert (
            np.median(nearest) <= 0.0708
        )  # those that are left out lie on the lines between others
        ends = np.array([kept[:-1], kept[1:]])
        along = np.clip(((wanted[:, None] - ends[0]) / (ends[1] - ends[0])).real, 0, 1)
        assert (
            np.abs(wanted[:, None] - ends[0] - along * (ends[1] - ends[0])).min(axis=1).max()
            <= 0.0708
        )


def test_a_lean_page_says_and_draws_the_same() -> None:
    for name in ("attention", "one_step"):
        for picture in DRAWN[name]:
            if 'id="figure_1"' not in picture.svg:
                continue
            before, after = (ET.fromstring(svg) for svg in (picture.svg, lean_svg(picture.svg)))
            for tag in ("path", "use", "image", "clipPath", "text"):
                found = [
                    len(list(tree.iter(f"{{http://www.w3.org/2000/svg}}{tag}")))
                    for tree in (before, after)
                ]
                assert found[0] == found[1], (picture.name, tag)
            assert len(lean_svg(picture.svg)) < 0.9 * len(picture.svg)
            used = set(re.findall(r'(?:url\(|href=")#([^)"]+)', lean_svg(picture.svg)))
            assert used <= set(re.findall(r' id="([^"]+)"', lean_svg(picture.svg)))
            twice = lean(f"<p>{picture.svg}</p><p>{picture.svg}</p>")
            assert len(set(re.findall(r'<path id="(DejaVu[^"]+)"', twice))) == len(
                re.findall(r'<path id="DejaVu[^"]+"', twice)
            )


@pytest.mark.built
def test_the_first_page_has_a_card_for_every_chapter() -> None:
    page = (HTML / "book" / "intro.html").read_text("utf-8")
    assert re.findall(r'<a class="af-card" href="(\w+)\.html"', page) == list(PROJECT.chapters())


@pytest.mark.built
def test_the_page_on_reruns_lists_every_parameter() -> None:
    page = (HTML / "book" / "rerun.html").read_text("utf-8")
    for name, chapter in PROJECT.chapters().items():
        assert f"attnflow run {name}" in re.sub("<[^>]+>", "", page)
        for parameter in chapter.parameters:
            assert f">{parameter.name}<" in page


def test_every_exercise_has_a_title_that_says_how_hard_it_is() -> None:
    for name in PROJECT.chapters():
        text = (PROJECT.book / "text" / f"{name}.md").read_text("utf-8")
        titles = re.findall(r"^:::+\{exercise(?:-start)?\}(.*)$", text, flags=re.MULTILINE)
        assert titles, name
        for title in titles:
            assert re.match(r" ★{1,3} \S", title), f"{name}: {title or 'an exercise without title'}"


def test_a_stripped_notebook_keeps_its_cells() -> None:
    notebook = PROJECT.chapter("one_step").read()
    before = [cell.source for cell in notebook.cells]
    assert [cell.source for cell in stripped(notebook).cells] == before
    assert not any(cell.get("outputs") for cell in notebook.cells)


def test_new_results_are_listed_and_what_is_listed_is_new() -> None:
    claims = PROJECT.claims()
    new = {row["box"] for row in claims.values() if is_new(row)}
    listed = read_new(PROJECT.book / "new.yml")
    boxes, figures = {}, {}
    for name, chapter in PROJECT.chapters().items():
        text = "\n".join(c.source for c in chapter.read().cells if c.cell_type == "markdown")
        boxes |= {box.label: (name, box.kind) for box in bodies(text)}
        figures[name] = {picture.name for picture in DRAWN[name]}
    for result in listed:
        assert result.box in new, result.box
        assert result.figure in figures[boxes[result.box][0]], result.figure
    mixed = {row["box"] for row in claims.values() if not is_new(row)}
    must = {label for label in new - mixed if boxes[label][1] in ("theorem", "conjecture")}
    assert must <= {result.box for result in listed}


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ({"box": "a"}, "an entry has box, figure, sure, refuted, near"),
        (
            {"box": "a", "figure": "b", "sure": "very", "refuted": "c", "near": "d"},
            "sure is one of",
        ),
    ],
)
def test_an_entry_that_lacks_something_is_named(
    tmp_path: Path, entry: dict[str, Any], sentence: str
) -> None:
    path = tmp_path / "new.yml"
    path.write_text(yaml.safe_dump([entry]), encoding="utf-8")
    with pytest.raises(ValueError, match=sentence):
        read_new(path)


def test_a_statement_is_read_with_the_boxes_inside_it() -> None:
    text = "::::{prf:theorem} One\n:label: one\n\nA\n\n:::{note}\nB\n:::\n::::\n\n:::{prf:proof}\nC\n:::"
    assert [(box.label, box.body) for box in bodies(text)] == [("one", "A\n\n:::{note}\nB\n:::")]
