"""The house style of every figure.

A matplotlib figure is shown as inline SVG whose ink is the page's own text colour, so one figure
serves the light and the dark page. A plotly figure is shown as a fragment of HTML that uses the
book's own copy of plotly.js. Both need an alternative text; a caption stands below.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from html import escape
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from cycler import cycler
from matplotlib.figure import Figure

from attnflow.validate import Array

#: Colours told apart on white and on near-black, and by colour-blind readers (after Okabe and Ito).
BLUE, ORANGE, GREEN, PURPLE, RED, GREY = (
    "#3a86c8", "#e0862e", "#2a9d74", "#a874c8", "#d6504f", "#8b919a",
)  # fmt: skip
#: Drawn in these colours, an artist takes the page's text colour or background.
INK, PAPER = "#010203", "#fdfcfb"

STYLE: dict[str, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": INK,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.7,
    "axes.prop_cycle": cycler(color=[BLUE, ORANGE, GREEN, PURPLE, RED, GREY]),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10.5,
    "axes.titlecolor": INK,
    "axes.labelsize": 10,
    "figure.constrained_layout.use": True,
    "figure.facecolor": "none",
    "figure.figsize": (7.2, 3.3),
    "font.size": 9.5,
    "grid.color": GREY,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "image.cmap": "viridis",
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
    "savefig.facecolor": "none",
    "svg.fonttype": "path",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


def use_style() -> None:
    """Draw what follows in the house style, and show figures only through :func:`show`."""
    plt.rcParams.update(STYLE)
    plt.ioff()


class Shown:
    """A figure as a notebook displays it: an HTML fragment, with its description as text."""

    def __init__(self, html: str, alt: str) -> None:
        self.html, self.alt = html, alt

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": f"[figure: {self.alt}]"}


def show(fig: Figure, *, name: str, alt: str, caption: str = "") -> Shown:
    """A matplotlib figure, closed and ready to display; `name` is its anchor in the page."""
    _described(name, alt)
    buffer = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": name}):
        fig.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(fig)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = svg.replace(INK, "currentColor")
    svg = svg.replace(PAPER, "var(--pst-color-background, white)")
    svg = re.sub(r' d="[^"]*"', _rounded_path, svg)
    svg = _plain_ids(svg, name)
    width = fig.get_size_inches()[0] * 100
    svg = svg.replace(
        "<svg ",
        f'<svg role="img" aria-label="{escape(alt)}" '
        f'style="width:100%;height:auto;max-width:{width:.0f}px" ',
        1,
    )
    return Shown(_figure(svg, name, caption), alt)


def show_plotly(fig: Any, *, name: str, alt: str, caption: str = "") -> Shown:
    """A plotly figure as a fragment that the book's own plotly.js draws."""
    _described(name, alt)
    fig.update_layout(
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": GREY, "size": 13},
        template="none",
    )
    body = fig.to_html(
        full_html=False, include_plotlyjs=False, include_mathjax=False, auto_play=False,
        div_id=f"plot-{name}", config={"displayModeBar": False, "responsive": True},
    )  # fmt: skip
    body = f'<div class="af-plotly" role="img" aria-label="{escape(alt)}">{body}</div>'
    return Shown(_figure(body, name, caption), alt)


def token_player(
    panels: Mapping[str, Array], times: Array, *, colour: Array, name: str, alt: str, caption: str
) -> Shown:
    """Tokens in the plane moving through layers, one panel a kind, with a slider and a play button.

    `panels` maps a title to states of shape (m, n, 2); `colour` gives each token its hue.
    """
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    titles = list(panels)
    for title in titles:
        if panels[title].ndim != 3 or len(panels[title]) != len(times):
            shape = panels[title].shape
            raise ValueError(
                f"states must be (times, n, 2) with {len(times)} times, got {shape} for {title!r}"
            )
    trails = [np.round(panels[title], 3) for title in titles]
    fig = make_subplots(rows=1, cols=len(titles), subplot_titles=titles, horizontal_spacing=0.04)
    marker = {
        "size": 8, "color": np.round(colour, 3).tolist(), "colorscale": "Viridis",
        "line": {"width": 0.5, "color": GREY},
    }  # fmt: skip

    def draw(k: int) -> list[Any]:
        out: list[Any] = []
        for x in trails:
            past = np.full((3 * x.shape[1], 2), np.nan)  # a short tail behind every token
            past[0::3], past[1::3] = x[max(k - 3, 0)], x[k]
            line = {"color": GREY, "width": 1}
            out.append(
                go.Scatter(x=_list(past[:, 0]), y=_list(past[:, 1]), mode="lines", line=line)
            )
            out.append(
                go.Scatter(x=_list(x[k, :, 0]), y=_list(x[k, :, 1]), mode="markers", marker=marker)
            )
        return out

    columns = [1 + i // 2 for i in range(2 * len(titles))]
    fig.add_traces(draw(0), rows=[1] * len(columns), cols=columns)
    fig.frames = [
        go.Frame(data=draw(k), traces=list(range(len(columns))), name=str(k))
        for k in range(len(times))
    ]
    for column, x in enumerate(trails, start=1):
        reach = 1.08 * float(np.abs(x).max())
        axis = {"range": [-reach, reach], "zeroline": False, "gridcolor": "rgba(139,145,154,.25)"}
        fig.update_xaxes(axis, row=1, col=column)
        fig.update_yaxes(
            {**axis, "scaleanchor": f"x{column if column > 1 else ''}"}, row=1, col=column
        )
    fig.update_layout(
        height=370, margin={"l": 30, "r": 10, "t": 36, "b": 20}, showlegend=False,
        **_controls(fig.frames, times),
    )  # fmt: skip
    return show_plotly(fig, name=name, alt=alt, caption=caption)


def sphere_player(
    path: Array, times: Array, *, colour: Array, name: str, alt: str, caption: str
) -> Shown:
    """Tokens on the sphere of space, states of shape (m, n, 3), with a slider and a play button.

    The sphere is a net that a reader can turn, with a veil that dims the tokens behind it;
    `colour` gives each token its hue.
    """
    import plotly.graph_objects as go

    if path.ndim != 3 or path.shape[2] != 3 or len(path) != len(times):
        raise ValueError(
            f"path must be (times, n, 3) with {len(times)} times, got shape {path.shape}"
        )
    x = np.round(path, 3)
    marker = {
        "size": 6, "color": np.round(colour, 3).tolist(), "colorscale": "Viridis",
        "line": {"width": 1, "color": GREY},
    }  # fmt: skip

    def lines(points: Array, width: float, opacity: float) -> Any:
        a, b, c = (_list(v) for v in points.T)
        return go.Scatter3d(
            x=a, y=b, z=c, mode="lines", line={"color": GREY, "width": width}, opacity=opacity,
            hoverinfo="skip",
        )  # fmt: skip

    def draw(k: int) -> list[Any]:
        past = np.full((3 * x.shape[1], 3), np.nan)  # a short tail behind every token
        past[0::3], past[1::3] = x[max(k - 3, 0)], x[k]
        a, b, c = (_list(v) for v in x[k].T)
        dots = go.Scatter3d(x=a, y=b, z=c, mode="markers", marker=marker, hoverinfo="skip")
        return [lines(past, 3, 0.9), dots]

    ball = dict(zip("xyz", (v.tolist() for v in _ball(0.97)), strict=True))
    veil = go.Surface(
        **ball, opacity=0.22, showscale=False, colorscale=[[0, GREY], [1, GREY]],
        lighting={"ambient": 1, "diffuse": 0, "specular": 0}, hoverinfo="skip",
        contours={axis: {"highlight": False} for axis in "xyz"},
    )  # fmt: skip
    fig = go.Figure([*draw(0), lines(_net(), 1.5, 0.4), veil])
    fig.frames = [go.Frame(data=draw(k), traces=[0, 1], name=str(k)) for k in range(len(times))]
    hidden = {"visible": False, "range": [-1.05, 1.05]}
    fig.update_layout(
        height=450, margin={"l": 10, "r": 10, "t": 0, "b": 20}, showlegend=False,
        scene={
            "xaxis": hidden, "yaxis": hidden, "zaxis": hidden, "aspectmode": "cube",
            "camera": {"eye": {"x": 1.0, "y": 1.0, "z": 0.55}}, "uirevision": "kept",
        },
        **_controls(fig.frames, times, redraw=True),
    )  # fmt: skip
    return show_plotly(fig, name=name, alt=alt, caption=caption)


def curve_player(
    frames: list[Mapping[str, tuple[Array, Array]]], times: Array, *, name: str, alt: str,
    caption: str, x_range: tuple[float, float], y_range: tuple[float, float], start: int = 0,
) -> Shown:  # fmt: skip
    """Curves that change in time, with a slider: every frame maps a label to (x, y).

    It opens at frame `start`, so that the page says something before anyone moves the slider.
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
    fig.frames = [go.Frame(data=draw(k), name=str(k)) for k in range(len(times))]
    grid = {"zeroline": False, "gridcolor": "rgba(139,145,154,.25)"}
    fig.update_xaxes(range=list(x_range), **grid)
    fig.update_yaxes(range=list(y_range), **grid)
    fig.update_layout(
        height=340, margin={"l": 40, "r": 10, "t": 20, "b": 20},
        legend={"x": 0.99, "xanchor": "right", "y": 0.98}, **_controls(fig.frames, times),
    )  # fmt: skip
    fig.layout.sliders[0].active = start
    return show_plotly(fig, name=name, alt=alt, caption=caption)


def _controls(frames: Any, times: Array, *, redraw: bool = False) -> dict[str, Any]:
    """A slider over the frames, labelled with their times, and a play button.

    Figures in space follow their frames only if plotly redraws them.
    """
    still = {"duration": 0}
    jump = {"frame": {"duration": 0, "redraw": redraw}, "mode": "immediate", "transition": still}
    play = {"frame": {"duration": 60, "redraw": redraw}, "fromcurrent": True, "transition": still}
    steps = [
        {"args": [[f.name], jump], "label": f"{t:.2f}", "method": "animate"}
        for f, t in zip(frames, times, strict=True)
    ]
    slider = {
        "steps": steps, "x": 0.12, "len": 0.88, "pad": {"t": 22}, "tickcolor": GREY, "ticklen": 0,
        "currentvalue": {"prefix": "t = ", "xanchor": "left", "font": {"color": GREY, "size": 13}},
        "font": {"color": "rgba(0,0,0,0)", "size": 1},
    }  # fmt: skip
    button = {
        "type": "buttons", "x": 0.0, "y": 0, "xanchor": "left", "yanchor": "top", "pad": {"t": 30},
        "showactive": False, "bgcolor": "rgba(139,145,154,.15)",
        "buttons": [{"label": "▶ play", "method": "animate", "args": [None, play]}],
    }  # fmt: skip
    return {"sliders": [slider], "updatemenus": [button]}


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


def _list(values: Array) -> list[float | None]:
    return [None if np.isnan(v) else float(v) for v in values]


def _rounded_path(found: re.Match[str]) -> str:
    """A path to a hundredth of a point, which is finer than any screen."""
    return re.sub(r"(\.\d{2})\d+", r"\1", found[0])


def _plain_ids(svg: str, name: str) -> str:
    """Ids by order of appearance: matplotlib hashes unrounded numbers, whose last digits vary."""
    found = dict.fromkeys(re.findall(r'id="([a-z][0-9a-f]{10})"', svg))
    plain = {old: f"{name}-{k}" for k, old in enumerate(found)}
    return re.sub(r"\b[a-z][0-9a-f]{10}\b", lambda m: plain.get(m[0], m[0]), svg)


def _described(name: str, alt: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        raise ValueError(f"name must be lower-case words joined by hyphens, got {name!r}")
    if not alt.strip():
        raise ValueError("alt must describe the figure in words, got ''")


def _figure(body: str, name: str, caption: str) -> str:
    below = f'<figcaption class="mathjax_process">{caption}</figcaption>' if caption else ""
    return f'<figure class="af-figure" id="fig-{name}">{body}{below}</figure>'
