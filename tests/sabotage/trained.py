"""Plausible mistakes in the package, one a claim of the chapter `trained`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attnflow.trained import Model, Trace, neural
from attnflow.trained import altered as alteration
from attnflow.trained import model as transformer
from sabotage import sabotage


@sabotage("trained.works")
def positions_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Model, "position_vectors", None)


@sabotage("trained.mean", inside=True)
def normalisation_removes_the_mean_token(patch: pytest.MonkeyPatch) -> None:
    honest = neural.normalise

    def centred(x: Any, norm: Any, eps: float) -> Any:
        out = honest(x, norm, eps)
        return out - out.mean(axis=0, keepdims=True)

    patch.setattr(transformer, "normalise", centred)


@sabotage("trained.spread", "trained.clusters", inside=True)
def the_perceptron_is_left_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Model, "_perceptron", lambda self, block, x: np.zeros_like(x))


@sabotage("trained.collapse")
def attention_is_left_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Model, "_attend", lambda self, block, q, k, v: np.float32(0))


@sabotage("trained.alone")
def silence_is_not_heard(patch: pytest.MonkeyPatch) -> None:
    """What should be silent is shuffled."""
    honest = alteration.altered

    def loud(model: Model, *, attention: str = "trained", **options: Any) -> Model:
        state = "shuffled" if attention == "silent" else attention
        return honest(model, attention=state, **options)

    patch.setattr(alteration, "altered", loud)


@sabotage("trained.common")
def tokens_are_written_over_each_other(patch: pytest.MonkeyPatch) -> None:
    """Every fourth token lands in the same row."""
    honest = Model.forward

    def crowded(self: Model, text: Any, *, depth: int | None = None) -> Trace:
        trace = honest(self, text, depth=depth)
        return trace._replace(hidden=trace.hidden[:, np.arange(len(trace.ids)) % 4])

    patch.setattr(Model, "forward", crowded)


@sabotage("trained.twice", since="The picture of the paper")
def the_layer_is_not_applied_beyond_the_depth(patch: pytest.MonkeyPatch) -> None:
    honest = Model.forward

    def short(self: Model, text: Any, *, depth: int | None = None) -> Trace:
        trace = honest(self, text, depth=min(depth or self.depth, self.depth))
        still = max((depth or 0) - self.depth, 0)
        return trace._replace(hidden=np.concatenate([trace.hidden, [trace.hidden[-1]] * still]))

    patch.setattr(Model, "forward", short)


@sabotage("trained.nearest")
def rows_are_not_divided_by_their_sums(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        Trace,
        "attention",
        lambda self, layer: neural.attention_weights(
            self.queries[layer], self.keys[layer], self.causal
        )[0],
    )


@sabotage("trained.causal")
def the_mask_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    honest = neural.attention_weights
    patch.setattr(neural, "attention_weights", lambda q, k, causal: honest(q, k, False))


@sabotage("trained.columns")
def keys_are_divided_by_their_size_as_well(patch: pytest.MonkeyPatch) -> None:
    honest = neural.attention_weights

    def faint(q: Any, k: Any, causal: bool) -> Any:
        return honest(q, k / k.shape[-1], causal)

    patch.setattr(transformer, "attention_weights", faint)
