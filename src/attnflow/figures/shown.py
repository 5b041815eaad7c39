"""A figure as a page shows it: a fragment of HTML with an alternative text and a caption."""

from __future__ import annotations

import io
import re
from html import escape
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from attnflow.figures.style import INK, PAPER


class Shown:
    """A figure as a notebook displays it: an HTML fragment, with its description as text.

    >>> Shown("<p>a curve</p>", "a curve")._repr_mimebundle_()["text/plain"]
    '[figure: a curve]'
    """

    def __init__(self, html: str, alt: str) -> None:
        self.html, self.alt = html, alt

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": f"[figure: {self.alt}]"}


def show(fig: Figure, *, name: str, alt: str, caption: str = "") -> Shown:
    """A matplotlib figure, closed and ready to display; `name` is its anchor in the page.

    The same figure gives the same bytes, on any processor.

    >>> fig, ax = plt.subplots()
    >>> _ = ax.plot([0.0, 1.0])
    >>> shown = show(fig, name="a-line", alt="A line that rises", caption="It rises.")
    >>> 'id="fig-a-line"' in shown.html, 'aria-label="A line that rises"' in shown.html
    (True, True)
    """
    described(name, alt)
    buffer = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": name}):
        # Figure.savefig would draw twice, the first time only to lay out what the second lays out again.
        FigureCanvasSVG(fig).print_svg(buffer, metadata={"Date": None, "Creator": None})
    plt.close(fig)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = svg.replace(INK, "currentColor")
    svg = svg.replace(PAPER, "var(--pst-color-background, white)")
    svg = re.sub(r' d="[^"]*"', _rounded_path, svg)
    svg = _plain_ids(svg, name)
    width = fig.get_size_inches()[0] * 100
    svg = svg.replace(
        "<svg ",
        f'<svg role="img" aria-label="{escape(alt)}" '
        f'style="width:100%;height:auto;max-width:{width:.0f}px" ',
        1,
    )
    return Shown(figure(svg, name, caption), alt)


def _rounded_path(found: re.Match[str]) -> str:
    """A path to a hundredth of a point, which is finer than any screen."""
    return re.sub(r"(\.\d{2})\d+", r"\1", found[0])


def _plain_ids(svg: str, name: str) -> str:
    """Ids by order of appearance: matplotlib hashes unrounded numbers, whose last digits vary."""
    found = dict.fromkeys(re.findall(r'id="([a-z][0-9a-f]{10})"', svg))
    plain = {old: f"{name}-{k}" for k, old in enumerate(found)}
    return re.sub(r"\b[a-z][0-9a-f]{10}\b", lambda m: plain.get(m[0], m[0]), svg)


def described(name: str, alt: str) -> None:
    """Refuse a figure without an anchor or without words for who cannot see it.

    >>> described("A line", "A line that rises")
    Traceback (most recent call last):
    ValueError: name must be lower-case words joined by hyphens, got 'A line'
    """
    if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        raise ValueError(f"name must be lower-case words joined by hyphens, got {name!r}")
    if not alt.strip():
        raise ValueError(f"alt must describe the figure in words, got {alt!r}")


def figure(body: str, name: str, caption: str) -> str:
    """The fragment of a page: what is drawn, with its anchor and its caption.

    >>> figure("<svg/>", "a-line", "")
    '<figure class="af-figure" id="fig-a-line"><svg/></figure>'
    """
    below = f'<figcaption class="mathjax_process">{caption}</figcaption>' if caption else ""
    return f'<figure class="af-figure" id="fig-{name}">{body}{below}</figure>'
