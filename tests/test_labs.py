"""The laboratories in a browser: they start, answer, remember, and say what the package says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browsers import chromium

from attnflow import densities, figures, gaussian, langevin, lipschitz, norms, schemes, sphere
from attnflow.attention import SoftmaxAttention
from attnflow.book.chapters.project import find_project
from attnflow.book.pages.labs import LEVELS, fragment, phase_diagrams, scripts
from attnflow.rates import fit_rate
from attnflow.trained.stored import real_text

PROJECT = find_project()
STATIC = PROJECT.book / "_static"
NAMES = sorted(path.stem for path in (STATIC / "live" / "labs").glob("*.js"))
#: What a frame may take, in milliseconds; here ten times as much, as other tests run beside this one.
FRAME, LENIENT = 50, 10

browser = pytest.mark.browser

#: A sum over all pixels of a laboratory's drawings, and its sentence.
SEEN = """name => {
  const root = document.querySelector(`#lab-${name} .af-lab`), sum = (c) => {
    const pixels = new Uint32Array(c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer);
    let out = 0;
    for (let i = 0; i < pixels.length; i++) out = (Math.imul(out, 31) + pixels[i]) | 0;
    return out;
  };
  return [...root.querySelectorAll("canvas")].map(sum).join() + root.querySelector(".af-lab-says")?.textContent;
}"""
#: Values of the controls of a laboratory.
VALUES = """name => Object.fromEntries([...document.querySelectorAll(`#lab-${name} [name]`)].map(c => [c.name, c.value]))"""
#: Resolves when a laboratory has nothing more to draw or compute.
QUIET = """name => new Promise(done => {
  const stats = document.querySelector(`#lab-${name} .af-lab`).live;
  let before = -1, still = 0, looks = 0;
  const look = () => {
    still = stats.frames === before ? still + 1 : 0; before = stats.frames; looks++;
    (still > 1 && !stats.busy) || looks > 900 ? done() : requestAnimationFrame(look);
  };
  look();
})"""


def html(names: list[str]) -> str:
    """A page with these laboratories."""
    parts = [
        f'<figure class="af-figure" id="lab-{name}">{fragment(name)}</figure>' for name in names
    ]
    return wrapped("".join(parts))


def wrapped(body: str) -> str:
    """A page with this body and what it needs, opened as a plain file."""
    loaded = [f'<script src="{(STATIC / script).as_uri()}"></script>' for script in scripts(body)]
    return (
        '<!doctype html><html data-theme="light"><head><meta charset="utf-8">'
        f'<link rel="stylesheet" href="{(STATIC / "attnflow.css").as_uri()}">{"".join(loaded)}</head>'
        f'<body style="max-width: 52rem; margin: auto">{body}</body></html>'
    )


class Shelf:
    """One page with all laboratories, and what the browser complained of."""

    def __init__(self, app: Any, path: Path, **settings: Any) -> None:
        self.path, self.complaints = path, []
        self.page = app.new_context(viewport={"width": 900, "height": 900}, **settings).new_page()
        self.page.on(
            "console", lambda m: self.complaints.append(m.text) if m.type == "error" else 0
        )
        self.page.on("pageerror", lambda e: self.complaints.append(str(e)))
        self.page.on(
            "request",
            lambda r: 0 if r.url.startswith(("file:", "data:")) else self.complaints.append(r.url),
        )
        self.page.goto(path.as_uri())

    def lab(self, name: str) -> Any:
        """The laboratory, in view, at its defaults and paused."""
        lab = self.page.locator(f"#lab-{name}")
        lab.scroll_into_view_if_needed()
        lab.get_by_role("button", name="defaults").click()
        self.pause(lab)
        self.quiet(name)
        return lab

    def pause(self, lab: Any) -> None:
        play = lab.locator("button[aria-pressed=true]")
        if play.count():
            play.click()

    def quiet(self, name: str) -> None:
        self.page.locator(f"#lab-{name}").scroll_into_view_if_needed()  # out of view nothing moves
        self.page.evaluate(QUIET, name)

    def seen(self, name: str) -> str:
        self.quiet(name)
        return str(self.page.evaluate(SEEN, name))

    def state(self, name: str, part: str) -> Any:
        """Something of the state of a laboratory."""
        self.quiet(name)
        return self.page.evaluate(
            f"name => (s => {part})(document.querySelector(`#lab-${{name}} .af-lab`).live.state)",
            name,
        )


@pytest.fixture(scope="module")
def app() -> Iterator[Any]:
    with chromium() as app:
        yield app


@pytest.fixture(scope="module")
def shelf(app: Any, tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    path = tmp_path_factory.mktemp("labs") / "labs.html"
    path.write_text(html(NAMES), encoding="utf-8")
    return Shelf(app, path)


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


def test_stored_diagrams_are_those_of_the_package() -> None:
    import base64

    kept = phase_diagrams()
    for d, diagram in sphere.figure3().diagrams.items():
        shares = np.frombuffer(base64.b64decode(kept["shares"][str(d)]), np.uint8) / LEVELS
        wrong = np.abs(shares.reshape(diagram.probability.shape) - diagram.probability).max()
        assert wrong <= 0.5 / LEVELS + 1e-12
    assert len(fragment("phase")) < 80_000


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


#: Positions in a link have three digits, so what is drawn from them may differ by a pixel.
MOVED = {"tokens", "hull", "leaders", "ellipse", "plan", "score", "crowd", "sphere", "stairs"}


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


# --- recorded figures ----------------------------------------------------------------------------


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


# --- what a laboratory says is what the package computes -----------------------------------------


@browser
def test_the_constant_at_two_leaders(shelf: Shelf) -> None:
    shelf.lab("leaders")
    x = np.array(shelf.state("leaders", "s.x"))
    A, I = -np.eye(2), np.eye(2)  # noqa: E741
    ours = lipschitz.local_constant(SoftmaxAttention(A, I, I), x, tol=1e-9).value
    assert shelf.state("leaders", "s.found.value") == pytest.approx(ours, rel=1e-6)
    assert lipschitz.two_leaders_bound(A, I, 2.5, 12) <= ours * (1 + 1e-9)


@browser
def test_the_leaders_for_other_scores(shelf: Shelf) -> None:
    lab = shelf.lab("leaders")
    lab.locator("input[name=a12]").press("ArrowRight")
    lab.locator("input[name=a22]").press("ArrowRight")
    shelf.page.wait_for_timeout(100)
    x = np.array(shelf.state("leaders", "s.x"))
    A, I = np.array([[-1.0, 0.1], [0.0, -0.9]]), np.eye(2)  # noqa: E741
    ours = lipschitz.local_constant(SoftmaxAttention(A, I, I), x, tol=1e-9).value
    assert shelf.state("leaders", "s.found.value") == pytest.approx(ours, rel=1e-5)
    assert lipschitz.two_leaders_bound(A, I, 2.5, 12) <= ours * (1 + 1e-6)
    lab.get_by_role("button", name="defaults").click()


@browser
def test_the_exponent_of_a_trained_layer(shelf: Shelf) -> None:
    shelf.lab("layers")
    kept = real_text()
    passages = kept.constants["smollm2"][14]
    mean = fit_rate(kept.lengths, np.exp(np.log(passages).mean(axis=0))).slope
    assert shelf.state("layers", "s.law.slope") == pytest.approx(mean, rel=1e-9)
    each = [fit_rate(kept.lengths, row).slope for row in passages]
    assert shelf.state("layers", "s.slopes[14]") == pytest.approx(each, rel=1e-9)


@browser
def test_the_blow_up_of_the_ellipse(shelf: Shelf) -> None:
    shelf.lab("ellipse")
    B = np.sqrt(0.8) * np.eye(2)
    S = np.array(shelf.state("ellipse", "s.S"))
    ours = gaussian.blow_up_time(B, B, [[1.0, -0.8], [0.8, 0.6]], S)
    assert shelf.state("ellipse", "s.paths.softmax.blowUp") == pytest.approx(ours, rel=1e-5)


@browser
def test_the_layer_that_grows_for_ever(shelf: Shelf) -> None:
    shelf.lab("space")
    state = "[s.layer.Q, s.layer.K, s.layer.V, s.path[s.path.length - 1].S, s.path[s.path.length - 1].t]"
    Q, K, V, S, t = shelf.state("space", state)
    ours, _ = gaussian.covariance_flow("softmax", Q, K, V, np.eye(3), t)
    assert (
        np.abs(np.array(S) / ours[0, 0] - ours / ours[0, 0]).max() <= 1e-2
    )  # it grew a thousandfold
    assert gaussian.fate(SoftmaxAttention(Q, K, V), np.eye(3)).outcome == "growth"
    assert "No blow-up" in shelf.page.locator("#lab-space .af-lab-says").inner_text()


@browser
def test_the_merges_of_the_circle(shelf: Shelf) -> None:
    lab = shelf.lab("stairs")
    angles, levels = shelf.state("stairs", "[s.angles, s.events.map(e => e.level)]")
    assert levels == pytest.approx(sphere.coalesce(angles).levels, abs=1e-12)
    lab.locator("[name=rule]").select_option("decoder")
    falls = shelf.state("stairs", "s.events.map(e => e.level)")
    ours = np.sort(1 - np.cos(sphere.captures(angles).radii[1:]))
    assert falls == pytest.approx(ours, abs=1e-12)


@browser
def test_the_gap_of_bridge_and_langevin(shelf: Shelf) -> None:
    shelf.lab("bridge")
    mix = densities.GaussianMixture([0.5, 0.5], [-1.5, 1.5], [0.7, 0.7])
    ours = langevin.symmetric_kl(mix, 0.6)
    assert shelf.state("bridge", "s.J") == pytest.approx(ours, rel=1e-4)


@browser
def test_the_errors_of_layers_and_of_explicit_euler(shelf: Shelf) -> None:
    shelf.lab("heat")
    mix = densities.GaussianMixture([0.5, 0.5], [-2.0, 2.0], [1.0, 1.0])
    for name in ("bridge", "euler"):
        live = max(error for _, error in shelf.state("heat", f"s.runs.{name}.errors"))
        assert live == pytest.approx(schemes.uniform_error(mix, 0.05, 1.0, name), rel=1e-3)


@browser
def test_the_score_that_attention_estimates(shelf: Shelf) -> None:
    shelf.lab("score")
    mix = shelf.state("score", "s.mix")
    ours = schemes.score_error(
        densities.GaussianMixture(mix["weights"], mix["means"], mix["vars"]), 0.1
    )
    assert shelf.state("score", "s.bias") == pytest.approx(ours, rel=1e-4)


@browser
def test_the_limit_of_the_crowd(shelf: Shelf) -> None:
    shelf.lab("crowd")
    a, B = np.pi / 6, np.sqrt(0.6) * np.eye(2)
    V = np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]])
    ours, _ = gaussian.covariance_flow("L2", B, B, V, [[1.0, 0.3], [0.3, 0.5]], 1.5)
    live = np.array(shelf.state("crowd", "s.limit.covs[s.limit.covs.length - 1]"))
    assert np.abs(live - ours).max() <= 1e-5


@browser
def test_the_four_clocks(shelf: Shelf) -> None:
    shelf.lab("clocks")
    live, layers = shelf.state("clocks", "[s.times, s.layers]")
    for norm in norms.NORMS:
        ours = norms.log_meeting_time(norm, 4.0, 256, 0.1)
        assert live[norm] == pytest.approx(ours, abs=1e-7)
        assert layers[norm] == np.ceil(norms.layers_to_meet(norm, 4.0, 256, 0.1))
