"""Figures as the pages show them."""

from __future__ import annotations

import io
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure

from attnflow import figures

CLOSE = 6e-4  # positions are shown to three digits
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


TIMES = np.linspace(0.0, 2.0, 9)
STATES = np.random.default_rng(0).normal(size=(9, 5, 2))


def play(times: np.ndarray = TIMES, states: np.ndarray = STATES) -> figures.Shown:
    return figures.token_player(
        {"softmax": states, "l2": 0.5 * states},
        times,
        colour=np.arange(5.0),
        name="tokens",
        alt="Tokens & clusters",
        caption="Each dot a token.",
    )


def frames_of(html: str) -> list[dict]:
    start = re.search(r"addFrames\([^,]*,\s*", html)
    assert start is not None
    return json.JSONDecoder().raw_decode(html, start.end())[0]


def test_the_player_has_one_frame_for_every_time() -> None:
    frames = frames_of(play().html)
    assert [frame["name"] for frame in frames] == [str(k) for k in range(len(TIMES))]


def test_every_time_can_be_reached_by_its_frame_name() -> None:
    times = np.linspace(0.0, 0.02, 9)
    names = [frame["name"] for frame in frames_of(play(times).html)]
    assert len(set(names)) == len(times)


def test_the_frames_show_the_states() -> None:
    for k, frame in enumerate(frames_of(play().html)):
        dots = [trace for trace in frame["data"] if trace["mode"] == "markers"]
        assert len(dots) == 2
        for trace, states in zip(dots, (STATES, 0.5 * STATES), strict=True):
            assert trace["x"] == pytest.approx(states[k, :, 0], abs=CLOSE)
            assert trace["y"] == pytest.approx(states[k, :, 1], abs=CLOSE)


def test_the_player_is_described_and_brings_no_library_of_its_own() -> None:
    html = play().html
    assert 'aria-label="Tokens &amp; clusters"' in html
    assert 'id="fig-tokens"' in html
    assert "<script src=" not in html
    assert "https://" not in html
    assert len(html) < 200_000


def test_the_player_is_the_same_twice() -> None:
    assert play().html == play().html


def test_the_player_refuses_states_that_do_not_belong_to_the_times() -> None:
    with pytest.raises(ValueError, match="times"):
        play(TIMES[:4])


BALL = np.random.default_rng(1).normal(size=(9, 5, 3))
BALL /= np.linalg.norm(BALL, axis=2, keepdims=True)


def turn(times: np.ndarray = TIMES, path: np.ndarray = BALL) -> figures.Shown:
    return figures.sphere_player(
        path,
        times,
        colour=np.arange(5.0),
        name="globe",
        alt="Tokens & a sphere",
        caption="Each dot a token.",
    )


def traces_of(html: str) -> list[dict]:
    start = re.search(r"Plotly\.newPlot\(\s*\"plot-\w+\",\s*", html)
    assert start is not None
    return json.JSONDecoder().raw_decode(html, start.end())[0]


def test_the_frames_on_the_sphere_show_the_path() -> None:
    frames = frames_of(turn().html)
    assert [frame["name"] for frame in frames] == [str(k) for k in range(len(TIMES))]
    for frame, x in zip(frames, BALL, strict=True):
        (dots,) = (trace for trace in frame["data"] if trace["mode"] == "markers")
        shown = np.stack([dots[axis] for axis in "xyz"], axis=1)
        assert shown == pytest.approx(x, abs=CLOSE)


def test_frames_on_the_sphere_move_the_tokens_and_leave_the_sphere() -> None:
    html = turn().html
    kinds = [trace["type"] for trace in traces_of(html)]
    assert kinds == ["scatter3d", "scatter3d", "scatter3d", "surface"]
    assert all(frame["traces"] == [0, 1] for frame in frames_of(html))


def test_a_figure_in_space_is_redrawn_by_its_controls_and_one_in_the_plane_is_not() -> None:
    assert '"redraw":true' in turn().html
    assert '"redraw":false' not in turn().html
    assert '"redraw":true' not in play().html


def test_the_net_lies_on_the_sphere_and_the_veil_below_it() -> None:
    *_, net, veil = traces_of(turn().html)
    points = np.array([net[axis] for axis in "xyz"], dtype=float)
    radii = np.linalg.norm(points, axis=0)
    assert radii[np.isfinite(radii)] == pytest.approx(1.0, abs=2 * CLOSE)
    below = np.linalg.norm([np.array(veil[axis]) for axis in "xyz"], axis=0)
    assert (below < 0.98).all()


def test_the_sphere_is_described_and_small() -> None:
    html = turn().html
    assert 'aria-label="Tokens &amp; a sphere"' in html
    assert 'id="fig-globe"' in html
    assert "https://" not in html
    assert len(html) < 100_000
    assert turn().html == html


@pytest.mark.parametrize(
    ("times", "path"), [(TIMES[:4], BALL), (TIMES, BALL[:, :, :2]), (TIMES, BALL[0])]
)
def test_the_sphere_refuses_a_path_of_another_shape(times: np.ndarray, path: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"path must be \(times, n, 3\) with \d times, got shape"):
        turn(times, path)


def wave(**options: Any) -> figures.Shown:
    x = np.linspace(0, 1, 5)
    frames = [{"curve": (x, np.full(5, float(k)))} for k in range(4)]
    return figures.curve_player(
        frames, np.arange(4.0), name="wave", alt="A wave", caption="It rises.",
        x_range=(0.0, 1.0), y_range=(0.0, 4.0), **options,
    )  # fmt: skip


@pytest.mark.parametrize("start", [0, 2])
def test_curves_open_at_the_frame_that_is_asked_for(start: int) -> None:
    html = wave(start=start).html
    (curve,) = traces_of(html)
    assert curve["y"] == [float(start)] * 5
    assert [frame["data"][0]["y"][0] for frame in frames_of(html)] == [0.0, 1.0, 2.0, 3.0]
    assert f'"active":{start}' in html


@pytest.mark.parametrize("start", [-1, 4])
def test_curves_cannot_open_at_a_frame_that_is_not_there(start: int) -> None:
    with pytest.raises(ValueError, match=f"start must be one of 4 frames, got {start}"):
        wave(start=start)


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
