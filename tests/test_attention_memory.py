"""What a Sinkhorn layer remembers: the next one begins where the last one ended."""

from __future__ import annotations

import numpy as np

from attnflow.attention import SinkhornAttention
from attnflow.attention import fast as fast_module


def many(n=20_000):
    return np.random.default_rng(0).normal(size=(n, 2))


def test_a_sinkhorn_layer_begins_where_the_last_one_ended(monkeypatch):
    """Every velocity is that of a layer without a memory; sweeps are fewer."""
    sweeps, honest = [], fast_module.self_bridge

    def spy(*args, **options):
        found = honest(*args, **options)
        sweeps.append(found.iterations)
        return found

    monkeypatch.setattr(fast_module, "self_bridge", spy)
    I, x = np.eye(2), many()  # noqa: E741
    layer = SinkhornAttention(I, I, I, eps=0.5).using("fast", 1e-8)
    for _ in range(4):
        v = layer.velocity(x)
        fresh = layer.using("fast", 1e-8).velocity(x)
        assert np.abs(v - fresh).max() <= 1e-8 * np.abs(x).max()
        x = x + 0.01 * v
    warm, cold = sweeps[::2], sweeps[1::2]
    assert warm[0] == cold[0]
    assert max(warm[1:]) < min(cold)


def test_a_sinkhorn_layer_that_sees_other_tokens_is_not_misled():
    I, x = np.eye(2), many()  # noqa: E741
    layer = SinkhornAttention(I, I, I, eps=0.1).using("fast", 1e-8)
    w = np.full(len(x), 1.0)
    w[::3] = 0.0
    w /= w.sum()
    layer.velocity(x)
    for tokens, masses in ((x[::-1], None), (3 * x, None), (x, w), (x, None), (x[:-5], None)):
        v = layer.velocity(tokens, masses)
        fresh = layer.using("fast", 1e-8).velocity(tokens, masses)
        assert np.abs(v - fresh).max() <= 1e-8 * np.abs(tokens).max()


def test_few_tokens_are_not_remembered():
    """The same call gives the same digits."""
    I, x = np.eye(2), many(500)  # noqa: E741
    layer = SinkhornAttention(I, I, I, eps=0.5).using("fast", 1e-8)
    assert (layer.velocity(x) == layer.velocity(x)).all()
    assert layer._memory.guess(len(x)) is None


def test_scalings_are_continued_on_a_parabola_in_logarithms():
    memory = fast_module.Memory(fewest=2)
    assert memory.guess(2) is None
    memory.keep(np.array([1.0, 0.0, 1.0]))
    memory.keep(np.array([1.0, 0.5]))
    assert memory.guess(3) is None
    assert memory.guess(2).tolist() == [1.0, 0.5]
    memory.keep(np.array([2.0, 0.0]))
    memory.keep(np.array([8.0, 1.0]))  # a token that had no mass: nothing to continue
    assert memory.guess(2).tolist() == [64.0, 1.0]  # 1, 2, 8, 64: steps of 2, 4, 8
    memory.keep(np.array([8.0, 1.0]))
    assert memory.guess(2).tolist() == [2.0, 1.0]  # the first is forgotten
