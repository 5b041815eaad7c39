"""Pages are written by as many processes as there are cores.

Sphinx reads and writes side by side or does neither, and the domain of theorems cannot be read so.
Hence this is asked for when everything has been read.
"""

from __future__ import annotations

import os
from typing import Any

from sphinx.application import Sphinx


def _share(app: Sphinx, env: Any) -> None:
    app.parallel = 1 + (os.cpu_count() or 1)  # one of them hands out the work


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("env-updated", _share)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
