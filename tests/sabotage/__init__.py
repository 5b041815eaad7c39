"""The registry of sabotages: one module a chapter, one mistake a claim."""

from __future__ import annotations

from collections.abc import Callable

from controls.cells import SECTION
from controls.stage import Patch, Sabotage

SABOTAGE: dict[str, Sabotage] = {}


def sabotage(*claims: str, since: str = SECTION, inside: bool = False) -> Callable[[Patch], Patch]:
    """Register a mistake under which the check of each of `claims` must come out "fails".

    The chapter is honest up to the section in which a claim is first checked, and wrong from
    there on. Where the mistake must act earlier, `since` says from which heading (or FIRST_CELL);
    where the check's own cell is enough and those before it in its section are slow, CELL. A mistake that acts `inside` a function whose
    answers are remembered (see controls/memory.py) would be hidden at first: nothing is looked up.
    """

    def register(mistake: Patch) -> Patch:
        for claim in claims:
            assert claim not in SABOTAGE
            SABOTAGE[claim] = Sabotage(mistake, claims, since, inside=inside)
        return mistake

    return register
