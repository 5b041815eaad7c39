"""The built book in _build/html: links and anchors hold, and a browser finds nothing to complain of."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from browsers import chromium, served

from attnflow.book.chapters.project import find_project

ROOT = find_project().root
HTML = ROOT / "_build" / "html"
NAMES = find_project().pages()
PAGES = [HTML / "book" / f"{name}.html" for name in NAMES]
SHOTS = ROOT / "_build" / "screenshots"
PHONE, DESK = 390, 1280
LOOKS = [(PHONE, "dark"), (DESK, "light")]
PICTURED = [*LOOKS, (PHONE, "light"), (DESK, "dark")]
#: Whether to keep a picture of every page: whole pages are long, and drawing them takes minutes.
PICTURES = bool(os.environ.get("ATTNFLOW_PICTURES"))

#: How much of a chapter's height code and rows of checks may take.
MOST_CODE = 0.15
#: How large a chapter's page and the whole book may be, in bytes.
MOST_PAGE, MOST_BOOK = 1_500_000, 25_000_000
#: How high letters of a drawing must be on a phone once it was tapped, in pixels of their font size.
LEAST_TEXT = 11
#: The smallest text of every drawing. matplotlib draws letters of which 100 units are one em.
LETTERS = """() => {
  const out = {};
  for (const drawing of document.querySelectorAll("figure.af-figure .af-drawn svg"))
    for (const word of drawing.querySelectorAll("g[transform*='scale(']")) {
      if (!word.querySelector(":scope > use")) continue;
      const at = word.getScreenCTM(), size = 100 * Math.hypot(at.a, at.b), name = drawing.closest("figure").id;
      out[name] = Math.min(size, out[name] || Infinity);
    }
  return out;
}"""
TAP = "document.querySelectorAll('.af-drawn svg').forEach(e => e.dispatchEvent(new MouseEvent('click', {bubbles: true})))"
#: Formulas that reach out of the page and cannot be scrolled, by where they end.
CUT = """() => {
  const page = document.querySelector("article.bd-article").getBoundingClientRect(), out = [];
  const scrolls = (e) => ["auto", "scroll"].includes(getComputedStyle(e).overflowX);
  for (const formula of document.querySelectorAll("mjx-container")) {
    if (!formula.checkVisibility()) continue;
    const drawn = (formula.firstElementChild || formula).getBoundingClientRect();
    let around = formula, safe = false;
    while (around && around.tagName !== "ARTICLE" && !safe) { safe = scrolls(around); around = around.parentElement; }
    if (drawn.left < page.left - 2 || (drawn.right > page.right + 2 && !safe))
      out.push([Math.round(drawn.left - page.left), Math.round(drawn.right - page.right)]);
  }
  return out;
}"""
#: The part of a page that is code, or rows of checks, in view.
SHARE = """() => {
  const page = document.querySelector("article.bd-article").getBoundingClientRect().height;
  let taken = 0;
  for (const part of document.querySelectorAll("article .cell_input div.highlight, article .af-check"))
    if (part.checkVisibility()) taken += part.getBoundingClientRect().height;
  return taken / page;
}"""

built = pytest.mark.built
browser = pytest.mark.browser


class Page(HTMLParser):
    """The ids, links and loaded resources of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.resources: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.ids |= {v for k, v in found.items() if k in ("id", "name") and v}
        if tag == "a" and found.get("href"):
            self.links.append(str(found["href"]))
        for name in ("src", "href"):
            if tag in ("script", "img", "link", "iframe", "source") and found.get(name):
                self.resources.append(str(found[name]))


@functools.cache
def parsed(path: Path) -> Page:
    return Page(path)


@built
def test_the_book_was_built() -> None:
    assert {"intro", "attention", "ledger", "errata", "rerun", "references"} <= set(NAMES)
    for page in PAGES:
        assert page.is_file(), f"run `attnflow book` first: there is no {page.name}"


@built
@pytest.mark.parametrize("name", NAMES)
def test_every_link_leads_somewhere(name: str) -> None:
    path = HTML / "book" / f"{name}.html"
    for link in parsed(path).links:
        parts = urlsplit(link)
        if parts.scheme in ("http", "https", "mailto"):
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        assert target.is_file(), f"{name} links to {link}"
        if parts.fragment and target.suffix == ".html":
            assert unquote(parts.fragment) in parsed(target).ids, f"{name} links to {link}"


@built
@pytest.mark.parametrize("name", NAMES)
def test_a_page_loads_nothing_from_outside(name: str) -> None:
    for resource in parsed(HTML / "book" / f"{name}.html").resources:
        assert not urlsplit(resource).netloc, resource


@built
def test_every_check_of_the_ledger_is_linked_to_its_cell() -> None:
    ledger = parsed(HTML / "book" / "ledger.html")
    linked = {urlsplit(link).fragment for link in ledger.links if "#check-" in link}
    shown = {i for p in PAGES for i in parsed(p).ids if i.startswith("check-")}
    assert linked == shown
    assert linked


@built
@pytest.mark.parametrize("name", list(find_project().chapters()))
def test_code_that_tests_is_folded_and_every_box_with_claims_has_its_strip(name: str) -> None:
    text = (HTML / "book" / f"{name}.html").read_text(encoding="utf-8")
    claims = [row for row in find_project().claims().values() if row["chapter"] == name]
    assert text.count('class="af-strip ') == len({row["box"] for row in claims})
    cells = re.split(r'<div class="cell ', text)[1:]
    testing = [
        cell for cell in cells if 'class="af-check ' in cell and "tag_teaches" not in cell[:200]
    ]
    assert testing
    assert all(cell.startswith("af-tests ") or "af-tests " in cell[:120] for cell in testing)
    assert all("<details" in cell for cell in testing)
    assert "Show code cell" not in text


@built
@pytest.mark.parametrize("name", NAMES)
def test_no_page_shows_a_path_of_the_machine_that_built_it(name: str) -> None:
    text = (HTML / "book" / f"{name}.html").read_text(encoding="utf-8")
    assert str(ROOT) not in text


@built
def test_the_book_is_small() -> None:
    """Pages without what cannot be seen; see attnflow.book.render.lean and slim."""
    for name in find_project().chapters():
        size = (HTML / "book" / f"{name}.html").stat().st_size
        assert size <= MOST_PAGE, f"{name} has {size / 1e6:.2f} MB"
    size = sum(path.stat().st_size for path in HTML.rglob("*") if path.is_file())
    assert size <= MOST_BOOK, f"the book has {size / 1e6:.1f} MB"


@built
@pytest.mark.parametrize("name", NAMES)
def test_no_line_begins_with_the_punctuation_of_a_formula(name: str) -> None:
    text = (HTML / "book" / f"{name}.html").read_text(encoding="utf-8")
    after = re.findall(
        r'(.{27})<span class="math notranslate nohighlight">[^<]*</span>[.,;:!?)]', text
    )
    assert all('<span class="af-together">' in before for before in after)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with served(HTML) as address:
        yield address


@pytest.fixture(scope="module")
def browsing() -> Iterator[Any]:
    SHOTS.mkdir(parents=True, exist_ok=True)
    with chromium() as app:
        yield app


@pytest.fixture
def visit(browsing: Any, server: str) -> Iterator[Any]:
    """visit(name, width, theme) -> a page, and the list of its complaints."""
    contexts = []

    def open_page(name: str, width: int = DESK, theme: str = "light") -> tuple[Any, list[str]]:
        context = browsing.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
        contexts.append(context)
        page, complaints = context.new_page(), []
        page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda e: complaints.append(str(e)))
        page.on("requestfailed", lambda r: complaints.append(f"failed: {r.url}"))
        page.on(
            "request",
            lambda r: (
                None
                if r.url.startswith((server, "data:", "blob:"))
                else complaints.append(f"outside: {r.url}")
            ),
        )
        page.goto(f"{server}/book/{name}.html")
        page.evaluate("window.formulas")
        return page, complaints

    yield open_page
    for context in contexts:
        context.close()


@browser
@pytest.mark.parametrize("name", NAMES)
def test_a_page_opens_without_complaint(visit: Any, name: str) -> None:
    """Loaded once on a dark phone and then looked at on a light desk: loading is slow.

    What fits does not depend on colours, so each width has one theme; pictures are taken of all four.
    """
    page, complaints = visit(name, PHONE, "dark")
    assert page.evaluate("[...document.querySelectorAll('.af-lab')].every(lab => lab.live)")
    for width, theme in PICTURED if PICTURES else LOOKS:
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=theme)
        page.wait_for_function(f"document.documentElement.dataset.theme === '{theme}'")
        overflow = page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert overflow <= 0, f"{name} is {overflow} px too wide at {width} px"
        cut = page.evaluate(CUT)
        assert cut == [], f"{name} cuts formulas at {width} px: {cut}"
        if width == PHONE:
            page.evaluate(TAP)
            small = {k: v for k, v in page.evaluate(LETTERS).items() if v < LEAST_TEXT}
            assert not small, f"{name} has small print in enlarged drawings: {small}"
            page.evaluate(TAP)
        if width == DESK and name in find_project().chapters():
            share = page.evaluate(SHARE)
            assert share <= MOST_CODE, f"{share:.0%} of {name} is code and checks"
        if PICTURES:
            page.add_style_tag(content=".af-drawn { content-visibility: visible !important; }")
            page.wait_for_timeout(300)
            page.screenshot(path=SHOTS / f"{name}-{width}-{theme}.png", full_page=True)
    assert complaints == []


@browser
def test_formulas_are_typeset(visit: Any) -> None:
    page, _ = visit("attention")
    formulas = page.locator("span.math, div.math")
    assert formulas.count() > 50
    assert page.locator("mjx-container").count() >= formulas.count()
    assert page.locator("mjx-merror, [data-mjx-error]").count() == 0
    assert page.locator("figcaption mjx-container").count() > 0


@browser
def test_search_finds_a_word(visit: Any, server: str) -> None:
    page, _ = visit("intro")
    page.goto(f"{server}/search.html?q=equivariance")
    page.locator("#search-results li a").first.wait_for()
    links = page.locator("#search-results li a").evaluate_all("all => all.map(a => a.href)")
    assert any("attention.html" in link for link in links)


@browser
def test_figures_follow_the_theme(visit: Any) -> None:
    colours = {}
    for theme in ("light", "dark"):
        page, _ = visit("attention", theme=theme)
        colours[theme] = page.locator("#fig-depth .af-drawn > svg").evaluate(
            "e => getComputedStyle(e).color"
        )
    assert colours["light"] != colours["dark"]


@browser
def test_the_ledger_is_filtered_by_words_and_choices(visit: Any) -> None:
    page, complaints = visit("ledger")
    rows = page.locator("details.af-claim")
    everything = rows.count()
    assert everything == len(find_project().claims())
    page.locator("[data-filter=chapter]").select_option("one_step")
    wanted = [r for r in find_project().claims().values() if r["chapter"] == "one_step"]
    assert page.locator("details.af-claim:visible").count() == len(wanted)
    page.locator("[data-filter=text]").fill("no claim says this")
    assert page.locator("details.af-claim:visible").count() == 0
    assert page.locator(".af-filters output").inner_text() == f"0 of {everything} claims"
    assert not complaints


@browser
def test_a_link_to_a_row_opens_the_fold_that_it_is_in(visit: Any) -> None:
    page, complaints = visit("one_step")
    row = page.locator(".af-check").first
    assert not row.is_visible()
    page.evaluate("id => { location.hash = id; }", row.get_attribute("id"))
    row.wait_for(state="visible", timeout=2000)
    assert not complaints
