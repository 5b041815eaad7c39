"""Tokens and curves that move under a slider, drawn by plotly.

A player is a figure with one frame a time. What changes from one to another is how a frame is
drawn; frames, slider, button and page are the same for all (``_play``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from attnflow.figures.shown import Shown, show_plotly
from attnflow.figures.style import BLUE, GREY, ORANGE
from attnflow.validate import Array

#: A token's tail reaches back to where it was this many frames ago.
TAIL = 3
_PALE = "rgba(139,145,154,.25)"  # GREY, for lines of a grid


def token_player(
    panels: Mapping[str, Array], times: Array, *, colour: Array, name: str, alt: str, caption: str
) -> Shown:
    """Tokens in the plane moving through layers, one panel a kind, with a slider and a play button.

    `panels` maps a title to states of shape (m, n, 2); `colour` gives each token its hue.

    >>> states = np.linspace(0.0, 1.0, 12).reshape(3, 2, 2)
    >>> shown = token_player({"softmax": states}, np.arange(3.0), colour=np.arange(2.0),
    ...                      name="tokens", alt="Two tokens", caption="They rise.")
    >>> shown.html.count('"name":"2"')  # the last frame
    1
    """
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    for title, states in panels.items():
        if states.ndim != 3 or states.shape[2] != 2 or len(states) != len(times):
            raise ValueError(
                f"states must be (times, n, 2) with {len(times)} times, got {states.shape} for "
                f"{title!r}"
            )
    titles, trails = list(panels), [np.round(states, 3) for states in panels.values()]
    fig = make_subplots(rows=1, cols=len(titles), subplot_titles=titles, horizontal_spacing=0.04)
    tail = {"line": {"color": GREY, "width": 1}}
    dots = {"marker": _marker(colour, size=8, rim=0.5)}

    def draw(k: int) -> list[Any]:
        return [trace for x in trails for trace in _moment(go.Scatter, x, k, tail, dots)]

    columns = [1 + i // 2 for i in range(2 * len(titles))]
    fig.add_traces(draw(0), rows=[1] * len(columns), cols=columns)
    for column, x in enumerate(trails, start=1):
        reach = 1.08 * float(np.abs(x).max())
        axis = {"range": [-reach, reach], "zeroline": False, "gridcolor": _PALE}
        fig.update_xaxes(axis, row=1, col=column)
        fig.update_yaxes(
            {**axis, "scaleanchor": f"x{column if column > 1 else ''}"}, row=1, col=column
        )
    fig.update_layout(height=370, margin={"l": 30, "r": 10, "t": 36, "b": 20}, showlegend=False)
    traces = list(range(len(columns)))
    return _play(fig, draw, times, traces=traces, name=name, alt=alt, caption=caption)


def sphere_player(
    path: Array, times: Array, *, colour: Array, name: str, alt: str, caption: str
) -> Shown:
    """Tokens on the sphere of space, states of shape (m, n, 3), with a slider and a play button.

    The sphere is a net that a reader can turn, with a veil that dims the tokens behind it;
    `colour` gives each token its hue.

    >>> path = np.tile(np.eye(3), (4, 1, 1))
    >>> shown = sphere_player(path, np.arange(4.0), colour=np.arange(3.0),
    ...                       name="globe", alt="Three tokens", caption="They rest.")
    >>> shown.html.count('"type":"surface"')
    1
    """
    import plotly.graph_objects as go

    if path.ndim != 3 or path.shape[2] != 3 or len(path) != len(times):
        raise ValueError(
            f"path must be (times, n, 3) with {len(times)} times, got shape {path.shape}"
        )
    x = np.round(path, 3)
    still: dict[str, Any] = {"hoverinfo": "skip"}
    tail = {"line": {"color": GREY, "width": 3}, "opacity": 0.9, **still}
    dots = {"marker": _marker(colour, size=6, rim=1), **still}

    def draw(k: int) -> list[Any]:
        return _moment(go.Scatter3d, x, k, tail, dots)

    net = go.Scatter3d(
        **_coordinates(_net()), mode="lines", line={"color": GREY, "width": 1.5}, opacity=0.4,
        **still,
    )  # fmt: skip
    veil = go.Surface(
        **dict(zip("xyz", (v.tolist() for v in _ball(0.97)), strict=True)),
        opacity=0.22, showscale=False, colorscale=[[0, GREY], [1, GREY]],
        lighting={"ambient": 1, "diffuse": 0, "specular": 0},
        contours={axis: {"highlight": False} for axis in "xyz"}, **still,
    )  # fmt: skip
    fig = go.Figure([*draw(0), net, veil])
    hidden = {"visible": False, "range": [-1.05, 1.05]}
    fig.update_layout(
        height=450, margin={"l": 10, "r": 10, "t": 0, "b": 20}, showlegend=False,
        scene={
            "xaxis": hidden, "yaxis": hidden, "zaxis": hidden, "aspectmode": "cube",
            "camera": {"eye": {"x": 1.0, "y": 1.0, "z": 0.55}}, "uirevision": "kept",
        },
    )  # fmt: skip
    return _play(fig, draw, times, traces=[0, 1], redraw=True, name=name, alt=alt, caption=caption)


def curve_player(
    frames: list[Mapping[str, tuple[Array, Array]]], times: Array, *, name: str, alt: str,
    caption: str, x_range: tuple[float, float], y_range: tuple[float, float], start: int = 0,
    unit: str = "t",
) -> Shown:  # fmt: skip
    """Curves that change in time, with a slider: every frame maps a label to (x, y).

    `unit` is what the slider calls the times: "t", or "layer" where they count layers.

    It opens at frame `start`, so that the page says something before anyone moves the slider.

    >>> x = np.array([0.0, 1.0])
    >>> shown = curve_player([{"a line": (x, k * x)} for k in range(3)], np.arange(3.0), start=1,
    ...                      name="line", alt="A line", caption="It tilts.",
    ...                      x_range=(0, 1), y_range=(0, 2))
    >>> '"active":1' in shown.html
    True
    """
    import plotly.graph_objects as go

    if len(frames) != len(times):
        raise ValueError(f"frames must match the {len(times)} times, got {len(frames)}")
    if not 0 <= start < len(frames):
        raise ValueError(f"start must be one of {len(frames)} frames, got {start}")
    styles = [
        {"color": GREY, "width": 5},
        {"color": BLUE, "width": 2},
        {"color": ORANGE, "width": 2},
    ]

    def draw(k: int) -> list[Any]:
        return [
            go.Scatter(x=np.round(x, 3).tolist(), y=np.round(y, 4).tolist(), mode="lines",
                       name=label, line=style)
            for (label, (x, y)), style in zip(frames[k].items(), styles, strict=False)
        ]  # fmt: skip

    fig = go.Figure(draw(start))
    fig.update_xaxes(range=list(x_range), zeroline=False, gridcolor=_PALE)
    fig.update_yaxes(range=list(y_range), zeroline=False, gridcolor=_PALE)
    fig.update_layout(
        height=340, margin={"l": 40, "r": 10, "t": 20, "b": 20},
        legend={"x": 0.99, "xanchor": "right", "y": 0.98},
    )  # fmt: skip
    return _play(fig, draw, times, start=start, name=name, alt=alt, caption=caption, unit=unit)


def _play(
    fig: Any, draw: Callable[[int], list[Any]], times: Array, *, name: str, alt: str, caption: str,
    traces: list[int] | None = None, redraw: bool = False, start: int | None = None,
    unit: str = "t",
) -> Shown:  # fmt: skip
    """The figure with a frame a time, which replaces `traces` (or all), and its controls."""
    import plotly.graph_objects as go

    fig.frames = [go.Frame(data=draw(k), traces=traces, name=str(k)) for k in range(len(times))]
    fig.update_layout(**_controls(times, redraw=redraw, unit=unit))
    fig.layout.sliders[0].active = start
    return show_plotly(fig, name=name, alt=alt, caption=caption)


def _controls(times: Array, *, redraw: bool, unit: str) -> dict[str, Any]:
    """A slider over the frames, labelled with their times, and a play button.

    Figures in space follow their frames only if plotly redraws them.
    """
    still = {"duration": 0}
    jump = {"frame": {"duration": 0, "redraw": redraw}, "mode": "immediate", "transition": still}
    play = {"frame": {"duration": 60, "redraw": redraw}, "fromcurrent": True, "transition": still}
    steps = [
        {
            "args": [[str(k)], jump],
            "label": f"{t:.2f}" if unit == "t" else f"{t:g}",
            "method": "animate",
        }
        for k, t in enumerate(times)
    ]
    slider = {
        "steps": steps, "x": 0.12, "len": 0.88, "pad": {"t": 22}, "tickcolor": GREY, "ticklen": 0,
        "currentvalue": {"prefix": f"{unit} = " if unit == "t" else f"{unit} ", "xanchor": "left", "font": {"color": GREY, "size": 13}},
        "font": {"color": "rgba(0,0,0,0)", "size": 1},
    }  # fmt: skip
    button = {
        "type": "buttons", "x": 0.0, "y": 0, "xanchor": "left", "yanchor": "top", "pad": {"t": 30},
        "showactive": False, "bgcolor": "rgba(139,145,154,.15)",
        "buttons": [{"label": "▶ play", "method": "animate", "args": [None, play]}],
    }  # fmt: skip
    return {"sliders": [slider], "updatemenus": [button]}


def _moment(
    trace: Any, x: Array, k: int, tail: Mapping[str, Any], dots: Mapping[str, Any]
) -> list[Any]:
    """Tokens at frame k of x, (m, n, d), with a short tail behind every one."""
    past = np.full((3 * x.shape[1], x.shape[2]), np.nan)  # NaN parts the tails
    past[0::3], past[1::3] = x[max(k - TAIL, 0)], x[k]
    return [
        trace(**_coordinates(past), mode="lines", **tail),
        trace(**_coordinates(x[k]), mode="markers", **dots),
    ]


def _marker(colour: Array, *, size: int, rim: float) -> dict[str, Any]:
    return {
        "size": size, "color": np.round(colour, 3).tolist(), "colorscale": "Viridis",
        "line": {"width": rim, "color": GREY},
    }  # fmt: skip


def _coordinates(points: Array) -> dict[str, list[float | None]]:
    """Points as plotly takes them, by the names of the axes; NaN is None."""
    return {
        axis: [None if np.isnan(v) else float(v) for v in values]
        for axis, values in zip("xyz", points.T, strict=False)
    }


def _net() -> Array:
    """Meridians and parallels of the unit sphere, as points of lines that NaN parts."""
    t = np.linspace(0.0, 2 * np.pi, 49)
    u, v = np.cos(t), np.sin(t)
    circles = [(u * np.cos(a), u * np.sin(a), v) for a in np.arange(6) * np.pi / 6]
    circles += [
        (u * np.cos(a), v * np.cos(a), 0 * t + np.sin(a)) for a in np.arange(-2, 3) * np.pi / 6
    ]
    out = np.full((len(circles), len(t) + 1, 3), np.nan)
    out[:, :-1] = np.swapaxes(circles, 1, 2)
    return np.round(out.reshape(-1, 3), 3)


def _ball(radius: float) -> Array:
    """The coordinates of a sphere over a grid of angles, shape (3, 21, 41)."""
    a, b = np.meshgrid(np.linspace(0.0, 2 * np.pi, 41), np.linspace(0.0, np.pi, 21))
    flat = radius * np.sin(b)
    return np.round([flat * np.cos(a), flat * np.sin(a), radius * np.cos(b)], 3)
