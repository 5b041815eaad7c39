r"""Trained transformers, run in numpy so that every array along the way can be looked at.

A layer moves tokens twice: by attention, in which they see each other, then by a perceptron, each
token alone. With N a normalisation, BERT and ALBERT compute
:math:`x \leftarrow N(x + \mathrm{Att}(x))`, then :math:`x \leftarrow N(x + \mathrm{MLP}(x))`;
GPT-2 and Llama compute :math:`x \leftarrow x + \mathrm{Att}(N(x))`, then
:math:`x \leftarrow x + \mathrm{MLP}(N(x))`. ALBERT applies one layer again and again, so its depth
is a time and may be extended. ``forward`` keeps what each layer read and wrote.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from attnflow import assets, validate
from attnflow.attention.head import Head
from attnflow.trained import layouts, tokens
from attnflow.trained.checkpoints import CheckpointError, Weights, open_weights
from attnflow.trained.layouts import Architecture, Floats, Layer, Norm
from attnflow.trained.neural import activate, normalise, rotate, softmax

NAMES = ("minilm", "albert", "smollm2", "iglm")


class Trace(NamedTuple):
    """What happened to n tokens in L layers."""

    ids: NDArray[np.int64]  #: (n,)
    embedded: Floats  #: (n, d), sums of word, position and type vectors; ALBERT's are narrower
    hidden: Floats  #: (L + 1, n, d), what enters the first layer and what leaves each
    inputs: Floats  #: (L, n, d), what attention reads: `hidden`, or its normalised version
    queries: Floats  #: (L, heads, n, k), after bias and rotation, without 1/sqrt(k)
    keys: Floats  #: (L, heads, n, k), repeated where heads share them
    values: Floats  #: (L, heads, n, k)
    causal: bool

    def attention(self, layer: int) -> Floats:
        """The softmax matrices of a layer, shape (heads, n, n)."""
        if not 0 <= layer < len(self.queries):
            raise ValueError(f"layer must lie in [0, {len(self.queries)}), got {layer}")
        weights, sums = softmax(self.queries[layer], self.keys[layer], self.causal)
        return weights / sums


class Model:
    """A trained transformer. Weights are read when first needed, and kept."""

    def __init__(
        self,
        name: str,
        architecture: Architecture,
        weights: Weights,
        encode: tokens.Encode | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        a = architecture
        self.name, self.architecture, self.weights, self.dtype = name, a, weights, np.dtype(dtype)
        self.kind, self.depth, self.width, self.heads = a.kind, a.depth, a.width, a.heads
        self.positions, self.causal = a.positions, a.causal
        self._read = layouts.Reader(weights, layouts.ANCHORS[a.kind], self.dtype)
        self._encode = encode
        self._layers: dict[int, Layer] = {}

    def __repr__(self) -> str:
        return f"Model({self.name!r}: {self.kind}, {self.depth} layers, {self.heads} heads, d={self.width})"

    # -- the transformer --

    def forward(self, ids_or_text: str | Sequence[int], *, layers: int | None = None) -> Trace:
        """Run a text or its token ids through the first `layers` layers, all unless told."""
        ids, depth, a = self._checked(ids_or_text), self._depth(layers), self.architecture
        n = len(ids)
        embedded = self._embed(ids)
        hidden = np.empty((depth + 1, n, a.width), self.dtype)
        inputs = np.empty((depth, n, a.width), self.dtype) if self.causal else hidden[:-1]
        queries, keys, values = np.empty((3, depth, a.heads, n, a.size), self.dtype)
        hidden[0] = self._enter(embedded)
        for index in range(depth):
            layer, x = self._layer(index), hidden[index]
            if self.causal:
                inputs[index] = normalise(x, layer.attention_norm, a.eps)
            q, k, v = self._project(layer, inputs[index])
            queries[index], keys[index], values[index] = q, k, v
            x = x + self._attend(layer, queries[index], keys[index], values[index])
            if self.causal:
                x += self._perceptron(layer, normalise(x, layer.mlp_norm, a.eps))
            else:
                x = normalise(x, layer.attention_norm, a.eps)
                x = normalise(x + self._perceptron(layer, x), layer.mlp_norm, a.eps)
            hidden[index + 1] = x
        return Trace(ids, embedded, hidden, inputs, queries, keys, values, self.causal)

    def _embed(self, ids: NDArray[np.int64]) -> Floats:
        """Word vectors, plus those of positions and of the first type where there are any."""
        out = self._words[ids]  # (n, embedding), a copy
        if self.position_vectors is not None:
            out += self.position_vectors[: len(ids)]
        if self._type is not None:
            out += self._type
        return out

    def _enter(self, embedded: Floats) -> Floats:
        """What enters the first layer: normalised by BERT and ALBERT, then widened by ALBERT."""
        a, read = self.architecture, self._read
        if self.causal:
            return embedded
        x = normalise(embedded, read.norm("embeddings.LayerNorm", a.embedding), a.eps)
        if self.kind == "bert":
            return x
        widen = "encoder.embedding_hidden_mapping_in"
        return x @ read(f"{widen}.weight", a.width, a.embedding).T + read(f"{widen}.bias", a.width)

    def _project(self, layer: Layer, x: Floats) -> tuple[Floats, Floats, Floats]:
        """Queries, keys and values of all heads, each (heads, n, k), in one product."""
        a = self.architecture
        rows: Floats = x @ layer.qkv.T  # (n, (heads + 2 groups) k)
        if layer.qkv_bias is not None:
            rows += layer.qkv_bias
        stack = rows.reshape(len(x), -1, a.size).swapaxes(0, 1)  # (heads + 2 groups, n, k)
        q, k, v = np.split(stack, [a.heads, a.heads + a.groups])
        if (angles := self._angles(len(x))) is not None:
            q, k = rotate(q, angles), rotate(k, angles)
        if a.groups < a.heads:
            k, v = (np.repeat(z, a.heads // a.groups, axis=0) for z in (k, v))
        return q, k, v

    def _attend(self, layer: Layer, q: Floats, k: Floats, v: Floats) -> Floats:
        """Each token's average of values, all heads put together again, (n, d)."""
        weights, sums = softmax(q, k, self.causal)
        mixed = weights @ v  # (heads, n, k)
        mixed /= sums
        out = mixed.swapaxes(0, 1).reshape(q.shape[1], -1) @ layer.out.T
        if layer.out_bias is not None:
            out += layer.out_bias
        return out

    def _perceptron(self, layer: Layer, x: Floats) -> Floats:
        inner: Floats = x @ layer.up.T
        if layer.up_bias is not None:
            inner += layer.up_bias
        if layer.gate is None:
            inner = activate(inner, self.architecture.activation)
        else:
            inner *= activate(x @ layer.gate.T, self.architecture.activation)
        out = inner @ layer.down.T
        if layer.down_bias is not None:
            out += layer.down_bias
        return out

    # -- what is asked of it --

    def encode(self, text: str) -> list[int]:
        """The token ids of a text, with the special tokens the model was trained with."""
        if self._encode is None:
            raise ValueError(f"{self.name} has no tokenizer beside its weights: pass token ids")
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"text must hold at least one word, got {text!r}")
        return self._encode(text)

    def attention_heads(self, layer: int, n: int) -> tuple[Head, ...]:
        """The heads of a layer as maps of `Trace.inputs`, with 1/sqrt(k) in Q, for n tokens."""
        n = validate.count(n, "n")
        self._fits(n)
        last = self.depth if self.kind != "albert" else np.inf
        if not 0 <= layer < last:
            raise ValueError(f"layer must lie in [0, {last}), got {layer}")
        a, w = self.architecture, self._layer(layer)
        matrices = w.qkv.astype(np.float64).reshape(-1, a.size, a.width)
        biases = None if w.qkv_bias is None else w.qkv_bias.astype(np.float64).reshape(-1, a.size)
        out = w.out.astype(np.float64)
        angles = self._angles(n)
        heads = []
        for h in range(a.heads):
            key = a.heads + h * a.groups // a.heads
            heads.append(
                Head(
                    Q=matrices[h] / np.sqrt(a.size),
                    K=matrices[key],
                    V=matrices[key + a.groups],
                    W=out[:, h * a.size : (h + 1) * a.size],
                    causal=self.causal,
                    bq=None if biases is None else biases[h] / np.sqrt(a.size),
                    bk=None if biases is None else biases[key],
                    angles=angles,
                )
            )
        return tuple(heads)

    def logits(self, trace: Trace) -> Floats:
        """Scores of every word at every token, shape (n, vocabulary): the language head."""
        a, read = self.architecture, self._read
        x = trace.hidden[-1]
        if self.kind == "gpt2":
            x = normalise(x, read.norm("ln_f", a.width), a.eps)
            return x @ self._output("lm_head.weight").T
        if self.kind == "llama":
            x = normalise(x, Norm(read("output_norm.weight", a.width), None), a.eps)
            return x @ self._output("output.weight").T
        at = "predictions." if self.kind == "albert" else "cls.predictions."
        dense = at if self.kind == "albert" else at + "transform."
        if f"{dense}dense.weight" not in self.weights:
            raise ValueError(f"{self.name} has no language head: there is no {dense}dense.weight")
        x = x @ read(f"{dense}dense.weight", a.embedding, a.width, root=True).T
        x = activate(x + read(f"{dense}dense.bias", a.embedding, root=True), a.activation)
        x = normalise(x, read.norm(f"{dense}LayerNorm", a.embedding, root=True), a.eps)
        return x @ self._output(f"{at}decoder.weight").T + read(
            f"{at}bias", a.vocabulary, root=True
        )

    @cached_property
    def position_vectors(self) -> Floats | None:
        """Learnt positions, (positions, d), where the model has them."""
        a = self.architecture
        names = {"gpt2": "wpe.weight", "llama": None}
        name = names.get(self.kind, "embeddings.position_embeddings.weight")
        return None if name is None else self._read(name, a.positions, a.embedding)

    # -- weights, read once --

    @cached_property
    def _words(self) -> Floats:
        a = self.architecture
        return self._read(layouts.ANCHORS[self.kind], a.vocabulary, a.embedding)

    @cached_property
    def _type(self) -> Floats | None:
        if self.causal:
            return None
        name, a = "embeddings.token_type_embeddings.weight", self.architecture
        return self._read(name, a.types, a.embedding)[0]

    def _layer(self, index: int) -> Layer:
        index = 0 if self.kind == "albert" else index
        if index not in self._layers:
            self._layers[index] = layouts.read_layer(self.architecture, self._read, index)
        return self._layers[index]

    def _output(self, name: str) -> Floats:
        """The matrix of the language head: its own, or the word vectors."""
        if name not in self.weights:
            return self._words
        return self._read(name, *self._words.shape, root=True)

    def _angles(self, n: int) -> validate.Array | None:
        """By how much position i turns the pair c, (n, k/2)."""
        if self.architecture.rope is None:
            return None
        half = self.architecture.size // 2
        return np.outer(np.arange(n), self.architecture.rope ** (-np.arange(half) / half))

    # -- checks --

    def _checked(self, ids_or_text: str | Sequence[int]) -> NDArray[np.int64]:
        raw = self.encode(ids_or_text) if isinstance(ids_or_text, str) else ids_or_text
        ids = np.asarray(raw)
        if ids.ndim != 1 or ids.size == 0 or ids.dtype.kind not in "iu":
            raise ValueError(f"ids must be a list of at least one whole number, got {raw!r:.80}")
        self._fits(len(ids))
        if ids.min() < 0 or ids.max() >= self.architecture.vocabulary:
            wrong = ids[(ids < 0) | (ids >= self.architecture.vocabulary)][0]
            raise ValueError(f"ids must lie in [0, {self.architecture.vocabulary}), got {wrong}")
        return ids.astype(np.int64)

    def _fits(self, n: int) -> None:
        if n > self.positions:
            raise ValueError(f"{self.name} reads at most {self.positions} tokens, got {n}")

    def _depth(self, layers: int | None) -> int:
        depth = self.depth if layers is None else validate.count(layers, "layers", minimum=0)
        if depth > self.depth and self.kind != "albert":
            raise ValueError(f"{self.name} has {self.depth} layers, got layers={layers}")
        return depth


# --- loading -------------------------------------------------------------------------------------


def load(
    name_or_directory: str | Path, *, dtype: DTypeLike = np.float32, accept_licence: bool = False
) -> Model:
    """A model by name, or from a directory with config.json and weights, or a GGUF file."""
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
        architecture = layouts.from_metadata(weights.metadata)
        return Model(name, architecture, weights, tokens.from_metadata(weights.metadata), dtype)
    architecture = layouts.from_config(_json(path / "config.json"))
    encode = tokens.from_directory(path, architecture.causal)
    return Model(name, architecture, open_weights(path), encode, dtype)


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise CheckpointError(f"{path.name} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise CheckpointError(f"{path.name} must hold a JSON object, got {type(found).__name__}")
    return found
