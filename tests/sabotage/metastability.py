"""Plausible mistakes in the package, one a claim of the chapter `metastability`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attnflow.sphere import circle, coalescence, parking
from sabotage import sabotage


@sabotage("metastability.time")
def masses_do_not_count_in_time(patch: pytest.MonkeyPatch) -> None:
    honest = coalescence.pair_log_time
    patch.setattr(
        coalescence, "pair_log_time", lambda b, a, m1, m2, *rest: honest(b, a, 1.0, 1.0, *rest)
    )


@sabotage("metastability.place")
def clusters_merge_at_the_mean_by_masses(patch: pytest.MonkeyPatch) -> None:
    honest = coalescence.pair_place
    patch.setattr(
        coalescence, "pair_place", lambda b, a, m1, m2, *rest, **more: honest(b, a, m1, m2, False)
    )


@sabotage("metastability.staircase")
def barriers_are_those_of_half_the_angle(patch: pytest.MonkeyPatch) -> None:
    honest = coalescence.pair_log_time
    patch.setattr(coalescence, "pair_log_time", lambda b, a, *rest: honest(b, a / 2, *rest))


@sabotage("metastability.order")
def the_new_cluster_overshoots(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(coalescence, "pair_place", lambda b, angle, *rest: 1.2 * angle)


@sabotage("metastability.energy")
def the_energy_counts_tokens(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(circle._State, "energy", lambda self: float(self.masses.max() / self.total))


@sabotage("metastability.root")
def the_cluster_is_displaced_to_the_heavier(patch: pytest.MonkeyPatch) -> None:
    honest = coalescence.place_shift
    patch.setattr(coalescence, "place_shift", lambda m1, m2: honest(m2, m1))


@sabotage("metastability.decoder")
def tokens_see_those_behind_them(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(circle, "_behind_a_mask", lambda n: np.triu(np.ones((n, n))))


@sabotage("metastability.renyi")
def cars_park_at_half_their_length(patch: pytest.MonkeyPatch) -> None:
    honest = parking.park
    patch.setattr(parking, "park", lambda x, radius, *length: honest(x, radius / 2, *length))


@sabotage("metastability.plateaus", "metastability.density")
def who_has_fallen_still_takes(patch: pytest.MonkeyPatch) -> None:
    def nearest(points: Any, length: float = 2 * np.pi) -> parking.Captures:
        x = np.asarray(points, float)
        far = [parking._distance(x[j], x[:j], length) for j in range(1, len(x))]
        return parking.Captures(
            np.array([np.inf, *(row.min() for row in far)]),
            np.array([-1, *(row.argmin() for row in far)]),
        )

    patch.setattr(parking, "captures", nearest)
