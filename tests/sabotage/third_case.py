"""Plausible mistakes in the package, one a claim of the chapter `third_case`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from controls.cells import CELL, FIRST_CELL

from attnflow.gaussian import cones, fates, stored
from sabotage import sabotage
from sabotage.gaussian_flows import _bent


@sabotage("third_case.count")
def all_growth_is_taken_for_blow_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fates, "_is_sudden", lambda *_: True)
    patch.setattr(fates, "FAR", np.inf)


@sabotage("third_case.ranks", since=FIRST_CELL)
def the_rank_is_counted_from_one(patch: pytest.MonkeyPatch) -> None:
    honest = stored.stored_fates

    def more(*args: Any) -> Any:
        found, made = honest(*args)
        wrong = {
            d: seen._replace(ranks=tuple(rank + d * (rank >= 0) for rank in seen.ranks))
            for d, seen in found.items()
        }
        return wrong, made

    patch.setattr(stored, "stored_fates", more)


@sabotage("third_case.axis")
def keys_and_values_are_swapped(patch: pytest.MonkeyPatch) -> None:
    honest = cones.cone_axes
    patch.setattr(cones, "cone_axes", lambda A, V: honest(V, A))


@sabotage("third_case.exponent")
def the_exponent_of_the_variance_is_taken(patch: pytest.MonkeyPatch) -> None:
    honest = cones.cone

    def doubled(*args: Any) -> cones.Cone:
        found = honest(*args)
        return found._replace(exponent=2 * found.exponent)

    patch.setattr(cones, "cone", doubled)


@sabotage("third_case.exact", since=CELL, inside=True)
def the_covariance_moves_at_half_speed(patch: pytest.MonkeyPatch) -> None:
    _bent(patch, lambda B: B / 2)


@sabotage("third_case.open")
def the_growth_is_read_at_the_start(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(cones, "FAR", 10.0)


@sabotage("third_case.skew")
def the_slope_gets_an_absolute_value(patch: pytest.MonkeyPatch) -> None:
    _bent(patch, lambda B: B + 0.01 * np.abs(B))


@sabotage("third_case.turn")
def the_cloud_turns_too_fast(patch: pytest.MonkeyPatch) -> None:
    _bent(patch, lambda B: 1.001 * B)
