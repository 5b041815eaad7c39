r"""The derivative of a trained network at a text, as products: of a sublayer, of a layer, of all.

A sublayer is :math:`N(x + \mathrm{Att}(x))` or :math:`x + \mathrm{Att}(N(x))`, and the same with the
perceptron :cite:p:`vaswani2017`; its derivative is a product of a few factors, each of which knows
how to push a change of the tokens forward and to pull an answer back. The norm of such a product,
the local Lipschitz constant of :cite:t:`castin2024`, comes from SciPy's truncated singular values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from scipy.sparse.linalg import LinearOperator, svds
from scipy.special import ndtr

from attnflow import validate
from attnflow.lipschitz.jacobian import Linearised
from attnflow.trained.architecture import Block, Floats, Norm
from attnflow.trained.model import Model, Trace
from attnflow.trained.neural import normalise
from attnflow.validate import Array

#: What may be differentiated; "attention" alone is without residual connection and normalisation.
PARTS = ("attention", "sublayer", "layer")
#: Vectors that the iterations keep. Twenty, as scipy would, are more than a rough answer needs: a third
#: of the products is saved at a tolerance of 1e-2, and none is added at 1e-8.
BASIS = 12


class Factor(Protocol):
    """A linear map of tokens, (n, d) to (n, d)."""

    def push(self, e: Array) -> Array: ...
    def pull(self, u: Array) -> Array: ...


class Plus(NamedTuple):
    """The identity plus the product of some factors: a residual connection."""

    inner: tuple[Factor, ...]

    def push(self, e: Array) -> Array:
        return e + _push(self.inner, e)

    def pull(self, u: Array) -> Array:
        return u + _pull(self.inner, u)


class Normalised(NamedTuple):
    """The derivative of a normalisation of rows."""

    y: Array  #: (n, d), rows, centred where the normalisation centres
    r: Array  #: (n, 1), their root mean squares
    norm: Norm

    @classmethod
    def at(cls, x: Floats, norm: Norm, eps: float) -> Normalised:
        y = np.asarray(x, np.float64)
        if norm.bias is not None:
            y = y - y.mean(axis=1, keepdims=True)
        return cls(y, np.sqrt(np.mean(y**2, axis=1, keepdims=True) + eps), norm)

    def push(self, e: Array) -> Array:
        return self.norm.weight * self._unscaled(e)

    def pull(self, u: Array) -> Array:
        return self._unscaled(self.norm.weight * u)

    def _unscaled(self, e: Array) -> Array:
        """Symmetric: the part of e across the row, and across the ones where they are centred."""
        if self.norm.bias is not None:
            e = e - e.mean(axis=1, keepdims=True)
        along = np.mean(self.y * e, axis=1, keepdims=True) / self.r**2
        return (e - along * self.y) / self.r


class Perceptron(NamedTuple):
    """The derivative of a perceptron: down (a * up + b * gate)."""

    block: Block
    a: Array  #: (n, inner)
    b: Array | float  #: (n, inner) where there is a gate

    @classmethod
    def at(cls, block: Block, x: Floats, activation: str) -> Perceptron:
        inner = np.asarray(x @ block.up.T, np.float64)
        if block.up_bias is not None:
            inner = inner + block.up_bias
        if block.gate is None:
            return cls(block, slope(inner, activation)[1], 0.0)
        value, rise = slope(np.asarray(x @ block.gate.T, np.float64), activation)
        return cls(block, value, rise * inner)

    def push(self, e: Array) -> Array:
        inner = self.a * (e @ self.block.up.T)
        if self.block.gate is not None:
            inner = inner + self.b * (e @ self.block.gate.T)
        return np.asarray(inner @ self.block.down.T)

    def pull(self, u: Array) -> Array:
        inner = u @ self.block.down
        out = (self.a * inner) @ self.block.up
        if self.block.gate is not None:
            out = out + (self.b * inner) @ self.block.gate
        return np.asarray(out)


def slope(x: Array, activation: str) -> tuple[Array, Array]:
    """An activation and its derivative.

    >>> value, rise = slope(np.array([0.0, 2.0]), "gelu")
    >>> value.round(4), rise.round(4)
    (array([0.    , 1.9545]), array([0.5   , 1.0852]))
    """
    if activation == "relu":
        return np.maximum(x, 0), (x > 0).astype(x.dtype)
    if activation == "silu":
        s = 1 / (1 + np.exp(-x))
        return x * s, s * (1 + x * (1 - s))
    if activation == "gelu":
        s = ndtr(x)
        return x * s, s + x * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
    c = np.sqrt(2 / np.pi)
    t = np.tanh(c * (x + 0.044715 * x**3))
    return x * (1 + t) / 2, (1 + t) / 2 + x * (1 - t**2) * c * (1 + 3 * 0.044715 * x**2) / 2


class Derivative(NamedTuple):
    """The derivative of a part of a network at a text: a product, the first factor acting first."""

    factors: tuple[Factor, ...]
    n: int
    d: int

    def push(self, e: Array) -> Array:
        """J e, (n, d) to (n, d)."""
        return _push(self.factors, e)

    def pull(self, u: Array) -> Array:
        """The transpose applied to u."""
        return _pull(self.factors, u)

    def norm(self, tol: float = 1e-4, seed: int = 0) -> float:
        """The largest singular value, to a relative error of about `tol`."""
        return self.triple(tol, seed)[1]

    def triple(self, tol: float = 1e-4, seed: int = 0) -> tuple[Array, float, Array]:
        """Left vector, largest singular value, right vector; vectors as tokens, (n, d)."""
        tol = validate.positive(tol, "tol")
        size = self.n * self.d

        def flat(act: object) -> object:
            return lambda v: act(v.reshape(self.n, self.d)).ravel()  # type: ignore[operator]

        J = LinearOperator(
            (size, size), matvec=flat(self.push), rmatvec=flat(self.pull), dtype=np.float64
        )
        start = np.random.default_rng(validate.count(seed, "seed", 0)).standard_normal(size)
        # svds iterates on J^T J, whose eigenvalue has twice the relative error
        left, value, right = svds(J, k=1, v0=start, tol=tol, ncv=min(BASIS, size), solver="arpack")
        shape = (self.n, self.d)
        return left[:, 0].reshape(shape), float(value[0]), right[0].reshape(shape)


def derivative(
    model: Model, trace: Trace, first: int, last: int | None = None, part: str = "layer"
) -> Derivative:
    r"""Of the layers `first` to `last` (not included; one layer unless told) at what they read.

    With `part` "attention" it is that of a layer's attention alone, :math:`\sum_hW_hf_h`, at
    ``trace.inputs``; with "sublayer" that of attention with its residual connection and its
    normalisation, at ``trace.hidden``; with "layer" the perceptron follows.
    """
    part = validate.choice(part, "part", PARTS)
    last = first + 1 if last is None else last
    if not 0 <= first < last <= len(trace.inputs):
        raise ValueError(
            f"layers must satisfy 0 <= first < last <= {len(trace.inputs)}, got {first}, {last}"
        )
    if part != "layer" and last > first + 1:
        raise ValueError(f"{part} is that of one layer, got layers {first} to {last}")
    factors: list[Factor] = []
    for index in range(first, last):
        factors += _factors(model, trace, index, part)
    n, d = trace.inputs[0].shape
    return Derivative(tuple(factors), n, d)


def _factors(model: Model, trace: Trace, index: int, part: str) -> Sequence[Factor]:
    a, block = model.architecture, _double(model._block(index))
    x = trace.hidden[index].astype(np.float64)
    n = len(x)
    read = normalise(x, block.attention_norm, a.eps) if a.normalises_first else x
    heads = model.attention_heads(index, positions=n)
    attend = Linearised(heads, read)
    if part == "attention":
        return [attend]
    before: list[Factor] = (
        [Normalised.at(x, block.attention_norm, a.eps)] if a.normalises_first else []
    )
    out: list[Factor] = [Plus((*before, attend))]
    q, k, v = (z[index].astype(np.float64) for z in (trace.queries, trace.keys, trace.values))
    x = x + model._attend(block, q, k, v)
    if not a.normalises_first:
        out.append(Normalised.at(x, block.attention_norm, a.eps))
        x = normalise(x, block.attention_norm, a.eps)
    if part == "sublayer":
        return out
    read = normalise(x, block.mlp_norm, a.eps) if a.normalises_first else x
    inner: list[Factor] = [Normalised.at(x, block.mlp_norm, a.eps)] if a.normalises_first else []
    out.append(Plus((*inner, Perceptron.at(block, read, a.activation))))
    if not a.normalises_first:
        x = x + model._perceptron(block, x)
        out.append(Normalised.at(x, block.mlp_norm, a.eps))
    return out


def _double(block: Block) -> Block:
    """The weights in double precision."""

    def wide(value: object) -> object:
        if isinstance(value, Norm):
            return Norm(*(wide(y) for y in value))  # type: ignore[arg-type]
        return None if value is None else np.asarray(value, np.float64)

    return Block(*(wide(value) for value in block))  # type: ignore[arg-type]


def _push(factors: Sequence[Factor], e: Array) -> Array:
    for factor in factors:
        e = factor.push(e)
    return e


def _pull(factors: Sequence[Factor], u: Array) -> Array:
    for factor in reversed(factors):
        u = factor.pull(u)
    return u
