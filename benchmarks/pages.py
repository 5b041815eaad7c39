"""How long until a chapter can be used, on one slow core: `attnflow book --stored && python benchmarks/pages.py`.

Headless Chromium is bound to one core, which DevTools slows down four times (its *mid-tier phone*), and opens every
chapter of the built book at 1280 and at 390 pixels with an empty cache. A chapter is usable when its first screen is
drawn with its formulas typeset, and its first laboratory has answered a slider. Times are seconds since the page was
asked for, the median of three visits; *pause* is the longest time after that in which the page did not listen, in milliseconds.
"""

from __future__ import annotations

import functools
import http.server
import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from browsers import chromium  # noqa: E402

from attnflow.book.chapters import find_project  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "pages.json"
SLOWER = 4
VISITS = 3
ALLOWED = 2.0
WIDTHS = (1280, 390)
#: Looks, ten times a second, whether the first screen is there, then moves the first slider of the first laboratory.
WATCH = """
window.seen = { first: 0, answered: 0, pause: 0 };
new PerformanceObserver((list) => {
  for (const task of list.getEntries())
    if (window.seen.answered && task.startTime > window.seen.answered) window.seen.pause = Math.max(window.seen.pause, task.duration);
}).observe({ type: "longtask", buffered: true });
(() => {
  let asked = null, frames = 0;
  const shown = (e) => { const r = e.getBoundingClientRect(); return r.height && r.bottom > 0 && r.top < innerHeight && r.left < innerWidth && r.right > 0; };
  const look = () => {
    if (window.seen.answered) return;
    setTimeout(look, 20);
    if (document.readyState === "loading" || !performance.getEntriesByName("first-contentful-paint").length) return;
    if (!window.seen.first) {
      const waiting = [...document.querySelectorAll("article .math")].some((e) => shown(e) && !e.querySelector("mjx-container"));
      if (!waiting) window.seen.first = performance.now();
    }
    const lab = document.querySelector(".af-lab[data-lab], .af-lab");
    if (!lab || !lab.live) return;
    if (asked === null) {
      asked = lab.querySelector("input[type=range]:enabled");
      frames = lab.live.frames;
      if (asked) { asked.value === asked.max ? asked.stepDown() : asked.stepUp(); asked.dispatchEvent(new Event("input", { bubbles: true })); }
    } else if (window.seen.first && (lab.live.frames === undefined || lab.live.frames > frames)) window.seen.answered = performance.now();
  };
  document.addEventListener("DOMContentLoaded", look);
})();
"""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The built book on this machine."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{httpd.server_port}"
        httpd.shutdown()


def visit(app: Any, address: str, width: int) -> dict[str, float]:
    """What one visit with an empty cache takes."""
    context = app.new_context(viewport={"width": width, "height": 900})
    page = context.new_page()
    page.add_init_script(WATCH)
    context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": SLOWER})
    page.goto(address, wait_until="commit")
    page.wait_for_function("window.seen && window.seen.answered", timeout=120_000)
    page.evaluate("window.formulas")
    seen = page.evaluate(
        "({...window.seen, painted: performance.getEntriesByName('first-contentful-paint')[0].startTime})"
    )
    context.close()
    return {name: float(value) for name, value in seen.items()}


def main(names: list[str], html: Path = ROOT / "_build" / "html") -> None:
    rows = []
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with chromium() as app, served(html) as server:
        for name in names:
            for width in WIDTHS:
                visits = [visit(app, f"{server}/book/{name}.html", width) for _ in range(VISITS)]
                middle = {k: float(np.median([v[k] for v in visits])) for k in visits[0]}
                row = {
                    "chapter": name, "width": width, "kB": round((html / "book" / f"{name}.html").stat().st_size / 1000),
                    "painted": round(middle["painted"] / 1000, 2), "first screen": round(middle["first"] / 1000, 2),
                    "usable": round(middle["answered"] / 1000, 2), "pause": round(middle["pause"]), "allowed": ALLOWED,
                }  # fmt: skip
                rows.append(row)
                print(row, flush=True)
    if set(names) == set(find_project().chapters()):
        RESULTS.write_text(json.dumps({"pages": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:] or list(find_project().chapters()))
