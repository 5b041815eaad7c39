"""A trained model, found by its name or by its place.

BERT :cite:p:`devlin2019`, ALBERT :cite:p:`lan2020`, GPT-2 :cite:p:`radford2019` and Llama are read.
What a file says of its sizes is compared with the tensors it has before anything is made of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from attnflow import assets
from attnflow.trained import jsons, tokens
from attnflow.trained.architecture import Architecture, Layout
from attnflow.trained.checkpoints import open_weights
from attnflow.trained.kinds import CONFIGURED, DESCRIBED
from attnflow.trained.model import Model
from attnflow.trained.weights import CheckpointError, blame, describe

NAMES = ("minilm", "albert", "smollm2", "iglm")
CONFIG = 2**20  #: bytes of config.json; they have a few thousand
DEPTH = 128  #: times that a recurrent model may say it applies its block; ALBERT has up to 24
ANGLES = 2**24  #: positions times size of a head, where heads turn by position


def load(
    name_or_directory: str | Path, *, dtype: DTypeLike = np.float32, accept_licence: bool = False
) -> Model:
    """A model by name, or from a directory with config.json and weights, or a GGUF file.

    >>> load("gpt5")
    Traceback (most recent call last):
        ...
    ValueError: a model must be one of minilm, albert, smollm2, iglm or a path that exists, got gpt5
    """
    path = Path(name_or_directory).expanduser()
    if str(name_or_directory) in NAMES:
        path = assets.fetch(str(name_or_directory), accept_licence=accept_licence)
    elif not path.exists():
        raise ValueError(
            f"a model must be one of {', '.join(NAMES)} or a path that exists, got {name_or_directory}"
        )
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64, got {np.dtype(dtype)}")
    name = str(name_or_directory) if str(name_or_directory) in NAMES else path.name
    model = _found(name, path, dtype)
    with blame(path):
        _agree(model)
    return model


def _found(name: str, path: Path, dtype: DTypeLike) -> Model:
    if (path / "config.json").is_file():
        architecture = configured(jsons.read_json(path / "config.json", CONFIG))
        weights = open_weights(path)
        return Model(
            name, architecture, weights, tokens.from_directory(path, architecture.causal), dtype
        )
    weights = open_weights(path)
    if "general.architecture" not in weights.metadata:
        raise CheckpointError(f"{path.name} must be a directory with config.json or a GGUF file")
    if "rope_freqs.weight" in weights:
        raise CheckpointError(f"{path.name} must rotate by powers of a base, got its own angles")
    architecture = described(weights.metadata)
    encode = tokens.from_metadata(weights.metadata, weights.path)
    return Model(name, architecture, weights, encode, dtype)


def _agree(model: Model) -> None:
    """Refuse sizes that are not those of the tensors."""
    a, layout = model.architecture, model.layout
    tables = (
        (layout.words, a.vocabulary, a.embedding),
        (layout.positions, a.positions, a.embedding),
        (layout.types, a.types, a.embedding),
    )
    for table, rows, columns in tables:
        full = f"{model.prefix}{table}"
        if full in model.weights and model.weights.shape(full) != (rows, columns):
            found = describe(model.weights.shape(full))
            raise CheckpointError(f"must have shape {(rows, columns)} for {full}, got {found}")
    if a.rope is not None and a.positions * a.size > ANGLES:
        raise CheckpointError(
            f"must turn heads by at most {ANGLES} angles, got {a.positions} positions of size {a.size}"
        )
    if a.recurrent:
        if a.depth > DEPTH:
            raise CheckpointError(f"must apply its block at most {DEPTH} times, got {a.depth}")
        return
    start = model.prefix + layout.block.partition("{}")[0]
    layers = {
        name[len(start) :].partition(".")[0] for name in model.weights if name.startswith(start)
    }
    lost = next((i for i in range(min(a.depth, len(layers) + 1)) if str(i) not in layers), None)
    if lost is not None:
        raise CheckpointError(f"must have tensors of {a.depth} layers, got none of layer {lost}")


def configured(config: Mapping[str, Any]) -> Architecture:
    """The architecture that config.json of a Hugging Face checkpoint tells."""
    return _named(CONFIGURED, "model_type", config)


def described(metadata: Mapping[str, Any]) -> Architecture:
    """The architecture that the metadata of a GGUF file tell."""
    return _named(DESCRIBED, "general.architecture", metadata)


def _named(layouts: Mapping[str, Layout], key: str, facts: Mapping[str, Any]) -> Architecture:
    kind = facts.get(key)
    if not isinstance(kind, str) or kind not in layouts:
        raise CheckpointError(f"{key} must be one of {', '.join(layouts)}, got {describe(kind)}")
    return layouts[kind].architecture(facts)
