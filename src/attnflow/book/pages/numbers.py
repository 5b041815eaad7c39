"""Figures have numbers: the chapter's and their own, before the caption."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

_CAPTION = re.compile(r"(<figure class=\"af-figure[^>]*>.*?<figcaption[^>]*>)", flags=re.DOTALL)


def numbered(html: str, chapter: str, before: int) -> tuple[str, int]:
    """The figures in `html` with their numbers, and how many there were up to here.

    >>> numbered('<figure class="af-figure"><figcaption>It rises.</figcaption></figure>', "3", 1)
    ('<figure class="af-figure"><figcaption><span class="af-number">Figure 3.2.</span> It rises.</figcaption></figure>', 2)
    """
    count = before

    def number(found: re.Match[str]) -> str:
        nonlocal count
        count += 1
        return f'{found[1]}<span class="af-number">Figure {chapter}.{count}.</span> '

    return _CAPTION.sub(number, html), count


class Numbers(SphinxPostTransform):
    """Numbers the figures of a chapter, in the order of the page."""

    default_priority = 160
    formats = ("html",)

    def run(self, **given: Any) -> None:
        own = self.env.toc_secnumbers.get(self.env.docname, {}).get("")
        if not own:
            return
        count = 0
        for raw in self.document.findall(nodes.raw):
            if "af-figure" not in raw.astext():
                continue
            html, count = numbered(raw.astext(), str(own[0]), count)
            raw.children = [nodes.Text(html)]
            raw.rawsource = html


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_post_transform(Numbers)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
