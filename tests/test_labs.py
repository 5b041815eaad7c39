"""The laboratories in a browser: they start, answer, remember, and fit where they are."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from shelves import FRAME, LENIENT, NAMES, PROJECT, VALUES, Shelf, browser


def used(text: str) -> set[str]:
    return set(re.findall(r"^```+\{lab\} (\w+)", text, re.M))


def test_every_chapter_has_a_laboratory_and_every_laboratory_a_page() -> None:
    intro = used((PROJECT.book / "intro.md").read_text("utf-8"))
    chapters = {
        name: used((PROJECT.book / "text" / f"{name}.md").read_text("utf-8"))
        for name in PROJECT.chapters()
    }
    real = {"sinks", "trained"}  # these show sentences and tokens of real texts as figures
    assert [name for name, labs in chapters.items() if not labs and name not in real] == []
    assert intro.union(*chapters.values()) == set(NAMES)


@browser
@pytest.mark.parametrize("name", NAMES)
def test_a_laboratory_answers_a_change_of_each_control(shelf: Shelf, name: str) -> None:
    """By keyboard: an arrow key on a slider, a letter or arrow on a list of choices."""
    lab = shelf.lab(name)
    controls = lab.locator(".af-lab-controls [name]")
    assert controls.count() >= 2
    for control in controls.all():
        assert control.evaluate("c => c.labels[0].textContent.trim().length") > 0
        for setting in filter(None, (control.get_attribute("data-when") or "").split(",")):
            key, value = setting.split("=")
            lab.locator(f"[name={key}]").select_option(value)
        before = shelf.seen(name)
        control.focus()
        choices = control.evaluate(
            "c => c.tagName === 'SELECT' && [c.selectedIndex, c.options.length]"
        )
        down = not choices or choices[0] + 1 < choices[1]
        back = not choices and control.evaluate("c => c.value === c.max")
        for _ in range(1 if choices else 3):
            key = (
                "ArrowUp"
                if choices and not down
                else "ArrowLeft"
                if back
                else "ArrowDown"
                if choices
                else "ArrowRight"
            )
            shelf.page.keyboard.press(key)
        after = shelf.seen(name)
        assert after != before, f"{name} does not answer {control.get_attribute('name')}"
    assert shelf.complaints == []


#: Positions in a link have three digits, so what is drawn from them may differ by a pixel.
MOVED = {"tokens", "hull", "leaders", "ellipse", "plan", "score", "crowd", "sphere", "stairs"}


@browser
@pytest.mark.parametrize("name", NAMES)
def test_a_link_restores_what_was_chosen(shelf: Shelf, name: str) -> None:
    lab = shelf.lab(name)
    for slider in lab.locator(".af-lab-controls input:enabled").all():
        slider.focus()
        shelf.page.keyboard.press("ArrowLeft")
        shelf.page.keyboard.press("ArrowLeft")
    for choice in lab.locator(".af-lab-controls select").all():
        choice.select_option(index=1)
    handles = lab.locator("canvas[aria-label*='Arrow keys move']")
    if handles.count():
        handles.first.focus()
        shelf.page.keyboard.press("ArrowUp")
    wanted, drawn = shelf.page.evaluate(VALUES, name), shelf.seen(name)
    lab.get_by_role("button", name="link").click()
    address = shelf.page.evaluate("location.hash")
    assert address.startswith(f"#lab-{name}?")
    shelf.lab(name)
    assert shelf.page.evaluate(VALUES, name) != wanted
    shelf.page.evaluate("location.hash = ''")
    shelf.page.evaluate("hash => { location.hash = hash; }", address)
    shelf.quiet(name)
    assert shelf.page.evaluate(VALUES, name) == wanted
    if name not in MOVED:
        assert shelf.seen(name) == drawn
    assert shelf.complaints == []


@browser
def test_a_link_is_followed_when_a_page_opens(app: Any, shelf: Shelf) -> None:
    other = Shelf(app, shelf.path)
    other.page.goto("about:blank")
    other.page.goto(f"{shelf.path.as_uri()}#lab-plan?eps=2.5&n=4&seed=99&speed=2×&points=0,0;1,1")
    values = other.page.evaluate(VALUES, "plan")
    assert (values["n"], values["seed"], values["speed"]) == ("4", "99", "2×")
    assert other.state("plan", "s.points.length") == 8  # two points are too few: they are not taken
    assert (
        other.page.evaluate("document.querySelector('#lab-plan').getBoundingClientRect().top") < 900
    )
    other.page.goto(f"{shelf.path.as_uri()}#lab-plan?eps=1e99&n=-3&seed=x&speed=9×&points=<b>")
    assert other.page.evaluate(VALUES, "plan")["n"] == "9"
    assert other.complaints == []
    other.page.context.close()


@browser
@pytest.mark.parametrize("name", NAMES)
def test_points_are_dragged_and_moved_by_keys(shelf: Shelf, name: str) -> None:
    lab = shelf.lab(name)
    hands = lab.locator("canvas[aria-label*='Arrow keys']")
    assert hands.count() or name in ("crowd", "heat", "jumps", "layers")
    for canvas in hands.all()[:1]:
        before = shelf.seen(name)
        canvas.focus()
        shelf.page.keyboard.press("n")
        for key in ("ArrowLeft", "ArrowUp", "ArrowUp"):
            shelf.page.keyboard.press(key)
        assert shelf.seen(name) != before, "keys"
        before = shelf.seen(name)
        place = canvas.evaluate(
            "c => { const b = c.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; }"
        )
        x, y = place[0] + place[2] / 2, place[1] + place[3] / 2
        if "move a point" in str(canvas.get_attribute("aria-label")):
            x, y = canvas.evaluate(
                "c => { const b = c.getBoundingClientRect(), [p, q] = c.place(); return [b.left + p, b.top + q]; }"
            )
        shelf.page.mouse.move(x, y)
        shelf.page.mouse.down()
        shelf.page.mouse.move(x + 14, y + 9, steps=3)
        shelf.page.mouse.up()
        assert shelf.seen(name) != before, "mouse"
    assert shelf.complaints == []


@browser
@pytest.mark.parametrize("name", NAMES)
def test_a_laboratory_plays_and_pauses_and_is_quick(shelf: Shelf, name: str) -> None:
    lab = shelf.lab(name)
    play = lab.locator("button[aria-pressed]")
    stats = f"document.querySelector('#lab-{name} .af-lab').live"
    if play.count():
        canvas = lab.locator("canvas[tabindex]").first
        lab.get_by_role("button", name="start again").click()
        before = shelf.seen(name)
        frames = shelf.page.evaluate(f"{stats}.frames")
        canvas.focus()
        shelf.page.keyboard.press(" ")
        assert play.get_attribute("aria-pressed") == "true"
        shelf.page.wait_for_function(f"{stats}.frames > {frames + 12}")
        times = [shelf.page.evaluate(f"{stats}.last") for _ in range(9)]
        shelf.page.keyboard.press(" ")
        assert play.get_attribute("aria-pressed") == "false"
        assert shelf.seen(name) != before
        frames = shelf.page.evaluate(f"{stats}.frames")
        shelf.page.wait_for_timeout(80)
        assert shelf.page.evaluate(f"{stats}.frames") == frames  # nothing runs while it is paused
    else:
        times = []
        for _ in range(5):
            lab.locator("input[type=range]:enabled").first.press("ArrowRight")
            shelf.quiet(name)
            times.append(shelf.page.evaluate(f"{stats}.last"))
    assert np.median(times) <= LENIENT * FRAME
    assert shelf.complaints == []


@browser
def test_who_asks_for_less_motion_gets_none(app: Any, shelf: Shelf) -> None:
    calm = Shelf(app, shelf.path, reduced_motion="reduce")
    assert calm.page.locator("button[aria-pressed]").count() >= 8
    assert calm.page.locator("button[aria-pressed=true]").count() == 0
    assert calm.complaints == []
    calm.page.context.close()


@browser
def test_laboratories_fit_a_phone_and_follow_the_theme(shelf: Shelf) -> None:
    page = shelf.page
    shelf.lab("plan")
    light = shelf.seen("plan")
    page.evaluate("document.documentElement.style.setProperty('--pst-color-text-base', '#eee')")
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    page.wait_for_timeout(50)
    assert shelf.seen("plan") != light
    page.set_viewport_size({"width": 390, "height": 800})
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(wide) <= 0
    for name in NAMES:
        lab = page.locator(f"#lab-{name}")
        lab.scroll_into_view_if_needed()
        assert min(c.bounding_box()["width"] for c in lab.locator("canvas").all()) >= 120
        assert min(b.bounding_box()["height"] for b in lab.locator("button").all()) >= 32
    page.set_viewport_size({"width": 900, "height": 900})
    page.evaluate("document.documentElement.style.removeProperty('--pst-color-text-base')")
    page.evaluate("document.documentElement.dataset.theme = 'light'")
