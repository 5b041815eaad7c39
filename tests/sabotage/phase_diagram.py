"""Plausible mistakes in the package, one a claim of the chapter `phase_diagram`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from controls.cells import CELL

from attnflow.sphere import linear, orthogonal, phase, stored, tokens
from sabotage import sabotage


@sabotage("phase_diagram.orthogonal")
def a_token_does_not_attend_to_itself(patch: pytest.MonkeyPatch) -> None:
    honest = orthogonal.gamma
    patch.setattr(
        orthogonal,
        "gamma",
        lambda beta, n, times, normalised=True: honest(beta, max(n - 1, 2), times, normalised),
    )


@sabotage("phase_diagram.hitting")
def the_quadrature_loses_its_factor_two(patch: pytest.MonkeyPatch) -> None:
    honest = orthogonal.hitting_time
    patch.setattr(
        orthogonal,
        "hitting_time",
        lambda beta, n, delta, normalised=True: 2 * honest(beta, n, delta, normalised),
    )


@sabotage("phase_diagram.slow-start", since=CELL)
def the_velocity_is_that_of_usa(patch: pytest.MonkeyPatch) -> None:
    honest = tokens.velocity
    patch.setattr(tokens, "velocity", lambda x, beta, normalised=True: honest(x, beta, False))


@sabotage("phase_diagram.concentration")
def the_curve_runs_a_tenth_too_slowly(patch: pytest.MonkeyPatch) -> None:
    honest = orthogonal.gamma
    patch.setattr(
        orthogonal,
        "gamma",
        lambda beta, n, times, normalised=True: honest(
            beta, n, 0.9 * np.asarray(times), normalised
        ),
    )


def _forgetting(patch: pytest.MonkeyPatch, *names: str) -> None:
    """The response to other pairs than one's own is lost."""
    honest = linear.response

    def found(*args: Any, **options: Any) -> linear.Response:
        answer = honest(*args, **options)
        return answer._replace(**{name: 0 * getattr(answer, name) for name in names})

    patch.setattr(linear, "response", found)


@sabotage("phase_diagram.envelope", since=CELL)
def a_pair_is_stirred_by_itself_alone(patch: pytest.MonkeyPatch) -> None:
    _forgetting(patch, "shared", "apart")


@sabotage("phase_diagram.linear", since=CELL)
def pairs_that_share_a_token_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    _forgetting(patch, "shared")


@sabotage("phase_diagram.never-meet")
def layers_take_a_double_step(patch: pytest.MonkeyPatch) -> None:
    honest = tokens.velocity
    patch.setattr(tokens, "velocity", lambda *args, **options: 2 * honest(*args, **options))


@sabotage("phase_diagram.tail", since=CELL)
def the_curve_forgets_the_factor_two(patch: pytest.MonkeyPatch) -> None:
    honest = orthogonal._slowness
    patch.setattr(orthogonal, "_slowness", lambda *args: 2 * honest(*args))


@sabotage("phase_diagram.stored")
def counts_are_divided_by_all_ordered_pairs(patch: pytest.MonkeyPatch) -> None:
    honest = stored.figure3

    def diluted(path: str = "") -> stored.Figure3:
        found = honest(path)
        thin = {d: p._replace(probability=p.probability / 2) for d, p in found.diagrams.items()}
        return found._replace(diagrams=thin)

    patch.setattr(stored, "figure3", diluted)


@sabotage("phase_diagram.boundary", since=CELL)
def delta_is_taken_for_an_angle(patch: pytest.MonkeyPatch) -> None:
    honest = orthogonal.hitting_time
    patch.setattr(
        orthogonal,
        "hitting_time",
        lambda beta, n, delta, *args: honest(beta, n, delta**2 / 2, *args),
    )


@sabotage("phase_diagram.low-dimension", since="The phase diagram")
def the_dimension_is_not_passed_on(patch: pytest.MonkeyPatch) -> None:
    honest = phase.phase_diagram
    patch.setattr(
        phase,
        "phase_diagram",
        lambda n, d, *args, **options: honest(n, max(d, 64), *args, **options),
    )
