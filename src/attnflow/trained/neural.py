"""The functions between a transformer's matrices: normalisation, activation, rotation, softmax.

All keep the precision they are given: float32 in, float32 out.
"""

from __future__ import annotations

import numpy as np
from scipy.special import erf

from attnflow.trained.layouts import Floats, Norm
from attnflow.validate import Array


def normalise(x: Floats, norm: Norm, eps: float) -> Floats:
    """Rows of variance one, scaled and shifted; without a bias, of mean square one and scaled."""
    out = x - x.mean(axis=-1, keepdims=True) if norm.bias is not None else x.copy()
    squares = np.einsum("ij,ij->i", out, out)[:, None] / x.dtype.type(x.shape[-1])
    out *= 1 / np.sqrt(squares + x.dtype.type(eps))
    out *= norm.weight
    if norm.bias is not None:
        out += norm.bias
    return out


def activate(x: Floats, name: str) -> Floats:
    """The function between the two matrices of a perceptron; may overwrite x."""
    one = x.dtype.type
    if name == "relu":
        return np.maximum(x, 0, out=x)
    if name == "silu":
        with np.errstate(over="ignore"):
            return x / (1 + np.exp(-x))
    if name == "gelu":
        factor = erf(x * one(np.sqrt(0.5)))
    else:
        factor = np.tanh(one(np.sqrt(2 / np.pi)) * x * (1 + one(0.044715) * x * x))
    factor += 1
    factor *= x
    factor *= one(0.5)
    return factor


def rotate(x: Floats, angles: Array) -> Floats:
    """Coordinates c and c + k/2 of token i turned by angles[i, c]; x is (heads, n, k)."""
    cos, sin = np.cos(angles).astype(x.dtype), np.sin(angles).astype(x.dtype)
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)


def softmax(q: Floats, k: Floats, causal: bool) -> tuple[Floats, Floats]:
    """exp of scores minus their largest, (heads, n, n), and the sums of its rows."""
    scores = (q / q.dtype.type(np.sqrt(q.shape[-1]))) @ k.swapaxes(1, 2)
    if causal:
        n = q.shape[1]
        scores += np.triu(np.full((n, n), -np.inf, q.dtype), 1)
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    return scores, scores.sum(axis=-1, keepdims=True)
