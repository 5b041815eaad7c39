"""The built book as one PDF, printed by Chromium.

The pages of _build/html are laid one after another into one document: their ids and links get the
page's name in front, so that links between pages lead inside of the document. Evidence stays
folded, laboratories and forms are left out; what is printed is what a reader of paper can use.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from html import escape
from pathlib import Path

import yaml

from attnflow.book.chapters.parameters import BookError
from attnflow.book.chapters.project import Project

#: Pages that make sense on paper only as a web page: found by their folder or name.
LEFT_OUT = ("api/", "gallery", "reference")
_ARTICLE = re.compile(r'<article class="bd-article"[^>]*>(.*?)</article>', flags=re.DOTALL)
_HEAD = re.compile(
    r'<link[^>]*rel="stylesheet"[^>]*>|<script>window\.MathJax.*?</script>|'
    r"<script[^>]*tex-svg-full\.js[^>]*></script>",
    flags=re.DOTALL,
)
_ID = re.compile(r"""\b(id|for|name)=["']([^"']+)["']""")
_INSIDE = re.compile(r"""(href|xlink:href)=["']#([^"']*)["']""")
_BETWEEN = re.compile(r"""href=["'](?:\.\./)*(?:book/)?([a-z_/]+)\.html(?:#([^"']*))?["']""")
_PAINT = re.compile(r"url\(#([^)]+)\)")
PRINT = """
@page { size: A4; margin: 18mm 16mm 20mm; }
html { font-size: 10.5pt; scrollbar-gutter: auto; } body { background: #fff; }
article { display: block; break-before: page; max-width: none; }
article.af-cover { break-before: auto; }
.af-cover li { list-style: none; } .af-cover li.af-part { margin-top: .8em; font-weight: 600; }
h1, h2, h3 { break-after: avoid; break-inside: avoid; } figure, .admonition, .af-strip, table { break-inside: avoid; }
.af-laboratory, .af-rerun, .af-filters, .headerlink, button, .af-figure::after { display: none !important; }
pre { white-space: pre-wrap; font-size: .8em; } a { color: inherit; text-decoration: none; }
figure.af-figure svg { max-height: 150mm; }
details:not([open]) > :not(summary) { display: none; }
mjx-container { overflow: visible !important; }
"""
_FOOT = (
    '<div style="font-size:8px;width:100%;text-align:center;color:#666">'
    '<span class="pageNumber"></span></div>'
)


def pages(project: Project) -> list[tuple[str, list[str]]]:
    """The parts of the book and their pages, as the table of contents has them."""
    toc = yaml.safe_load((project.root / "_toc.yml").read_text("utf-8"))
    parts = [("", [toc["root"]])]
    parts += [(p["caption"], [c["file"] for c in p["chapters"]]) for p in toc["parts"]]
    short = [(caption, [f.removeprefix("book/") for f in files]) for caption, files in parts]
    return [(c, [f for f in files if not f.startswith(LEFT_OUT)]) for c, files in short]


def moved(html: str, page: str, known: set[str]) -> str:
    """The article of `page` with ids and links for one document of all `known` pages.

    >>> moved('<p id="a"><a href="#a"></a><a href="other.html#b"></a></p>', "one", {"one", "other"})
    '<p id="one--a"><a href="#one--a"></a><a href="#other--b"></a></p>'
    >>> moved('<a href="api/x.html">x</a>', "one", {"one"})
    '<a>x</a>'
    """

    def between(found: re.Match[str]) -> str:
        if found[1] not in known:
            return ""
        return f'href="#{found[1]}--{found[2]}"' if found[2] else f'href="#{found[1]}--"'

    html = _ID.sub(lambda m: f'{m[1]}="{page}--{m[2]}"', html)
    html = _INSIDE.sub(lambda m: f'{m[1]}="#{page}--{m[2]}"', html)
    html = _PAINT.sub(lambda m: f"url(#{page}--{m[1]})", html)
    return re.sub(
        r"<a\s+>", "<a>", re.sub(r' (?=href="[^"#]*\.html)', " ", _BETWEEN.sub(between, html))
    )


def document(project: Project) -> str:
    """All pages as one, with a cover and contents."""
    folder = project.build / "html" / "book"
    parts = pages(project)
    known = {name for _, files in parts for name in files}
    contents, articles, head = [], [], ""
    for caption, files in parts:
        contents += [f'<li class="af-part">{escape(caption)}</li>'] if caption else []
        for name in files:
            text = (folder / f"{name}.html").read_text("utf-8")
            found = _ARTICLE.search(text)
            if found is None:
                raise BookError(f"{name}.html is no page of the book: run `attnflow book` again")
            head = max(head, "\n".join(_HEAD.findall(text)), key=len)  # of a page with formulas
            title = re.search(r"<h1>(.*?)<a class=\"headerlink\"", found[1], flags=re.DOTALL)
            contents.append(f'<li><a href="#{name}--">{title[1] if title else name}</a></li>')
            articles.append(
                f'<article class="bd-article" id="{name}--">{moved(found[1], name, known)}</article>'
            )
    head = head.replace(' type="text/x-formulas"', "")  # on paper all formulas are typeset at once
    cover = f'<article class="af-cover"><h1>attnflow</h1><p>Transformers as flows of particles: a book that runs.</p><ul>{"".join(contents)}</ul></article>'
    return (
        '<!DOCTYPE html><html lang="en" data-theme="light"><head><meta charset="utf-8"><title>attnflow</title>'
        f"{head}<style>{PRINT}</style></head><body>{cover}{''.join(articles)}</body></html>"
    )


def browser() -> str | None:
    """The machine's Chromium: the shell without windows if it is there, which needs a quarter less."""
    names = ("chromium-headless-shell", "chromium", "chromium-browser")
    return next(filter(None, map(shutil.which, names)), None)


def print_book(project: Project, say: Callable[[str], None]) -> Path:
    """_build/attnflow.pdf, from the built pages."""
    html = project.build / "html"
    if not (html / "index.html").is_file():
        raise BookError("nothing is built yet: run `attnflow book` (or `make book`) first")
    chromium = browser()
    if chromium is None:
        raise BookError("a PDF is printed by Chromium, which is not on this machine: install it")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise BookError("playwright is missing: pip install 'attnflow[test]'") from None
    source, target = html / "book" / ".whole.html", project.build / "attnflow.pdf"
    draft = target.with_suffix(".draft.pdf")
    source.write_text(document(project), encoding="utf-8")
    try:
        with sync_playwright() as playwright:
            app = playwright.chromium.launch(
                executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
            )
            page = app.new_page()
            page.set_default_timeout(600_000)
            page.goto(source.as_uri())
            say("typesetting")
            page.evaluate("window.MathJax?.startup?.promise")
            say("printing")
            page.pdf(
                path=draft, outline=True, tagged=True, prefer_css_page_size=True,
                display_header_footer=True, header_template="<span></span>", footer_template=_FOOT,
            )  # fmt: skip
            app.close()
        draft.replace(target)
    finally:
        source.unlink(missing_ok=True)
        draft.unlink(missing_ok=True)
    return target
