r"""BERT :cite:p:`devlin2019`: an encoder with learnt positions, :math:`x \leftarrow N(x + f(x))`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnflow.trained import encoder
from attnflow.trained.architecture import Architecture

NAMES = encoder.Names(
    qkv=("attention.self.query", "attention.self.key", "attention.self.value"),
    out="attention.output.dense",
    attention_norm="attention.output.LayerNorm",
    up="intermediate.dense",
    down="output.dense",
    mlp_norm="output.LayerNorm",
)


def from_config(config: Mapping[str, Any]) -> Architecture:
    """What config.json of a BERT says."""
    return encoder.from_config(config, "bert", "gelu")


LAYOUT = encoder.layout(
    "encoder.layer.{}.", NAMES, from_config, head="cls.predictions.", dense="transform."
)
