"""A trained model, found by its name or by its place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from attnflow import assets
from attnflow.trained import tokens
from attnflow.trained.architecture import Architecture, Layout
from attnflow.trained.checkpoints import open_weights
from attnflow.trained.kinds import CONFIGURED, DESCRIBED
from attnflow.trained.model import Model
from attnflow.trained.weights import CheckpointError

NAMES = ("minilm", "albert", "smollm2", "iglm")


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
    if not (path / "config.json").is_file():
        weights = open_weights(path)
        if "general.architecture" not in weights.metadata:
            raise CheckpointError(
                f"{path.name} must be a directory with config.json or a GGUF file"
            )
        if "rope_freqs.weight" in weights:
            raise CheckpointError(
                f"{path.name} must rotate by powers of a base, got its own angles"
            )
        architecture = described(weights.metadata)
        return Model(name, architecture, weights, tokens.from_metadata(weights.metadata), dtype)
    architecture = configured(_json(path / "config.json"))
    encode = tokens.from_directory(path, architecture.causal)
    return Model(name, architecture, open_weights(path), encode, dtype)


def configured(config: Mapping[str, Any]) -> Architecture:
    """The architecture that config.json of a Hugging Face checkpoint tells."""
    return _named(CONFIGURED, "model_type", config)


def described(metadata: Mapping[str, Any]) -> Architecture:
    """The architecture that the metadata of a GGUF file tell."""
    return _named(DESCRIBED, "general.architecture", metadata)


def _named(layouts: Mapping[str, Layout], key: str, facts: Mapping[str, Any]) -> Architecture:
    kind = str(facts.get(key))
    if kind not in layouts:
        raise CheckpointError(f"{key} must be one of {', '.join(layouts)}, got {kind!r}")
    return layouts[kind].architecture(facts)


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise CheckpointError(f"{path.name} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise CheckpointError(f"{path.name} must hold a JSON object, got {type(found).__name__}")
    return found
