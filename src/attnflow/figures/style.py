"""Colours and the house style of matplotlib."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
from cycler import cycler

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
    """Draw what follows in the house style, and show figures only through :func:`attnflow.figures.show`.

    >>> with plt.rc_context():
    ...     use_style()
    ...     plt.rcParams["axes.edgecolor"] == INK
    True
    """
    plt.rcParams.update(STYLE)
    plt.ioff()
