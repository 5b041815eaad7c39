"""Layers that average at a fixed temperature."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from tolerances import DEFAULT_TOL, ROUNDING

from attnflow.attention import L2Attention, SinkhornAttention, SoftmaxAttention
from attnflow.geometry import averaging_layers
from attnflow.transport import self_bridge

I = np.eye(2)  # noqa: E741
Z = np.random.default_rng(5).normal(size=(12, 2))


@pytest.mark.parametrize("kind", [SoftmaxAttention, L2Attention, SinkhornAttention])
def test_a_layer_is_its_formula(kind):
    V = np.array([[1.0, 0.4], [-0.2, 0.5]])
    layer = kind(I, I, V)
    flow = averaging_layers(layer, Z, 2)
    one = Z + (layer.matrix(Z) @ Z - Z) @ V.T
    two = one + (layer.matrix(one) @ one - one) @ V.T
    assert np.abs(flow.states[0] - Z).max() == 0
    assert np.abs(flow.states[1:] - [one, two]).max() < ROUNDING
    assert flow.times.tolist() == [0, 1, 2]
    assert flow.iterations == 2


def test_with_minus_the_identity_it_is_a_bridge_step():
    layer = SinkhornAttention(I, I, -I, eps=0.3)
    found = averaging_layers(layer, Z, 1).states[-1]
    assert np.abs(found - (2 * Z - self_bridge(Z, 0.3).barycentric())).max() < 10 * DEFAULT_TOL


def test_the_diameter_shrinks_as_fast_as_proved():
    eps = pdist(Z).max() ** 2 / 2
    sizes = averaging_layers(SinkhornAttention(I, I, I, eps=eps), Z, 3).diameter
    assert (sizes[1:] <= (1 - np.exp(-2.0)) * sizes[:-1]).all()


@pytest.mark.parametrize(
    ("z", "depth", "words"),
    [(Z, 0, "depth"), (Z * np.nan, 2, "z0"), (Z[:, :1], 2, "V must be square")],
)
def test_bad_input_is_refused(z, depth, words):
    with pytest.raises(ValueError, match=words):
        averaging_layers(SoftmaxAttention(I, I, I), z, depth)
