"""The parts of a trained model fit together, and what does not fit is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_checkpoints as tiny
from numpy.typing import NDArray
from tolerances import SINGLE, TRAINED_SINGLE
from trained_models import KINDS, REACTION, alice, error, model

from attnflow.trained import Model, Trace, load
from attnflow.trained import model as transformer

pytestmark = pytest.mark.usefixtures("memory_given_back")


@pytest.mark.parametrize("name", ["minilm", "albert", "smollm2"])
def test_attention_heads_reproduce_attention(name: str) -> None:
    trace = model(name).forward(REACTION if name == "albert" else alice()[1000:1160], depth=2)
    n, x = len(trace.ids), trace.inputs[1].astype(np.float64)
    heads = model(name).attention_heads(1, positions=n)
    assert len(heads) == model(name).heads
    for h, head in enumerate(heads):
        q, k = x @ head.Q.T, x @ head.K.T
        if head.bq is not None and head.bk is not None:
            q, k = q + head.bq, k + head.bk
        if head.angles is not None:
            q, k = (_turn(z, head.angles) for z in (q, k))
        scores = q @ k.T
        if head.causal:
            scores[np.triu_indices(n, 1)] = -np.inf
        P = np.exp(scores - scores.max(axis=1, keepdims=True))
        P /= P.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(P, trace.attention(1)[h], atol=TRAINED_SINGLE)


def _turn(z: NDArray[Any], angles: NDArray[Any]) -> NDArray[Any]:
    """The rotations as products of complex numbers."""
    half = z.shape[1] // 2
    turned = (z[:, :half] + 1j * z[:, half:]) * np.exp(1j * angles)
    return np.hstack([turned.real, turned.imag])


@pytest.mark.parametrize("name", ["minilm", "albert", "smollm2"])
def test_heads_put_together_are_what_attention_adds(name: str) -> None:
    """x + sum_h P_h x V_h^T W_h^T + bias is what the first half of a layer makes of x."""
    m = model(name)
    trace = m.forward(REACTION if name == "albert" else alice()[1000:1160], depth=1)
    block, x = m._block(0), trace.inputs[0].astype(np.float64)
    added = np.zeros_like(x)
    for P, head in zip(trace.attention(0), m.attention_heads(0), strict=True):
        assert head.W is not None
        added += P @ x @ head.V.T @ head.W.T
    if block.qkv_bias is not None and block.out_bias is not None:
        added += block.out @ block.qkv_bias[-m.width :] + block.out_bias
    found = m._attend(block, trace.queries[0], trace.keys[0], trace.values[0])
    assert error(found[None], added[None]) < TRAINED_SINGLE


def test_heads_carry_the_angles_that_are_asked_for() -> None:
    smol = model("smollm2")
    some, every = smol.attention_heads(1, positions=7), smol.attention_heads(1)
    assert some[0].angles is not None
    assert every[0].angles is not None
    assert some[0].angles.shape == (7, smol.architecture.size // 2)
    assert every[0].angles.shape == (smol.positions, smol.architecture.size // 2)
    np.testing.assert_array_equal(some[0].angles, every[0].angles[:7])
    np.testing.assert_array_equal(some[0].Q, every[0].Q)
    assert model("minilm").attention_heads(1)[0].angles is None


@KINDS
def test_stopping_early_is_a_prefix(kind: str, tmp_path: Path) -> None:
    small = load(tiny.write(tmp_path, kind))
    whole, part, none = (small.forward(tiny.IDS, depth=n) for n in (None, 1, 0))
    np.testing.assert_array_equal(part.hidden, whole.hidden[:2])
    np.testing.assert_array_equal(none.hidden, whole.hidden[:1])
    for name in ("inputs", "queries", "keys", "values"):
        np.testing.assert_array_equal(getattr(part, name), getattr(whole, name)[:1])


def test_albert_goes_on_beyond_its_depth() -> None:
    albert = model("albert")
    deep, whole = albert.forward(REACTION, depth=24), albert.forward(REACTION)
    assert deep.hidden.shape == (25, 56, 256)
    np.testing.assert_array_equal(deep.hidden[:13], whole.hidden)
    again = np.array(deep.hidden[12])
    block, a = albert._block(0), albert.architecture
    for index in range(12, 24):
        q, k, v = albert._project(block, again, None)
        again = transformer.normalise(again + albert._attend(block, q, k, v), block.attention_norm, a.eps)  # fmt: skip
        again = transformer.normalise(
            again + albert._perceptron(block, again), block.mlp_norm, a.eps
        )
        assert error(again[None], deep.hidden[index + 1][None]) < TRAINED_SINGLE


def test_one_layer_of_smollm2_reads_one_layer() -> None:
    smol = load("smollm2")
    asked: list[str] = []
    tensors = smol.weights.tensors
    for name, tensor in list(tensors.items()):

        def read(name: str = name, tensor: Any = tensor) -> Any:
            asked.append(name)
            return tensor.read()

        tensors[name] = tensor._replace(read=read)
    smol.forward("Alice", depth=1)
    assert {name.split(".")[1] for name in asked if name.startswith("blk")} == {"0"}
    count = len(asked)
    smol.forward("Alice", depth=1)
    assert len(asked) == count


def test_causal_models_do_not_look_ahead(tmp_path: Path) -> None:
    small = load(tiny.write(tmp_path, "gpt2"))
    whole, part = small.forward(tiny.IDS), small.forward(tiny.IDS[:4])
    assert error(part.hidden, whole.hidden[:, :4]) < TRAINED_SINGLE
    assert not np.triu(whole.attention(1), 1).any()


def test_what_a_trace_holds() -> None:
    trace = model("minilm").forward("Alice was beginning")
    assert trace.embedded.shape == trace.hidden.shape[1:] == (5, 384)
    words = model("minilm").weights["embeddings.word_embeddings.weight"][trace.ids]
    types = model("minilm").weights["embeddings.token_type_embeddings.weight"][0]
    positions = model("minilm").position_vectors
    assert positions is not None
    assert positions.shape == (512, 384)
    np.testing.assert_allclose(trace.embedded, words + positions[:5] + types, atol=10 * SINGLE)
    np.testing.assert_allclose(trace.attention(3).sum(axis=-1), 1, atol=10 * SINGLE)
    np.testing.assert_array_equal(trace.inputs, trace.hidden[:-1])
    assert model("albert").forward(REACTION, depth=1).embedded.shape == (56, 128)
    assert model("smollm2").position_vectors is None


def test_texts_and_ids_that_do_not_fit(tmp_path: Path) -> None:
    small = load(tiny.write(tmp_path, "bert"))
    with pytest.raises(ValueError, match="at most 16 tokens, got 17"):
        small.forward([1] * 17)
    with pytest.raises(ValueError, match=r"ids must lie in \[0, 50\), got 50"):
        small.forward([1, 50])
    with pytest.raises(ValueError, match=r"ids must lie in \[0, 50\), got -1"):
        small.forward([1, -1])
    for wrong in ([], [1.5], [[1, 2]], [True], ["a"]):
        with pytest.raises(ValueError, match="at least one whole number"):
            small.forward(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="has no tokenizer beside its weights"):
        small.encode("Alice")
    with pytest.raises(ValueError, match="has 2 layers, got depth=3"):
        small.forward(tiny.IDS, depth=3)
    with pytest.raises(ValueError, match="depth must be a whole number >= 0, got -1"):
        small.forward(tiny.IDS, depth=-1)
    with pytest.raises(ValueError, match=r"layer must lie in \[0, 2\), got 2"):
        small.forward(tiny.IDS).attention(2)
    with pytest.raises(ValueError, match=r"layer must lie in \[0, 2\), got -1"):
        small.attention_heads(-1)
    with pytest.raises(ValueError, match="at most 16 tokens, got 99"):
        small.attention_heads(0, positions=99)


def test_a_long_text_is_refused_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Model, "_embed", lambda *a: pytest.fail("work was started"))
    with pytest.raises(ValueError, match=r"minilm reads at most 512 tokens, got \d{4}"):
        model("minilm").forward(alice()[:8000])
    for empty in ("", "  \n"):
        with pytest.raises(ValueError, match="text must hold at least one word"):
            model("minilm").forward(empty)
    with pytest.raises(ValueError, match="no language head"):
        model("minilm").logits(Trace(*[np.zeros((1, 1, 384), np.float32)] * 7, causal=False))


def test_only_encoders_have_vectors_of_segments(tmp_path: Path) -> None:
    kinds = {kind: load(tiny.write(tmp_path / kind, kind)) for kind in tiny.CONFIGS}
    kinds["llama"] = load(tiny.write_gguf(tmp_path / "model.gguf"))
    found = {kind: model.architecture.types for kind, model in kinds.items()}
    assert found == {"bert": 2, "albert": 2, "gpt2": 0, "llama": 0}
