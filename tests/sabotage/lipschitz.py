"""Plausible mistakes in the package, one a claim of the chapter `lipschitz`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from attnflow import lipschitz
from attnflow.attention import SoftmaxAttention
from sabotage import sabotage


def _replace(patch: pytest.MonkeyPatch, name: str, wrong: Callable[..., Any]) -> None:
    """Put wrong(honest, *args) in the place of a function, where it lives."""
    honest = getattr(lipschitz, name)
    home = sys.modules[honest.__module__]
    patch.setattr(home, name, lambda *args, **kwargs: wrong(honest, *args, **kwargs))


def _values(patch: pytest.MonkeyPatch, wrong: Callable[[float, Any], float]) -> None:
    """Local constants with a wrong value."""

    def found(honest: Any, layer: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        answer = honest(layer, x, *args, **kwargs)
        return answer._replace(value=wrong(answer.value, x))

    _replace(patch, "local_constant", found)


def _squares(patch: pytest.MonkeyPatch) -> None:
    _values(patch, lambda value, x: value**2)


def _means(patch: pytest.MonkeyPatch) -> None:
    _values(patch, lambda value, x: value / len(x))


def _grouped(patch: pytest.MonkeyPatch, wrong: Callable[[float, Any], float]) -> None:
    def found(honest: Any, A: Any, V: Any, x: Any, counts: Any) -> float:
        return wrong(honest(A, V, x, counts), counts)

    _replace(patch, "grouped_constant", found)


def _frozen(patch: pytest.MonkeyPatch) -> None:
    def product(honest: Any, layer: Any, x: Any, e: Any) -> Any:
        if isinstance(layer, SoftmaxAttention):
            return layer.matrix(x) @ e @ layer.V.T
        return honest(layer, x, e)

    _replace(patch, "jvp", product)


@sabotage("lipschitz.jvp")
def attention_is_held_fixed(patch: pytest.MonkeyPatch) -> None:
    _frozen(patch)


@sabotage("lipschitz.jvp-order")
def the_derivative_is_a_coarse_difference(patch: pytest.MonkeyPatch) -> None:
    def product(honest: Any, layer: Any, x: Any, e: Any, h: float = 1e-2) -> Any:
        if isinstance(layer, SoftmaxAttention):
            return (layer.velocity(x + h * e) - layer.velocity(x)) / h
        return honest(layer, x, e)

    _replace(patch, "jvp", product)


@sabotage("lipschitz.adjoint")
def queries_and_keys_change_places(patch: pytest.MonkeyPatch) -> None:
    def product(honest: Any, layer: Any, x: Any, u: Any) -> Any:
        if isinstance(layer, SoftmaxAttention):
            layer = SoftmaxAttention(layer.K, layer.Q, layer.V, layer.causal)
        return honest(layer, x, u)

    _replace(patch, "vjp", product)


@sabotage("lipschitz.norm")
def the_root_of_the_eigenvalue_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    _squares(patch)


@sabotage("lipschitz.direction")
def the_left_vector_is_returned(patch: pytest.MonkeyPatch) -> None:
    def found(honest: Any, *args: Any, **kwargs: Any) -> Any:
        answer = honest(*args, **kwargs)
        return answer._replace(right=answer.left)

    _replace(patch, "local_constant", found)


@sabotage("lipschitz.direction-order")
def attention_is_held_fixed_along_the_way(patch: pytest.MonkeyPatch) -> None:
    _frozen(patch)


@sabotage("lipschitz.random-direction")
def the_norm_is_a_mean_over_tokens(patch: pytest.MonkeyPatch) -> None:
    _means(patch)


@sabotage("lipschitz.segment")
def the_norm_on_the_segment_is_a_mean(patch: pytest.MonkeyPatch) -> None:
    _means(patch)


@sabotage("lipschitz.upper")
def the_root_is_forgotten_below_the_upper_bound(patch: pytest.MonkeyPatch) -> None:
    _squares(patch)


@sabotage("lipschitz.lower")
def gamma_is_the_largest_eigenvalue(patch: pytest.MonkeyPatch) -> None:
    def bound(honest: Any, A: Any, R: float, n: int) -> float:
        largest = np.linalg.eigvalsh((A + A.T) / 2)[-1]
        return float(np.sqrt(n - 1) / (1 + (n - 1) * np.exp(-2 * largest * R**2)))

    _replace(patch, "lower_bound", bound)


@sabotage("lipschitz.sharper")
def the_doubt_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    def bound(honest: Any, A: Any, R: float, n: int) -> float:
        return lipschitz.lower_bound(A, R, n) * (1 + 2 * lipschitz.gamma(A) * R**2)

    _replace(patch, "sharper_lower_bound", bound)


@sabotage("lipschitz.root-n")
def followers_stand_with_the_leader(patch: pytest.MonkeyPatch) -> None:
    _replace(patch, "adversarial", lambda honest, A, R, n: np.abs(honest(A, R, n)))


@sabotage("lipschitz.turnover")
def the_radius_is_taken_for_a_diameter(patch: pytest.MonkeyPatch) -> None:
    _replace(patch, "adversarial", lambda honest, A, R, n: honest(A, R / 2, n))


@sabotage("lipschitz.spread")
def the_mean_is_a_sum(patch: pytest.MonkeyPatch) -> None:
    _replace(patch, "spread_bound", lambda honest, A, V, R, n: n * honest(A, V, R, n))


@sabotage("lipschitz.spread-growth")
def the_radius_is_ignored(patch: pytest.MonkeyPatch) -> None:
    _replace(patch, "spread", lambda honest, A, V, R, n: honest(A, V, 1.0, n))


def _one_leader(patch: pytest.MonkeyPatch) -> None:
    def tokens(honest: Any, A: Any, V: Any, R: float, n: int) -> Any:
        x = honest(A, V, R, n)
        x[1] = x[0]
        return x

    _replace(patch, "two_leaders", tokens)


@sabotage("lipschitz.two-leaders")
def the_half_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    _replace(
        patch,
        "two_leaders_bound",
        lambda honest, A, V, R, n: np.sqrt(2) * honest(A, V, R, n),
    )


@sabotage("lipschitz.leaders-growth")
def both_leaders_stand_in_one_place(patch: pytest.MonkeyPatch) -> None:
    _one_leader(patch)


@sabotage("lipschitz.tight")
def the_root_is_forgotten_below_the_tight_bound(patch: pytest.MonkeyPatch) -> None:
    _squares(patch)


@sabotage("lipschitz.tight-limit")
def the_leaders_meet(patch: pytest.MonkeyPatch) -> None:
    def found(honest: Any, A: Any, V: Any, R: float, n: int) -> Any:
        answer = honest(A, V, R, n)
        return answer._replace(second=answer.first)

    _replace(patch, "places", found)


@sabotage("lipschitz.search")
def the_climb_stops_after_one_step(patch: pytest.MonkeyPatch) -> None:
    _replace(patch, "worse", lambda honest, layer, x, R, max_iter: honest(layer, x, R, max_iter=1))


@sabotage("lipschitz.n-free", since="From above")
def the_exponent_has_the_wrong_sign(patch: pytest.MonkeyPatch) -> None:
    def bound(honest: Any, A: Any, V: Any, R: float) -> float:
        g = np.linalg.norm(A, 2) * R**2
        return float(np.linalg.norm(V, 2) * (1 + 3 * g) * np.exp(-2 * g))

    _replace(patch, "mean_field_upper", bound)


@sabotage("lipschitz.mean-field")
def the_exponent_is_twice_as_large(patch: pytest.MonkeyPatch) -> None:
    def bound(honest: Any, A: Any, R: float) -> float:
        g = lipschitz.gamma(A) * R**2
        return float(g / 2 * np.exp(2 * g))

    _replace(patch, "mean_field_lower", bound)


@sabotage("lipschitz.mean-field-limit")
def the_leader_is_not_on_the_rim(patch: pytest.MonkeyPatch) -> None:
    _replace(patch, "adversarial", lambda honest, A, R, n: honest(A, 0.95 * R, n))


@sabotage("lipschitz.exponent-lower")
def the_half_of_the_exponent_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    def twice(honest: Any, A: Any) -> Any:
        found = honest(A)
        return found._replace(value=2 * found.value)

    _replace(patch, "exponent", twice)


@sabotage("lipschitz.exponent-upper")
def the_root_is_forgotten_below_the_exponent(patch: pytest.MonkeyPatch) -> None:
    _grouped(patch, lambda value, counts: value**2)


def _unrooted(patch: pytest.MonkeyPatch) -> None:
    def limit(honest: Any, *args: Any, **kwargs: Any) -> Any:
        end = honest(*args, **kwargs)
        return end._replace(value=end.value * np.sqrt(end.multiplicity))

    _replace(patch, "large_radius", limit)


@sabotage("lipschitz.large-radius")
def the_multiplicity_has_no_root(patch: pytest.MonkeyPatch) -> None:
    _unrooted(patch)


@sabotage("lipschitz.large-radius-speed")
def the_limit_is_not_the_limit(patch: pytest.MonkeyPatch) -> None:
    _unrooted(patch)


@sabotage("lipschitz.not-monotone")
def tokens_are_normalised_first(patch: pytest.MonkeyPatch) -> None:
    def found(honest: Any, layer: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        return honest(layer, x / np.linalg.norm(x, axis=1).max(), *args, **kwargs)

    _replace(patch, "local_constant", found)


@sabotage("lipschitz.masked")
def the_root_is_forgotten_behind_the_mask(patch: pytest.MonkeyPatch) -> None:
    _squares(patch)


@sabotage("lipschitz.masked-lower")
def the_leaders_come_last(patch: pytest.MonkeyPatch) -> None:
    _replace(patch, "adversarial", lambda honest, *args: honest(*args)[::-1])
    _replace(patch, "two_leaders", lambda honest, *args: honest(*args)[::-1])


@sabotage("lipschitz.multi-head")
def only_one_head_is_counted(patch: pytest.MonkeyPatch) -> None:
    _replace(
        patch,
        "multi_head_upper_bound",
        lambda honest, A, V, W, R, n: honest(A, V, W, R, n) / len(A),
    )


@sabotage("lipschitz.multi-head-lower")
def the_answers_are_added_as_lengths(patch: pytest.MonkeyPatch) -> None:
    def bound(honest: Any, A: Any, V: Any, W: Any, R: float, n: int) -> Any:
        _, u = honest(A, V, W, R, n)
        own = [lipschitz.followed(n - 1, -float(u @ M @ u) * R**2) for M in A]
        return sum(abs(v) for v in own) * 2, u

    _replace(patch, "multi_head_lower_bound", bound)


@sabotage("lipschitz.ends")
def the_upper_end_is_the_value(patch: pytest.MonkeyPatch) -> None:
    def found(honest: Any, *args: Any, **kwargs: Any) -> Any:
        answer = honest(*args, **kwargs)
        return answer._replace(upper=0.999 * answer.value)

    _replace(patch, "local_constant", found)


@sabotage("lipschitz.line")
def the_counts_are_not_rooted(patch: pytest.MonkeyPatch) -> None:
    _grouped(patch, lambda value, counts: value * np.sqrt(np.sum(counts)))


@sabotage("lipschitz.line-growth")
def the_logarithm_is_lost(patch: pytest.MonkeyPatch) -> None:
    _grouped(patch, lambda value, counts: min(value, 2 * float(np.sqrt(np.sum(counts)))))
