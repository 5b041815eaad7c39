r"""Trained transformers, run in numpy so that every array along the way can be looked at.

A layer moves tokens twice: by attention, in which they see each other, then by a perceptron, each
token alone :cite:p:`vaswani2017`. With N a normalisation, some compute
:math:`x \leftarrow N(x + \mathrm{Att}(x))`, then :math:`x \leftarrow N(x + \mathrm{MLP}(x))`;
others normalise first, :math:`x \leftarrow x + \mathrm{Att}(N(x))`, then
:math:`x \leftarrow x + \mathrm{MLP}(N(x))`. A recurrent one applies one block again and again, so its
depth is a time and may be extended. ``forward`` keeps what each layer read and wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from attnflow import validate
from attnflow.attention.head import Head
from attnflow.rotation import Turn, rotate
from attnflow.trained.architecture import Architecture, Block, Floats, Norm, Reader
from attnflow.trained.kinds import LAYOUTS
from attnflow.trained.neural import activate, attention_weights, normalise
from attnflow.trained.tokens import Encode
from attnflow.trained.weights import Weights


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
        weights, sums = attention_weights(self.queries[layer], self.keys[layer], self.causal)
        return weights / sums


class Model:
    """A trained transformer. Weights are read when first needed, and kept."""

    def __init__(
        self,
        name: str,
        architecture: Architecture,
        weights: Weights,
        encode: Encode | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        a = architecture
        self.name, self.architecture, self.weights, self.dtype = name, a, weights, np.dtype(dtype)
        self.kind, self.depth, self.width, self.heads = a.kind, a.depth, a.width, a.heads
        self.positions, self.causal = a.positions, a.causal
        self.layout = LAYOUTS[a.kind]
        self._read = Reader.beside(weights, self.dtype, self.layout.words)
        self.prefix = self._read.prefix  #: what names of arrays begin with
        self._encode = encode
        self._blocks: dict[int, Block] = {}

    def __repr__(self) -> str:
        return f"Model({self.name!r}: {self.kind}, {self.depth} layers, {self.heads} heads, d={self.width})"

    # -- the transformer --

    def forward(self, ids_or_text: str | Sequence[int], *, depth: int | None = None) -> Trace:
        """Run a text or its token ids through the first `depth` layers, all unless told."""
        ids, depth, a = self._checked(ids_or_text), self._reached(depth), self.architecture
        n = len(ids)
        embedded = self._embed(ids)
        hidden = np.empty((depth + 1, n, a.width), self.dtype)
        inputs = hidden[:-1]
        if a.normalises_first:
            inputs = np.empty((depth, n, a.width), self.dtype)
        queries, keys, values = np.empty((3, depth, a.heads, n, a.size), self.dtype)
        hidden[0] = self.layout.enter(a, self._read, embedded)
        turn = None if self._angles is None else Turn.by(self._angles[:n], self.dtype)
        for index in range(depth):
            block, x = self._block(index), hidden[index]
            if a.normalises_first:
                inputs[index] = normalise(x, block.attention_norm, a.eps)
            q, k, v = self._project(block, inputs[index], turn)
            queries[index], keys[index], values[index] = q, k, v
            x = x + self._attend(block, queries[index], keys[index], values[index])
            if a.normalises_first:
                x += self._perceptron(block, normalise(x, block.mlp_norm, a.eps))
            else:
                x = normalise(x, block.attention_norm, a.eps)
                x = normalise(x + self._perceptron(block, x), block.mlp_norm, a.eps)
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

    def _project(self, block: Block, x: Floats, turn: Turn | None) -> tuple[Floats, Floats, Floats]:
        """Queries, keys and values of all heads, each (heads, n, k), in one product."""
        a = self.architecture
        rows: Floats = x @ block.qkv.T  # (n, (heads + 2 groups) k)
        if block.qkv_bias is not None:
            rows += block.qkv_bias
        stack = rows.reshape(len(x), -1, a.size).swapaxes(0, 1)  # (heads + 2 groups, n, k)
        q, k, v = np.split(stack, [a.heads, a.heads + a.groups])
        if turn is not None:
            q, k = rotate(q, turn), rotate(k, turn)
        if a.groups < a.heads:
            k, v = (np.repeat(z, a.heads // a.groups, axis=0) for z in (k, v))
        return q, k, v

    def _attend(self, block: Block, q: Floats, k: Floats, v: Floats) -> Floats:
        """Each token's average of values, all heads put together again, (n, d)."""
        weights, sums = attention_weights(q, k, self.causal)
        mixed = weights @ v  # (heads, n, k)
        mixed /= sums
        out = mixed.swapaxes(0, 1).reshape(q.shape[1], -1) @ block.out.T
        if block.out_bias is not None:
            out += block.out_bias
        return out

    def _perceptron(self, block: Block, x: Floats) -> Floats:
        inner: Floats = x @ block.up.T
        if block.up_bias is not None:
            inner += block.up_bias
        if block.gate is None:
            inner = activate(inner, self.architecture.activation)
        else:
            inner *= activate(x @ block.gate.T, self.architecture.activation)
        out = inner @ block.down.T
        if block.down_bias is not None:
            out += block.down_bias
        return out

    # -- what is asked of it --

    def encode(self, text: str) -> list[int]:
        """The token ids of a text, with the special tokens the model was trained with."""
        if self._encode is None:
            raise ValueError(f"{self.name} has no tokenizer beside its weights: pass token ids")
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"text must hold at least one word, got {text!r}")
        return self._encode(text)

    def attention_heads(self, layer: int, *, positions: int | None = None) -> tuple[Head, ...]:
        """The heads of a layer as maps of `Trace.inputs`, with 1/sqrt(k) in Q.

        Where queries and keys are turned, heads carry the angles of the first `positions` positions,
        of all that the model reads unless told.
        """
        positions = self.positions if positions is None else validate.count(positions, "positions")
        self._fits(positions)
        last = np.inf if self.architecture.recurrent else self.depth
        if not 0 <= layer < last:
            raise ValueError(f"layer must lie in [0, {last}), got {layer}")
        a, w = self.architecture, self._block(layer)
        matrices = w.qkv.astype(np.float64).reshape(-1, a.size, a.width)
        biases = None if w.qkv_bias is None else w.qkv_bias.astype(np.float64).reshape(-1, a.size)
        out = w.out.astype(np.float64)
        angles = None if self._angles is None else self._angles[:positions]
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

    def normalisation(self, layer: int) -> Norm:
        """The normalisation that makes what attention reads in a layer.

        In a network that normalises last it is that of the layer before, so the first has none here.
        """
        first = 0 if self.architecture.normalises_first else 1
        if not first <= layer < self.depth:
            raise ValueError(f"layer must lie in [{first}, {self.depth}), got {layer}")
        if self.architecture.normalises_first:
            return self._block(layer).attention_norm
        return self._block(layer - 1).mlp_norm

    def logits(self, trace: Trace) -> Floats:
        """Scores of every word at every token, shape (n, vocabulary): the language head."""
        return self.layout.logits(self.architecture, self._read, trace.hidden[-1], self._words)

    @cached_property
    def position_vectors(self) -> Floats | None:
        """Learnt positions, (positions, d), where the model has them."""
        a, name = self.architecture, self.layout.positions
        return None if name is None else self._read(name, a.positions, a.embedding)

    # -- weights, read once --

    @cached_property
    def _words(self) -> Floats:
        a = self.architecture
        return self._read(self.layout.words, a.vocabulary, a.embedding)

    @cached_property
    def _type(self) -> Floats | None:
        a, name = self.architecture, self.layout.types
        return None if name is None else self._read(name, a.types, a.embedding)[0]

    def _block(self, index: int) -> Block:
        index = 0 if self.architecture.recurrent else index
        if index not in self._blocks:
            at = self.layout.block.format(index)
            self._blocks[index] = self.layout.read(self.architecture, self._read, at)
        return self._blocks[index]

    @cached_property
    def _angles(self) -> validate.Array | None:
        """By how much position i turns the pair c, (positions, k/2)."""
        a = self.architecture
        if a.rope is None:
            return None
        half = a.size // 2
        return np.outer(np.arange(a.positions), a.rope ** (-np.arange(half) / half))

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

    def _reached(self, depth: int | None) -> int:
        asked = self.depth if depth is None else validate.count(depth, "depth", minimum=0)
        if asked > self.depth and not self.architecture.recurrent:
            raise ValueError(f"{self.name} has {self.depth} layers, got depth={depth}")
        return asked
