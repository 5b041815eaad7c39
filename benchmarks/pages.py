"""How much work a chapter is until it can be used: `attnflow book --stored && python benchmarks/pages.py`.

Headless Chromium opens every chapter of the built book, at 1280 and at 390 pixels, with an empty cache. A chapter is
usable when its first screen is drawn with its formulas typeset, and its first laboratory has answered a slider.

*main thread* is the processor time that the page's thread took until then, in seconds, the least of three visits: it hardly
depends on what else the machine does, as the clock would. *twice* and *four times* are the same on a core that is slower by that
factor, where nothing else runs; four is what DevTools takes for a phone of the middle class.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from browsers import chromium, served  # noqa: E402

from attnflow.book.chapters.project import find_project  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "pages.json"
VISITS = 3
#: Seconds within which a chapter should be usable on a slow core.
WANTED = 2.0
WIDTHS = (1280, 390)
#: Looks, fifty times a second and whenever formulas have come, whether the first screen is there; then moves the first
#: slider of the first laboratory. Once both have answered no further formula is typeset: what is off the screen does not count.
WATCH = """
(() => {
  let first = false, slider = null, frames = 0;
  const shown = (e) => { const r = e.getBoundingClientRect(); return r.height && r.bottom > 0 && r.top < innerHeight && r.left < innerWidth && r.right > 0; };
  const ready = () => {
    if (!performance.getEntriesByName("first-contentful-paint").length) return false;
    first ||= ![...document.querySelectorAll("article .math")].some((e) => !e.querySelector("mjx-container") && shown(e));
    const lab = document.querySelector(".af-lab");
    if (!lab) return first; // nothing moves there
    if (!lab.live) return false;
    if (slider !== null) return first && !(slider && lab.live.frames <= frames);
    slider = lab.querySelector("input[type=range]:enabled") || false; // a text that is coloured has none
    frames = lab.live.frames;
    if (slider) { slider.value === slider.max ? slider.stepDown() : slider.stepUp(); slider.dispatchEvent(new Event("input", { bubbles: true })); }
    return false;
  };
  const look = () => {
    if (window.answered || !ready()) return;
    window.answered = true;
    if (window.MathJax) window.MathJax.typesetPromise = () => new Promise(() => {});
  };
  const formula = (node) => node.nodeName === "MJX-CONTAINER";
  document.addEventListener("DOMContentLoaded", () => {
    setInterval(look, 20);
    new MutationObserver((all) => { if (all.some((one) => [...one.addedNodes].some(formula))) look(); }).observe(document.body, { subtree: true, childList: true });
  });
})();
"""


def visit(app: Any, address: str, width: int) -> float:
    """The processor seconds of the page's thread in one visit with an empty cache."""
    context = app.new_context(viewport={"width": width, "height": 900})
    page = context.new_page()
    page.add_init_script(WATCH)
    tools = context.new_cdp_session(page)
    tools.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(address, wait_until="commit")
    page.wait_for_function("window.answered", timeout=120_000, polling=10)
    spent = {m["name"]: m["value"] for m in tools.send("Performance.getMetrics")["metrics"]}
    context.close()
    return float(spent["TaskDuration"])


def measured(app: Any, html: Path, server: str, name: str) -> dict[str, Any]:
    """A row: one chapter."""
    address = f"{server}/book/{name}.html"
    size = (html / "book" / f"{name}.html").stat().st_size
    least = [min(visit(app, address, width) for _ in range(VISITS)) for width in WIDTHS]
    worst = max(least)
    return {
        "chapter": name, "kB": round(size / 1000),
        **{f"main thread, {w} px": round(t, 2) for w, t in zip(WIDTHS, least, strict=True)},
        "twice": round(2 * worst, 2), "four times": round(4 * worst, 2), "wanted": WANTED,
    }  # fmt: skip


def main(names: list[str], html: Path = ROOT / "_build" / "html") -> None:
    rows = []
    with chromium() as app, served(html) as server:
        for name in names:
            rows.append(measured(app, html, server, name))
            print(rows[-1], flush=True)
    if set(names) == set(find_project().chapters()):
        RESULTS.write_text(json.dumps({"pages": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:] or list(find_project().chapters()))
