"""Trained models in numpy compute what transformers computes, layer by layer."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_checkpoints as tiny
from memory import give_back
from numpy.typing import NDArray
from tolerances import SINGLE, TRAINED_ANGLES, TRAINED_DOUBLE, TRAINED_SINGLE

from attnflow import assets
from attnflow.trained import Model, Trace, llama, load
from attnflow.trained import model as transformer
from attnflow.trained.architecture import Block

REACTION = "CC(C)S.CN(C)C=O.Fc1cccnc1F.O=C([O-])[O-].[K+].[K+]>>CC(C)Sc1ncccc1F"
#: A wrong model must be wrong by more than this, far beyond any tolerance above.
WRONG = 1e-3


@cache
def reference() -> Mapping[str, NDArray[Any]]:
    with np.load(Path(__file__).parent / "data" / "reference_activations.npz") as file:
        return dict(file)


@cache
def alice() -> str:
    return (assets.fetch("alice") / "carroll-alice.txt").read_text("latin-1")


@lru_cache(1)
def single(name: str) -> Model:
    """A model whose weights stay in memory until another is asked for, or this file ends."""
    give_back()
    return load(name)


class OneBlock(dict[int, Block]):
    """The blocks a model has read, of which it keeps the last one only."""

    def __setitem__(self, index: int, block: Block) -> None:
        self.clear()
        super().__setitem__(index, block)


def model(name: str, dtype: str = "float32") -> Model:
    """A model; in double precision it would fill a gigabyte, so it forgets what it has used."""
    if dtype == "float32":
        return single(name)
    double = load(name, dtype=dtype)
    double._blocks = OneBlock()
    return double


@pytest.fixture(scope="module", autouse=True)
def _give_memory_back() -> Iterator[None]:
    yield
    single.cache_clear()


def error(found: NDArray[Any], expected: NDArray[Any]) -> float:
    """The largest difference over the largest entry, at the worst index of the first axis."""
    assert found.shape == expected.shape
    rows = zip(found, expected, strict=True)
    return max(float(np.abs(f - e).max() / np.abs(e).max()) for f, e in rows)


def matrices(trace: Trace, layers: tuple[int, ...], step: int = 10) -> NDArray[Any]:
    return np.stack([trace.attention(layer)[:, ::step] for layer in layers])


@pytest.fixture(params=["bert", "albert", "gpt2"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# --- parity --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "tol"), [("f4", TRAINED_SINGLE), ("f8", TRAINED_DOUBLE)])
def test_tiny_models_of_every_kind(kind: str, dtype: str, tol: float, tmp_path: Path) -> None:
    small = load(tiny.write(tmp_path, kind), dtype=dtype)
    trace = small.forward(tiny.IDS)
    assert error(trace.hidden, reference()[f"tiny-{kind}-hidden"]) < tol
    found = matrices(trace, tuple(range(small.depth)), 1)
    assert error(found, reference()[f"tiny-{kind}-attention"]) < tol
    assert error(small.logits(trace), reference()[f"tiny-{kind}-logits"]) < tol
    assert trace.hidden.dtype == trace.queries.dtype == small.logits(trace).dtype == dtype


@pytest.mark.parametrize(
    ("dtype", "tol"), [("float32", TRAINED_SINGLE), ("float64", TRAINED_DOUBLE)]
)
@pytest.mark.parametrize(("text", "span", "step"), [("short", (1000, 1160), 1), ("long", (2000, 3300), 25)])  # fmt: skip
def test_minilm(dtype: str, tol: float, text: str, span: tuple[int, int], step: int) -> None:
    trace = model("minilm", dtype).forward(alice()[slice(*span)])
    assert trace.ids.tolist() == reference()[f"minilm-{text}-ids"].tolist()
    assert error(trace.hidden[:, ::step, ::16], reference()[f"minilm-{text}-hidden"]) < tol
    found = matrices(trace, (0, 5), 10 * step)
    assert error(found, reference()[f"minilm-{text}-attention"]) < tol


@pytest.mark.parametrize(
    ("dtype", "tol"), [("float32", TRAINED_SINGLE), ("float64", TRAINED_DOUBLE)]
)
def test_albert(dtype: str, tol: float) -> None:
    albert = model("albert", dtype)
    trace = albert.forward(REACTION)
    assert trace.ids.tolist() == reference()["albert-ids"].tolist()
    assert error(trace.hidden[:, :, ::16], reference()["albert-hidden"]) < tol
    assert error(matrices(trace, (0, 11)), reference()["albert-attention"]) < tol
    assert error(albert.logits(trace)[:, ::37], reference()["albert-logits"]) < tol


# double precision first, while nothing else of this size is in memory
@pytest.mark.parametrize(
    ("dtype", "tol"), [("float64", TRAINED_ANGLES), ("float32", TRAINED_SINGLE)]
)
def test_smollm2(dtype: str, tol: float) -> None:
    smol = model("smollm2", dtype)
    trace = smol.forward(alice()[1000:1240])
    assert trace.ids.tolist() == reference()["smollm2-ids"].tolist()
    assert error(trace.hidden[:, ::5, ::16], reference()["smollm2-hidden"]) < tol
    assert error(matrices(trace, (0, 29)), reference()["smollm2-attention"]) < tol
    assert error(smol.logits(trace)[::5, ::997], reference()["smollm2-logits"]) < tol


#: In a process of its own: beside what other tests left behind, model and scores would be too much.
PERPLEXITY = """
import sys
import numpy as np
from scipy.special import log_softmax
from attnflow.trained import load

smol, chosen = load("smollm2"), []
ids = smol.encode(sys.stdin.read())[:416]
trace = smol.forward(ids)
for start in range(0, 415, 64):
    piece = trace._replace(hidden=trace.hidden[-1:, start : start + 64])
    after = ids[start + 1 : start + 65]
    scores = log_softmax(smol.logits(piece)[: len(after)].astype(np.float64), axis=1)
    chosen += scores[np.arange(len(after)), after].tolist()
assert len(chosen) == 415
print(np.exp(-np.mean(chosen)))
"""


def test_perplexity_of_smollm2_on_alice() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PERPLEXITY],
        input=alice()[1000:4000], capture_output=True, text=True, encoding="utf-8", check=True,
    )  # fmt: skip
    expected = float(reference()["smollm2-perplexity"])
    assert float(done.stdout) == pytest.approx(expected, rel=TRAINED_SINGLE)


def test_albert_fills_in_masked_symbols() -> None:
    albert = model("albert")
    ids = albert.encode(REACTION)
    mask = (assets.fetch("albert") / "vocab.txt").read_text("utf-8").splitlines().index("[MASK]")
    right = 0
    for at in range(1, len(ids) - 1):
        hidden = [*ids[:at], mask, *ids[at + 1 :]]
        right += int(albert.logits(albert.forward(hidden))[at].argmax() == ids[at])
    assert (right, len(ids) - 2) == (53, 54)


# --- every ingredient matters --------------------------------------------------------------------


def _without_root_k(monkeypatch: pytest.MonkeyPatch, small: Model) -> None:
    right = transformer.attention_weights
    monkeypatch.setattr(
        transformer, "attention_weights", lambda q, k, c: right(q * np.sqrt(q.shape[-1]), k, c)
    )


def _without(field: str) -> Callable[[pytest.MonkeyPatch, Model], None]:
    def change(monkeypatch: pytest.MonkeyPatch, small: Model) -> None:
        small._blocks[0] = small._block(0)._replace(**{field: None})

    return change


def _types_wrong(monkeypatch: pytest.MonkeyPatch, small: Model) -> None:
    small.__dict__["_type"] = np.ones(24, np.float32) if small.kind == "gpt2" else None


def _positions_shifted(monkeypatch: pytest.MonkeyPatch, small: Model) -> None:
    assert small.position_vectors is not None
    small.__dict__["position_vectors"] = np.roll(small.position_vectors, 1, axis=0)


def _mask_inverted(monkeypatch: pytest.MonkeyPatch, small: Model) -> None:
    right = transformer.attention_weights
    monkeypatch.setattr(
        transformer, "attention_weights", lambda q, k, causal: right(q, k, not causal)
    )


def _larger_eps(monkeypatch: pytest.MonkeyPatch, small: Model) -> None:
    small.architecture = small.architecture._replace(eps=1e-1)


MUTATIONS: dict[str, Callable[[pytest.MonkeyPatch, Model], None]] = {
    "root k": _without_root_k,
    "eps": _larger_eps,
    "types": _types_wrong,
    "positions": _positions_shifted,
    "mask": _mask_inverted,
    "qkv bias": _without("qkv_bias"),
    "out bias": _without("out_bias"),
    "up bias": _without("up_bias"),
    "down bias": _without("down_bias"),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_wrong_model_fails_parity(
    kind: str, mutation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = load(tiny.write(tmp_path, kind))
    MUTATIONS[mutation](monkeypatch, small)
    assert error(small.forward(tiny.IDS).hidden, reference()[f"tiny-{kind}-hidden"]) > WRONG


def test_the_two_gelus_are_told_apart(kind: str, tmp_path: Path) -> None:
    """They differ by 5e-4 at most; float64 sees it clearly."""
    small = load(tiny.write(tmp_path, kind), dtype="f8")
    other = "gelu_new" if kind == "bert" else "gelu"
    small.architecture = small.architecture._replace(activation=other)
    found = error(small.forward(tiny.IDS).hidden, reference()[f"tiny-{kind}-hidden"])
    assert found > 10 * TRAINED_SINGLE


def _pairs_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llama, "_halves", lambda matrix, size: matrix)


def _turned_back(monkeypatch: pytest.MonkeyPatch) -> None:
    right = transformer.rotate
    monkeypatch.setattr(transformer, "rotate", lambda y, turn: right(y, turn.back))


def _groups_interleaved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "repeat", lambda z, times, axis: np.concatenate([z] * times))


@pytest.mark.parametrize("mutate", [_pairs_kept, _turned_back, _groups_interleaved])
def test_wrong_rotations_and_groups_fail_parity(
    mutate: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = reference()["smollm2-hidden"][:3]
    ids = reference()["smollm2-ids"].tolist()
    mutate(monkeypatch)
    single.cache_clear()  # two copies would be too much
    trace = load("smollm2").forward(ids, depth=2)
    assert error(trace.hidden[:, ::5, ::16], expected) > WRONG


# --- the parts fit together ----------------------------------------------------------------------


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


# --- what is refused -----------------------------------------------------------------------------


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
