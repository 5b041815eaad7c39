"""``{seeds}``: how much of its tolerance every check uses over many seeds, from benchmarks/seeds.py."""

from __future__ import annotations

import json
import statistics
from html import escape
from typing import Any

from sphinx.application import Sphinx

from attnflow.book.chapters import find_project
from attnflow.book.tables import Table


class Seeds(Table):
    """A range a check, on a scale where 100 % is the edge of what is allowed."""

    def lines(self) -> list[str]:
        path = find_project().root / "benchmarks" / "results" / "seeds.json"
        self.env.note_dependency(str(path))
        found = json.loads(path.read_text("utf-8"))
        chapters = find_project().chapters()
        out = [score(found), ""]
        for name, measured in found.items():
            checks = {a: row for a, row in measured["rows"].items() if not row["control"]}
            controls = [row for row in measured["rows"].values() if row["control"]]
            near = min((min(row["used"]) for row in controls if row["used"]), default=0.0)
            out += [
                f"## [{chapters[name].title}]({name})",
                "",
                f"{measured['seeds']} seeds; `{measured['command']}`. The control nearest to its "
                f"tolerance is {near:.3g} of them away.",
                "",
                '<div class="af-seeds">',
                *(line(f"{name}.html#{anchor}", row) for anchor, row in checks.items()),
                "</div>",
                "",
            ]
        return out


def score(found: dict[str, Any]) -> str:
    """All chapters in one sentence."""
    rows = [row for measured in found.values() for row in measured["rows"].values()]
    values = sum(len(row["used"]) for row in rows)
    bad = sum(len(row["unsound"]) for row in rows)
    stopped = sum(len(measured["stopped"]) for measured in found.values())
    return (
        f"**{values - bad:,} of {values:,} rows came out as they must**, in "
        f"{sum(measured['seeds'] for measured in found.values()):,} runs of {len(found)} chapters; "
        f"{stopped} runs stopped."
    )


def line(link: str, row: dict[str, Any]) -> str:
    """One check: its range and median, and the seeds at which it failed.

    >>> "median 50 %" in line("a.html#b", {"claim": "a", "case": "", "used": [0.2, 0.5, 0.9],
    ...                                    "outside": 0, "unsound": []})
    True
    """
    used = sorted(value for value in row["used"] if value is not None)
    label = escape(f"{row['claim']} [{row['case']}]" if row["case"] else row["claim"])
    if not used:
        return f'<a href="{link}">{label}</a><span class="af-range"></span><small>outside hypotheses</small>'
    low, middle, high = (min(v, 1.0) * 100 for v in (used[0], statistics.median(used), used[-1]))
    said = f"median {middle:.0f} %, most {used[-1]:.0%}"
    if row["unsound"]:
        said += f"; fails at seeds {', '.join(map(str, row['unsound'][:8]))}"
    if row["outside"]:
        said += f"; {row['outside']} outside hypotheses"
    bad = " af-unsound" if row["unsound"] else ""
    return (
        f'<a href="{link}">{label}</a><span class="af-range" role="img" aria-label="{said}">'
        f'<i style="left:{low:.1f}%;width:{max(high - low, 0.5):.1f}%"></i>'
        f'<b style="left:{middle:.1f}%"></b></span><small class="{bad.strip()}">{said}</small>'
    )


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("seeds", Seeds)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
