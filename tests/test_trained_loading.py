"""Checkpoints in every form give the same model, or are refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_checkpoints as tiny
from numpy.typing import NDArray
from refusals import said_without
from trained_models import KINDS

from attnflow import assets
from attnflow.trained import CheckpointError, load
from attnflow.trained.loading import described

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
@KINDS
def test_other_names_of_the_same_weights(
    kind: str, change: Callable[[str], str], tmp_path: Path
) -> None:
    one = load(tiny.write(tmp_path / "one", kind)).forward(tiny.IDS)
    other = load(tiny.write(tmp_path / "other", kind, _renamed(kind, change))).forward(tiny.IDS)
    np.testing.assert_array_equal(one.hidden, other.hidden)


@pytest.mark.parametrize("form", ["zip", "legacy"])
@KINDS
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
    found = [words[i] for i in load("albert").encode("[C@@H](Br)Cl>>C%10!")]
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


LLAMA: dict[str, Any] = {
    "general.architecture": "llama", "llama.block_count": 2, "llama.embedding_length": 24,
    "llama.attention.head_count": 6, "llama.attention.head_count_kv": 2,
    "llama.feed_forward_length": 40, "llama.context_length": 16, "llama.vocab_size": 50,
}  # fmt: skip


def test_metadata_of_a_llama_are_read() -> None:
    found = described(LLAMA)
    assert (found.kind, found.depth, found.heads, found.groups, found.size) == ("llama", 2, 6, 2, 4)
    assert found.causal
    assert found.normalises_first
    assert not found.recurrent
    assert (found.types, found.rope) == (0, 10000.0)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        (
            {"general.architecture": "mamba"},
            "general.architecture must be one of llama, got 'mamba'",
        ),
        ({"llama.rope.scaling.type": "linear"}, "rotations must not be rescaled, got rope.scaling"),
        ({"llama.attention.head_count_kv": 4}, "must divide each other, got 24, 6 and 4"),
        ({"llama.attention.head_count": 5}, "must divide each other, got 24, 5 and 2"),
        ({"llama.rope.dimension_count": 2}, "rope.dimension_count must be 4, got 2"),
        ({"llama.expert_count": 8}, "expert_count must be 0, got 8"),
        ({"llama.block_count": 0}, "block_count must be a whole number >= 1, got 0"),
    ],
)
def test_metadata_that_change_the_arithmetic_are_refused(
    changes: dict[str, Any], rule: str
) -> None:
    with pytest.raises(CheckpointError, match=rule):
        described(LLAMA | changes)


@pytest.mark.parametrize("package", ["gguf", "safetensors", "tokenizers", "platformdirs"])
def test_a_missing_package_is_named_with_what_brings_it(package: str) -> None:
    said = said_without(package, "attnflow.trained")
    assert f"needs {package}, which is not installed: pip install 'attnflow[trained]'" in said
