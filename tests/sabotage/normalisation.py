"""Plausible mistakes in the package, one a claim of the chapter `normalisation`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attnflow.norms import clocks, depth, laws, orbit, tokens
from sabotage import sabotage


@sabotage("normalisation.orbit")
def a_token_counts_itself_among_the_others(patch: pytest.MonkeyPatch) -> None:
    honest = orbit.read
    patch.setattr(clocks, "read", lambda u, beta, n: honest(u, beta, n + 1))


@sabotage("normalisation.size")
def the_norm_grows_like_the_mean(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        orbit, "size", lambda beta, n, delta, **more: np.exp(orbit.sphere_time(beta, n, delta))
    )


@sabotage("normalisation.closed")
def the_first_exponential_integral_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(orbit, "expi", lambda z: 0.0 * z)


@sabotage("normalisation.clocks")
def peri_does_not_normalise_the_mean(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(clocks, "UNIT_MEAN", ("nGPT",))


@sabotage("normalisation.sandwich")
def the_mean_is_too_short(patch: pytest.MonkeyPatch) -> None:
    honest = orbit.read

    def short(*args: Any) -> orbit.Reading:
        found = honest(*args)
        return found._replace(size=found.size / 2)

    patch.setattr(clocks, "read", short)


@sabotage("normalisation.sphere-law")
def the_half_before_the_power_is_lost(patch: pytest.MonkeyPatch) -> None:
    honest = laws.sphere_law

    def doubled(beta: float, n: int, delta: float) -> float:
        start = np.log(n * (1 - delta) / delta) / 2
        return float(2 * honest(beta, n, delta) - start)

    patch.setattr(laws, "sphere_law", doubled)


@sabotage("normalisation.below")
def the_gap_is_taken_for_the_cosine(patch: pytest.MonkeyPatch) -> None:
    honest = laws.limit_below
    patch.setattr(laws, "limit_below", lambda norm, n, delta: honest(norm, n, 1 - delta))


@sabotage("normalisation.window")
def the_exponent_has_no_half(patch: pytest.MonkeyPatch) -> None:
    honest = laws.window_exponent
    patch.setattr(laws, "window_exponent", lambda norm, b: 2 * honest(norm, b))


@sabotage("normalisation.above")
def norms_grow_at_half_the_rate(patch: pytest.MonkeyPatch) -> None:
    honest = orbit.sphere_time
    patch.setattr(clocks, "sphere_time", lambda *args, **more: honest(*args, **more) / 2)


@sabotage("normalisation.start")
def the_start_is_taken_to_be_orthogonal(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(orbit, "_start", lambda start: 0.0)


@sabotage("normalisation.last")
def tokens_lose_a_hundredth_of_their_time(patch: pytest.MonkeyPatch) -> None:
    honest = tokens._velocity
    patch.setattr(tokens, "_velocity", lambda *args: 0.99 * honest(*args))


@sabotage("normalisation.constant")
def the_constant_forgets_the_number_of_tokens(patch: pytest.MonkeyPatch) -> None:
    honest = clocks.last_phase
    patch.setattr(
        clocks, "last_phase", lambda norm, beta, n, **more: n * honest(norm, beta, n, **more)
    )


@sabotage("normalisation.random")
def scores_are_halved(patch: pytest.MonkeyPatch) -> None:
    honest = tokens._layer
    patch.setattr(tokens, "_layer", lambda beta, x: honest(beta / 2, x))


@sabotage("normalisation.map")
def differences_keep_their_own_weight(patch: pytest.MonkeyPatch) -> None:
    honest = depth._layer
    patch.setattr(
        depth, "_layer", lambda norm, u, r, beta, n, h: honest(norm, u, r, beta, n + 1, h)
    )


@sabotage("normalisation.order")
def steps_are_a_little_long(patch: pytest.MonkeyPatch) -> None:
    honest = depth._layer
    patch.setattr(
        depth, "_layer", lambda norm, u, r, beta, n, h: honest(norm, u, r, beta, n, 1.05 * h)
    )


@sabotage("normalisation.factor")
def layers_are_taken_for_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(depth, "layers_to_time", lambda norm, **more: 1.0)
