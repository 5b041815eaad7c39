"""``{surveyed} FILE``: how much of its tolerance each claim uses, over many runs of its chapter.

The files are written by ``benchmarks/seeds.py`` and ``benchmarks/corners.py``. A claim is one line of
dots, a dot a run: the part of the tolerance that the worst of its checks used there, on a logarithmic
axis. Dots beyond one are checks that fail.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from attnflow.book.chapters.project import find_project
from attnflow.book.pages import reading
from attnflow.book.pages.ledger import anchor

#: The axis, in parts of the tolerance; what is beyond an end stands at it.
LOWEST, HIGHEST = 1e-4, 10.0
#: On a phone the line of the tolerance is in view before the drawing is scrolled.
_WIDTH, _LEFT, _RIGHT, _LINE, _TOP, _FOOT = 620, 160, 150, 19, 8, 34


class Line(NamedTuple):
    """A claim over all runs."""

    claim: str
    used: tuple[float, ...]  #: by run, the largest part of a tolerance among its checks
    outside: int  #: rows that said nothing because a hypothesis was violated
    unsound: int  #: runs in which a check failed, or a control did not


def lines(rows: Mapping[str, Mapping[str, Any]]) -> list[Line]:
    """The rows of a chapter by claim.

    >>> row = {"claim": "a.b", "control": False, "used": [0.1, 0.5], "outside": 0, "unsound": []}
    >>> lines({"one": row, "two": row | {"used": [0.2, 0.1]}})
    [Line(claim='a.b', used=(0.2, 0.5), outside=0, unsound=0)]
    """
    out = []
    for claim in dict.fromkeys(row["claim"] for row in rows.values()):
        own = [row for row in rows.values() if row["claim"] == claim]
        checks = [[u for u in row["used"] if u is not None] for row in own if not row["control"]]
        whole = [used for used in checks if len(used) == max(map(len, checks))]
        worst = tuple(map(max, zip(*whole, strict=True)))
        alone = [u for used in checks if used not in whole for u in used]
        bad = {run for row in own for run in row["unsound"]}
        out.append(Line(claim, worst + tuple(alone), sum(r["outside"] for r in own), len(bad)))
    return out


def drawing(found: list[Line], runs: int) -> str:
    """The lines of a chapter as one picture."""
    height = _TOP + _LINE * len(found) + _FOOT
    bottom = _TOP + _LINE * len(found)
    parts = []
    for power in range(round(math.log10(LOWEST)), round(math.log10(HIGHEST)) + 1):
        x, edge = _at(10.0**power), "e" if power == 0 else "g"
        parts.append(f'<line class="{edge}" x1="{x}" x2="{x}" y1="{_TOP}" y2="{bottom}"/>')
        label = "tolerance" if power == 0 else f"{10.0**power:g}"
        parts.append(f'<text x="{x}" y="{bottom + 16}" text-anchor="middle">{label}</text>')
    for k, line in enumerate(found):
        y = _TOP + _LINE * (k + 0.5)
        short = html.escape(line.claim.partition(".")[2])
        parts.append(
            f'<a href="ledger.html#{anchor(line.claim)}"><text x="0" y="{y + 4:g}">{short}</text></a>'
        )
        counted: dict[float, int] = {}
        for used in line.used:
            counted[_at(used)] = counted.get(_at(used), 0) + 1
        for x, many in counted.items():
            kind = "b" if x > _at(1.0) else "d"
            size = 2.2 + 0.5 * math.log2(many)
            parts.append(f'<circle class="{kind}" cx="{x}" cy="{y:g}" r="{size:.1f}"/>')
        parts.append(f'<text x="{_WIDTH - _RIGHT + 14}" y="{y + 4:g}">{_said(line, runs)}</text>')
    said = html.escape("; ".join(f"{line.claim}: {_said(line, runs)}" for line in found))
    return (
        f'<svg class="af-survey" viewBox="0 0 {_WIDTH} {height:g}" role="img" aria-label="{said}" '
        'xmlns="http://www.w3.org/2000/svg" fill="currentColor" '
        'style="width:100%;min-width:32rem;max-width:44rem;font-size:12px">'
        "<style>.af-survey .g{stroke:currentColor;stroke-opacity:.15}"
        ".af-survey .e{stroke:#c0392b;stroke-width:1.5}.af-survey .d{fill:#3b7dd8;fill-opacity:.45}"
        f".af-survey .b{{fill:#c0392b}}</style>{''.join(parts)}</svg>"
    )


def _at(used: float) -> float:
    """Where on the axis a part of the tolerance stands."""
    low, high = math.log10(LOWEST), math.log10(HIGHEST)
    share = (math.log10(min(max(used, LOWEST), HIGHEST)) - low) / (high - low)
    return round(_LEFT + share * (_WIDTH - _RIGHT - _LEFT), 1)


def _said(line: Line, runs: int) -> str:
    if line.unsound:
        return f"fails in {line.unsound} of {runs}"
    return "outside hypotheses" if not line.used else "holds in all"


class Surveyed(SphinxDirective):
    """A picture a chapter, and what stopped."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        path = find_project().root / "benchmarks" / "results" / self.arguments[0]
        self.env.note_dependency(str(path))
        chapters = reading.chapters()
        out = []
        for name, measured in json.loads(path.read_text("utf-8")).items():
            runs = measured["seeds"] if "seeds" in measured else len(measured["corners"])
            found = lines(measured["rows"])
            bad = sum(line.unsound > 0 for line in found)
            verdict = "all hold" if not bad else f"{bad} of {len(found)} fail somewhere"
            if stopped := measured["stopped"]:
                verdict += f"; {len(stopped)} runs stopped"
            title = html.escape(chapters[name].title)
            out.append(
                f"<details class='af-surveyed'><summary><strong><a href='{name}.html'>{title}</a></strong> "
                f"{runs} runs, {len(found)} claims: {verdict}</summary>"
                f"<div style='overflow-x:auto'>{drawing(found, runs)}</div>"
                f"<p><code>{html.escape(measured['command'])}</code></p></details>"
            )
        return [nodes.raw("", "\n".join(out), format="html")]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("surveyed", Surveyed)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
