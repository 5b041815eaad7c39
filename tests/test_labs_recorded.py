"""Recorded figures in a browser: they move under slider and button, texts are coloured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from shelves import SEEN, Shelf, browser, wrapped

from attnflow import figures


@pytest.fixture(scope="module")
def reel(app: Any, tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    """A page with one of every figure that moves, and a coloured text."""
    rng, times = np.random.default_rng(0), np.linspace(0.0, 2.0, 9)
    ball = rng.normal(size=(9, 5, 3))
    words = {"name": "a-text", "alt": "A text", "caption": ""}
    shown = [
        figures.token_player(
            {"left": rng.normal(size=(9, 5, 2)), "right": rng.normal(size=(9, 5, 2))}, times,
            colour=np.arange(5.0), name="tokens", alt="Tokens", caption="They move.",
        ),
        figures.sphere_player(
            ball / np.linalg.norm(ball, axis=2, keepdims=True), times, colour=np.arange(5.0),
            name="globe", alt="A sphere", caption="",
        ),
        figures.curve_player(
            [{"curve": (np.arange(5.0), rng.uniform(size=5))} for _ in times], times, start=2,
            name="curves", alt="Curves", caption="", x_range=(0, 4), y_range=(0, 1), clock="layer",
        ),
        figures.spans(
            ["To", " be", " or"],
            {"first": rng.uniform(size=(4, 3)), "second": rng.uniform(size=3)},
            about={"first": "What it is."}, **words,
        ),
    ]  # fmt: skip
    path = tmp_path_factory.mktemp("reel") / "reel.html"
    path.write_text(wrapped("".join(one.html for one in shown)), encoding="utf-8")
    return Shelf(app, path)


@browser
@pytest.mark.parametrize("name", ["tokens", "globe", "curves"])
def test_a_recorded_figure_moves_under_its_slider_and_its_button(reel: Shelf, name: str) -> None:
    page = reel.page
    fig = page.locator(f"#fig-{name}")
    fig.scroll_into_view_if_needed()
    slider = fig.locator("input[name=frame]")
    seen = SEEN.replace("#lab-", "#fig-")
    pictures = set()
    slider.press("Home")
    for _ in range(4):
        page.wait_for_timeout(60)
        pictures.add(page.evaluate(seen, name))
        slider.press("ArrowRight")
    assert len(pictures) == 4
    assert fig.locator("svg").count() == 0  # the still is gone
    slider.press("End")
    assert fig.locator("label output").first.inner_text() == "2"
    fig.get_by_role("button", name="play").click()  # from the end: begins again
    page.wait_for_function(f"document.querySelector('#fig-{name} input').value < 8")
    page.wait_for_function(f"document.querySelector('#fig-{name} input').value == 8")
    assert reel.complaints == []


@browser
def test_a_text_is_coloured_by_what_is_chosen(reel: Shelf) -> None:
    fig = reel.page.locator("#fig-a-text")
    colours = (
        "() => [...document.querySelectorAll('.af-spans-text span')].map(s => s.style.background)"
    )
    before = reel.page.evaluate(colours)
    assert len(set(before)) == 3
    fig.locator("input[name=layer]").press("ArrowRight")
    layer = reel.page.evaluate(colours)
    assert layer != before
    fig.locator("select[name=value]").select_option("second")
    assert reel.page.evaluate(colours) != layer
    fig.locator("span[tabindex]").nth(1).focus()
    assert "“be”: second 0." in fig.locator(".af-lab-says").inner_text()
    assert reel.complaints == []
