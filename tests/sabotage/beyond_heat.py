"""Plausible mistakes in the package, one a claim of the chapter `beyond_heat`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from controls.cells import CELL

from attnflow import densities, images
from attnflow.gaussian import recursions
from attnflow.schemes import rough, splitting, steps
from sabotage import sabotage


@sabotage("beyond_heat.regularity", "beyond_heat.order")
def the_cost_loses_its_half(patch: pytest.MonkeyPatch) -> None:
    honest = steps.self_bridge
    patch.setattr(
        steps, "self_bridge", lambda x, eps, *args, **options: honest(x, eps / 2, *args, **options)
    )


@sabotage("beyond_heat.linear", since=CELL)
def the_jump_forgets_its_factorial_and_its_mass(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rough.Kinked, "jump", property(lambda self: self.c))


@sabotage("beyond_heat.images")
def images_lie_on_a_line(patch: pytest.MonkeyPatch) -> None:
    def noise(n: int = 2000, directory: str = "") -> np.ndarray:
        return 255 * 10 * np.random.default_rng(0).normal(size=(n, 1))

    patch.setattr(images, "fashion_mnist", noise)


@sabotage("beyond_heat.general-step")
def theta_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    honest = steps.general_step
    patch.setattr(steps, "general_step", lambda x, eps, theta, s: honest(x, eps, 2 * theta, s))


@sabotage("beyond_heat.fokker-planck", since=CELL)
def the_exact_flow_runs_twice_as_fast(patch: pytest.MonkeyPatch) -> None:
    honest = recursions.ornstein_uhlenbeck
    patch.setattr(recursions, "ornstein_uhlenbeck", lambda var0, t: honest(var0, 2 * t))


@sabotage("beyond_heat.strang")
def the_potential_pulls_twice_as_hard(patch: pytest.MonkeyPatch) -> None:
    honest = splitting.potential_flow

    def twice(x: Any, t: float, force: Any) -> densities.Array:
        return honest(x, 2 * t, force)

    patch.setattr(splitting, "potential_flow", twice)
