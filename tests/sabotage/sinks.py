"""Plausible mistakes in the package, one a claim of the chapter `sinks`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from controls.cells import FIRST_CELL

from attnflow.lipschitz import jacobian, lanczos
from attnflow.lipschitz.sigmoid import SigmoidPart
from attnflow.trained import derivative, sinks, stored
from sabotage import sabotage


@sabotage("sinks.split")
def the_two_sides_are_added(patch: pytest.MonkeyPatch) -> None:
    honest = sinks.split

    def found(*args: Any, **options: Any) -> Any:
        parts = honest(*args, **options)
        return parts._replace(every=parts.some + parts.others)

    patch.setattr(sinks, "split", found)


@sabotage("sinks.share")
def some_and_others_change_places(patch: pytest.MonkeyPatch) -> None:
    honest = sinks.split

    def found(*args: Any, **options: Any) -> Any:
        parts = honest(*args, **options)
        return parts._replace(some=parts.others, others=parts.some)

    patch.setattr(sinks, "split", found)


@sabotage("sinks.null")
def scores_are_doubled(patch: pytest.MonkeyPatch) -> None:
    honest = jacobian.softmax_rows
    patch.setattr(jacobian, "softmax_rows", lambda scores: honest(2 * scores))


@sabotage("sinks.growth", "sinks.beside")
def a_token_that_is_held_leaves_the_norm_a_sum(patch: pytest.MonkeyPatch) -> None:
    honest = lanczos.local_constant

    def found(layer: Any, x: Any, *args: Any, **options: Any) -> Any:
        answer = honest(layer, x, *args, **options)
        return answer._replace(value=answer.value * float(np.sqrt(len(x))))

    patch.setattr(lanczos, "local_constant", found)


@sabotage("sinks.sigmoid")
def the_bias_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    honest = SigmoidPart.weights

    def weights(scores: Any, n: int) -> Any:
        scores += np.log(n)
        return honest(scores, n)

    patch.setattr(SigmoidPart, "weights", staticmethod(weights))


@sabotage("sinks.sigmoid-growth")
def rows_of_sigmoids_are_divided_by_their_sums(patch: pytest.MonkeyPatch) -> None:
    honest = SigmoidPart.weights

    def weights(scores: Any, n: int) -> Any:
        mass = honest(scores, n)
        mass /= mass.sum(axis=1, keepdims=True)
        return mass

    patch.setattr(SigmoidPart, "weights", staticmethod(weights))


@sabotage("sinks.sigmoid-text")
def tokens_that_are_held_move_and_the_others_rest(patch: pytest.MonkeyPatch) -> None:
    honest = lanczos._free

    def free(*args: Any) -> Any:
        found = honest(*args)
        return None if found is None else 1 - found

    patch.setattr(lanczos, "_free", free)


@sabotage("sinks.layers", since=FIRST_CELL)
def lengths_are_read_backwards(patch: pytest.MonkeyPatch) -> None:
    honest = stored.real_text

    def found(*args: Any) -> Any:
        run = honest(*args)
        return run._replace(lengths=run.lengths[::-1])

    patch.setattr(stored, "real_text", found)


@sabotage("sinks.depth")
def the_root_of_the_eigenvalue_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    honest = derivative.Derivative.norm
    patch.setattr(derivative.Derivative, "norm", lambda self, *args: honest(self, *args) ** 2)
