"""Plausible mistakes in the package, one a claim of the chapter `one_step`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attnflow import densities
from attnflow.kernels import dense
from attnflow.schemes import ingredients, steps
from attnflow.transport import bridge
from sabotage import sabotage


@sabotage("one_step.gaussian")
def the_cost_loses_its_half(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(bridge, "DenseKernel", lambda x, eps: dense.DenseKernel(x, eps / 2))


@sabotage("one_step.order")
def the_euler_step_has_the_wrong_sign(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(steps, "euler_step", lambda x, e, score: x[:, None] + e / 2 * score(x))


@sabotage("one_step.constant")
def the_potential_loses_its_divergence(patch: pytest.MonkeyPatch) -> None:
    def bare(self: densities.GaussianMixture, x: Any) -> np.ndarray:
        return (self.score(x) ** 2).sum(axis=1) / 8

    patch.setattr(densities.GaussianMixture, "potential", bare)


@sabotage("one_step.score")
def the_score_is_not_halved(patch: pytest.MonkeyPatch) -> None:
    honest = densities.GaussianMixture.score
    patch.setattr(densities.GaussianMixture, "score", lambda self, x: 2 * honest(self, x))


@sabotage("one_step.noise", "one_step.best")
def samples_repeat_themselves(patch: pytest.MonkeyPatch) -> None:
    honest = densities.GaussianMixture.sample

    def few(self: densities.GaussianMixture, n: int, rng: Any) -> np.ndarray:
        return np.tile(honest(self, 100, rng), (-(-n // 100), 1))[:n]

    patch.setattr(densities.GaussianMixture, "sample", few)


@sabotage("one_step.series")
def the_fourth_term_has_the_wrong_sign(patch: pytest.MonkeyPatch) -> None:
    honest = ingredients.fourth_order_term
    patch.setattr(ingredients, "fourth_order_term", lambda density, x: -honest(density, x))


@sabotage("one_step.surrogate")
def theta_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    honest = steps.general_step
    patch.setattr(steps, "general_step", lambda x, eps, theta, s: honest(x, eps, 2 * theta, s))


@sabotage("one_step.share")
def the_share_loses_its_factor_two(patch: pytest.MonkeyPatch) -> None:
    honest = steps.heat_share
    patch.setattr(steps, "heat_share", lambda bridge: honest(bridge) / 2)
