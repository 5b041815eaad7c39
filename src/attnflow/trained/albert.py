"""ALBERT :cite:p:`lan2020`: a BERT that applies one block again and again, with narrow word vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnflow.trained import encoder
from attnflow.trained.architecture import Architecture, Floats, Reader, must, whole

NAMES = encoder.Names(
    qkv=("attention.query", "attention.key", "attention.value"),
    out="attention.dense",
    attention_norm="attention.LayerNorm",
    up="ffn",
    down="ffn_output",
    mlp_norm="full_layer_layer_norm",
)
WIDEN = "encoder.embedding_hidden_mapping_in"


def from_config(config: Mapping[str, Any]) -> Architecture:
    """What config.json of an ALBERT says."""
    must(config, "num_hidden_groups", 1)
    must(config, "inner_group_num", 1)
    found = encoder.from_config(config, "albert", "gelu_new")
    return found._replace(embedding=whole(config, "embedding_size"), recurrent=True)


def enter(a: Architecture, read: Reader, embedded: Floats) -> Floats:
    """Embedded tokens are normalised, then widened."""
    x = encoder.enter(a, read, embedded)
    return x @ read(f"{WIDEN}.weight", a.width, a.embedding).T + read(f"{WIDEN}.bias", a.width)


LAYOUT = encoder.layout(
    "encoder.albert_layer_groups.0.albert_layers.0.",
    NAMES,
    from_config,
    head="predictions.",
    enter=enter,
)
