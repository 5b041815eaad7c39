"""Where a page's numbers come from: parameters, versions, the key of the run, its duration."""

from __future__ import annotations

import os
import platform
import time
from html import escape
from importlib.metadata import version
from typing import Any

_STARTED = time.monotonic()
_PACKAGES = ("attnflow", "numpy", "scipy", "pot", "matplotlib")


class Provenance:
    """A footer; its last cell is the only one of a chapter whose output may change."""

    def __init__(self, rows: dict[str, str]) -> None:
        self.rows = rows

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {value}" for name, value in self.rows.items())

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<dt>{escape(name)}</dt><dd><code>{escape(value)}</code></dd>"
            for name, value in self.rows.items()
        )
        return f'<dl class="af-provenance">{cells}</dl>'


def provenance(**parameters: Any) -> Provenance:
    """The footer of a chapter run with these parameters.

    The key is what the runner named the run by; a notebook executed by hand has none.
    """
    return Provenance(
        {
            "parameters": ", ".join(f"{k} = {v!r}" for k, v in parameters.items()),
            "versions": ", ".join(
                [f"python {platform.python_version()}"] + [f"{p} {version(p)}" for p in _PACKAGES]
            ),
            "run key": os.environ.get("ATTNFLOW_KEY", "executed by hand"),
            "run time": f"{time.monotonic() - _STARTED:.0f} s",
        }
    )
