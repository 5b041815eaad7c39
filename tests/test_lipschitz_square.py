"""The product with J J^T, formed between the dimensions that the heads use."""

import numpy as np
import pytest
from jacobians import dense, sigmoid, softmax
from tolerances import ROUNDING_OF_NORM

from attnflow.lipschitz import Head, Linearised, SigmoidLinearised, jacobian, square
from attnflow.lipschitz.square import Square

N, D = 7, 5


def heads(rng):
    """Of two sizes, with and without rotations, one of which differs, biases and a mask."""

    def head(k, p, *, causal=False, angles=None):
        return Head(*rng.normal(size=(2, k, D)), rng.normal(size=(p, D)), rng.normal(size=(3, p)),
                    causal, rng.normal(size=k), None, angles)  # fmt: skip

    turn, other = rng.uniform(-4, 4, size=(2, N, 2))
    return [head(4, 2), head(4, 2), head(4, 3), head(4, 3, causal=True), head(4, 3, causal=True),
            head(4, 3, angles=turn), head(4, 3, angles=turn), head(4, 3, angles=other), head(2, 3)]  # fmt: skip


@pytest.mark.parametrize("together", [0, 2 * N * N, 2**17])
@pytest.mark.parametrize("block", [3, 512])
@pytest.mark.parametrize(("kind", "weights"), [(Linearised, softmax), (SigmoidLinearised, sigmoid)])
def test_it_is_the_dense_product_however_heads_are_stacked(
    monkeypatch, together, block, kind, weights
):
    monkeypatch.setattr(square, "TOGETHER", together)
    monkeypatch.setattr(jacobian, "BLOCK", block)
    rng = np.random.default_rng(3)
    layer, x = heads(rng), rng.normal(size=(N, D))
    product = Square(kind(layer, x), None, single=False)
    J = dense(layer, x, weights)
    u = rng.normal(size=product.shape)
    want = J @ (J.T @ (u @ product.basis.T).ravel())
    assert (
        np.abs(product(u) - want.reshape(N, 3) @ product.basis).max()
        <= ROUNDING_OF_NORM * np.abs(want).max()
    )


def test_only_heads_of_one_shape_mask_and_rotation_are_stacked():
    rng = np.random.default_rng(4)
    product = Square(Linearised(heads(rng), rng.normal(size=(N, D))), None, single=False)
    assert [len(crew.columns) for crew in product.crews] == [2, 1, 2, 2, 1, 1]


def test_one_head_is_not_copied():
    rng = np.random.default_rng(5)
    J = Linearised([Head(*rng.normal(size=(3, 2, D)))], rng.normal(size=(N, D)))
    product = Square(J, None, single=False)
    assert np.shares_memory(product.crews[0].part.P, J.parts[0].P)
