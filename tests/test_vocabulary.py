"""One vocabulary for the whole package: results, arguments, and what goes wrong."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from attnflow import errors, norms, sphere
from attnflow.book.pages.api import modules, public

PUBLIC: dict[str, Any] = {
    name.path: getattr(import_module(name.home), name.name)
    for module in modules()
    for name in public(module)
}
RESULTS = {path: value for path, value in PUBLIC.items() if hasattr(value, "_fields")}
#: The error that a solver states: what is left of its equation, or what it allowed in every step.
STATED = {"residual", "residuals", "rtol", "tol", "stderr"}
#: One word for each: what the keys would be called elsewhere is not used here.
ONE_WORD = {
    "max_iter": {"max_iterations", "maxiter", "n_iter", "max_steps"},
    "tol": {"tolerance", "atol", "precision"},
    "eps": {"epsilon", "temperature", "reg"},
    "beta": {"inverse_temperature"},
    "depth": {"n_layers", "num_layers", "layers_number"},
    "times": {"ts", "time_points"},
    "weights": {"mass", "w"},
}


@pytest.mark.parametrize("path", [p for p, v in RESULTS.items() if "iterations" in v._fields])
def test_who_counts_iterations_says_whether_they_sufficed_and_how_well(path: str) -> None:
    result = RESULTS[path]
    assert hasattr(result, "converged")
    assert STATED & set(dir(result))


def test_and_there_are_many_of_them() -> None:
    counted = [path for path, value in RESULTS.items() if "iterations" in value._fields]
    assert len(counted) >= 14


@pytest.mark.parametrize("path", [p for p, v in RESULTS.items() if "residual" in v._fields])
def test_who_has_a_residual_counts_iterations(path: str) -> None:
    assert {"iterations", "residual"} <= set(RESULTS[path]._fields)


def test_no_function_calls_an_argument_by_a_second_name() -> None:
    second = {word for words in ONE_WORD.values() for word in words}
    used = {
        f"{path}({word})"
        for path, value in PUBLIC.items()
        if inspect.isfunction(value) and not path.startswith("attnflow.validate.")
        for word in set(inspect.signature(value).parameters) & second
    }
    assert used == set()


def test_whatever_goes_wrong_is_a_trouble() -> None:
    raised = {
        path: value
        for path, value in PUBLIC.items()
        if inspect.isclass(value) and issubclass(value, BaseException)
    }
    assert len(raised) >= 8
    assert all(issubclass(value, errors.Trouble) for value in raised.values())


def test_flows_state_the_error_that_they_allowed_and_count() -> None:
    gram = sphere.gram_flow(np.eye(3), 1.0, [0.0, 1.0], rtol=1e-6)
    assert gram.converged
    assert gram.rtol == 1e-6
    curve = norms.curve("post", 1.0, 4, [0.0, 1.0])
    assert curve.converged
    assert curve.rtol == 1e-12
    assert curve.iterations > 10
    assert norms.curve("post", 1.0, 4, [0.0]).iterations == 0
    layers = norms.equiangular_layers("post", 1.0, 4, 7)
    assert (layers.iterations, layers.rtol) == (7, 0.0)
    assert sphere.merges([0.0, 1.0], 20.0, tol=1e-7).tol == 1e-7


def test_a_place_that_is_no_rest_is_not_converged() -> None:
    x = np.array([[1.0, 0.0], [0.6, 0.8]])
    assert not sphere.described(x, 1.0).converged
    found = sphere.critical_points(3, 2, 1.0, 4, np.random.default_rng(0))
    assert found
    assert all(point.converged and point.iterations > 0 for point in found)
