"""Plausible mistakes in the package, one a claim of the chapter `third_case`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attnflow.gaussian import affine, cones, stored, system
from sabotage import sabotage


def _bent(patch: pytest.MonkeyPatch, bend: Any) -> None:
    """Change B wherever the covariance's flow asks for it."""
    honest = affine.factors_and_shift

    def wrong(layer: Any, F: np.ndarray, mean: np.ndarray) -> tuple[np.ndarray, ...]:
        left, right, c = honest(layer, F, mean)
        return bend(left @ right), np.eye(len(F)), c

    patch.setattr(affine, "factors_and_shift", wrong)
    patch.setattr(system, "factors_and_shift", wrong)


@sabotage("third_case.count")
def what_grows_is_taken_for_a_limit(patch: pytest.MonkeyPatch) -> None:
    honest = stored.stored_fates

    def other(*args: Any) -> Any:
        found, made = honest(*args)
        return {d: seen._replace(words=found[2].words) for d, seen in found.items()}, made

    patch.setattr(stored, "stored_fates", other)


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


@sabotage("third_case.exact")
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
