"""Plausible mistakes in the package, one a claim of the chapter `mean_field`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from controls.cells import CELL
from scipy.integrate import quad
from scipy.special import roots_hermite
from scipy.stats import qmc

from attnflow import attention, validate
from attnflow.attention import kinds
from attnflow.gaussian import system
from attnflow.meanfield import bounds, distances, masked, measures
from sabotage import sabotage


@sabotage("mean_field.consistency")
def weights_are_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(validate, "weights", lambda w, n, name="weights": np.full(n, 1 / n))


@sabotage("mean_field.support")
def the_residual_is_counted_twice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(attention.Attention, "_send", lambda self, P, x: x + P @ (x @ self.V.T))


@sabotage("mean_field.support-sharp")
def the_frobenius_norm_is_taken(patch: pytest.MonkeyPatch) -> None:
    honest = bounds.support_bound

    def wide(radius: float, V: Any, t: float) -> float:
        size = (lambda s: [[np.linalg.norm(V(s))]]) if callable(V) else [[np.linalg.norm(V)]]
        return honest(radius, size, t)

    patch.setattr(bounds, "support_bound", wide)


@sabotage("mean_field.stability")
def the_exponent_has_the_wrong_sign(patch: pytest.MonkeyPatch) -> None:
    def small(A: Any, V: Any, radius: float, t: float) -> float:
        a, v = np.linalg.norm(A, 2), np.linalg.norm(V, 2)
        g = lambda s: a * (radius * np.exp(v * s)) ** 2  # noqa: E731
        return float(quad(lambda s: v * (1 + 3 * g(s)) * np.exp(-2 * g(s)), 0, t)[0])

    patch.setattr(bounds, "log_stability_bound", small)


@sabotage("mean_field.local-constant")
def the_root_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    honest = distances.wasserstein
    patch.setattr(distances, "wasserstein", lambda mu, nu, p=2.0: honest(mu, nu, p) ** p)


@sabotage("mean_field.limit")
def distances_are_squared(patch: pytest.MonkeyPatch) -> None:
    honest = distances.wasserstein

    def mixed(mu: Any, nu: Any, p: float = 2.0) -> float:
        """The root is forgotten for large clouds only."""
        found = honest(mu, nu, p)
        return found**p if found > 0.2 else found

    patch.setattr(distances, "wasserstein", mixed)


@sabotage("mean_field.fence")
def scores_are_divided_by_the_root_of_k(patch: pytest.MonkeyPatch) -> None:
    honest = attention.Attention.scores
    patch.setattr(
        attention.Attention,
        "scores",
        lambda self, z, x: honest(self, z, x) / np.sqrt(len(self.Q)),
    )


@sabotage("mean_field.sampling", inside=True)
def the_covariance_moves_at_half_speed(patch: pytest.MonkeyPatch) -> None:
    honest = system.factors_and_shift

    def slow(*args: Any) -> tuple[np.ndarray, ...]:
        left, right, shift = honest(*args)
        return left / 2, right, shift / 2

    patch.setattr(system, "factors_and_shift", slow)


@sabotage("mean_field.quasi", since=CELL)
def sobol_points_are_replaced_by_random_ones(patch: pytest.MonkeyPatch) -> None:
    class Pseudo:
        def __init__(self, d: int, rng: np.random.Generator) -> None:
            self.d, self.rng = d, rng

        def random(self, n: int) -> np.ndarray:
            return self.rng.random((n, self.d))

    patch.setattr(qmc, "Sobol", Pseudo)


@sabotage("mean_field.quadrature", since=CELL)
def the_nodes_are_those_of_the_physicists(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(measures, "roots_hermitenorm", roots_hermite)


def _mask_by(patch: pytest.MonkeyPatch, sees: Any) -> None:
    def rows(self: Any, head: Any, x: np.ndarray, w: np.ndarray) -> np.ndarray:
        out = np.zeros((len(x), len(x)))
        for i, s in enumerate(self.positions):
            seen = sees(self.positions, s)
            out[np.ix_([i], seen)] = head.rows(x[i : i + 1], x[seen], w[seen] / w[seen].sum())
        return out

    patch.setattr(masked.MaskedMeanField, "_rows", rows)


@sabotage("mean_field.masked-causal")
def tokens_look_to_the_right(patch: pytest.MonkeyPatch) -> None:
    _mask_by(patch, lambda positions, s: positions >= s)


@sabotage("mean_field.positions")
def the_mask_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    _mask_by(patch, lambda positions, s: positions >= 0)


@sabotage("mean_field.path")
def the_mask_comes_after_the_softmax(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        kinds._RowNormalised, "_causal_rows", lambda self, x, w: np.tril(self.rows(x, x, w))
    )


@sabotage("mean_field.masked-lipschitz")
def the_masked_layer_adds_the_residual(patch: pytest.MonkeyPatch) -> None:
    honest = masked.MaskedMeanField.velocity
    patch.setattr(
        masked.MaskedMeanField,
        "velocity",
        lambda self, x, weights=None: np.asarray(x) + honest(self, x, weights),
    )


@sabotage("mean_field.hardy")
def the_mask_sees_everything(patch: pytest.MonkeyPatch) -> None:
    _mask_by(patch, lambda positions, s: positions >= 0)
