"""Pages with laboratories and figures that move, in a browser, and what is seen of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsers import chromium

from attnflow.book.chapters.project import find_project
from attnflow.book.pages.labs import fragment, scripts

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
  let before = -1, still = 0;
  const begun = performance.now(), look = () => {
    still = stats.frames === before ? still + 1 : 0; before = stats.frames;
    (still > 1 && !stats.busy) || performance.now() - begun > 120000 ? done() : requestAnimationFrame(look);
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
