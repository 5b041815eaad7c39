"""Tokens and curves that move under a slider: frames computed here, drawn by the page's own scripts.

A player is data and a still. The page (_static/live/parts/recorded.js) draws the frames, with the
controls of the laboratories; where no script runs, as in a notebook that is only looked at, there is
the still: the frame at which the player opens.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import matplotlib as mpl
import numpy as np

from attnflow.figures.shown import Shown, described, figure
from attnflow.figures.style import BLUE, GREY, ORANGE
from attnflow.validate import Array

#: The side of a panel of a still, in pixels.
SIDE = 240.0


def token_player(
    panels: Mapping[str, Array], times: Array, *, colour: Array, name: str, alt: str, caption: str,
    clock: str = "time t",
) -> Shown:  # fmt: skip
    """Tokens in the plane moving through layers, one panel a kind, with a slider and a play button.

    `panels` maps a title to states of shape (m, n, 2); `colour` gives each token its hue; `clock` says
    what the slider counts. It opens at the last frame, with the ways that led there.

    >>> states = np.linspace(0.0, 1.0, 12).reshape(3, 2, 2)
    >>> shown = token_player({"softmax": states}, np.arange(3.0), colour=np.arange(2.0),
    ...                      name="tokens", alt="Two tokens", caption="They rise.")
    >>> '"times":["0","1","2"]' in shown.html
    True
    """
    for title, states in panels.items():
        if states.ndim != 3 or states.shape[2] != 2 or len(states) != len(times):
            raise ValueError(
                f"states must be (times, n, 2) with {len(times)} times, got {states.shape} for "
                f"{title!r}"
            )
    hues = _hues(colour)
    data = {
        "panels": [
            {"title": title, "states": _rounded(x), "reach": _reach(x)}
            for title, x in panels.items()
        ],
        "colour": hues.tolist(),
    }
    still = [_dots(x[-1] / _reach(x), hues) for x in panels.values()]
    return _player("tokens", data, times, len(times) - 1, still, name, alt, caption, clock)


def sphere_player(
    path: Array, times: Array, *, colour: Array, name: str, alt: str, caption: str,
    clock: str = "time t",
) -> Shown:  # fmt: skip
    """Tokens on the sphere of space, states of shape (m, n, 3), with a slider and a play button.

    The sphere is a net that a reader can turn; tokens behind it are paler. `colour` gives each token
    its hue.

    >>> path = np.tile(np.eye(3), (4, 1, 1))
    >>> shown = sphere_player(path, np.arange(4.0), colour=np.arange(3.0),
    ...                       name="globe", alt="Three tokens", caption="They rest.")
    >>> 'data-recorded="sphere"' in shown.html
    True
    """
    if path.ndim != 3 or path.shape[2] != 3 or len(path) != len(times):
        raise ValueError(
            f"path must be (times, n, 3) with {len(times)} times, got shape {path.shape}"
        )
    hues, middle = _hues(colour), len(times) // 2
    data = {"states": _rounded(path), "colour": hues.tolist()}
    rim = f'<circle cx="120" cy="120" r="110" fill="none" stroke="{GREY}"/>'
    still = [rim + _dots(path[middle][:, [0, 2]], hues)]
    return _player("sphere", data, times, middle, still, name, alt, caption, clock)


def curve_player(
    frames: Sequence[Mapping[str, tuple[Array, Array]]], times: Array, *, name: str, alt: str,
    caption: str, x_range: tuple[float, float], y_range: tuple[float, float], start: int = 0,
    clock: str = "time t",
) -> Shown:  # fmt: skip
    """Curves that change in time, with a slider: every frame maps a label to (x, y).

    It opens at frame `start`, so that the page says something before anyone moves the slider.

    >>> x = np.array([0.0, 1.0])
    >>> shown = curve_player([{"a line": (x, k * x)} for k in range(3)], np.arange(3.0), start=1,
    ...                      name="line", alt="A line", caption="It tilts.",
    ...                      x_range=(0, 1), y_range=(0, 2))
    >>> '"start":1' in shown.html
    True
    """
    if len(frames) != len(times):
        raise ValueError(f"frames must match the {len(times)} times, got {len(frames)}")
    if not 0 <= start < len(frames):
        raise ValueError(f"start must be one of {len(frames)} frames, got {start}")
    drawn = [
        [{"label": label, "x": _rounded(x), "y": _rounded(y, 4)} for label, (x, y) in frame.items()]
        for frame in frames
    ]
    data = {"frames": drawn, "x": list(x_range), "y": list(y_range)}
    lines = [
        _line(x, y, x_range, y_range, colour)
        for (x, y), colour in zip(frames[start].values(), (GREY, BLUE, ORANGE), strict=False)
    ]
    return _player("curves", data, times, start, ["".join(lines)], name, alt, caption, clock)


def _player(
    kind: str, data: dict[str, Any], times: Array, start: int, still: Sequence[str], name: str,
    alt: str, caption: str, clock: str,
) -> Shown:  # fmt: skip
    """The still, which the page replaces, and the data it needs for that."""
    described(name, alt)
    kept = {"times": labels(times), "start": start, "clock": clock, **data}
    body = (
        f'<div class="af-lab af-player" data-recorded="{kind}" data-name="{name}" role="group" '
        f'aria-label="{escape(alt)}">{_still(still)}</div>{embedded(kept)}'
    )
    return Shown(figure(body, name, caption), alt)


def embedded(data: Mapping[str, Any]) -> str:
    """Data for the page's scripts, which no text in it can end early.

    >>> embedded({"title": "</script>"})
    '<script type="application/json">{"title":"<\\\\/script>"}</script>'
    """
    text = json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
    return f'<script type="application/json">{text}</script>'


def labels(times: Array) -> list[str]:
    """Times to three digits, or to as many as tell them apart.

    >>> labels(np.array([0.0, 0.5, 1.0])), labels(np.array([0.0, 0.001]))
    (['0', '0.5', '1'], ['0', '0.001'])
    """
    for digits in range(3, 17):
        out = [np.format_float_positional(t, digits, fractional=False, trim="-") for t in times]
        if len(set(out)) == len(out):
            break
    return out


def _rounded(x: Array, digits: int = 3) -> Any:
    return (np.round(x, digits) + 0.0).tolist()


def _reach(x: Array) -> float:
    """Half the width of a panel that holds all states."""
    return round(1.08 * float(np.abs(x).max()), 4) or 1.0


def _hues(colour: Array) -> Array:
    """Numbers between 0 and 1, in the order of `colour`."""
    low, high = float(np.min(colour)), float(np.max(colour))
    return np.round((np.asarray(colour, dtype=float) - low) / ((high - low) or 1.0), 3)


def _dots(points: Array, hues: Array) -> str:
    """Points of [-1, 1]^2 as discs."""
    ramp = mpl.colormaps["viridis"]
    return "".join(
        f'<circle cx="{SIDE / 2 * (1 + x):.1f}" cy="{SIDE / 2 * (1 - y):.1f}" r="3.5" '
        f'fill="{mpl.colors.to_hex(ramp(hue))}"/>'
        for (x, y), hue in zip(points, hues, strict=True)
    )


def _line(
    x: Array, y: Array, x_range: tuple[float, float], y_range: tuple[float, float], colour: str
) -> str:
    across = SIDE * (np.asarray(x) - x_range[0]) / (x_range[1] - x_range[0])
    up = SIDE * (1 - (np.asarray(y) - y_range[0]) / (y_range[1] - y_range[0]))
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across, up, strict=True))
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'


def _still(panels: Sequence[str]) -> str:
    """Panels side by side."""
    inside = "".join(
        f'<svg x="{(SIDE + 10) * k:g}" width="{SIDE:g}" height="{SIDE:g}">{panel}</svg>'
        for k, panel in enumerate(panels)
    )
    width = (SIDE + 10) * len(panels)
    return (
        f'<svg viewBox="0 0 {width:g} {SIDE:g}" style="width:100%;max-width:{width:g}px">'
        f"{inside}</svg>"
    )
