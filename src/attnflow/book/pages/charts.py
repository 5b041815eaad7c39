"""``{chart}``: a log-log chart of a section of the benchmarks' results, as a drawing within the page.

The content names what is drawn, a line each::

    x: n
    y: seconds, POT, OTT
    by: eps
    title: Time against tokens

Every column of `y` is a line for every value of `by`. Colours are the page's own, so that dark pages need
no other drawing.
"""

from __future__ import annotations

import html
import json
import math
from typing import Any, NamedTuple

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from attnflow.book.chapters.project import find_project

_WIDTH, _HEIGHT = 680, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 230, 36, 52
#: Legible on white and on black.
_COLOURS = ("#2a7fb8", "#d9822b", "#3a9d5d", "#c0504d", "#8a63b5", "#7f7f7f")
_DASHES = ("", "7 4", "2 3", "9 3 2 3")
#: The column of this package's own times; others have the name of a peer.
_OURS = "seconds"


class Line(NamedTuple):
    """One line of a chart: its name, column, case and points."""

    name: str
    colour: int
    dash: int
    points: tuple[tuple[float, float], ...]


def lines(rows: list[dict[str, Any]], x: str, columns: list[str], by: str | None) -> list[Line]:
    """A line for every column and every value of `by`; what is not measured has no point.

    >>> rows = [{"n": 10, "ours": 1.0, "peer": 4.0}, {"n": 100, "ours": 2.0, "peer": None}]
    >>> [(line.name, line.points) for line in lines(rows, "n", ["ours", "peer"], None)]
    [('ours', ((10.0, 1.0), (100.0, 2.0))), ('peer', ((10.0, 4.0),))]
    """
    cases = list(dict.fromkeys(row.get(by) for row in rows)) if by else [None]
    out = []
    for colour, column in enumerate(columns):
        for dash, case in enumerate(cases):
            points = tuple(
                (float(row[x]), float(row[column]))
                for row in rows
                if (not by or row.get(by) == case) and (row.get(column) or 0) > 0 and row[x] > 0
            )
            if points:
                whose = "attnflow" if column == _OURS else column
                name = f"{whose}, {by} = {case:g}" if by and case is not None else whose
                out.append(Line(name, colour, dash, points))
    return out


def drawing(found: list[Line], title: str, x: str, y: str) -> str:
    """The chart as SVG.

    >>> "polyline" in drawing([Line("a", 0, 0, ((1.0, 1.0), (10.0, 5.0)))], "t", "n", "s")
    True
    """
    if not found:
        raise ValueError("a chart needs at least one point, got none")
    across = _Axis([p[0] for line in found for p in line.points], _LEFT, _WIDTH - _RIGHT)
    up = _Axis([p[1] for line in found for p in line.points], _HEIGHT - _BOTTOM, _TOP)
    parts = [f'<text x="{_LEFT}" y="20" font-weight="600">{html.escape(title)}</text>']
    for value in across.ticks:
        at = across.at(value)
        parts.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" class="g"/>'
            f'<text x="{at:.1f}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">{_power(value)}</text>'
        )
    for value in up.ticks:
        at = up.at(value)
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}" class="g"/>'
            f'<text x="{_LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{_power(value)}</text>'
        )
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(
        f'<text x="{middle}" y="{_HEIGHT - 12}" text-anchor="middle">{html.escape(x)}</text>'
    )
    parts.append(
        f'<text x="16" y="{_HEIGHT / 2}" text-anchor="middle" '
        f'transform="rotate(-90 16 {_HEIGHT / 2})">{html.escape(y)}</text>'
    )
    for k, line in enumerate(found):
        colour = _COLOURS[line.colour % len(_COLOURS)]
        dash = f' stroke-dasharray="{_DASHES[line.dash % len(_DASHES)]}"'
        places = [(across.at(a), up.at(b)) for a, b in line.points]
        where = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
        parts.append(
            f'<polyline points="{where}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>'
        )
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.5" fill="{colour}"/>' for a, b in places]
        left, top = _WIDTH - _RIGHT + 14, _TOP + 12 + 20 * k
        parts.append(
            f'<line x1="{left}" x2="{left + 26}" y1="{top}" y2="{top}" stroke="{colour}" '
            f'stroke-width="2"{dash}/><text x="{left + 32}" y="{top + 4}">{html.escape(line.name)}</text>'
        )
    said = html.escape(f"{title}: {', '.join(line.name for line in found)}")
    return (
        f'<svg class="af-chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{said}" '
        'xmlns="http://www.w3.org/2000/svg" style="max-width:46rem;width:100%;font-size:13px" '
        'fill="currentColor"><style>.af-chart .g{stroke:currentColor;stroke-opacity:.15}</style>'
        + "".join(parts)
        + "</svg>"
    )


class _Axis:
    """A logarithmic axis from one place to another."""

    def __init__(self, values: list[float], start: float, end: float) -> None:
        low, high = math.log10(min(values)), math.log10(max(values))
        margin = max(0.06 * (high - low), 0.1)
        self.low, self.high, self.start, self.end = low - margin, high + margin, start, end
        powers = list(range(math.ceil(self.low), math.floor(self.high) + 1))
        step = max(1, -(-len(powers) // 7))
        self.ticks = [10.0**k for k in powers[::step]]

    def at(self, value: float) -> float:
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def _power(value: float) -> str:
    if 1e-3 < value < 1e4:
        return f"{value:g}"
    return f'10<tspan dy="-5" font-size="10">{round(math.log10(value))}</tspan>'


class Chart(SphinxDirective):
    """``{chart} FILE SECTION``, with what to draw as its content."""

    required_arguments = 2
    has_content = True

    def run(self) -> list[nodes.Node]:
        path = find_project().root / "benchmarks" / "results" / self.arguments[0]
        self.env.note_dependency(str(path))
        rows = json.loads(path.read_text("utf-8"))[self.arguments[1]]
        said = dict(line.split(":", 1) for line in self.content if ":" in line)
        asked = {key.strip(): value.strip() for key, value in said.items()}
        columns = [name.strip() for name in asked["y"].split(",")]
        found = lines(rows, asked["x"], columns, asked.get("by"))
        text = drawing(
            found, asked["title"], asked.get("across", asked["x"]), asked.get("up", "seconds")
        )
        return [nodes.raw("", text, format="html")]
