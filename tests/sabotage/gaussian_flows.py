"""Plausible mistakes in the package, one a claim of the chapter `gaussian_flows`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from controls.cells import CELL

from attnflow import attention, flows
from attnflow.gaussian import affine, diagnosis, exact, fates, flow, integrals, system
from attnflow.matrices import spectral
from attnflow.meanfield import measures
from sabotage import sabotage

Slope = Callable[[np.ndarray], np.ndarray]


def _bent(patch: pytest.MonkeyPatch, bend: Slope) -> None:
    """Change B wherever the covariance's flow asks for it."""
    honest = affine.factors_and_shift

    def wrong(layer: Any, F: np.ndarray, mean: np.ndarray) -> tuple[np.ndarray, ...]:
        left, right, c = honest(layer, F, mean)
        return bend(left @ right), np.eye(len(F)), c

    patch.setattr(affine, "factors_and_shift", wrong)
    patch.setattr(system, "factors_and_shift", wrong)


def _hot(patch: pytest.MonkeyPatch) -> None:
    """Sinkhorn attention with twice its temperature."""
    honest = attention.SinkhornAttention.__init__

    def doubled(self: Any, *args: Any, eps: float = 1.0, **options: Any) -> None:
        honest(self, *args, eps=2 * eps, **options)

    patch.setattr(attention.SinkhornAttention, "__init__", doubled)


@sabotage("gaussian_flows.affine")
def the_slope_is_transposed(patch: pytest.MonkeyPatch) -> None:
    _bent(patch, lambda B: B.T)


@sabotage("gaussian_flows.covariance")
def the_covariance_moves_at_half_speed(patch: pytest.MonkeyPatch) -> None:
    _bent(patch, lambda B: B / 2)


@sabotage("gaussian_flows.kurtosis")
def the_flow_forgets_the_weights(patch: pytest.MonkeyPatch) -> None:
    honest = flows.ode
    patch.setattr(flows, "ode", lambda *args, weights=None, **options: honest(*args, **options))


@sabotage("gaussian_flows.sinkhorn-constants")
def the_temperature_is_doubled(patch: pytest.MonkeyPatch) -> None:
    _hot(patch)


@sabotage("gaussian_flows.blow-up-time")
def the_transpose_is_not_added(patch: pytest.MonkeyPatch) -> None:
    _bent(patch, lambda B: B / 2)


@sabotage("gaussian_flows.blow-up-rate", since=CELL)
def the_blow_up_is_seen_too_late(patch: pytest.MonkeyPatch) -> None:
    honest = flow.gaussian_flow

    def late(*args: Any, **options: Any) -> flow.GaussianFlow:
        found = honest(*args, **options)
        return found._replace(blow_up=0.999 * found.blow_up)

    patch.setattr(flow, "gaussian_flow", late)


@sabotage("gaussian_flows.global")
def exponential_growth_is_taken_for_blow_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(diagnosis, "LARGE", 10.0)
    patch.setattr(diagnosis, "EXPLOSIVE", 0.1)
    patch.setattr(diagnosis, "power", lambda *_: 2.0)
    patch.setattr(diagnosis, "PERSISTENT", -1.0)


@sabotage("gaussian_flows.exponential")
def the_clock_runs_at_half_speed(patch: pytest.MonkeyPatch) -> None:
    honest = flow.gaussian_flow

    def slow(*args: Any, **options: Any) -> flow.GaussianFlow:
        found = honest(*args, **options)
        return found._replace(last=(found.last[0] / 2, found.last[1]))

    patch.setattr(flow, "gaussian_flow", slow)


@sabotage("gaussian_flows.line", since=CELL)
def a_factor_two_is_lost(patch: pytest.MonkeyPatch) -> None:
    _bent(patch, lambda B: B / 2)


@sabotage("gaussian_flows.collapse")
def the_scores_are_divided_by_a_hundred(patch: pytest.MonkeyPatch) -> None:
    _bent(patch, lambda B: 0.01 * B)


def _stuck(B: np.ndarray) -> np.ndarray:
    out = B.copy()
    out[0] = 0.0
    return out


@sabotage("gaussian_flows.rank")
def some_directions_are_never_moved(patch: pytest.MonkeyPatch) -> None:
    _bent(patch, _stuck)


@sabotage("gaussian_flows.rank-attained")
def what_dies_slowly_counts_as_staying(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fates, "STAYS", 0.4)
    patch.setattr(fates, "DIES", 0.3)


@sabotage("gaussian_flows.mirror-conserved")
def the_mirror_is_turned(patch: pytest.MonkeyPatch) -> None:
    _bent(patch, _stuck)


@sabotage("gaussian_flows.mirror-limit")
def the_negative_part_is_taken(patch: pytest.MonkeyPatch) -> None:
    honest = integrals.mirror_difference
    patch.setattr(integrals, "mirror_difference", lambda A, cov: -honest(A, cov))


@sabotage("gaussian_flows.rescaled")
def the_inverse_is_forgotten_in_the_exponent(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        exact, "l2_rescaled_limit", lambda cov: spectral(lambda s: s * np.exp(-s / 2), cov)
    )


@sabotage("gaussian_flows.singular-key")
def the_keys_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """The L2 layer is taken for softmax attention at twice the speed."""
    _bent(patch, lambda B: 1.01 * B)


@sabotage("gaussian_flows.mixture-freezes")
def a_cubic_force_is_left_in(patch: pytest.MonkeyPatch) -> None:
    honest = attention.Attention._send
    patch.setattr(attention.Attention, "_send", lambda self, P, x: honest(self, P, x) - 0.1 * x**3)


@sabotage("gaussian_flows.mixture-stays-two")
def the_first_half_gets_most_of_the_mass(patch: pytest.MonkeyPatch) -> None:
    honest = measures.quadrature

    def uneven(density: Any, order: int) -> measures.Measure:
        points, weights = honest(density, order)
        first = np.arange(len(weights)) < len(weights) // 2
        mass = weights * np.where(first, 19.0, 1.0)
        return measures.Measure(points, mass / mass.sum())

    patch.setattr(measures, "quadrature", uneven)


@sabotage("gaussian_flows.mixture-parts")
def the_values_have_the_wrong_sign(patch: pytest.MonkeyPatch) -> None:
    honest = attention.Attention._send
    patch.setattr(attention.Attention, "_send", lambda self, P, x: -honest(self, P, x))


@sabotage("gaussian_flows.mixture-halves")
def the_cloud_is_taken_for_one_gaussian(patch: pytest.MonkeyPatch) -> None:
    """The field is replaced by an affine one: the cloud still grows, and no half leans."""
    honest = attention.Attention._send

    def affine(self: attention.Attention, P: np.ndarray, x: np.ndarray) -> np.ndarray:
        if len(P) != len(x):
            return honest(self, P, x)
        ones = np.column_stack([np.ones(len(x)), x])
        return ones @ np.linalg.lstsq(ones, honest(self, P, x), rcond=None)[0]

    patch.setattr(attention.Attention, "_send", affine)
