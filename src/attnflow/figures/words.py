"""Words of a text coloured by a number: sensitivity, attention to the first token, what a layer does.

The page (_static/live/parts/spans.js) lets a reader choose the number and move through the layers;
where no script runs, the words have the colours of the first number at the layer that is shown first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import matplotlib as mpl
import numpy as np

from attnflow.figures.players import embedded
from attnflow.figures.shown import Shown, described, figure
from attnflow.validate import Array


def spans(
    tokens: Sequence[str], values: Mapping[str, Array], *, name: str, alt: str, caption: str,
    layers: Sequence[str] | None = None, about: Mapping[str, str] | None = None, start: int = 0,
    clock: str = "layer",
) -> Shown:  # fmt: skip
    """A text whose n tokens are coloured by values of shape (n,) or (layers, n).

    `values` maps what a reader can choose to its numbers; `about` has a sentence for some of them.
    `layers` names the rows (1, 2, ... unless given) and `start` is the one shown first. A quantity has
    one scale of colours for all its layers.

    >>> shown = spans(["To", " be"], {"sensitivity": np.array([0.2, 0.9])}, name="to-be",
    ...               alt="Two words; the second is more sensitive", caption="A text.")
    >>> shown.html.count("<span"), '"layers":["1"]' in shown.html
    (2, True)
    """
    described(name, alt)
    if not len(tokens) or not values:
        raise ValueError(f"a text must have tokens and values, got {len(tokens)} and {len(values)}")
    rows = {key: np.atleast_2d(np.asarray(value, dtype=float)) for key, value in values.items()}
    depth = max(len(value) for value in rows.values())
    for key, value in rows.items():
        if value.ndim != 2 or value.shape[1] != len(tokens) or len(value) not in (1, depth):
            raise ValueError(
                f"values must have shape ({len(tokens)},) or (layers, {len(tokens)}) with as many "
                f"layers as the others, got {np.shape(values[key])} for {key!r}"
            )
        if not np.isfinite(value).all():
            raise ValueError(f"values must be finite, got another for {key!r}")
    named = list(layers) if layers is not None else [str(k + 1) for k in range(depth)]
    if len(named) != depth:
        raise ValueError(f"layers must name {depth} layers, got {len(named)}")
    if not 0 <= start < depth:
        raise ValueError(f"start must be one of {depth} layers, got {start}")
    kept = {
        "tokens": list(tokens), "layers": named, "start": start, "clock": clock,
        "about": dict(about or {}),
        "values": {key: [[float(f"{v:.4g}") for v in row] for row in value] for key, value in rows.items()},
    }  # fmt: skip
    first = next(iter(rows.values()))
    words = _coloured(
        tokens, first[min(start, len(first) - 1)], float(first.min()), float(first.max())
    )
    body = (
        f'<div class="af-lab af-spans" data-name="{name}" role="group" aria-label="{escape(alt)}">'
        f"<p>{words}</p></div>{embedded(kept)}"
    )
    return Shown(figure(body, name, caption), alt)


def _coloured(tokens: Sequence[str], row: Array, low: float, high: float) -> str:
    ramp, width = mpl.colormaps["viridis"], (high - low) or 1.0
    return "".join(
        f'<span style="background:{mpl.colors.to_hex(ramp((v - low) / width))}55">{escape(token)}</span>'
        for token, v in zip(tokens, row, strict=True)
    )
