"""Plausible mistakes in the package, one a claim of the chapter `uniform_convergence`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from controls.cells import CELL

from attnflow import densities, differences
from attnflow.gaussian import recursions
from attnflow.schemes import ingredients, paths, stability, steps
from attnflow.transport import bridge
from sabotage import sabotage


def _slower(honest: Any) -> Any:
    """A solver whose cost has lost its factor 1/2."""
    return lambda x, eps, *args, **options: honest(x, eps / 2, *args, **options)


def _stretched(honest: Any) -> Any:
    """A solver whose temperature is two percent too high."""
    return lambda x, eps, *args, **options: honest(x, eps * 1.02, *args, **options)


@sabotage("uniform_convergence.curve", "uniform_convergence.gaussian")
def the_cost_loses_its_half(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(steps, "self_bridge", _slower(steps.self_bridge))


@sabotage("uniform_convergence.acceleration")
def laplace_in_place_of_half_laplace(patch: pytest.MonkeyPatch) -> None:
    honest = densities.GaussianMixture.heat
    patch.setattr(densities.GaussianMixture, "heat", lambda self, t: honest(self, 2 * t))


@sabotage("uniform_convergence.second-order", since="The claim")
def layers_are_two_percent_too_warm(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(steps, "self_bridge", _stretched(steps.self_bridge))


@sabotage("uniform_convergence.local")
def a_single_layer_is_two_percent_too_warm(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ingredients, "self_bridge", _stretched(ingredients.self_bridge))


@sabotage("uniform_convergence.stable")
def a_layer_moves_three_times_as_far(patch: pytest.MonkeyPatch) -> None:
    honest = steps.reflected
    patch.setattr(ingredients, "reflected", lambda solved: 3 * honest(solved) - 2 * solved.x)


@sabotage("uniform_convergence.mixture-constant", since=CELL)
def the_third_derivative_loses_its_drift(patch: pytest.MonkeyPatch) -> None:
    def still(density: densities.GaussianMixture, s: float, x: np.ndarray) -> np.ndarray:
        later, now = (density.heat(s + h).potential_gradient(x)[:, 0] for h in (1e-4, 0.0))
        return (now - later) / 1e-4

    patch.setattr(ingredients, "_jerk", still)


@sabotage("uniform_convergence.stability", since=CELL)
def the_exponent_of_a_wave_loses_its_half(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        stability, "bridge_amplification", lambda s: 1 - np.asarray(s) / (1 + np.exp(np.asarray(s)))
    )


@sabotage("uniform_convergence.breakdown", since=CELL)
def eulers_step_loses_its_half(patch: pytest.MonkeyPatch) -> None:
    honest = stability.euler_stretches
    patch.setattr(
        stability,
        "euler_stretches",
        lambda density, eps, depth, at=0.0: honest(density, 2 * eps, depth, at),
    )


@sabotage("uniform_convergence.first-order", since=CELL)
def the_carried_score_forgets_the_stretch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(paths, "_carried_score", lambda x, log_rho0, h: differences.on_grid(log_rho0, h))


@sabotage("uniform_convergence.constants", since=CELL)
def the_recursion_has_the_wrong_factor(patch: pytest.MonkeyPatch) -> None:
    for name in ("bridge_recursion", "euler_recursion"):
        honest = getattr(recursions, name)
        patch.setattr(
            recursions,
            name,
            lambda var0, eps, depth, honest=honest: honest(var0, eps, depth) * (1 + eps**2),
        )


@sabotage("uniform_convergence.sampling", "uniform_convergence.plane")
def tokens_move_half_as_far(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(steps, "self_bridge", _slower(bridge.self_bridge))
