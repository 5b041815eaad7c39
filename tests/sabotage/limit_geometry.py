"""Plausible mistakes in the package, one a claim of the chapter `limit_geometry`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from controls.cells import CELL

from attnflow import attention, flows, softmax
from attnflow.attention import kinds
from attnflow.geometry import hull, limits, rescaled, value
from sabotage import sabotage


@sabotage("limit_geometry.rescaled")
def the_kernel_sees_the_rescaled_tokens(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rescaled, "expm", lambda matrix: np.eye(len(matrix)))


@sabotage("limit_geometry.hull")
def the_support_takes_the_nearest_token(patch: pytest.MonkeyPatch) -> None:
    honest = hull.support
    patch.setattr(hull, "support", lambda states, u: -honest(states, -np.asarray(u)))


@sabotage("limit_geometry.apart")
def softmax_over_the_wrong_axis(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(kinds, "softmax_rows", lambda logits: softmax.softmax_rows(logits.T).T)


@sabotage("limit_geometry.polytope")
def depth_is_measured_from_the_centre(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        limits, "hull_depth", lambda p: np.linalg.norm(np.asarray(p) - np.mean(p, axis=0), axis=1)
    )


@sabotage("limit_geometry.hyperplanes")
def right_eigenvectors_for_left_ones(patch: pytest.MonkeyPatch) -> None:
    honest = value.dominant
    for module in (value, limits):
        patch.setattr(module, "dominant", lambda V: honest(np.transpose(V)))


@sabotage("limit_geometry.paranormal")
def every_eigenvalue_counts_as_the_largest(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(value, "SAME_EIGENVALUE", (2.0,))


@sabotage("limit_geometry.minus-identity")
def scores_are_divided_by_the_root_of_the_dimension(patch: pytest.MonkeyPatch) -> None:
    honest = attention.Attention.scores
    patch.setattr(
        attention.Attention, "scores", lambda self, z, x: honest(self, z, x) / np.sqrt(len(self.Q))
    )


@sabotage("limit_geometry.minus-rate")
def the_covariance_is_that_of_a_sample(patch: pytest.MonkeyPatch) -> None:
    def sample(self: flows.Flow) -> Any:
        return np.stack([np.cov(x.T) for x in self.states])

    patch.setattr(flows.Flow, "covariances", property(sample))


@sabotage("limit_geometry.boolean")
def nearness_in_place_of_alignment(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(attention.SoftmaxAttention, "scores", attention.L2Attention.scores, raising=False)


@sabotage("limit_geometry.frozen")
def tokens_of_constant_size_count_as_growing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(limits, "GROWTH", 0.5)


@sabotage("limit_geometry.frozen-rate", since=CELL)
def distances_enter_without_the_square(patch: pytest.MonkeyPatch) -> None:
    honest = kinds.squared_distances

    def lengths(x: Any, y: Any, scale: float = 1.0) -> Any:
        return np.sqrt(honest(x, y, 1.0)) / scale

    patch.setattr(kinds, "squared_distances", lengths)


@sabotage("limit_geometry.frozen-bound")
def the_temperature_is_doubled(patch: pytest.MonkeyPatch) -> None:
    honest = attention.SinkhornAttention.__init__

    def warmer(self: Any, *args: Any, eps: float = 1.0, **options: Any) -> None:
        honest(self, *args, eps=2 * eps, **options)

    patch.setattr(attention.SinkhornAttention, "__init__", warmer)


@sabotage("limit_geometry.twins")
def the_cost_loses_its_half(patch: pytest.MonkeyPatch) -> None:
    honest = attention.SinkhornAttention.__init__

    def halved(self: Any, *args: Any, eps: float = 1.0, **options: Any) -> None:
        honest(self, *args, eps=eps / 2, **options)

    patch.setattr(attention.SinkhornAttention, "__init__", halved)


@sabotage("limit_geometry.collapse", since=CELL)
def minus_is_lost_on_the_way(patch: pytest.MonkeyPatch) -> None:
    honest = limits._growth
    patch.setattr(limits, "_growth", lambda flow, basis: 1 / max(honest(flow, basis), 1e-300))


@sabotage("limit_geometry.frozen-growth")
def the_value_is_halved_and_turned(patch: pytest.MonkeyPatch) -> None:
    honest = attention.SinkhornAttention.__init__

    def turned(self: Any, Q: Any, K: Any, V: Any, *args: Any, **options: Any) -> None:
        honest(self, Q, K, -0.5 * np.asarray(V), *args, **options)

    patch.setattr(attention.SinkhornAttention, "__init__", turned)


@sabotage("limit_geometry.printed")
def rows_alone_are_normalised(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        attention.SinkhornAttention,
        "matrix",
        lambda self, x, weights=None: softmax.softmax_rows(self.scores(x, x)),
    )
