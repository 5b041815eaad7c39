"""Where a page's numbers come from: parameters, versions, and the run that made them.

A kernel knows its parameters and the versions around it; the key and the duration of the run are
known to the runner alone, which adds them to the page (:func:`stamped`) and not to what is stored:
outputs stored anew do not change where nothing changed.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from html import escape
from importlib.metadata import version
from typing import Any

MIME = "application/vnd.attnflow.provenance+json"
_PACKAGES = ("attnflow", "numpy", "scipy", "pot", "matplotlib")


class Provenance:
    """A footer, as text, HTML and JSON.

    >>> Provenance({"parameters": "n = 3"})
    parameters: n = 3
    """

    def __init__(self, rows: Mapping[str, str]) -> None:
        self.rows = dict(rows)

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {value}" for name, value in self.rows.items())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        cells = "".join(
            f"<dt>{escape(name)}</dt><dd><code>{escape(value)}</code></dd>"
            for name, value in self.rows.items()
        )
        html = f'<dl class="af-provenance">{cells}</dl>'
        return {"text/plain": repr(self), "text/html": html, MIME: self.rows}


def provenance(**parameters: Any) -> Provenance:
    """The footer of a chapter run with these parameters.

    >>> provenance(n=3, eps=0.1).rows["parameters"]
    'n = 3, eps = 0.1'
    """
    return Provenance(
        {
            "parameters": ", ".join(f"{k} = {v!r}" for k, v in parameters.items()),
            "versions": ", ".join(
                [f"python {platform.python_version()}"] + [f"{p} {version(p)}" for p in _PACKAGES]
            ),
        }
    )


def stamped(data: Mapping[str, Any], **more: str) -> dict[str, Any]:
    """The data of a footer's output with further rows.

    >>> print(stamped({MIME: {"parameters": "n = 3"}}, run="12 s")["text/plain"])
    parameters: n = 3
    run: 12 s
    """
    return Provenance({**data[MIME], **more})._repr_mimebundle_()


def unstamped(data: Mapping[str, Any]) -> dict[str, Any]:
    """The data of a footer's output with only what the kernel knew.

    >>> rows = {"parameters": "n = 3", "versions": "python 3", "run": "12 s"}
    >>> unstamped({MIME: rows})[MIME]
    {'parameters': 'n = 3', 'versions': 'python 3'}
    """
    rows = {name: data[MIME][name] for name in ("parameters", "versions")}
    return Provenance(rows)._repr_mimebundle_()
