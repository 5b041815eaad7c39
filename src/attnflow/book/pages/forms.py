"""A form for every chapter: its parameters, typed and ranged, read from the cell that declares them.

Where the book is served by ``attnflow serve`` the form runs the chapter (_static/rerun.js); where
it is opened as plain files it shows the command to copy.
"""

from __future__ import annotations

from html import escape

from attnflow.book.chapters.parameters import BookError, Parameter, parse_parameters


def form(chapter: str, source: str) -> str:
    """The form of a chapter as HTML, folded; "" where its parameter cell cannot be read.

    >>> 'name="n"' in form("demo", "n: int = 8  # tokens, in [2, 64]")
    True
    """
    try:
        fields = "".join(map(_field, parse_parameters(source)))
    except BookError:
        return ""
    return (
        '<details class="af-rerun"><summary>Run it with other parameters</summary>'
        f'<form data-chapter="{escape(chapter)}" onsubmit="return false">{fields}'
        f'<p class="af-command"><code>attnflow run {escape(chapter)}</code> '
        '<button type="button" data-do="copy">copy</button> '
        '<button type="submit" data-do="run" hidden>run</button> '
        '<button type="button" data-do="cancel" hidden>cancel</button> '
        '<button type="reset">defaults</button></p>'
        '<output aria-live="polite"></output><div class="af-runs"></div></form></details>'
    )


def _field(parameter: Parameter) -> str:
    name, default = escape(parameter.name), escape(_text(parameter.default))
    choices = parameter.choices or ((True, False) if parameter.type == "bool" else ())
    if choices:
        options = "".join(
            f"<option{' selected' if c == parameter.default else ''}>{escape(_text(c))}</option>"
            for c in choices
        )
        entry = f'<select name="{name}" data-default="{default}">{options}</select>'
    else:
        numeric = parameter.type in ("int", "float")
        mode = ' inputmode="decimal"' if numeric else ""
        free = " data-free" if parameter.is_free else ""
        entry = f'<input name="{name}" value="{default}" data-default="{default}"{mode}{free}>'
    hint = escape(f"{parameter.help} ({parameter.allowed})")
    return f"<label><span>{name}</span> {entry} <small>{hint}</small></label>"


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
