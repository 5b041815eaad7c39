"""What BERT and ALBERT share: configuration, names of embeddings, a block with biases, a language head."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from attnflow.trained.architecture import (
    Architecture,
    Block,
    Floats,
    Layout,
    Parts,
    Reader,
    activation,
    head_size,
    must,
    number,
    whole,
)
from attnflow.trained.neural import activate, normalise
from attnflow.trained.weights import CheckpointError

WORDS = "embeddings.word_embeddings.weight"
POSITIONS = "embeddings.position_embeddings.weight"
TYPES = "embeddings.token_type_embeddings.weight"


class Names(NamedTuple):
    """What the arrays of an encoder's block are called."""

    qkv: tuple[str, str, str]
    out: str
    attention_norm: str
    up: str
    down: str
    mlp_norm: str

    @property
    def parts(self) -> Parts:
        """Those of attention and perceptron."""
        return Parts((*self.qkv, self.out), (self.up, self.down), (self.out, self.down))


def from_config(config: Mapping[str, Any], kind: str, default_activation: str) -> Architecture:
    """What config.json says of an encoder."""
    must(config, "add_cross_attention", False)
    must(config, "is_decoder", False)
    must(config, "position_embedding_type", "absolute")
    width, heads = whole(config, "hidden_size"), whole(config, "num_attention_heads")
    return Architecture(
        kind,
        depth=whole(config, "num_hidden_layers"),
        width=width,
        heads=heads,
        groups=heads,
        size=head_size(width, heads),
        inner=whole(config, "intermediate_size"),
        positions=whole(config, "max_position_embeddings"),
        vocabulary=whole(config, "vocab_size"),
        embedding=width,
        activation=activation(config, "hidden_act", default_activation),
        eps=number(config, "layer_norm_eps", 1e-12),
        causal=False,
        normalises_first=False,
        types=whole({"type_vocab_size": 2} | dict(config), "type_vocab_size"),
    )


def read_block(a: Architecture, read: Reader, at: str, names: Names) -> Block:
    """The weights of a block."""
    d = a.width
    return Block(
        np.concatenate([read(f"{at}{name}.weight", d, d) for name in names.qkv]),
        np.concatenate([read(f"{at}{name}.bias", d) for name in names.qkv]),
        read(f"{at}{names.out}.weight", d, d),
        read(f"{at}{names.out}.bias", d),
        read.norm(at + names.attention_norm, d),
        None,
        read(f"{at}{names.up}.weight", a.inner, d),
        read(f"{at}{names.up}.bias", a.inner),
        read(f"{at}{names.down}.weight", d, a.inner),
        read(f"{at}{names.down}.bias", d),
        read.norm(at + names.mlp_norm, d),
    )


def enter(a: Architecture, read: Reader, embedded: Floats) -> Floats:
    """Embedded tokens are normalised before the first block."""
    return normalise(embedded, read.norm("embeddings.LayerNorm", a.embedding), a.eps)


def logits(a: Architecture, read: Reader, x: Floats, words: Floats, dense: str, out: str) -> Floats:
    """The head of a masked language model: a dense layer, then the word vectors and a bias."""
    root = read.root
    if f"{dense}dense.weight" not in root.weights:
        name = root.weights.path.name
        raise CheckpointError(f"{name} has no language head: there is no {dense}dense.weight")
    x = x @ root(f"{dense}dense.weight", a.embedding, a.width).T
    x = activate(x + root(f"{dense}dense.bias", a.embedding), a.activation)
    x = normalise(x, root.norm(f"{dense}LayerNorm", a.embedding), a.eps)
    own = f"{out}decoder.weight"
    words = root(own, *words.shape) if own in root.weights else words
    return x @ words.T + root(f"{out}bias", a.vocabulary)


def layout(
    block: str,
    names: Names,
    architecture: Callable[[Mapping[str, Any]], Architecture],
    *,
    head: str,
    dense: str = "",
    enter: Callable[[Architecture, Reader, Floats], Floats] = enter,
) -> Layout:
    """Where an encoder's arrays are: `block` is what the names in one begin with, `head` those of the language head."""
    return Layout(
        words=WORDS,
        positions=POSITIONS,
        types=TYPES,
        block=block,
        parts=names.parts,
        architecture=architecture,
        read=partial(read_block, names=names),
        enter=enter,
        logits=partial(logits, dense=head + dense, out=head),
    )
