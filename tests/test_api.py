"""The reference: which names it documents, and how chapters and functions link to each other."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from importlib import import_module
from inspect import isfunction
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from attnflow.book.chapters.project import find_project
from attnflow.book.pages.api import Name, _written, files, modules, public, used

ROOT = find_project().root


def test_a_name_stands_where_users_import_it_from() -> None:
    names = public("attnflow.transport")
    assert Name("attnflow.transport", "self_bridge", "attnflow.transport.bridge") in names
    assert {n.name for n in names} == {
        "Bridge", "Bridges", "PairBridge", "Potentials", "pair_bridge", "self_bridge",
        "self_bridges", "sinkhorn", "w2", "wp",
    }  # fmt: skip
    assert Name("attnflow.rates", "fit_rate", "attnflow.rates") in public("attnflow.rates")


def test_what_is_shown_of_another_folder_is_documented_there_alone() -> None:
    """`Head` is at home in attention; lipschitz shows it too."""
    assert "Head" in {n.name for n in public("attnflow.attention")}
    assert "Head" not in {n.name for n in public("attnflow.lipschitz")}
    paths = [name.path for module in modules() for name in public(module)]
    assert len(paths) == len(set(paths))


def test_no_folder_has_a_file_and_a_function_of_one_name() -> None:
    for module in modules():
        inside = {name.rpartition(".")[2] for name in files(module)} - {module[9:]}
        assert not inside & {name.name for name in public(module)}, module


#: What holds chapters together, and tools that every textbook has: no source of their own.
HOUSEHOLD = {
    "assets", "claims", "errors", "figures", "files", "images", "prose", "provenance", "validate",
}  # fmt: skip
TOOLS = {"differences", "kernels", "line", "matrices", "rates", "rotation"}
SOURCE = re.compile(r":cite:|[Tt]his book|book's own")
FORMULA = re.compile(r":math:|\.\. math::")


def _told(name: Name) -> str:
    """What the reference says of a name: its own words and those of its file."""
    home = import_module(name.home)
    return f"{getattr(home, name.name).__doc__}\n{home.__doc__}"


def _functions(left_out: set[str]) -> list[Name]:
    names = [n for m in modules() if m.split(".")[1] not in left_out for n in public(m)]
    return [n for n in names if isfunction(getattr(import_module(n.home), n.name))]


def test_every_function_of_the_mathematics_has_a_formula() -> None:
    told = _functions(HOUSEHOLD | {"trained"})
    assert len(told) > 180
    assert [name.path for name in told if not FORMULA.search(_told(name))] == []


def test_every_result_has_a_source_or_is_said_to_be_the_books_own() -> None:
    told = _functions(HOUSEHOLD | TOOLS)
    assert len(told) > 160
    assert [name.path for name in told if not SOURCE.search(_told(name))] == []


def test_every_source_is_in_the_bibliography() -> None:
    known = set(re.findall(r"@\w+{([^,]+),", (ROOT / "book" / "references.bib").read_text("utf-8")))
    for path in (ROOT / "src").rglob("*.py"):
        for keys in re.findall(r":cite:[a-z]+:`([^`]+)`", path.read_text(encoding="utf-8")):
            assert set(keys.replace(" ", "").split(",")) <= known, (path.name, keys)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("from attnflow.sphere import flow, energy as E", ["sphere.flow", "sphere.energy"]),
        ("from attnflow import trained\ntrained.load('x')", ["trained.load"]),
        ("from attnflow import trained as t\nt.load('x'); u.other", ["trained.load"]),
        ("%matplotlib inline\nimport numpy as np\nnp.eye(2)", []),
    ],
)
def test_what_a_chapter_uses_is_what_it_imports_or_asks_of_a_module(
    source: str, names: list[str]
) -> None:
    notebook = new_notebook(cells=[new_code_cell(source)])
    assert list(used(notebook)) == [f"attnflow.{name}" for name in names]


def test_a_page_names_every_name_with_its_chapters() -> None:
    text = "\n".join(_written("attnflow.transport", {"attnflow.transport.w2": ["one_step"]}))
    assert ".. autofunction:: attnflow.transport.w2" in text
    assert ".. autoclass:: attnflow.transport.Bridge" in text
    assert text.count(":doc:`/book/") == 1
    assert "In the book: :doc:`/book/one_step`." in text


class _Page(HTMLParser):
    """The ids of a page, and the links of its list of functions."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = dict(attributes)
        self.ids.add(found.get("id") or "")
        if tag == "a" and "reference internal" in (found.get("class") or ""):
            self.links.append(found.get("href") or "")


@pytest.mark.built
def test_every_public_name_has_a_place_in_the_built_reference() -> None:
    folder = ROOT / "_build" / "html" / "book" / "api"
    ids = {name for path in folder.glob("*.html") for name in _Page(path).ids}
    missing = [n.path for m in modules() for n in public(m) if n.path not in ids]
    assert missing == []


@pytest.mark.built
def test_every_chapter_links_to_the_functions_it_uses_and_they_link_back() -> None:
    built = ROOT / "_build" / "html" / "book"
    back = {link for at in (built / "api").glob("*.html") for link in _Page(at).links}
    for path in sorted((ROOT / "book").glob("*.ipynb")):
        page = _Page(built / f"{path.stem}.html")
        linked = {m[1] for link in page.links if (m := re.match(r"api/\w+\.html#(.+)", link))}
        names = {n for n in used(nbformat.read(path, as_version=4)) if "attnflow.sphere" in n}
        assert names <= linked, path.stem
        assert linked, path.stem
        assert f"../{path.stem}.html" in back, path.stem
