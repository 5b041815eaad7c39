"""Plausible mistakes in the package, one a claim of the chapter `bridge_langevin`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attnflow import densities, langevin
from attnflow.kernels import dense
from attnflow.transport import bridge
from sabotage import sabotage


@sabotage("bridge_langevin.gaussian-bridge")
def the_cost_loses_its_half(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(bridge, "DenseKernel", lambda x, eps: dense.DenseKernel(x, eps / 2))


@sabotage("bridge_langevin.kl-gaussian")
def the_drift_has_the_wrong_sign(patch: pytest.MonkeyPatch) -> None:
    def outward(self: densities.GaussianMixture, x: Any) -> np.ndarray:
        score, hessian = self._moments(self._points(x))
        return (score**2).sum(axis=1) / 8 - np.trace(hessian, axis1=1, axis2=2) / 4

    patch.setattr(densities.GaussianMixture, "potential", outward)


@sabotage("bridge_langevin.kl-mixture")
def the_hessian_forgets_a_factor(patch: pytest.MonkeyPatch) -> None:
    honest = densities.GaussianMixture.potential_hessian
    patch.setattr(
        densities.GaussianMixture, "potential_hessian", lambda self, x: honest(self, x) / 2
    )


@sabotage("bridge_langevin.order")
def the_diffusion_runs_twice_as_fast(patch: pytest.MonkeyPatch) -> None:
    honest = langevin.langevin_pair
    patch.setattr(langevin, "langevin_pair", lambda d, eps, nodes: honest(d, 2 * eps, nodes))


@sabotage("bridge_langevin.fisher", since="On the way they differ more")
def the_bound_is_too_small(patch: pytest.MonkeyPatch) -> None:
    honest = langevin.fisher_bound

    def small(density: Any, eps: float) -> langevin.FisherBound:
        found = honest(density, eps)
        return found._replace(bound=found.bound * eps**2)

    patch.setattr(langevin, "fisher_bound", small)


@sabotage("bridge_langevin.fisher-gap", since="On the way they differ more")
def the_bracket_has_a_plus(patch: pytest.MonkeyPatch) -> None:
    honest = langevin.fisher_bound

    def plus(density: Any, eps: float) -> langevin.FisherBound:
        found = honest(density, eps)
        return found._replace(gap=2 * found.fisher - found.gap)

    patch.setattr(langevin, "fisher_bound", plus)


@sabotage("bridge_langevin.path")
def the_potential_loses_the_laplacian(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        densities.GaussianMixture,
        "potential",
        lambda self, x: (self.score(x) ** 2).sum(axis=1) / 8,
    )


@sabotage("bridge_langevin.path-constant")
def the_force_forgets_a_factor(patch: pytest.MonkeyPatch) -> None:
    honest = densities.GaussianMixture.potential_gradient
    patch.setattr(
        densities.GaussianMixture, "potential_gradient", lambda self, x: honest(self, x) / 2
    )


@sabotage("bridge_langevin.velocity")
def the_force_has_the_wrong_sign(patch: pytest.MonkeyPatch) -> None:
    honest = densities.GaussianMixture.potential_gradient
    patch.setattr(densities.GaussianMixture, "potential_gradient", lambda self, x: -honest(self, x))


@sabotage("bridge_langevin.path-bound", since="On the way they differ more")
def the_energy_is_read_as_half_of_what_it_is(patch: pytest.MonkeyPatch) -> None:
    honest = langevin.path_divergence

    def small(density: Any, eps: float) -> langevin.PathDivergence:
        found = honest(density, eps)
        return found._replace(bound=found.bound / np.sqrt(2))

    patch.setattr(langevin, "path_divergence", small)


@sabotage("bridge_langevin.fisher-ratio", since="On the way they differ more")
def the_bound_sums_the_informations(patch: pytest.MonkeyPatch) -> None:
    honest = langevin.fisher_bound

    def plus(density: Any, eps: float) -> langevin.FisherBound:
        found = honest(density, eps)
        wrong = (2 * found.fisher - found.gap) * found.slope
        return found._replace(bound=eps**2 / 2 * float(np.sqrt(wrong)))

    patch.setattr(langevin, "fisher_bound", plus)
