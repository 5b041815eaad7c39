"""Checkpoints of a few kilobytes: every kind of model, drawn from a seed, and ways to write them."""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

Tensors = dict[str, NDArray[np.float32]]

CONFIGS: dict[str, dict[str, Any]] = {
    "bert": {
        "model_type": "bert", "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3,
        "intermediate_size": 40, "max_position_embeddings": 16, "type_vocab_size": 2,
        "vocab_size": 50, "hidden_act": "gelu", "layer_norm_eps": 1e-6,
    },
    "albert": {
        "model_type": "albert", "hidden_size": 24, "embedding_size": 10, "num_hidden_layers": 3,
        "num_attention_heads": 3, "intermediate_size": 40, "max_position_embeddings": 16,
        "type_vocab_size": 2, "vocab_size": 50, "hidden_act": "gelu_new", "layer_norm_eps": 1e-6,
        "num_hidden_groups": 1, "inner_group_num": 1,
    },
    "gpt2": {
        "model_type": "gpt2", "n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 16,
        "vocab_size": 50, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-6,
    },
}  # fmt: skip
IDS = (3, 14, 15, 9, 26, 5, 35, 8, 9, 7, 9)


def tensors(kind: str, seed: int = 7) -> Tensors:
    """Weights under the names that checkpoints of masked or causal language models use."""
    rng = np.random.default_rng(seed)
    out: Tensors = {}
    for name, shape in _shapes(kind).items():
        drawn = rng.standard_normal(shape)
        is_scale = len(shape) == 1 and name.endswith("weight")
        scale = 0.3 if len(shape) == 1 else 1.5 / np.sqrt(shape[-1])
        out[name] = (is_scale + scale * drawn).astype(np.float32)
    return out


def _shapes(kind: str) -> dict[str, tuple[int, ...]]:
    d, inner, vocabulary, positions = 24, 40, 50, 16
    shapes: dict[str, tuple[int, ...]] = {}

    def affine(name: str, *shape: int, transpose: bool = False) -> None:
        shapes[f"{name}.weight"] = shape[::-1] if transpose else shape
        shapes[f"{name}.bias"] = shape[:1]

    if kind == "gpt2":
        shapes["transformer.wte.weight"] = (vocabulary, d)
        shapes["transformer.wpe.weight"] = (positions, d)
        for index in range(2):
            at = f"transformer.h.{index}."
            affine(f"{at}ln_1", d)
            affine(f"{at}attn.c_attn", 3 * d, d, transpose=True)
            affine(f"{at}attn.c_proj", d, d, transpose=True)
            affine(f"{at}ln_2", d)
            affine(f"{at}mlp.c_fc", 4 * d, d, transpose=True)
            affine(f"{at}mlp.c_proj", d, 4 * d, transpose=True)
        affine("transformer.ln_f", d)
        return shapes
    e = d if kind == "bert" else 10
    shapes[f"{kind}.embeddings.word_embeddings.weight"] = (vocabulary, e)
    shapes[f"{kind}.embeddings.position_embeddings.weight"] = (positions, e)
    shapes[f"{kind}.embeddings.token_type_embeddings.weight"] = (2, e)
    affine(f"{kind}.embeddings.LayerNorm", e)
    if kind == "bert":
        for index in range(2):
            at = f"bert.encoder.layer.{index}."
            for name in ("query", "key", "value"):
                affine(f"{at}attention.self.{name}", d, d)
            affine(f"{at}attention.output.dense", d, d)
            affine(f"{at}attention.output.LayerNorm", d)
            affine(f"{at}intermediate.dense", inner, d)
            affine(f"{at}output.dense", d, inner)
            affine(f"{at}output.LayerNorm", d)
        head = "cls.predictions.transform."
    else:
        affine("albert.encoder.embedding_hidden_mapping_in", d, e)
        at = "albert.encoder.albert_layer_groups.0.albert_layers.0."
        for name in ("query", "key", "value", "dense"):
            affine(f"{at}attention.{name}", d, d)
        affine(f"{at}attention.LayerNorm", d)
        affine(f"{at}ffn", inner, d)
        affine(f"{at}ffn_output", d, inner)
        affine(f"{at}full_layer_layer_norm", d)
        head = "predictions."
    affine(f"{head}dense", e, d)
    affine(f"{head}LayerNorm", e)
    shapes[head.replace("transform.", "") + "bias"] = (vocabulary,)
    return shapes


def write(
    path: Path, kind: str, weights: Mapping[str, NDArray[Any]] | None = None, **changes: Any
) -> Path:
    """A directory with config.json and model.safetensors."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(CONFIGS[kind] | changes), encoding="utf-8")
    save_file(dict(tensors(kind) if weights is None else weights), path / "model.safetensors")
    return path


# --- GGUF ----------------------------------------------------------------------------------------


def _text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def _listed(kind: int, values: list[bytes]) -> tuple[int, bytes]:
    return 9, struct.pack("<IQ", kind, len(values)) + b"".join(values)


def _whole(value: int) -> tuple[int, bytes]:
    return 4, struct.pack("<I", value)


#: What a GGUF file says of a small Llama: a code of the kind of value, and the value.
LLAMA_FACTS: dict[str, tuple[int, bytes] | None] = {
    "general.architecture": (8, _text("llama")),
    "llama.block_count": _whole(1),
    "llama.embedding_length": _whole(8),
    "llama.attention.head_count": _whole(2),
    "llama.feed_forward_length": _whole(12),
    "llama.context_length": _whole(16),
    "llama.vocab_size": _whole(50),
    "tokenizer.ggml.model": (8, _text("gpt2")),
    "tokenizer.ggml.pre": (8, _text("smollm")),
    "tokenizer.ggml.tokens": _listed(8, [_text(word) for word in ("a", "b", "ab")]),
    "tokenizer.ggml.merges": _listed(8, [_text("a b")]),
    "tokenizer.ggml.token_type": _listed(5, [struct.pack("<i", 1)] * 3),
}


def llama() -> Tensors:
    """The tensors of that Llama."""
    d, inner, at = 8, 12, "blk.0."
    shapes = {
        "token_embd.weight": (50, d), f"{at}attn_q.weight": (d, d), f"{at}attn_k.weight": (d, d),
        f"{at}attn_v.weight": (d, d), f"{at}attn_output.weight": (d, d), f"{at}attn_norm.weight": (d,),
        f"{at}ffn_gate.weight": (inner, d), f"{at}ffn_up.weight": (inner, d),
        f"{at}ffn_down.weight": (d, inner), f"{at}ffn_norm.weight": (d,), "output_norm.weight": (d,),
    }  # fmt: skip
    rng = np.random.default_rng(3)
    return {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}


def write_gguf(path: Path, facts: list[bytes] | None = None) -> Path:
    """A GGUF file of that Llama, byte by byte; `facts` are its metadata, each with its key."""
    if facts is None:
        known = [(key, value) for key, value in LLAMA_FACTS.items() if value is not None]
        facts = [_text(key) + struct.pack("<I", kind) + raw for key, (kind, raw) in known]
    entries, numbers = b"", b""
    for name, value in llama().items():
        shape = value.shape[::-1]
        entries += _text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        entries += struct.pack("<IQ", 0, len(numbers))
        numbers += value.tobytes() + bytes(-value.nbytes % 32)
    start = b"GGUF" + struct.pack("<IQQ", 3, len(llama()), len(facts)) + b"".join(facts) + entries
    path.write_bytes(start + bytes(-len(start) % 32) + numbers)
    return path


# --- PyTorch's files, opcode by opcode -----------------------------------------------------------


def call(module: str, name: str, *arguments: bytes) -> bytes:
    """The opcodes of a call."""
    return f"c{module}\n{name}\n".encode() + b"(" + b"".join(arguments) + b"tR"


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def integer(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def numbers(values: tuple[int, ...]) -> bytes:
    return b"(" + b"".join(integer(v) for v in values) + b"t"


def storage(key: str, length: int, legacy: bool, kind: str = "FloatStorage") -> bytes:
    parts = [text("storage"), f"ctorch\n{kind}\n".encode(), text(key), text("cpu"), integer(length)]
    return b"(" + b"".join(parts) + (b"N" if legacy else b"") + b"tQ"


def tensor(
    key: str,
    shape: tuple[int, ...],
    *,
    length: int | None = None,
    offset: int = 0,
    strides: tuple[int, ...] | None = None,
    legacy: bool = False,
) -> bytes:
    """The opcodes of a float32 tensor in storage `key`."""
    rows = tuple(int(np.prod(shape[i + 1 :])) for i in range(len(shape)))
    return call(
        "torch._utils",
        "_rebuild_tensor_v2",
        storage(key, int(np.prod(shape)) if length is None else length, legacy),
        integer(offset),
        numbers(shape),
        numbers(rows if strides is None else strides),
        b"\x89",
        call("collections", "OrderedDict"),
    )


def state(entries: Mapping[str, bytes]) -> bytes:
    """A pickled dictionary of such tensors."""
    items = b"".join(text(name) + value for name, value in entries.items())
    return b"\x80\x02" + call("collections", "OrderedDict") + b"(" + items + b"u."


def write_zip(path: Path, pickled: bytes, storages: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
        archive.writestr("archive/byteorder", "little")
        for key, raw in storages.items():
            archive.writestr(f"archive/data/{key}", raw)
    return path


def write_legacy(path: Path, pickled: bytes, storages: Mapping[str, bytes]) -> Path:
    magic = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
    version = b"\x80\x02M\xe9\x03."
    system = b"\x80\x02}" + text("little_endian") + b"\x88s."
    keys = b"\x80\x02](" + b"".join(text(key) for key in storages) + b"e."
    raws = b"".join(struct.pack("<q", len(raw) // 4) + raw for raw in storages.values())
    path.write_bytes(magic + version + system + pickled + keys + raws)
    return path
