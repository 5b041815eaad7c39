"""Plausible mistakes in the package, one a claim of the chapter `gaussian_flows`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from controls.cells import CELL

from attnflow import attention, flows
from attnflow.gaussian import affine, diagnosis, flow, system
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


@sabotage("gaussian_flows.rank")
def some_directions_are_never_moved(patch: pytest.MonkeyPatch) -> None:
    def stuck(B: np.ndarray) -> np.ndarray:
        out = B.copy()
        out[0] = 0.0
        return out

    _bent(patch, stuck)


@sabotage("gaussian_flows.skew")
def the_slope_gets_an_absolute_value(patch: pytest.MonkeyPatch) -> None:
    _bent(patch, lambda B: B + 0.01 * np.abs(B))


@sabotage("gaussian_flows.third-case")
def queries_and_keys_are_swapped(patch: pytest.MonkeyPatch) -> None:
    _bent(patch, lambda B: -B)


@sabotage("gaussian_flows.mixture-freezes")
def a_cubic_force_is_left_in(patch: pytest.MonkeyPatch) -> None:
    honest = attention.Attention._send
    patch.setattr(
        attention.Attention, "_send", lambda self, P, x: honest(self, P, x) + 0.3 * x - 0.1 * x**3
    )


@sabotage("gaussian_flows.mixture-stays-two")
def the_halves_attract(patch: pytest.MonkeyPatch) -> None:
    honest = attention.Attention._send
    patch.setattr(attention.Attention, "_send", lambda self, P, x: honest(self, P, x) - np.tanh(x))


@sabotage("gaussian_flows.mixture-parts")
def every_token_gets_the_same(patch: pytest.MonkeyPatch) -> None:
    honest = attention.Attention._send
    patch.setattr(
        attention.Attention,
        "_send",
        lambda self, P, x: honest(self, np.full_like(P, 1 / P.shape[1]), x),
    )


@sabotage("gaussian_flows.mixture-halves")
def every_token_sees_only_itself(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(attention.Attention, "_send", lambda self, P, x: x @ self.V.T)
