"""Drawings and code without what a reader cannot see.

matplotlib writes coordinates to a millionth of a point, a style for every marker, a name for every group
and its own outlines of the letters in every figure; Pygments marks every comma. A page is half as long
without these, and looks the same: coordinates are rounded to a tenth of a point, what siblings have in
common is said by their parent, an outline is drawn once a page, and names and signs in code have the
colour of the text. Notebooks are not touched.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from xml.etree import ElementTree as ET

_SVG, _LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
_DRAWN = re.compile(r"<svg (?:(?!</svg>).)*?<g id=\"figure_1\">.*?</svg>", flags=re.DOTALL)
_GLYPH = re.compile(r'<path id="(?:DejaVu|Cm|STIX)[^>]*/>')
_NUMBER = re.compile(r"-?\d+\.?\d*(?:e-?\d+)?")
_MOVE = re.compile(r"^translate\((\S+)[ ,](\S+)\)$")
_PLAIN = re.compile(r'<span class="(?:n|p|w|o|nn|nx|x)">([^<]*)</span>')
_CODE = re.compile(r'<div class="highlight">.*?</div>', flags=re.DOTALL)
#: Steps in a unit of length: of a drawing, of a marker.
_FIGURE, _MARKER = 10, 100
#: Outlines of letters have 6400 units to the em; they are kept to 16 of them.
_COARSE, _OUTLINE = 16, "scale(0.015625)"

Point = tuple[int, int]

ET.register_namespace("", _SVG[1:-1])


def path(text: str, steps: int) -> str:
    """A path on a grid of `steps` to the unit, relative, without points that change nothing.

    >>> path("M 0.04 0 \\nL 1.02 0.01 \\nL 2.01 0 \\nL 2 1 \\nz\\n", 10)
    'M0 0h2v1z'
    >>> path("M 1 1 \\nQ 2.26 1 3 2 \\n", 10)
    'M1 1q1.3 0 2 1'
    """
    out: list[str] = []
    here = start = (0, 0)
    run: list[Point] = []
    last = ""
    for command, body in re.findall(r"([MLQCz])([^MLQCz]*)", text):
        numbers = [round(float(x) * steps) for x in _NUMBER.findall(body)]
        points = list(zip(numbers[::2], numbers[1::2], strict=True))
        if command == "L":
            run += points
            continue
        out, here, run = out + _lines(here, run, steps), run[-1] if run else here, []
        if command == "M":
            out.append("M" + _joined(points[0], steps=steps))
            here = start = points[0]
        elif command == "z":
            out.append("z")
            here = start
        else:
            more = _joined(*(_minus(p, here) for p in points), steps=steps)
            again = command == last and out[-1][0] not in "lhv"
            out.append(
                more
                if again and more[0] == "-"
                else f" {more}"
                if again
                else command.lower() + more
            )
            here = points[-1]
        last = command
    return "".join(out + _lines(here, run, steps))


def _minus(a: Point, b: Point) -> Point:
    return a[0] - b[0], a[1] - b[1]


def _lines(here: Point, run: list[Point], steps: int) -> list[str]:
    """A polygonal line from `here`; points on the way to the next one are left out."""
    kept = [here]
    for point in run:
        if len(kept) > 1:
            a, b = _minus(kept[-1], kept[-2]), _minus(point, kept[-1])
            if a[0] * b[1] == a[1] * b[0] and a[0] * b[0] + a[1] * b[1] >= 0:
                kept.pop()
        kept.append(point)
    out, last = [], ""
    for before, after in pairwise(kept):
        dx, dy = _minus(after, before)
        name, given = ("h", (dx,)) if dy == 0 else ("v", (dy,)) if dx == 0 else ("l", (dx, dy))
        text = _joined(given, steps=steps)
        joint = " " if text[0] != "-" else ""
        out.append(f"{joint}{text}" if name == last == "l" else name + text)
        last = name
    return out


def _joined(*points: tuple[int, ...], steps: int) -> str:
    """Coordinates as a path writes them.

    >>> _joined((5, -12), (0, 30), steps=10)
    '.5-1.2 0 3'
    """
    out = ""
    for value in (x for point in points for x in point):
        text = short(value / steps)
        out += text if not out or text[0] == "-" else f" {text}"
    return out


def short(value: float, digits: int = 2) -> str:
    """A number without the zeros that say nothing.

    >>> short(0.5), short(-0.25), short(3.0), short(-0.001), short(120.0)
    ('.5', '-.25', '3', '0', '120')
    """
    text = f"{value:.{digits}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return re.sub(r"^(-?)0\.", r"\1.", "0" if text == "-0" else text)


@lru_cache(256)  # a page and the gallery show the same
def lean_svg(svg: str) -> str:
    """A drawing of matplotlib in fewer words.

    >>> lean_svg('<svg xmlns="http://www.w3.org/2000/svg"><g id="figure_1"><g id="a"><path d="M 0.01 0 L 1 1"/></g></g></svg>')
    '<svg xmlns="http://www.w3.org/2000/svg"><path d="M0 0l1 1" /></svg>'
    """
    root = ET.fromstring(svg)
    used = set(re.findall(r"(?:url\(|href=\")#([^)\"]+)", svg))
    for part in root.iter():
        part.text = (part.text or "").strip() or None
        part.tail = None
        if part.get("id") not in used:
            part.attrib.pop("id", None)
        if _LINK in part.attrib:
            part.set("href", part.attrib.pop(_LINK))
        if "style" in part.attrib:
            part.set("style", re.sub(r"([:;]) ", r"\1", part.get("style", "")))
    for group in root.iter(f"{_SVG}defs"):
        for inner in group.iter(f"{_SVG}path"):
            _outline(inner) if inner.get("transform") == _OUTLINE else _round(inner, _MARKER)
    _walk(root)
    for group in list(root.findall(f"{_SVG}defs")):
        for style in group.findall(f"{_SVG}style"):  # which would hold for the whole page
            group.remove(style)
            root.set("stroke-linejoin", "round")
        if len(group) == 0:
            root.remove(group)
    return ET.tostring(root, encoding="unicode").replace("\n", " ")


def _outline(part: ET.Element) -> None:
    """The outline of a letter, on a grid of a four-hundredth of its size."""
    coarse = _NUMBER.sub(lambda x: f"{float(x[0]) / _COARSE:.2f}", part.get("d", ""))
    part.set("d", path(coarse, 1))
    part.set("transform", f"scale({_COARSE * 0.015625})")


def _round(part: ET.Element, steps: int) -> None:
    if "d" in part.attrib:
        part.set("d", path(part.get("d", ""), steps))


def _walk(part: ET.Element) -> None:
    """Round and shorten what is below; groups that say nothing are replaced by what they hold."""
    for inner in part:
        if inner.tag == f"{_SVG}defs":
            continue
        if inner.tag == f"{_SVG}use":
            _place(inner)
        elif inner.tag == f"{_SVG}path":
            _round(inner, _FIGURE)
        _walk(inner)
    kept: list[ET.Element] = []
    for inner in part:
        if inner.tag == f"{_SVG}g" and not inner.attrib:
            kept += list(inner)
        elif not (inner.tag == f"{_SVG}defs" and len(inner) == 0):
            kept.append(inner)
    part[:] = kept
    styles = {inner.get("style") for inner in part}
    if part.tag == f"{_SVG}g" and len(part) > 1 and len(styles) == 1 and "style" not in part.attrib:
        (style,) = styles
        if style and all(inner.tag == f"{_SVG}use" for inner in part):
            part.set("style", style)
            for inner in part:
                inner.attrib.pop("style")


def _place(use: ET.Element) -> None:
    """A copy says where it is by two short numbers."""
    letter = bool(re.match(r"#(DejaVu|Cm|STIX)", use.get("href", "")))
    moved = _MOVE.match(use.get("transform", ""))
    if moved and "x" not in use.attrib:
        use.attrib.pop("transform")
        use.set("x", moved[1])
        use.set("y", moved[2])
    for name in ("x", "y"):
        if name in use.attrib:
            use.set(name, short(float(use.get(name, "0")), 0 if letter else 1))
            if use.get(name) == "0":
                use.attrib.pop(name)


def framed(svg: str) -> str:
    """A drawing in a box that has its size, so that a browser need not draw it before it is seen.

    >>> framed('<svg style="width:100%;height:auto;max-width:740px" viewBox="0 0 532.8 360"></svg>')[:75]
    '<div class="af-drawn" style="aspect-ratio:532.8/360;max-width:740px"><svg s'
    """
    size, most = re.search(r'viewBox="0 0 (\S+) (\S+)"', svg), re.search(r"max-width:\d+px", svg)
    if not size or not most:
        return svg
    style = f"aspect-ratio:{size[1]}/{size[2]};{most[0]}"
    return f'<div class="af-drawn" style="{style}">{svg}</div>'


def lean_code(html: str) -> str:
    """Highlighted code that marks words, numbers and texts, but not names and signs.

    >>> lean_code('<div class="highlight"><pre><span class="n">a</span> <span class="o">=</span> <span class="mi">1</span></pre></div>')
    '<div class="highlight"><pre>a = <span class="mi">1</span></pre></div>'
    """
    return _CODE.sub(lambda found: _PLAIN.sub(r"\1", found[0]), html)


def lean(body: str) -> str:
    """A page with its drawings and its code in fewer words; outlines of letters are drawn once.

    >>> lean("<p>nothing drawn</p>")
    '<p>nothing drawn</p>'
    """
    drawn: set[str] = set()

    def once(found: re.Match[str]) -> str:
        known = found[0] in drawn
        drawn.add(found[0])
        return "" if known else found[0]

    def drawing(found: re.Match[str]) -> str:
        return framed(_GLYPH.sub(once, lean_svg(found[0])))

    return lean_code(_DRAWN.sub(drawing, body))
