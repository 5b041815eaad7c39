"""The derivative of a trained network is that of its forward pass, and its norm that of the matrix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_checkpoints as tiny
from numpy.typing import NDArray
from tolerances import EIGHTH_ORDER, EXPONENTIAL

from attnflow.rotation import Turn
from attnflow.trained import Model, load
from attnflow.trained.architecture import ACTIVATIONS
from attnflow.trained.derivative import Derivative, derivative, slope
from attnflow.trained.neural import activate, normalise

#: Coefficients of the central difference of order eight, for steps 1 to 4.
EIGHTH = (4 / 5, -1 / 5, 4 / 105, -1 / 280)


@pytest.fixture(params=["bert", "albert", "gpt2", "llama"])
def small(request: pytest.FixtureRequest, tmp_path: Path) -> Model:
    kind = str(request.param)
    if kind == "llama":
        return load(tiny.write_gguf(tmp_path / "llama.gguf"), dtype=np.float64)
    return load(tiny.write(tmp_path, kind), dtype=np.float64)


def ids(model: Model) -> list[int]:
    return list(tiny.IDS[: min(len(tiny.IDS), model.positions)])


def after(model: Model, x: NDArray[Any], first: int, last: int, part: str) -> NDArray[Any]:
    """Tokens that enter layer `first` as they leave layer `last` - 1, as `Model.forward` has it."""
    a = model.architecture
    turn = None if model._angles is None else Turn.by(model._angles[: len(x)])
    for index in range(first, last):
        block = model._block(index)
        read = normalise(x, block.attention_norm, a.eps) if a.normalises_first else x
        moved = model._attend(block, *model._project(block, read, turn))
        if part == "attention":
            return moved
        x = x + moved
        if not a.normalises_first:
            x = normalise(x, block.attention_norm, a.eps)
        if part == "sublayer":
            return x
        if a.normalises_first:
            x = x + model._perceptron(block, normalise(x, block.mlp_norm, a.eps))
        else:
            x = normalise(x + model._perceptron(block, x), block.mlp_norm, a.eps)
    return x


def dense(J: Derivative) -> NDArray[Any]:
    basis = np.eye(J.n * J.d).reshape(-1, J.n, J.d)
    return np.array([J.push(e).ravel() for e in basis]).T


@pytest.mark.parametrize("part", ["sublayer", "layer"])
def test_it_is_the_slope_of_the_forward_pass(small: Model, part: str) -> None:
    trace = small.forward(ids(small))
    last = small.depth if part == "layer" else 1
    J = derivative(small, trace, 0, last, part)
    x = trace.hidden[0]
    e = np.random.default_rng(1).standard_normal(x.shape) / np.abs(x).max()
    h = 1e-3

    def along(t: float) -> NDArray[Any]:
        return after(small, x + t * e, 0, last, part)

    found = sum(c * (along(k * h) - along(-k * h)) / h for k, c in enumerate(EIGHTH, start=1))
    size = np.abs(J.push(e)).max()
    assert np.abs(J.push(e) - found).max() <= 100 * EIGHTH_ORDER * max(size, 1.0)


def test_attention_alone_is_taken_at_what_it_reads(small: Model) -> None:
    trace = small.forward(ids(small))
    J = derivative(small, trace, 0, part="attention")
    heads = small.attention_heads(0, positions=len(trace.ids))
    e = np.random.default_rng(2).standard_normal(trace.inputs[0].shape)
    from attnflow.lipschitz import jvp

    assert np.abs(J.push(e) - jvp(heads, trace.inputs[0], e)).max() <= EXPONENTIAL * 100


def test_pull_is_the_transpose_of_push(small: Model) -> None:
    J = derivative(small, small.forward(ids(small)), 0, small.depth)
    rng = np.random.default_rng(3)
    e, u = rng.standard_normal((2, J.n, J.d))
    one, two = np.vdot(u, J.push(e)), np.vdot(J.pull(u), e)
    assert abs(one - two) <= EXPONENTIAL * max(abs(one), 1.0) * 100


def test_the_norm_is_that_of_the_matrix(small: Model) -> None:
    J = derivative(small, small.forward(ids(small)), 0, 1)
    left, value, right = J.triple(1e-6)
    exact = np.linalg.norm(dense(J), 2)
    assert abs(value - exact) <= 1e-5 * exact
    assert abs(np.linalg.norm(J.push(right)) - value) <= 1e-4 * value
    assert abs(np.linalg.norm(J.pull(left)) - value) <= 1e-4 * value


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_slopes_are_those_of_the_activations(name: str) -> None:
    x = np.array([-3.0, -1.1, -0.2, 0.3, 1.7, 4.0])
    value, rise = slope(x, name)
    np.testing.assert_allclose(value, activate(x.copy(), name), atol=1e-12)
    h = 1e-3
    steps = (
        (c, activate(x + k * h, name), activate(x - k * h, name)) for k, c in enumerate(EIGHTH, 1)
    )
    np.testing.assert_allclose(rise, sum(c * (a - b) / h for c, a, b in steps), atol=1e-9)


def test_parts_and_layers_that_are_not_there_are_refused(small: Model) -> None:
    trace = small.forward(ids(small))
    with pytest.raises(ValueError, match="part must be one of attention, sublayer, layer"):
        derivative(small, trace, 0, part="mlp")
    with pytest.raises(ValueError, match="layers must satisfy 0 <= first < last"):
        derivative(small, trace, small.depth)
    if small.depth > 1:
        with pytest.raises(ValueError, match="sublayer is that of one layer"):
            derivative(small, trace, 0, 2, "sublayer")


def test_the_normalisation_before_attention_makes_an_ellipsoid(small: Model) -> None:
    first = 0 if small.architecture.normalises_first else 1
    norm = small.normalisation(first)
    x = small.forward(ids(small)).inputs[first]
    y = (x if norm.bias is None else x - norm.bias) / norm.weight
    assert np.abs(np.mean(y**2, axis=1) - 1).max() <= 1e-4
    with pytest.raises(ValueError, match="layer must lie in"):
        small.normalisation(small.depth)
