"""Plausible mistakes in the package, one a claim of the chapter `uniform_convergence`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from controls.cells import CELL

from attnflow import densities, differences, images
from attnflow.gaussian import recursions
from attnflow.schemes import paths, steps
from attnflow.transport import bridge
from sabotage import sabotage


def _slower(honest: Any) -> Any:
    """A solver whose cost has lost its factor 1/2."""
    return lambda x, eps, *args, **options: honest(x, eps / 2, *args, **options)


@sabotage("uniform_convergence.gaussian")
def the_cost_loses_its_half(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(steps, "self_bridge", _slower(steps.self_bridge))


@sabotage("uniform_convergence.acceleration")
def laplace_in_place_of_half_laplace(patch: pytest.MonkeyPatch) -> None:
    honest = densities.GaussianMixture.heat
    patch.setattr(densities.GaussianMixture, "heat", lambda self, t: honest(self, 2 * t))


@sabotage("uniform_convergence.second-order")
def layers_move_a_tenth_too_far(patch: pytest.MonkeyPatch) -> None:
    honest = steps.self_bridge

    def stretched(x: Any, eps: float, *args: Any, **options: Any) -> Any:
        return honest(x, eps * 1.02, *args, **options)

    patch.setattr(steps, "self_bridge", stretched)


@sabotage("uniform_convergence.first-order")
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


@sabotage("uniform_convergence.sampling")
def the_temperature_enters_with_a_spurious_square(patch: pytest.MonkeyPatch) -> None:
    honest = bridge.self_bridge

    def hotter(x: Any, eps: float, *args: Any, **options: Any) -> Any:
        return honest(x, eps + 200 * eps**2, *args, **options)

    patch.setattr(bridge, "self_bridge", hotter)


@sabotage("uniform_convergence.plane")
def tokens_move_half_as_far(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(steps, "self_bridge", _slower(steps.self_bridge))


@sabotage("uniform_convergence.images")
def images_lie_on_a_line(patch: pytest.MonkeyPatch) -> None:
    def noise(n: int = 2000, directory: str = "") -> np.ndarray:
        return 255 * 10 * np.random.default_rng(0).normal(size=(n, 1))

    patch.setattr(images, "fashion_mnist", noise)


@sabotage("uniform_convergence.fokker-planck")
def the_exact_flow_runs_twice_as_fast(patch: pytest.MonkeyPatch) -> None:
    honest = recursions.ornstein_uhlenbeck
    patch.setattr(recursions, "ornstein_uhlenbeck", lambda var0, t: honest(var0, 2 * t))


@sabotage("uniform_convergence.general-step")
def theta_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    honest = steps.general_step
    patch.setattr(steps, "general_step", lambda x, eps, theta, s: honest(x, eps, 2 * theta, s))
