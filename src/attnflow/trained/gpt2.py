r"""GPT-2 :cite:p:`radford2019`: a decoder with learnt positions, :math:`x \leftarrow x + f(N(x))`.

Its matrices are stored the other way round, and queries, keys and values lie in one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
from attnflow.trained.neural import normalise


def from_config(config: Mapping[str, Any]) -> Architecture:
    """What config.json of a GPT-2 says."""
    must(config, "add_cross_attention", False)
    must(config, "scale_attn_weights", True)
    must(config, "scale_attn_by_inverse_layer_idx", False)
    width, heads = whole(config, "n_embd"), whole(config, "n_head")
    return Architecture(
        "gpt2",
        depth=whole(config, "n_layer"),
        width=width,
        heads=heads,
        groups=heads,
        size=head_size(width, heads),
        inner=4 * width if config.get("n_inner") is None else whole(config, "n_inner"),
        positions=whole(config, "n_positions"),
        vocabulary=whole(config, "vocab_size"),
        embedding=width,
        activation=activation(config, "activation_function", "gelu_new"),
        eps=number(config, "layer_norm_epsilon", 1e-5),
        causal=True,
        normalises_first=True,
    )


def read_block(a: Architecture, read: Reader, at: str) -> Block:
    """The weights of a block."""
    d = a.width
    return Block(
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


def enter(a: Architecture, read: Reader, embedded: Floats) -> Floats:
    """The first block reads embedded tokens as they are."""
    return embedded


def logits(a: Architecture, read: Reader, x: Floats, words: Floats) -> Floats:
    """Products with the word vectors, or with a matrix of the head's own."""
    x, own = normalise(x, read.norm("ln_f", a.width), a.eps), "lm_head.weight"
    return x @ (read.root(own, *words.shape) if own in read.weights else words).T


LAYOUT = Layout(
    words="wte.weight",
    positions="wpe.weight",
    types=None,
    block="h.{}.",
    parts=Parts(
        attention=("attn.c_attn", "attn.c_proj"),
        perceptron=("mlp.c_fc", "mlp.c_proj"),
        writers=("attn.c_proj", "mlp.c_proj"),
    ),
    architecture=from_config,
    read=read_block,
    enter=enter,
    logits=logits,
)
