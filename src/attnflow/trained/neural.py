"""The functions between a transformer's matrices: normalisation, activation, attention.

All keep the precision they are given: float32 in, float32 out.
"""

from __future__ import annotations

import numpy as np
from scipy.special import erf

from attnflow.softmax import exponentials, hide_future
from attnflow.trained.architecture import Floats, Norm


def normalise(x: Floats, norm: Norm, eps: float) -> Floats:
    """Rows of variance one, scaled and shifted; without a bias, of mean square one and scaled.

    >>> normalise(np.array([[1.0, 3.0]]), Norm(np.ones(2), np.zeros(2)), 0.0)
    array([[-1.,  1.]])
    >>> normalise(np.array([[7.0, 1.0]]), Norm(np.ones(2), None), 0.0)
    array([[1.4, 0.2]])
    """
    out = x - x.mean(axis=-1, keepdims=True) if norm.bias is not None else x.copy()
    squares = np.einsum("ij,ij->i", out, out)[:, None] / x.dtype.type(x.shape[-1])
    out *= 1 / np.sqrt(squares + x.dtype.type(eps))
    out *= norm.weight
    if norm.bias is not None:
        out += norm.bias
    return out


def root_mean_square(x: Floats) -> float:
    """The root of the mean square length of tokens, (n, d) to a number.

    >>> round(root_mean_square(np.array([[3.0, 4.0], [0.0, 1.0]])) ** 2, 9)
    13.0
    """
    return float(np.sqrt(np.einsum("ij,ij->", x, x, dtype=np.float64) / len(x)))


def activate(x: Floats, name: str) -> Floats:
    """The function between the two matrices of a perceptron; may overwrite x.

    >>> activate(np.array([-1.0, 0.0, 2.0]), "gelu").round(4)
    array([-0.1587,  0.    ,  1.9545])
    """
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


def attention_weights(q: Floats, k: Floats, causal: bool) -> tuple[Floats, Floats]:
    r"""exp of the scores :math:`\langle q_i, k_j\rangle/\sqrt k` less their largest, and its row sums.

    q and k are (heads, n, k), the first of the two results is (heads, n, n). Their quotient is the
    attention matrix of :cite:t:`vaswani2017`; the sums are apart because it is cheaper to divide
    the few columns of what attention averages.

    >>> weights, sums = attention_weights(np.zeros((1, 2, 4)), np.zeros((1, 2, 4)), True)
    >>> weights / sums
    array([[[1. , 0. ],
            [0.5, 0.5]]])
    """
    scores = (q / q.dtype.type(np.sqrt(q.shape[-1]))) @ k.swapaxes(1, 2)
    weights, sums, _ = exponentials(hide_future(scores) if causal else scores)
    return weights, sums
