r"""Llama, as SmolLM2 :cite:p:`allal2025` has it: a decoder that turns queries and keys by position.

:math:`x \leftarrow x + f(N(x))` without biases; several heads may share keys and values, and the
perceptron has a gate. It is read from GGUF files, whose metadata hold its sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attnflow.trained.architecture import (
    Architecture,
    Block,
    Floats,
    Layout,
    Norm,
    Parts,
    Reader,
    must,
    number,
    whole,
)
from attnflow.trained.neural import normalise
from attnflow.trained.weights import CheckpointError


def from_metadata(metadata: Mapping[str, Any]) -> Architecture:
    """What the metadata of a GGUF file say of a Llama."""
    facts = {key.removeprefix("llama."): value for key, value in metadata.items()}
    if scaling := [key for key in facts if key.startswith("rope.scaling")]:
        raise CheckpointError(f"rotations must not be rescaled, got {scaling[0]}")
    width, heads = whole(facts, "embedding_length"), whole(facts, "attention.head_count")
    groups = whole({"attention.head_count_kv": heads} | facts, "attention.head_count_kv")
    size = width // heads
    if width % heads or heads % groups or size % 2:
        raise CheckpointError(
            f"width, heads and groups must divide each other, got {width}, {heads} and {groups}"
        )
    must(facts, "rope.dimension_count", size)
    must(facts, "attention.key_length", size)
    must(facts, "expert_count", 0)
    words = facts.get("tokenizer.ggml.tokens")
    counted = {"vocab_size": len(words) if isinstance(words, list) else 0}
    return Architecture(
        "llama",
        depth=whole(facts, "block_count"),
        width=width,
        heads=heads,
        groups=groups,
        size=size,
        inner=whole(facts, "feed_forward_length"),
        positions=whole(facts, "context_length"),
        vocabulary=whole(counted | facts, "vocab_size"),
        embedding=width,
        activation="silu",
        eps=number(facts, "attention.layer_norm_rms_epsilon", 1e-5),
        causal=True,
        normalises_first=True,
        rope=number(facts, "rope.freq_base", 10000.0),
    )


def read_block(a: Architecture, read: Reader, at: str) -> Block:
    """The weights of a block."""
    d = a.width
    query = read(f"{at}attn_q.weight", a.heads * a.size, d)
    key = read(f"{at}attn_k.weight", a.groups * a.size, d)
    value = read(f"{at}attn_v.weight", a.groups * a.size, d)
    return Block(
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


def enter(a: Architecture, read: Reader, embedded: Floats) -> Floats:
    """The first block reads embedded tokens as they are."""
    return embedded


def logits(a: Architecture, read: Reader, x: Floats, words: Floats) -> Floats:
    """Products with the word vectors, or with a matrix of the head's own."""
    x, own = normalise(x, Norm(read("output_norm.weight", a.width), None), a.eps), "output.weight"
    return x @ (read.root(own, *words.shape) if own in read.weights else words).T


LAYOUT = Layout(
    words="token_embd.weight",
    positions=None,
    types=None,
    block="blk.{}.",
    parts=Parts(
        attention=("attn_q", "attn_k", "attn_v", "attn_output"),
        perceptron=("ffn_gate", "ffn_up", "ffn_down"),
        writers=("attn_output", "ffn_down"),
    ),
    architecture=from_metadata,
    read=read_block,
    enter=enter,
    logits=logits,
)
