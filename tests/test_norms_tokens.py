"""attnflow.norms.tokens: four layers and their flows."""

from __future__ import annotations

import numpy as np
import pytest

from attnflow import norms, sphere

RNG = np.random.default_rng(3)
X = sphere.uniform(7, 5, RNG)
LONG = X * RNG.uniform(0.5, 3.0, size=(7, 1))
BETA = 1.7


def means(x: np.ndarray) -> np.ndarray:
    """m_i, written out token by token."""
    theta = [row / np.linalg.norm(row) for row in x]
    out = []
    for one in theta:
        weights = np.array([np.exp(BETA * one @ other) for other in theta])
        out.append(sum(w * other for w, other in zip(weights / weights.sum(), theta, strict=True)))
    return np.array(out)


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def layer_by_hand(norm: str, x: np.ndarray, h: float) -> np.ndarray:
    m = means(x)
    return {
        "post": lambda: unit(x + h * m),
        "pre": lambda: x + h * m,
        "peri": lambda: x + h * unit(m),
        "nGPT": lambda: unit(x + h * (unit(m) - x)),
    }[norm]()


def start(norm: str) -> np.ndarray:
    return X if norm in ("post", "nGPT") else LONG


@pytest.mark.parametrize("norm", norms.NORMS)
def test_a_layer_is_what_its_formula_says(norm: str) -> None:
    seen = norms.layers(norm, start(norm), BETA, 2, step=0.7)
    one = layer_by_hand(norm, start(norm), 0.7)
    np.testing.assert_allclose(seen.states[1], one, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(
        seen.states[2], layer_by_hand(norm, one, 0.7), rtol=1e-13, atol=1e-14
    )
    np.testing.assert_allclose(seen.times, [0.0, 0.7, 1.4])


@pytest.mark.parametrize("norm", norms.NORMS)
def test_the_velocity_is_the_limit_of_a_thin_layer(norm: str) -> None:
    h = 1e-6
    one, other = (layer_by_hand(norm, start(norm), sign * h) for sign in (1, -1))
    seen = norms.velocity(norm, start(norm), BETA)
    np.testing.assert_allclose(seen, (one - other) / (2 * h), atol=1e-8)


def test_post_is_the_flow_of_the_sphere() -> None:
    times = [0.0, 0.5, 2.0]
    one = norms.flow("post", X, BETA, times).states
    np.testing.assert_allclose(one, sphere.flow(X, BETA, times).states, atol=1e-8)


@pytest.mark.parametrize("norm", norms.NORMS)
def test_many_thin_layers_follow_the_flow(norm: str) -> None:
    exact = norms.flow(norm, start(norm), BETA, [0.0, 1.0]).states[-1]
    gaps = [
        np.abs(norms.layers(norm, start(norm), BETA, k, step=1 / k).states[-1] - exact).max()
        for k in (50, 100)
    ]
    assert gaps[1] < 0.02
    assert 1.8 < gaps[0] / gaps[1] < 2.2


@pytest.mark.parametrize("norm", ["post", "nGPT"])
def test_tokens_stay_on_the_sphere(norm: str) -> None:
    states = norms.flow(norm, X, BETA, [0.0, 3.0]).states
    np.testing.assert_allclose(np.linalg.norm(states, axis=2), 1.0, rtol=1e-14)


def test_bad_calls_are_refused_with_a_sentence() -> None:
    with pytest.raises(ValueError, match="norm must be one of post, pre, peri, nGPT"):
        norms.velocity("layer", X, BETA)
    with pytest.raises(ValueError, match="unit sphere"):
        norms.velocity("post", 2 * X, BETA)
    with pytest.raises(ValueError, match="got a zero vector"):
        norms.velocity("pre", np.zeros((2, 2)), BETA)
    with pytest.raises(ValueError, match="got a zero vector"):
        norms.velocity("peri", np.array([[1.0, 0.0], [-1.0, 0.0]]), 0.0)
    with pytest.raises(ValueError, match="at most 1 for nGPT"):
        norms.layers("nGPT", X, BETA, 1, step=1.5)


@pytest.mark.parametrize("norm", ["pre", "peri"])
@pytest.mark.parametrize("size", [1e-300, 1e150, 1e308])
def test_a_layer_reads_the_direction_of_huge_and_faint_tokens(norm: str, size: float) -> None:
    x = np.array([[0.6, 0.8], [1.0, 0.0], [-0.5, 0.5]])
    far = np.array([size, 1.0, 1.0])[:, None] * x
    gap = norms.velocity(norm, far, 2.0) - norms.velocity(norm, x, 2.0)
    assert np.abs(gap).max() <= 1e-13
