"""A matplotlib figure as the pages show it."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure

from attnflow import figures

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def house_style() -> Iterator[None]:
    with plt.rc_context():
        figures.use_style()
        yield
    plt.close("all")


def draw() -> Figure:
    fig, ax = plt.subplots()
    ax.plot([0.0, 1.0, 2.0], [1.0, 3.0, 2.0], label="a line")
    ax.scatter([0.5], [2.0], color=figures.PAPER, edgecolor=figures.INK)
    ax.set_title("a title")
    ax.legend()
    return fig


def svg_of(html: str) -> ET.Element:
    return ET.fromstring(html[html.index("<svg") : html.index("</svg>") + len("</svg>")])


def test_what_follows_is_drawn_in_the_house_style() -> None:
    for name, value in mpl.RcParams(figures.STYLE).items():
        assert plt.rcParams[name] == value, name
    assert not plt.isinteractive()


def test_a_figure_is_an_svg_image_with_its_description() -> None:
    shown = figures.show(draw(), name="a-line", alt='Rises to "3" & falls < 3')
    svg = svg_of(shown.html)
    assert svg.tag == f"{SVG}svg"
    assert svg.get("role") == "img"
    assert svg.get("aria-label") == 'Rises to "3" & falls < 3'


def test_ink_is_the_colour_of_the_page_and_paper_its_background() -> None:
    html = figures.show(draw(), name="a-line", alt="A line").html
    assert "currentColor" in html
    assert "var(--pst-color-background" in html
    assert figures.INK not in html
    assert figures.PAPER not in html
    assert figures.BLUE in html
    assert not re.search(r"(fill|stroke): ?(#000000|black)", html)


def test_the_background_is_transparent() -> None:
    html = figures.show(draw(), name="a-line", alt="A line").html
    assert not re.search(r"fill: ?(#ffffff|white)", html)


def test_the_same_figure_gives_the_same_bytes() -> None:
    first, second = (figures.show(draw(), name="a-line", alt="A line").html for _ in range(2))
    assert first == second


def test_figures_of_different_names_share_no_ids() -> None:
    first, second = (figures.show(draw(), name=name, alt="A line").html for name in ("a", "b"))
    clips = [set(re.findall(r'<clipPath id="([^"]+)"', html)) for html in (first, second)]
    assert clips[0]
    assert not clips[0] & clips[1]


def test_no_date_or_program_is_left_in_the_file() -> None:
    html = figures.show(draw(), name="a-line", alt="A line").html
    assert "<metadata>" not in html
    assert "dc:date" not in html
    assert "matplotlib.org" not in html


def test_rounded_paths_move_no_point_by_more_than_a_hundredth() -> None:
    fig = draw()
    html = figures.show(fig, name="a-line", alt="A line").html
    assert not re.search(r' d="[^"]*\.\d{3}', html)
    buffer = io.StringIO()
    with plt.rc_context({"svg.hashsalt": "a-line"}):
        fig.savefig(buffer, format="svg")
    exact, shown = (
        [float(v) for d in re.findall(r' d="([^"]*)"', text) for v in re.findall(r"-?[\d.]+", d)]
        for text in (buffer.getvalue(), html)
    )
    assert shown == pytest.approx(exact, abs=0.01)


def test_a_shown_figure_is_closed_and_named_in_the_page() -> None:
    before = plt.get_fignums()
    shown = figures.show(draw(), name="a-line", alt="A line", caption="As $x$ grows.")
    assert plt.get_fignums() == before
    assert 'id="fig-a-line"' in shown.html
    assert re.search(r"<figcaption[^>]*>As \$x\$ grows\.</figcaption>", shown.html)
    assert "<figcaption" not in figures.show(draw(), name="a-line", alt="A line").html


def test_readers_without_html_get_the_description() -> None:
    bundle = figures.show(draw(), name="a-line", alt="A line")._repr_mimebundle_()
    assert bundle["text/plain"] == "[figure: A line]"
    assert "<svg" in bundle["text/html"]


@pytest.mark.parametrize("name", ["", "A-line", "a line", "1-line", "a_line", "a-line\n", 'a"b'])
def test_a_name_that_is_no_anchor_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="name must be"):
        figures.show(draw(), name=name, alt="A line")


@pytest.mark.parametrize("alt", ["", "   ", "\n"])
def test_a_figure_needs_a_description(alt: str) -> None:
    with pytest.raises(ValueError, match="alt must describe"):
        figures.show(draw(), name="a-line", alt=alt)


def test_a_figure_whose_numbers_differ_in_their_last_digits_is_the_same_to_the_byte() -> None:
    def drawn(scale: float) -> str:
        fig, ax = plt.subplots(layout="none")
        ax.set_position((0.1, 0.1, 0.7 * scale, 0.8))  # clip paths are named by a hash of this
        ax.plot(np.linspace(0, 1, 20), np.linspace(0, 1, 20) ** 2, "o-")
        return figures.show(fig, name="steady", alt="a curve").html

    assert drawn(1.0) == drawn(1.0 + 1e-15)
    assert drawn(1.0) != drawn(1.1)


def test_ids_of_a_figure_are_its_own_and_every_reference_finds_one() -> None:
    fig, ax = plt.subplots()
    ax.plot([0, 1], "o-")
    html = figures.show(fig, name="own-ids", alt="a line").html
    defined = set(re.findall(r'id="([^"]+)"', html))
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', html))
    assert used <= defined
    assert any(name.startswith("own-ids-") for name in used)
