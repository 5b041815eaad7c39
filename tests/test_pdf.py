"""The book as one document: what is printed, and where its links lead."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from conftest import make_project

from attnflow.book.chapters.parameters import BookError
from attnflow.book.chapters.project import Project, find_project
from attnflow.book.render.pdf import browser, document, moved, pages, print_book


def test_every_chapter_is_printed_in_the_order_of_the_book() -> None:
    project = find_project()
    printed = [name for _, files in pages(project) for name in files]
    assert printed[0] == "intro"
    assert [name for name in printed if name in project.chapters()] == list(project.chapters())
    assert not [name for name in printed if name.startswith("api/")]


def test_ids_of_two_pages_do_not_meet_and_drawings_keep_their_clips() -> None:
    svg = '<svg><clipPath id="c"/><g clip-path="url(#c)"><use xlink:href="#m"/></g></svg>'
    assert moved(svg, "one", {"one"}) == (
        '<svg><clipPath id="one--c"/><g clip-path="url(#one--c)"><use xlink:href="#one--m"/></g></svg>'
    )


def test_a_link_out_of_the_book_stays_as_it_is() -> None:
    link = '<a href="https://arxiv.org/abs/2305.05465">a paper</a>'
    assert moved(link, "one", {"one"}) == link


@pytest.mark.built
def test_every_link_inside_the_document_leads_somewhere() -> None:
    whole = document(find_project())
    ids = set(re.findall(r'\bid="([^"]+)"', whole)) | set(re.findall(r'\bname="([^"]+)"', whole))
    links = re.findall(r'<a [^>]*href="#([^"]*)"', whole)
    assert len(links) > 300
    assert [link for link in links if link not in ids] == []
    assert not re.search(r'href="(\.\./)*[a-z_]+\.html', whole)


def test_nothing_built_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(BookError, match="nothing is built yet"):
        print_book(make_project(tmp_path / "mini"), print)


def test_a_machine_without_chromium_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(tmp_path / "mini")
    (project.build / "html").mkdir(parents=True)
    (project.build / "html" / "index.html").write_text("", encoding="utf-8")
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(BookError, match="printed by Chromium"):
        print_book(project, print)


@pytest.mark.browser
def test_a_small_book_is_printed_with_an_outline(tmp_path: Path, chromium_path: str) -> None:
    assert chromium_path
    project = make_project(tmp_path / "mini")
    toc = "format: jb-book\nroot: book/intro\nparts:\n- caption: One\n  chapters:\n  - file: book/slope\n"
    (project.root / "_toc.yml").write_text(toc, encoding="utf-8")
    folder = project.build / "html" / "book"
    folder.mkdir(parents=True)
    (project.build / "html" / "index.html").write_text("", encoding="utf-8")
    for name in ("intro", "slope"):
        text = f'<article class="bd-article"><h1>{name}<a class="headerlink"></a></h1><a href="slope.html">s</a></article>'
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    said: list[Any] = []
    printed = print_book(project, said.append).read_bytes()
    assert printed.startswith(b"%PDF-")
    assert b"/Outlines" in printed
    assert b"/Link" in printed
    assert sorted(path.name for path in project.build.iterdir()) == ["attnflow.pdf", "html"]
    assert not (folder / ".whole.html").exists()


@pytest.fixture
def chromium_path() -> str:
    found = browser()
    if found is None:
        pytest.skip("no chromium on this machine: install it to test the pages in a browser")
    return found


def test_a_page_that_is_none_is_named(tmp_path: Path) -> None:
    project: Project = make_project(tmp_path / "mini")
    toc = "format: jb-book\nroot: book/intro\nparts: []\n"
    (project.root / "_toc.yml").write_text(toc, encoding="utf-8")
    folder = project.build / "html" / "book"
    folder.mkdir(parents=True)
    (folder / "intro.html").write_text("<html></html>", encoding="utf-8")
    with pytest.raises(BookError, match=r"intro\.html is no page of the book"):
        document(project)
