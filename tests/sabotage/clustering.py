"""Plausible mistakes in the package, one a claim of the chapter `clustering`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from controls.cells import CELL

from attnflow import flows
from attnflow.attention import kinds
from attnflow.sphere import critical, energies, modes, orthogonal, stacks, tokens
from sabotage import sabotage


def beta_is_halved(patch: pytest.MonkeyPatch) -> None:
    honest = tokens._layer
    patch.setattr(tokens, "_layer", lambda beta, *rest: honest(beta / 2, *rest))


def time_counts_steps(patch: pytest.MonkeyPatch) -> None:
    """A hundredth of the time passes."""
    honest = flows.integrate

    def slow(velocity: Any, x0: Any, times: Any, **options: Any) -> flows.Flow:
        return honest(lambda t, x: velocity(t, x) / 100, x0, times, **options)

    patch.setattr(flows, "integrate", slow)
    patch.setattr(stacks, "integrate", slow)


def the_mask_comes_after_the_softmax(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        kinds._RowNormalised, "_causal_rows", lambda self, x, w: np.tril(self.rows(x, x, w))
    )


@sabotage("clustering.layer")
def layers_step_a_tenth_too_short(patch: pytest.MonkeyPatch) -> None:
    honest = flows.sphere_layers
    patch.setattr(
        flows, "sphere_layers", lambda a, x, depth, time=1.0: honest(a, x, depth, time=0.9 * time)
    )


@sabotage("clustering.log-gradient")
def softmax_over_columns(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        kinds,
        "softmax_rows",
        lambda logits: np.exp(logits - np.logaddexp.reduce(logits, axis=0, keepdims=True)),
    )


@sabotage("clustering.continuity")
def the_flow_runs_at_half_the_temperature(patch: pytest.MonkeyPatch) -> None:
    beta_is_halved(patch)


@sabotage("clustering.energy-rate")
def the_weights_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    def unweighted(x: Any, beta: float, normalised: bool = True) -> float:
        return float((tokens.velocity(x, beta, normalised) ** 2).sum(axis=1).mean())

    patch.setattr(energies, "energy_rate", unweighted)


@sabotage("clustering.monotone")
def the_energy_is_that_of_distances(patch: pytest.MonkeyPatch) -> None:
    honest = energies.energy
    patch.setattr(energies, "energy", lambda x, beta, V=None: 1 / honest(x, beta, V))


@sabotage("clustering.gradient")
def the_energy_loses_its_half(patch: pytest.MonkeyPatch) -> None:
    honest = energies.energy
    patch.setattr(energies, "energy", lambda x, beta, V=None: 2 * honest(x, beta, V))


@sabotage("clustering.extremes")
def the_sphere_has_a_dimension_too_few(patch: pytest.MonkeyPatch) -> None:
    honest = energies.uniform_energy
    patch.setattr(
        energies,
        "uniform_energy",
        lambda beta, d: honest(beta, d - 1) if d > 2 else honest(beta, 2),
    )


@sabotage("clustering.no-gradient")
def the_softmax_is_not_differentiated(patch: pytest.MonkeyPatch) -> None:
    honest = critical.field_jacobian
    patch.setattr(
        critical, "field_jacobian", lambda x, beta, normalised=True, **rest: honest(x, beta, False)
    )


@sabotage("clustering.modes")
def the_modes_are_those_of_the_next_dimension(patch: pytest.MonkeyPatch) -> None:
    honest = modes.exponential_modes
    patch.setattr(modes, "exponential_modes", lambda beta, d, count: honest(beta, d + 1, count))


@sabotage("clustering.saddles", "clustering.circle-saddles")
def the_temperature_counts_twice(patch: pytest.MonkeyPatch) -> None:
    honest = critical.field_jacobian
    patch.setattr(
        critical,
        "field_jacobian",
        lambda x, beta, *rest, **options: honest(x, 2 * beta, *rest, **options),
    )


@sabotage("clustering.one-cluster")
def encoders_get_a_hundredth_of_their_time(patch: pytest.MonkeyPatch) -> None:
    time_counts_steps(patch)


@sabotage("clustering.exponential")
def a_token_does_not_see_itself(patch: pytest.MonkeyPatch) -> None:
    def against(self: Any, x: Any, w: Any) -> Any:
        def others(z: Any) -> Any:
            scores = self.scores(z, x)
            if len(z) == len(x):
                np.fill_diagonal(scores, -np.inf)
            return kinds.softmax_rows(scores)

        return others

    patch.setattr(kinds._RowNormalised, "against", against)


@sabotage("clustering.hemisphere", since=CELL)
def velocities_are_a_tenth_too_large(patch: pytest.MonkeyPatch) -> None:
    honest = flows.integrate

    def fast(velocity: Any, x0: Any, times: Any, **options: Any) -> flows.Flow:
        return honest(lambda t, x: 1.1 * velocity(t, x), x0, times, **options)

    patch.setattr(flows, "integrate", fast)


@sabotage("clustering.slow-start", since=CELL)
def the_start_is_at_half_the_temperature(patch: pytest.MonkeyPatch) -> None:
    beta_is_halved(patch)


@sabotage("clustering.merge-time")
def only_one_cluster_is_thought_to_move(patch: pytest.MonkeyPatch) -> None:
    honest = orthogonal.merge_time
    patch.setattr(orthogonal, "merge_time", lambda *given: 2 * honest(*given))


@sabotage("clustering.metastable")
def the_barrier_is_half_as_high(patch: pytest.MonkeyPatch) -> None:
    honest = orthogonal.merge_time
    patch.setattr(orthogonal, "merge_time", lambda beta, *rest: honest(beta / 2, *rest))


@sabotage("clustering.decoder-clock")
def the_mask_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(kinds._RowNormalised, "_causal_rows", lambda self, x, w: self.rows(x, x, w))


@sabotage("clustering.queue")
def the_mask_does_not_renormalise(patch: pytest.MonkeyPatch) -> None:
    the_mask_comes_after_the_softmax(patch)


@sabotage("clustering.decoder-rate")
def the_mask_leaves_rows_short(patch: pytest.MonkeyPatch) -> None:
    the_mask_comes_after_the_softmax(patch)


@sabotage("clustering.decoder-cluster", since=CELL)
def decoders_get_a_hundredth_of_their_time(patch: pytest.MonkeyPatch) -> None:
    time_counts_steps(patch)


@sabotage("clustering.encoder-decoder", since=CELL)
def starts_have_positive_coordinates(patch: pytest.MonkeyPatch) -> None:
    honest = tokens.uniform
    patch.setattr(tokens, "uniform", lambda n, d, rng: np.abs(honest(n, d, rng)))
