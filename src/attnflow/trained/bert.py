r"""BERT :cite:p:`devlin2019`: an encoder with learnt positions, :math:`x \leftarrow N(x + f(x))`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from attnflow.trained import encoder
from attnflow.trained.architecture import Architecture, Layout

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


LAYOUT = Layout(
    words=encoder.WORDS,
    positions=encoder.POSITIONS,
    types=encoder.TYPES,
    block="encoder.layer.{}.",
    parts=NAMES.parts,
    architecture=from_config,
    read=partial(encoder.read_block, names=NAMES),
    enter=encoder.enter,
    logits=partial(encoder.logits, dense="cls.predictions.transform.", out="cls.predictions."),
)
