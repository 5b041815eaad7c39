"""Plausible mistakes in the package, one a claim of the chapter `lipschitz_real`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from controls.cells import CELL

from attnflow import trained
from attnflow.lipschitz import bounds, configurations, lanczos
from attnflow.trained import certificate, derivative, neural, sinks
from sabotage import sabotage


def _values(patch: pytest.MonkeyPatch, factor: Callable[[int], float]) -> None:
    """Every local constant is multiplied by something that depends on the number of tokens."""
    honest = lanczos.local_constant

    def found(layer: Any, x: Any, *args: Any, **options: Any) -> Any:
        answer = honest(layer, x, *args, **options)
        return answer._replace(value=answer.value * factor(len(x)))

    patch.setattr(lanczos, "local_constant", found)


def _attention(patch: pytest.MonkeyPatch, wrong: Callable[[Any, int], Any]) -> None:
    patch.setattr(trained.Trace, "attention", wrong)


def _mean_over_tokens(n: int) -> float:
    return float(n**-0.5)


def _sum_over_tokens(n: int) -> float:
    return float(n**0.5)


@sabotage(
    "lipschitz_real.encoder-middle",
    "lipschitz_real.decoder-middle",
    since="The constants of four layers",
)
def the_norm_is_a_mean_over_tokens(patch: pytest.MonkeyPatch) -> None:
    _values(patch, _mean_over_tokens)


@sabotage("lipschitz_real.held")
def tokens_that_are_held_move_all_the_same(patch: pytest.MonkeyPatch) -> None:
    honest = lanczos.local_constant

    def found(layer: Any, x: Any, *args: Any, held: Any = (), **options: Any) -> Any:
        return honest(layer, x, *args, **options)

    patch.setattr(lanczos, "local_constant", found)


@sabotage("lipschitz_real.encoder-bends", since="The constants of four layers")
def every_layer_has_the_heads_of_the_first(patch: pytest.MonkeyPatch) -> None:
    """In an encoder."""
    honest = trained.Model.attention_heads

    def first(self: trained.Model, layer: int, **options: Any) -> Any:
        return honest(self, layer if self.causal else 0, **options)

    patch.setattr(trained.Model, "attention_heads", first)


@sabotage("lipschitz_real.first-layers", since="Passages")
def layers_are_counted_from_the_middle(patch: pytest.MonkeyPatch) -> None:
    """What was asked of a decoder's first layer is answered for its middle one, and the other way round."""
    heads, forward = trained.Model.attention_heads, trained.Model.forward

    def turned(self: trained.Model, layer: int, **options: Any) -> Any:
        return heads(self, self.depth // 2 - layer if self.causal else layer, **options)

    def other(self: trained.Model, ids: Any, *, depth: int | None = None) -> Any:
        if not self.causal or depth not in (1, self.depth // 2 + 1):
            return forward(self, ids, depth=depth)
        trace = forward(self, ids, depth=self.depth // 2 + 1)
        return trace._replace(inputs=trace.inputs[::-1])

    patch.setattr(trained.Model, "attention_heads", turned)
    patch.setattr(trained.Model, "forward", other)


@sabotage("lipschitz_real.jump", since="Passages")
def positions_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """The first layer reads the words alone."""
    honest = trained.Model.forward

    def without(self: trained.Model, ids: Any, *, depth: int | None = None) -> Any:
        trace, table = honest(self, ids, depth=depth), self.position_vectors
        if table is None:
            return trace
        words = trace.embedded - table[: len(trace.ids)]
        inputs = trace.inputs.copy()
        inputs[0] = self.layout.enter(self.architecture, self._read, words)
        return trace._replace(inputs=inputs)

    patch.setattr(trained.Model, "forward", without)


@sabotage("lipschitz_real.looks-back")
def queries_and_keys_change_places(patch: pytest.MonkeyPatch) -> None:
    def swapped(self: trained.Trace, layer: int) -> Any:
        weights, sums = neural.attention_weights(self.keys[layer], self.queries[layer], self.causal)
        return weights / sums

    _attention(patch, swapped)


@sabotage("lipschitz_real.undecided")
def scores_are_not_divided_by_the_root_of_the_size(patch: pytest.MonkeyPatch) -> None:
    def sharp(self: trained.Trace, layer: int) -> Any:
        queries = self.queries[layer] * np.sqrt(self.queries.shape[-1])
        weights, sums = neural.attention_weights(queries, self.keys[layer], self.causal)
        return weights / sums

    _attention(patch, sharp)


@sabotage("lipschitz_real.sink", since="The constants of four layers")
def the_left_vector_is_returned_for_the_right(patch: pytest.MonkeyPatch) -> None:
    honest = lanczos.local_constant

    def found(*args: Any, **options: Any) -> Any:
        answer = honest(*args, **options)
        return answer._replace(right=answer.left)

    patch.setattr(lanczos, "local_constant", found)


@sabotage("lipschitz_real.place")
def rows_and_columns_change_places(patch: pytest.MonkeyPatch) -> None:
    honest = trained.Trace.attention
    _attention(patch, lambda self, layer: honest(self, layer).swapaxes(1, 2))


@sabotage("lipschitz_real.reach")
def gamma_is_the_mean_eigenvalue(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(bounds, "gamma", lambda A: float(np.trace(A)) / len(A))


@sabotage("lipschitz_real.adversarial", since=CELL)
def all_tokens_stand_in_one_place(patch: pytest.MonkeyPatch) -> None:
    honest = configurations.adversarial
    patch.setattr(configurations, "adversarial", lambda A, R, n: honest(A, R, n)[np.zeros(n, int)])


@sabotage("lipschitz_real.upper")
def the_scores_are_left_out_of_the_bound(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        bounds,
        "layer_upper_bound",
        lambda heads, R, n: float(
            np.sqrt(3 * n) * sum(np.linalg.norm(h.W, 2) * np.linalg.norm(h.V, 2) for h in heads)
        ),
    )


@sabotage("lipschitz_real.theirs", "lipschitz_real.masked")
def the_norm_of_a_sublayer_is_a_sum_over_tokens(patch: pytest.MonkeyPatch) -> None:
    honest = derivative.Derivative.norm
    patch.setattr(
        derivative.Derivative,
        "norm",
        lambda self, *args: honest(self, *args) * _sum_over_tokens(self.n),
    )


@sabotage("lipschitz_real.unseen")
def any_direction_that_no_key_sees_will_do(patch: pytest.MonkeyPatch) -> None:
    honest = sinks.null_space
    patch.setattr(sinks, "null_space", lambda K: honest(K)[:, :1])


@sabotage("lipschitz_real.local")
def attention_is_left_out_of_the_certificate(patch: pytest.MonkeyPatch) -> None:
    honest = certificate._others
    patch.setattr(
        certificate, "_others", lambda part: honest(part._replace(P=np.ones_like(part.P)))
    )


@sabotage("lipschitz_real.ellipsoid")
def the_normalisation_is_that_after_attention(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        trained.Model, "normalisation", lambda self, layer: self._block(layer).attention_norm
    )


@sabotage("lipschitz_real.norms")
def the_mean_token_is_measured(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(neural, "root_mean_square", lambda x: float(np.linalg.norm(x.mean(axis=0))))


@sabotage("lipschitz_real.random", "lipschitz_real.peaked")
def the_sum_over_tokens_again(patch: pytest.MonkeyPatch) -> None:
    _values(patch, _sum_over_tokens)
