"""The registry of sabotages: one module a chapter, one mistake a claim."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Sabotage = Callable[[pytest.MonkeyPatch], None]
SABOTAGE: dict[str, Sabotage] = {}


def sabotage(claim: str) -> Callable[[Sabotage], Sabotage]:
    """Register a mistake under which the check of `claim` must come out "fails"."""

    def register(patch: Sabotage) -> Sabotage:
        assert claim not in SABOTAGE
        SABOTAGE[claim] = patch
        return patch

    return register
