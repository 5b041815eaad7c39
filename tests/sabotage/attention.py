"""Plausible mistakes in the package, one a claim of the chapter `attention`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attnflow import flows, validate
from attnflow.attention import kinds, layer
from attnflow.kernels import dense
from attnflow.transport import balance
from sabotage import sabotage


@sabotage("attention.equivariance")
def positions_leak_into_the_weights(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(kinds, "_log", lambda w: np.log(w * np.arange(1, len(w) + 1)))


@sabotage("attention.causal-order")
def the_mask_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(kinds._RowNormalised, "_causal_rows", lambda self, x, w: self.rows(x, x, w))


@sabotage("attention.causal-prefix")
def the_mask_comes_after_the_softmax(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        kinds._RowNormalised, "_causal_rows", lambda self, x, w: np.tril(self.rows(x, x, w))
    )


@sabotage("attention.mean-field")
def weights_are_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(validate, "weights", lambda w, n, name="weights": np.full(n, 1 / n))


@sabotage("attention.half-step")
def softmax_over_columns(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        kinds,
        "softmax_rows",
        lambda logits: np.exp(logits - np.logaddexp.reduce(logits, axis=0, keepdims=True)),
    )


@sabotage("attention.doubly-stochastic")
def sinkhorn_stops_after_the_rows(patch: pytest.MonkeyPatch) -> None:
    honest = balance.sinkhorn

    def lazy(scores: Any, *args: Any, **options: Any) -> balance.Potentials:
        found = honest(scores, *args, **options)
        return found._replace(g=np.zeros_like(found.g))

    patch.setattr(kinds, "sinkhorn", lazy)


@sabotage("attention.contraction")
def the_kernel_is_not_positive_semidefinite(patch: pytest.MonkeyPatch) -> None:
    def far_is_near(self: dense.DenseKernel, x: np.ndarray, eps: float) -> None:
        self.x = x
        self.matrix = 1.01 - np.exp(-dense.squared_distances(x, x, 2 * eps))

    patch.setattr(dense.DenseKernel, "__init__", far_is_near)


@sabotage("attention.depth")
def layers_step_a_tenth_too_short(patch: pytest.MonkeyPatch) -> None:
    honest = flows.layers
    patch.setattr(
        flows, "layers", lambda a, x, depth, time=1.0: honest(a, x, depth, time=0.9 * time)
    )


@sabotage("attention.neural-ode")
def the_equation_runs_a_tenth_too_slowly(patch: pytest.MonkeyPatch) -> None:
    honest = flows.ode

    def slow(layer: Any, x0: Any, times: Any, **options: Any) -> flows.Flow:
        return honest(layer, x0, 0.9 * np.asarray(times), **options)

    patch.setattr(flows, "ode", slow)


@sabotage("attention.bridge")
def the_cost_loses_its_half(patch: pytest.MonkeyPatch) -> None:
    honest = kinds.SinkhornAttention.__init__

    def halved(self: Any, *args: Any, eps: float = 1.0, **options: Any) -> None:
        honest(self, *args, eps=eps / 2, **options)

    patch.setattr(kinds.SinkhornAttention, "__init__", halved)


@sabotage("attention.multi-head")
def heads_are_averaged(patch: pytest.MonkeyPatch) -> None:
    honest = layer.MultiHead.velocity
    patch.setattr(
        layer.MultiHead,
        "velocity",
        lambda self, x, weights=None: honest(self, x, weights) / len(self.heads),
    )
