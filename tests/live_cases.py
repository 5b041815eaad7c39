"""The cases of all live functions; each module adds its own to the tables of `live_pairs`."""

from __future__ import annotations

import live_gaussian  # noqa: F401
import live_heat  # noqa: F401
import live_sphere  # noqa: F401
import live_tokens  # noqa: F401
from live_pairs import CASES, CLOSE, NAMES

__all__ = ["CASES", "CLOSE", "NAMES"]
