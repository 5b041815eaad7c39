"""Trained models in memory, one at a time, and the activations that transformers computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_checkpoints as tiny
from memory import give_back
from numpy.typing import NDArray

from attnflow import assets
from attnflow.trained import Model, Trace, load
from attnflow.trained.architecture import Block

REACTION = "CC(C)S.CN(C)C=O.Fc1cccnc1F.O=C([O-])[O-].[K+].[K+]>>CC(C)Sc1ncccc1F"
KINDS = pytest.mark.parametrize("kind", tiny.CONFIGS)


@cache
def reference() -> Mapping[str, NDArray[Any]]:
    with np.load(Path(__file__).parent / "data" / "reference_activations.npz") as file:
        return dict(file)


@cache
def alice() -> str:
    return (assets.fetch("alice") / "carroll-alice.txt").read_text("latin-1")


@lru_cache(1)
def single(name: str) -> Model:
    """A model whose weights stay in memory until another is asked for, or a file of tests ends."""
    give_back()
    return load(name)


class OneBlock(dict[int, Block]):
    """The blocks a model has read, of which it keeps the last one only."""

    def __setitem__(self, index: int, block: Block) -> None:
        self.clear()
        super().__setitem__(index, block)


def model(name: str, dtype: str = "float32") -> Model:
    """A model; in double precision it would fill a gigabyte, so it forgets what it has used."""
    if dtype == "float32":
        return single(name)
    double = load(name, dtype=dtype)
    double._blocks = OneBlock()
    return double


@pytest.fixture(scope="module")
def memory_given_back() -> Iterator[None]:
    """For files whose tests load models: the last one goes with them."""
    yield
    single.cache_clear()


def error(found: NDArray[Any], expected: NDArray[Any]) -> float:
    """The largest difference over the largest entry, at the worst index of the first axis."""
    assert found.shape == expected.shape
    rows = zip(found, expected, strict=True)
    return max(float(np.abs(f - e).max() / np.abs(e).max()) for f, e in rows)


def matrices(trace: Trace, layers: tuple[int, ...], step: int = 10) -> NDArray[Any]:
    return np.stack([trace.attention(layer)[:, ::step] for layer in layers])
