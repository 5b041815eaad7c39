"""How long a frame of a laboratory takes, in headless Chromium on this machine: `python benchmarks/labs.py`.

Every laboratory is opened at its defaults and played, or has its sliders moved where it does not play.
A frame is what happens between two pictures: computing and drawing. Median and slowest, in milliseconds.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from browsers import chromium  # noqa: E402
from shelves import FRAME, NAMES, Shelf, html  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "labs.json"
FRAMES = 60


def frames(shelf: Shelf, name: str) -> list[float]:
    """The times of frames of one laboratory."""
    lab = shelf.lab(name)
    stats = f"document.querySelector('#lab-{name} .af-lab').live"
    play, out = lab.locator("button[aria-pressed]"), []
    if play.count():
        lab.get_by_role("button", name="start again").click()
        play.click()
    for k in range(FRAMES):
        count = shelf.page.evaluate(f"{stats}.frames")
        if not play.count():
            sliders = lab.locator("input[type=range]:enabled")
            slider = sliders.nth(k % sliders.count())
            slider.press("ArrowLeft" if slider.evaluate("c => c.value === c.max") else "ArrowRight")
        elif play.get_attribute("aria-pressed") == "false":
            break  # it has come to its end
        shelf.page.wait_for_function(f"{stats}.frames > {count}")
        out.append(shelf.page.evaluate(f"{stats}.last"))
    shelf.pause(lab)
    return out


def main() -> None:
    rows = []
    with tempfile.TemporaryDirectory() as folder, chromium() as app:
        path = Path(folder) / "labs.html"
        path.write_text(html(NAMES), encoding="utf-8")
        shelf = Shelf(app, path)
        for name in NAMES:
            times = frames(shelf, name)
            row = {
                "laboratory": name, "frames": len(times), "median ms": round(float(np.median(times)), 1),
                "slowest ms": round(max(times), 1), "allowed ms": FRAME,
            }  # fmt: skip
            rows.append(row)
            print(row, flush=True)
    RESULTS.write_text(json.dumps({"frames": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
