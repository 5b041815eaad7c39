"""Plausible mistakes in the package, one a claim of the chapter `optimal_transport`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import log_ndtr, logsumexp

from attnflow import densities, flows
from attnflow.gaussian import closed_forms
from attnflow.matrices import inverse_root, root
from attnflow.transport import balance, wasserstein
from sabotage import sabotage


@sabotage("optimal_transport.kantorovich")
def masses_are_ignored(patch: pytest.MonkeyPatch) -> None:
    honest = wasserstein.w2
    patch.setattr(wasserstein, "w2", lambda x, y, a=None, b=None: honest(x, y))


@sabotage("optimal_transport.brenier")
def the_map_whitens_and_colours(patch: pytest.MonkeyPatch) -> None:
    def no_gradient(cov0: np.ndarray, cov1: np.ndarray) -> np.ndarray:
        return root(cov1) @ inverse_root(cov0)

    patch.setattr(closed_forms, "optimal_map", no_gradient)


@sabotage("optimal_transport.benamou-brenier")
def covariances_are_taken_to_commute(patch: pytest.MonkeyPatch) -> None:
    def distance_of_roots(cov0: np.ndarray, cov1: np.ndarray) -> float:
        roots = [root(cov) for cov in (cov0, cov1)]
        return float(np.linalg.norm(roots[0] - roots[1]))

    patch.setattr(closed_forms, "bures_w2", distance_of_roots)


@sabotage("optimal_transport.continuity")
def the_tail_divides_by_the_variance(patch: pytest.MonkeyPatch) -> None:
    def log_tail(self: densities.GaussianMixture, z: np.ndarray, upper: bool) -> np.ndarray:
        u = (z - self.means[:, 0, None]) / self.covs[:, 0]
        return logsumexp(np.log(self.weights)[:, None] + log_ndtr(-u if upper else u), axis=0)

    patch.setattr(densities.GaussianMixture, "_log_tail", log_tail)


@sabotage("optimal_transport.entropy-flow")
def the_score_has_the_wrong_sign(patch: pytest.MonkeyPatch) -> None:
    honest = densities.GaussianMixture.score
    patch.setattr(densities.GaussianMixture, "score", lambda self, x: -honest(self, x))


@sabotage("optimal_transport.potential-flow")
def the_equation_runs_a_tenth_too_slowly(patch: pytest.MonkeyPatch) -> None:
    honest = flows.ode

    def slow(layer: Any, x0: Any, times: Any, **options: Any) -> flows.Flow:
        return honest(layer, x0, 0.9 * np.asarray(times), **options)

    patch.setattr(flows, "ode", slow)


@sabotage("optimal_transport.entropic-limits")
def the_temperature_is_doubled(patch: pytest.MonkeyPatch) -> None:
    honest = balance.sinkhorn

    def warm(scores: Any, *args: Any, **options: Any) -> balance.Potentials:
        return honest(np.asarray(scores) / 2, *args, **options)

    patch.setattr(balance, "sinkhorn", warm)


@sabotage("optimal_transport.powers")
def every_power_is_two(patch: pytest.MonkeyPatch) -> None:
    honest = wasserstein.wp
    patch.setattr(wasserstein, "wp", lambda x, y, p, a=None, b=None: honest(x, y, 2.0, a, b))


@sabotage("optimal_transport.tangent")
def the_score_exchanges_its_coordinates(patch: pytest.MonkeyPatch) -> None:
    honest = densities.GaussianMixture.score
    patch.setattr(densities.GaussianMixture, "score", lambda self, x: honest(self, x)[:, ::-1])


@sabotage("optimal_transport.internal-energy")
def the_score_is_half_of_what_it_is(patch: pytest.MonkeyPatch) -> None:
    honest = densities.GaussianMixture.score
    patch.setattr(densities.GaussianMixture, "score", lambda self, x: honest(self, x) / 2)
