"""Words of a text, each with a colour behind it that says how much it counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from attnflow.figures.shown import Shown, _described, _figure
from attnflow.figures.style import BLUE


def coloured_words(
    rows: Mapping[str, tuple[Sequence[str], Sequence[float]]], *, name: str, alt: str,
    caption: str = "", colour: str = BLUE,
) -> Shown:  # fmt: skip
    """Lines of words; behind each a colour, as strong as its number between 0 and 1 is large.

    A row is a title, words and numbers. Words keep the page's own text colour and break into lines
    where the page is narrow; the number is read out where a pointer rests on a word.

    >>> shown = coloured_words({"weights": (["a", "word"], [0.0, 1.0])}, name="w", alt="Two words")
    >>> shown.html.count("<span"), "color-mix" in shown.html
    (2, True)
    """
    _described(name, alt)
    lines = []
    for title, (words, numbers) in rows.items():
        if len(words) != len(numbers):
            raise ValueError(f"words must match the {len(numbers)} numbers, got {len(words)}")
        spans = []
        for word, number in zip(words, numbers, strict=True):
            if not 0 <= number <= 1:
                raise ValueError(f"numbers must lie between 0 and 1, got {number}")
            back = f"color-mix(in srgb, {colour} {round(70 * number)}%, transparent)"
            spans.append(
                f'<span title="{number:.2f}" style="background:{back};border-radius:3px;'
                f'padding:.1em .15em;margin:0 .04em;display:inline-block;white-space:pre">{escape(word)}</span>'
            )
        lines.append(
            f'<p style="margin:.6em 0 .1em;font-size:.85em;opacity:.8">{escape(title)}</p>'
            f'<p style="margin:0;line-height:1.9">{"".join(spans)}</p>'
        )
    body = f'<div role="img" aria-label="{escape(alt)}">{"".join(lines)}</div>'
    return Shown(_figure(body, name, caption), alt)
