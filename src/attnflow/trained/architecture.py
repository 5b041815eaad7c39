"""What all transformers here have in common: sizes, the weights of a block, how they are found.

A block is the same few matrices in every architecture; what differs is their names, whether
queries, keys and values lie apart or fused, and which way round a matrix is stored. Each
architecture has a file of its own that ends in a :class:`Layout`; ``kinds`` lists them.
Configurations are read by exact rules: a setting that would change the arithmetic and is not
supported is an error, never ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from attnflow.trained.weights import CheckpointError, Weights, describe

Floats = NDArray[np.floating[Any]]

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
    causal: bool  #: whether a token sees those before it only
    normalises_first: bool  #: x + f(N(x)), not N(x + f(x))
    recurrent: bool = False  #: one block applied again and again, so that its depth is a time
    types: int = 0  #: kinds of segments that have a vector of their own
    rope: float | None = None  #: base of the rotations


class Norm(NamedTuple):
    """A normalisation of tokens.

    >>> Norm(np.ones(2), None).bias is None
    True
    """

    weight: Floats
    bias: Floats | None  #: None: no centring and no shift, as Llama has it


class Block(NamedTuple):
    """The weights of one layer; matrices act on rows as x @ M.T."""

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


class Parts(NamedTuple):
    """How the arrays of a block are called, after the name of the block and without weight or bias."""

    attention: tuple[str, ...]
    perceptron: tuple[str, ...]
    writers: tuple[str, ...]  #: those of the above whose product is added to the tokens


class Reader:
    """Reads tensors by name, of the shape they must have."""

    def __init__(self, weights: Weights, dtype: DTypeLike, prefix: str = "") -> None:
        self.weights, self.dtype, self.prefix = weights, dtype, prefix

    @classmethod
    def beside(cls, weights: Weights, dtype: DTypeLike, anchor: str) -> Reader:
        """A reader of the model whose word vectors are called `anchor`, whatever comes before."""
        ends = [name for name in weights if name == anchor or name.endswith("." + anchor)]
        if len(ends) != 1:
            raise CheckpointError(
                f"{weights.path.name} must hold one {anchor}, got {len(ends) or 'none'}"
            )
        return cls(weights, dtype, ends[0].removesuffix(anchor))

    @property
    def root(self) -> Reader:
        """A reader of what lies outside the model, such as the language head's weights."""
        return Reader(self.weights, self.dtype)

    def __call__(self, name: str, *shape: int) -> Floats:
        """The tensor `name` of the model."""
        full = self.prefix + name
        if full not in self.weights:
            full = full.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta")
        if full not in self.weights:
            raise CheckpointError(
                f"{self.weights.path.name} must hold {self.prefix}{name}, and does not"
            )
        if (found := self.weights.shape(full)) != shape:
            raise CheckpointError(f"{full} must have shape {shape}, got {found}")
        return self.weights[full].astype(self.dtype, copy=False)

    def norm(self, name: str, width: int) -> Norm:
        """A normalisation with weight and bias."""
        return Norm(self(f"{name}.weight", width), self(f"{name}.bias", width))


class Layout(NamedTuple):
    """Where an architecture keeps its weights, and how it begins and ends."""

    words: str  #: the name of the word vectors, by which a model is found in a file
    positions: str | None  #: the name of learnt position vectors
    types: str | None  #: the name of the vectors of segments
    block: str  #: the beginning of the names in a block, with {} for its number
    parts: Parts
    architecture: Callable[[Mapping[str, Any]], Architecture]  #: from what a file says of itself
    read: Callable[[Architecture, Reader, str], Block]  #: the block whose names begin like that
    enter: Callable[[Architecture, Reader, Floats], Floats]  #: from embedded to the first block
    logits: Callable[[Architecture, Reader, Floats, Floats], Floats]
    #: from tokens that left the last block, and word vectors, to the scores of words


# --- reading configurations ----------------------------------------------------------------------


def whole(config: Mapping[str, Any], key: str) -> int:
    """A size.

    >>> whole({"n_head": 12}, "n_head")
    12
    """
    value = config.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise CheckpointError(f"{key} must be a whole number >= 1, got {describe(value)}")
    return value


def number(config: Mapping[str, Any], key: str, default: float) -> float:
    """A positive number.

    >>> number({}, "layer_norm_eps", 1e-12)
    1e-12
    """
    value = config.get(key, default)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < np.inf:
        raise CheckpointError(f"{key} must be a number > 0, got {describe(value)}")
    return float(value)


def activation(config: Mapping[str, Any], key: str, default: str) -> str:
    """The name of an activation that is known here.

    >>> activation({"hidden_act": "relu"}, "hidden_act", "gelu")
    'relu'
    """
    value = config.get(key, default)
    if value not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise CheckpointError(f"{key} must be one of {known}, got {describe(value)}")
    return str(value)


def must(config: Mapping[str, Any], key: str, value: Any) -> None:
    """Refuse a setting other than `value`.

    >>> must({"is_decoder": False}, "is_decoder", False)
    """
    found = config.get(key, value)
    if found != value or isinstance(found, bool) != isinstance(value, bool):
        raise CheckpointError(f"{key} must be {value!r}, got {describe(found)}")


def head_size(width: int, heads: int) -> int:
    """The size of a head where heads share the width among them.

    >>> head_size(768, 12)
    64
    """
    if width % heads:
        raise CheckpointError(f"the width must be a multiple of the heads, got {width} and {heads}")
    return width // heads
