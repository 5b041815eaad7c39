"""Where each kind of transformer keeps its weights, and under which names.

A layer is the same few matrices in every kind; what differs is their names, whether queries, keys
and values lie apart or fused, and which way round a matrix is stored. Here they all become
``Layer``, whose matrices act on rows as x @ M.T. Configurations are read by exact rules: a setting
that would change the arithmetic and is not supported is an error, never ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from attnflow.trained.weights import CheckpointError, Weights

Floats = NDArray[np.floating[Any]]

KINDS = ("bert", "albert", "gpt2", "llama")
ACTIVATIONS = ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu")


class Architecture(NamedTuple):
    """The sizes and choices that fix the arithmetic."""

    kind: str
    depth: int
    width: int  #: d
    heads: int
    groups: int  #: heads of keys and values; fewer than `heads` where heads share them
    size: int  #: k, of one head
    inner: int  #: width inside the perceptron
    positions: int  #: longest input
    vocabulary: int
    embedding: int  #: size of word vectors
    activation: str
    eps: float  #: added to variances
    types: int = 0  #: kinds of segments that have a vector of their own
    rope: float | None = None  #: base of the rotations

    @property
    def causal(self) -> bool:
        return self.kind in ("gpt2", "llama")


class Norm(NamedTuple):
    weight: Floats
    bias: Floats | None  #: None: no centring and no shift, as Llama has it


class Layer(NamedTuple):
    """One layer's weights."""

    qkv: Floats  #: ((heads + 2 groups) k, d)
    qkv_bias: Floats | None
    out: Floats  #: (d, heads k)
    out_bias: Floats | None
    attention_norm: Norm
    gate: Floats | None  #: (inner, d)
    up: Floats  #: (inner, d)
    up_bias: Floats | None
    down: Floats  #: (d, inner)
    down_bias: Floats | None
    mlp_norm: Norm


class Reader:
    """Reads tensors by name, of the shape they must have."""

    def __init__(self, weights: Weights, anchor: str, dtype: DTypeLike) -> None:
        self.weights, self.dtype = weights, dtype
        ends = [name for name in weights if name == anchor or name.endswith("." + anchor)]
        if len(ends) != 1:
            raise CheckpointError(
                f"{weights.path.name} must hold one {anchor}, got {ends or 'none'}"
            )
        self.prefix = ends[0].removesuffix(anchor)

    def __call__(self, name: str, *shape: int, root: bool = False) -> Floats:
        """A tensor of the model; with `root`, one outside it, such as the language head's."""
        full = name if root else self.prefix + name
        if full not in self.weights:
            full = full.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta")
        if full not in self.weights:
            raise CheckpointError(
                f"{self.weights.path.name} must hold {self.prefix}{name}, and does not"
            )
        if (found := self.weights.shape(full)) != shape:
            raise CheckpointError(f"{full} must have shape {shape}, got {found}")
        return self.weights[full].astype(self.dtype, copy=False)

    def norm(self, name: str, width: int, root: bool = False) -> Norm:
        weight = self(f"{name}.weight", width, root=root)
        return Norm(weight, self(f"{name}.bias", width, root=root))


# --- configurations ------------------------------------------------------------------------------


def from_config(config: Mapping[str, Any]) -> Architecture:
    """What config.json of a Hugging Face checkpoint says."""
    kind = config.get("model_type")
    if kind not in ("bert", "albert", "gpt2"):
        raise CheckpointError(f"model_type must be one of bert, albert, gpt2, got {kind!r}")
    _must(config, "add_cross_attention", False)
    if kind == "gpt2":
        _must(config, "scale_attn_weights", True)
        _must(config, "scale_attn_by_inverse_layer_idx", False)
        width = _size(config, "n_embd")
        inner = 4 * width if config.get("n_inner") is None else _size(config, "n_inner")
        names = ("n_layer", "n_head", "n_positions", "activation_function", "layer_norm_epsilon")
    else:
        _must(config, "is_decoder", False)
        _must(config, "position_embedding_type", "absolute")
        width, inner = _size(config, "hidden_size"), _size(config, "intermediate_size")
        names = ("num_hidden_layers", "num_attention_heads", "max_position_embeddings", "hidden_act", "layer_norm_eps")  # fmt: skip
    if kind == "albert":
        _must(config, "num_hidden_groups", 1)
        _must(config, "inner_group_num", 1)
    depth, heads, positions = (_size(config, name) for name in names[:3])
    activation = config.get(names[3], "gelu_new" if kind != "bert" else "gelu")
    if activation not in ACTIVATIONS:
        raise CheckpointError(
            f"{names[3]} must be one of {', '.join(ACTIVATIONS)}, got {activation!r}"
        )
    if width % heads:
        raise CheckpointError(f"the width must be a multiple of the heads, got {width} and {heads}")
    return Architecture(
        kind, depth, width, heads, heads, width // heads, inner, positions,
        vocabulary=_size(config, "vocab_size"),
        embedding=_size(config, "embedding_size") if kind == "albert" else width,
        activation=activation,
        types=0 if kind == "gpt2" else _size({"type_vocab_size": 2} | dict(config), "type_vocab_size"),
        eps=_number(config, names[4], 1e-5 if kind == "gpt2" else 1e-12),
    )  # fmt: skip


def from_metadata(metadata: Mapping[str, Any]) -> Architecture:
    """What the metadata of a GGUF file says."""
    _must(metadata, "general.architecture", "llama")
    facts = {key.removeprefix("llama."): value for key, value in metadata.items()}
    if scaling := [key for key in facts if key.startswith("rope.scaling")]:
        raise CheckpointError(f"rotations must not be rescaled, got {scaling[0]}")
    depth, width = _size(facts, "block_count"), _size(facts, "embedding_length")
    heads = _size(facts, "attention.head_count")
    groups = _size({"attention.head_count_kv": heads} | facts, "attention.head_count_kv")
    size = width // heads
    if width % heads or heads % groups or size % 2:
        raise CheckpointError(
            f"width, heads and groups must divide each other, got {width}, {heads} and {groups}"
        )
    _must(facts, "rope.dimension_count", size)
    _must(facts, "attention.key_length", size)
    _must(facts, "expert_count", 0)
    return Architecture(
        "llama", depth, width, heads, groups, size, _size(facts, "feed_forward_length"),
        positions=_size(facts, "context_length"),
        vocabulary=_size({"vocab_size": len(facts.get("tokenizer.ggml.tokens", ()))} | facts, "vocab_size"),
        embedding=width,
        activation="silu",
        eps=_number(facts, "attention.layer_norm_rms_epsilon", 1e-5),
        rope=_number(facts, "rope.freq_base", 10000.0),
    )  # fmt: skip


def _size(config: Mapping[str, Any], key: str) -> int:
    value = config.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise CheckpointError(f"{key} must be a whole number >= 1, got {value!r}")
    return value


def _number(config: Mapping[str, Any], key: str, default: float) -> float:
    value = config.get(key, default)
    if not isinstance(value, int | float) or not 0 < value < np.inf:
        raise CheckpointError(f"{key} must be a number > 0, got {value!r}")
    return float(value)


def _must(config: Mapping[str, Any], key: str, value: Any) -> None:
    if config.get(key, value) != value:
        raise CheckpointError(f"{key} must be {value!r}, got {config[key]!r}")


# --- weights -------------------------------------------------------------------------------------

ANCHORS = {
    "bert": "embeddings.word_embeddings.weight",
    "albert": "embeddings.word_embeddings.weight",
    "gpt2": "wte.weight",
    "llama": "token_embd.weight",
}


def read_layer(a: Architecture, read: Reader, index: int) -> Layer:
    """The weights of one layer."""
    match a.kind:
        case "bert":
            return _encoder_layer(
                a, read, f"encoder.layer.{index}.",
                ("attention.self.query", "attention.self.key", "attention.self.value"),
                ("attention.output.dense", "attention.output.LayerNorm"),
                ("intermediate.dense", "output.dense", "output.LayerNorm"),
            )  # fmt: skip
        case "albert":
            return _encoder_layer(
                a, read, "encoder.albert_layer_groups.0.albert_layers.0.",
                ("attention.query", "attention.key", "attention.value"),
                ("attention.dense", "attention.LayerNorm"),
                ("ffn", "ffn_output", "full_layer_layer_norm"),
            )  # fmt: skip
        case "gpt2":
            return _gpt2_layer(a, read, f"h.{index}.")
        case _:
            return _llama_layer(a, read, f"blk.{index}.")


def _encoder_layer(
    a: Architecture,
    read: Reader,
    at: str,
    qkv: tuple[str, str, str],
    out: tuple[str, str],
    mlp: tuple[str, str, str],
) -> Layer:
    d = a.width
    return Layer(
        np.concatenate([read(f"{at}{name}.weight", d, d) for name in qkv]),
        np.concatenate([read(f"{at}{name}.bias", d) for name in qkv]),
        read(f"{at}{out[0]}.weight", d, d),
        read(f"{at}{out[0]}.bias", d),
        read.norm(at + out[1], d),
        None,
        read(f"{at}{mlp[0]}.weight", a.inner, d),
        read(f"{at}{mlp[0]}.bias", a.inner),
        read(f"{at}{mlp[1]}.weight", d, a.inner),
        read(f"{at}{mlp[1]}.bias", d),
        read.norm(at + mlp[2], d),
    )


def _gpt2_layer(a: Architecture, read: Reader, at: str) -> Layer:
    d = a.width
    return Layer(
        read(f"{at}attn.c_attn.weight", d, 3 * d).T,
        read(f"{at}attn.c_attn.bias", 3 * d),
        read(f"{at}attn.c_proj.weight", d, d).T,
        read(f"{at}attn.c_proj.bias", d),
        read.norm(f"{at}ln_1", d),
        None,
        read(f"{at}mlp.c_fc.weight", d, a.inner).T,
        read(f"{at}mlp.c_fc.bias", a.inner),
        read(f"{at}mlp.c_proj.weight", a.inner, d).T,
        read(f"{at}mlp.c_proj.bias", d),
        read.norm(f"{at}ln_2", d),
    )


def _llama_layer(a: Architecture, read: Reader, at: str) -> Layer:
    d = a.width
    query = read(f"{at}attn_q.weight", a.heads * a.size, d)
    key = read(f"{at}attn_k.weight", a.groups * a.size, d)
    value = read(f"{at}attn_v.weight", a.groups * a.size, d)
    return Layer(
        np.concatenate([_halves(query, a.size), _halves(key, a.size), value]),
        None,
        read(f"{at}attn_output.weight", d, a.heads * a.size),
        None,
        Norm(read(f"{at}attn_norm.weight", d), None),
        read(f"{at}ffn_gate.weight", a.inner, d),
        read(f"{at}ffn_up.weight", a.inner, d),
        None,
        read(f"{at}ffn_down.weight", d, a.inner),
        None,
        Norm(read(f"{at}ffn_norm.weight", d), None),
    )


def _halves(matrix: Floats, size: int) -> Floats:
    """Rows 2c and 2c + 1 of each head, which turn together, moved to c and c + k/2."""
    pairs = matrix.reshape(-1, size // 2, 2, matrix.shape[1])  # (heads, k/2, 2, d)
    return pairs.swapaxes(1, 2).reshape(matrix.shape)
