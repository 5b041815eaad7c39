"""Trained models in numpy compute what transformers computes, layer by layer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_checkpoints as tiny
from numpy.typing import NDArray
from tolerances import SINGLE, TRAINED_ANGLES, TRAINED_DOUBLE, TRAINED_SINGLE

from attnflow import assets
from attnflow.trained import Model, Trace, layouts, load
from attnflow.trained import model as transformer
from attnflow.trained.checkpoints import CheckpointError

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


@cache
def single(name: str) -> Model:
    """A model whose weights stay in memory until the last test of this file."""
    return load(name)


class OneLayer(dict[int, layouts.Layer]):
    """The layers a model has read, of which it keeps the last one only."""

    def __setitem__(self, index: int, layer: layouts.Layer) -> None:
        self.clear()
        super().__setitem__(index, layer)


def model(name: str, dtype: str = "float32") -> Model:
    """A model; in double precision it would fill a gigabyte, so it forgets what it has used."""
    if dtype == "float32":
        return single(name)
    double = load(name, dtype=dtype)
    double._layers = OneLayer()
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


def test_perplexity_of_smollm2_on_alice() -> None:
    smol = model("smollm2")
    ids = smol.encode(alice()[1000:4000])[:416]
    scores = smol.logits(smol.forward(ids))[:-1].astype(np.float64)
    scores -= scores.max(axis=1, keepdims=True)
    chosen = scores[np.arange(415), ids[1:]]
    chosen -= np.log(np.exp(scores, out=scores).sum(axis=1))
    expected = float(reference()["smollm2-perplexity"])
    assert np.exp(-chosen.mean()) == pytest.approx(expected, rel=TRAINED_SINGLE)


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
    right = transformer.softmax
    monkeypatch.setattr(
        transformer, "softmax", lambda q, k, c: right(q * np.sqrt(q.shape[-1]), k, c)
    )


def _without(field: str) -> Callable[[pytest.MonkeyPatch, Model], None]:
    def change(monkeypatch: pytest.MonkeyPatch, small: Model) -> None:
        small._layers[0] = small._layer(0)._replace(**{field: None})

    return change


def _types_wrong(monkeypatch: pytest.MonkeyPatch, small: Model) -> None:
    small.__dict__["_type"] = np.ones(24, np.float32) if small.kind == "gpt2" else None


def _positions_shifted(monkeypatch: pytest.MonkeyPatch, small: Model) -> None:
    assert small.position_vectors is not None
    small.__dict__["position_vectors"] = np.roll(small.position_vectors, 1, axis=0)


def _mask_inverted(monkeypatch: pytest.MonkeyPatch, small: Model) -> None:
    right = transformer.softmax
    monkeypatch.setattr(transformer, "softmax", lambda q, k, causal: right(q, k, not causal))


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
    monkeypatch.setattr(layouts, "_halves", lambda matrix, size: matrix)


def _turned_back(monkeypatch: pytest.MonkeyPatch) -> None:
    right = transformer.rotate
    monkeypatch.setattr(transformer, "rotate", lambda x, angles: right(x, -angles))


def _groups_interleaved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "repeat", lambda z, times, axis: np.concatenate([z] * times))


@pytest.mark.parametrize("mutate", [_pairs_kept, _turned_back, _groups_interleaved])
def test_wrong_rotations_and_groups_fail_parity(
    mutate: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = reference()["smollm2-hidden"][:3]
    ids = reference()["smollm2-ids"].tolist()
    mutate(monkeypatch)
    trace = load("smollm2").forward(ids, layers=2)
    assert error(trace.hidden[:, ::5, ::16], expected) > WRONG


# --- the parts fit together ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["minilm", "albert", "smollm2"])
def test_attention_heads_reproduce_attention(name: str) -> None:
    trace = model(name).forward(REACTION if name == "albert" else alice()[1000:1160], layers=2)
    n, x = len(trace.ids), trace.inputs[1].astype(np.float64)
    heads = model(name).attention_heads(1, n)
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
    trace = m.forward(REACTION if name == "albert" else alice()[1000:1160], layers=1)
    layer, x = m._layer(0), trace.inputs[0].astype(np.float64)
    added = np.zeros_like(x)
    for P, head in zip(trace.attention(0), m.attention_heads(0, len(x)), strict=True):
        assert head.W is not None
        added += P @ x @ head.V.T @ head.W.T
    if layer.qkv_bias is not None and layer.out_bias is not None:
        added += layer.out @ layer.qkv_bias[-m.width :] + layer.out_bias
    found = m._attend(layer, trace.queries[0], trace.keys[0], trace.values[0])
    assert error(found[None], added[None]) < TRAINED_SINGLE


def test_stopping_early_is_a_prefix(kind: str, tmp_path: Path) -> None:
    small = load(tiny.write(tmp_path, kind))
    whole, part, none = (small.forward(tiny.IDS, layers=n) for n in (None, 1, 0))
    np.testing.assert_array_equal(part.hidden, whole.hidden[:2])
    np.testing.assert_array_equal(none.hidden, whole.hidden[:1])
    for name in ("inputs", "queries", "keys", "values"):
        np.testing.assert_array_equal(getattr(part, name), getattr(whole, name)[:1])


def test_albert_goes_on_beyond_its_depth() -> None:
    albert = model("albert")
    deep, whole = albert.forward(REACTION, layers=24), albert.forward(REACTION)
    assert deep.hidden.shape == (25, 56, 256)
    np.testing.assert_array_equal(deep.hidden[:13], whole.hidden)
    again = np.array(deep.hidden[12])
    layer, a = albert._layer(0), albert.architecture
    for index in range(12, 24):
        q, k, v = albert._project(layer, again)
        again = transformer.normalise(again + albert._attend(layer, q, k, v), layer.attention_norm, a.eps)  # fmt: skip
        again = transformer.normalise(
            again + albert._perceptron(layer, again), layer.mlp_norm, a.eps
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
    smol.forward("Alice", layers=1)
    assert {name.split(".")[1] for name in asked if name.startswith("blk")} == {"0"}
    count = len(asked)
    smol.forward("Alice", layers=1)
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
    assert model("albert").forward(REACTION, layers=1).embedded.shape == (56, 128)
    assert model("smollm2").position_vectors is None


# --- checkpoints in other clothes ----------------------------------------------------------------


def _renamed(kind: str, change: Callable[[str], str]) -> dict[str, NDArray[Any]]:
    return {change(name): value for name, value in tiny.tensors(kind).items()}


@pytest.mark.parametrize(
    "change",
    [
        lambda name: name.removeprefix("bert.").removeprefix("albert.").removeprefix("transformer."),
        lambda name: name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"),
    ],
    ids=["no prefix", "gamma and beta"],
)  # fmt: skip
def test_other_names_of_the_same_weights(
    kind: str, change: Callable[[str], str], tmp_path: Path
) -> None:
    one = load(tiny.write(tmp_path / "one", kind)).forward(tiny.IDS)
    other = load(tiny.write(tmp_path / "other", kind, _renamed(kind, change))).forward(tiny.IDS)
    np.testing.assert_array_equal(one.hidden, other.hidden)


@pytest.mark.parametrize("form", ["zip", "legacy"])
def test_pytorch_files_give_the_same_model(kind: str, form: str, tmp_path: Path) -> None:
    expected = load(tiny.write(tmp_path, kind)).forward(tiny.IDS)
    (tmp_path / "model.safetensors").unlink()
    drawn = tiny.tensors(kind)
    entries = {
        name: tiny.tensor(str(i), value.shape, legacy=form == "legacy")
        for i, (name, value) in enumerate(drawn.items())
    }
    raws = {str(i): value.tobytes() for i, value in enumerate(drawn.values())}
    writer = tiny.write_zip if form == "zip" else tiny.write_legacy
    writer(tmp_path / "pytorch_model.bin", tiny.state(entries), raws)
    np.testing.assert_array_equal(load(tmp_path).forward(tiny.IDS).hidden, expected.hidden)


def test_gpt2_tokenizer_from_vocabulary_and_merges(tmp_path: Path) -> None:
    path = tiny.write(tmp_path, "gpt2")
    words = {word: i for i, word in enumerate(["a", "b", "Ġ", "ab", "Ġab"])}
    (path / "vocab.json").write_text(json.dumps(words), encoding="utf-8")
    (path / "merges.txt").write_text("#version: 0.2\na b\nĠ ab\n", encoding="utf-8")
    assert load(path).encode("ab ab b") == [3, 4, 2, 1]


def test_word_pieces_from_a_plain_vocabulary(tmp_path: Path) -> None:
    path = tiny.write(tmp_path, "bert")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "rabbit", "##s", "Rabbit"]
    (path / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    assert load(path).encode("Rabbits") == [2, 5, 6, 3]
    (path / "tokenizer_config.json").write_text('{"do_lower_case": false}', encoding="utf-8")
    assert load(path).encode("Rabbits") == [2, 7, 6, 3]


def test_symbols_of_reactions() -> None:
    words = (assets.fetch("albert") / "vocab.txt").read_text("utf-8").splitlines()
    found = [words[i] for i in model("albert").encode("[C@@H](Br)Cl>>C%10!")]
    assert found == [
        "[CLS]", "[C@@H]", "(", "Br", ")", "Cl", ">>", "C", "%10", "[UNK]", "[SEP]",
    ]  # fmt: skip


def test_a_causal_model_reads_symbols_without_a_frame(tmp_path: Path) -> None:
    path = tiny.write(tmp_path, "gpt2")
    (path / "vocab.txt").write_text("[PAD]\n[HEAVY]\nA\nR\n", encoding="utf-8")
    assert load(path).encode("[HEAVY]ARA") == [1, 2, 3, 2]
    with pytest.raises(ValueError, match="symbols the model knows, got 'W'"):
        load(path).encode("AW")


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
    with pytest.raises(ValueError, match="has 2 layers, got layers=3"):
        small.forward(tiny.IDS, layers=3)
    with pytest.raises(ValueError, match="layers must be a whole number >= 0, got -1"):
        small.forward(tiny.IDS, layers=-1)
    with pytest.raises(ValueError, match=r"layer must lie in \[0, 2\), got 2"):
        small.forward(tiny.IDS).attention(2)
    with pytest.raises(ValueError, match=r"layer must lie in \[0, 2\), got -1"):
        small.attention_heads(-1, 4)
    with pytest.raises(ValueError, match="at most 16 tokens, got 99"):
        small.attention_heads(0, 99)


def test_a_long_text_is_refused_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Model, "_embed", lambda *a: pytest.fail("work was started"))
    with pytest.raises(ValueError, match=r"minilm reads at most 512 tokens, got \d{4}"):
        model("minilm").forward(alice()[:8000])
    for empty in ("", "  \n"):
        with pytest.raises(ValueError, match="text must hold at least one word"):
            model("minilm").forward(empty)
    with pytest.raises(ValueError, match="no language head"):
        model("minilm").logits(Trace(*[np.zeros((1, 1, 384), np.float32)] * 7, causal=False))


@pytest.mark.parametrize(
    ("kind", "changes", "rule"),
    [
        ("bert", {"model_type": "roberta"}, "one of bert, albert, gpt2, got 'roberta'"),
        ("bert", {"hidden_act": "swish-ish"}, "hidden_act must be one of .*got 'swish-ish'"),
        ("bert", {"position_embedding_type": "relative_key"}, "must be 'absolute', got 'relative_key'"),
        ("bert", {"is_decoder": True}, "is_decoder must be False, got True"),
        ("bert", {"num_attention_heads": 5}, "multiple of the heads, got 24 and 5"),
        ("bert", {"num_hidden_layers": "two"}, "num_hidden_layers must be a whole number"),
        ("bert", {"layer_norm_eps": "small"}, "layer_norm_eps must be a number > 0, got 'small'"),
        ("albert", {"num_hidden_groups": 2}, "num_hidden_groups must be 1, got 2"),
        ("albert", {"inner_group_num": 2}, "inner_group_num must be 1, got 2"),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "must be False, got True"),
        ("gpt2", {"scale_attn_weights": False}, "scale_attn_weights must be True, got False"),
    ],
)  # fmt: skip
def test_settings_that_change_the_arithmetic_are_refused(
    kind: str, changes: dict[str, Any], rule: str, tmp_path: Path
) -> None:
    with pytest.raises(CheckpointError, match=rule):
        load(tiny.write(tmp_path, kind, **changes))


def test_missing_and_misshapen_tensors_are_named(tmp_path: Path) -> None:
    drawn = tiny.tensors("bert")
    name = "bert.encoder.layer.1.attention.self.key.bias"
    value = drawn.pop(name)
    with pytest.raises(CheckpointError, match=f"must hold {name}"):
        load(tiny.write(tmp_path / "a", "bert", drawn)).forward(tiny.IDS)
    drawn[name] = value[:5]
    with pytest.raises(CheckpointError, match=rf"{name} must have shape \(24,\), got \(5,\)"):
        load(tiny.write(tmp_path / "b", "bert", drawn)).forward(tiny.IDS)
    with pytest.raises(CheckpointError, match=r"must hold one wte\.weight, got none"):
        load(tiny.write(tmp_path / "c", "gpt2", drawn))


def test_what_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="one of minilm, albert, smollm2, iglm or a path"):
        load("gpt5")
    with pytest.raises(ValueError, match="dtype must be float32 or float64, got int64"):
        load("minilm", dtype=int)
    with pytest.raises(assets.AssetError, match="accept_licence=True"):
        load("iglm")
    path = tiny.write(tmp_path, "bert")
    (path / "config.json").write_text("[]", encoding="utf-8")
    with pytest.raises(CheckpointError, match="must hold a JSON object"):
        load(path)
    (path / "config.json").write_text("{", encoding="utf-8")
    with pytest.raises(CheckpointError, match="is no JSON"):
        load(path)
    (path / "config.json").unlink()
    with pytest.raises(CheckpointError, match=r"must be a directory with config\.json"):
        load(path)


def test_a_tokenizer_that_cannot_be_read(tmp_path: Path) -> None:
    path = tiny.write(tmp_path, "bert")
    (path / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(CheckpointError, match="tokenizer that cannot be read"):
        load(path)


def test_a_path_may_start_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny.write(tmp_path / "tiny", "bert")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load("~/tiny").kind == "bert"
