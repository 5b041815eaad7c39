"""What every public function asks of its arguments, stated once.

Each function returns its argument as a clean float64 array or number, or raises a
``ValueError`` that states the rule and the value received. Nothing here computes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

#: Weights come from sums of floating-point numbers; this is how far they may miss one.
WEIGHT_SUM_SLACK = 1e-8


def array(value: ArrayLike, name: str, ndim: int) -> Array:
    """`value` as a finite float64 array with `ndim` axes."""
    out = real(value, name)
    if out.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} axes, got shape {out.shape}")
    if not np.isfinite(out).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(out))[0])
        raise ValueError(f"{name} must be finite, got {out[where]} at index {where}")
    return out


def real(value: Any, name: str, what: str = "an array of real numbers") -> Array:
    """`value` as a float64 array; text, complex numbers and ragged lists are refused."""
    try:
        raw = np.asarray(value)
        if raw.dtype.kind in "OSUcM":
            raise ValueError
        return raw.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be {what}, got {value!r:.80}") from None


def tokens(x: ArrayLike, name: str = "x") -> Array:
    """Tokens as rows, shape (n, d) with n, d >= 1. A vector is read as n tokens in one dimension."""
    out = real(x, name)
    out = array(out.reshape(-1, 1) if out.ndim == 1 else out, name, 2)
    if out.size == 0:
        raise ValueError(f"{name} must hold at least one token, got shape {out.shape}")
    return out


def weights(w: ArrayLike | None, n: int, name: str = "weights") -> Array:
    """Masses of n tokens: non-negative, summing to one. ``None`` means 1/n each."""
    if w is None:
        return np.full(n, 1.0 / n)
    out = array(w, name, 1)
    if out.shape != (n,):
        raise ValueError(f"{name} must have one entry per token, {n}, got shape {out.shape}")
    if out.min() < 0:
        raise ValueError(f"{name} must not be negative, got {out.min()}")
    if abs(out.sum() - 1.0) > WEIGHT_SUM_SLACK:
        raise ValueError(f"{name} must sum to 1, got {out.sum()}")
    return out


def positive(value: Any, name: str) -> float:
    """A finite number > 0."""
    out = real(value, name, "a number > 0")
    if out.ndim != 0 or not (np.isfinite(out) and out > 0):
        raise ValueError(f"{name} must be a finite number > 0, got {value!r}")
    return float(out)


def number(value: Any, name: str, what: str = "a finite number") -> float:
    """A finite number."""
    out = real(value, name, what)
    if out.ndim != 0 or not np.isfinite(out):
        raise ValueError(f"{name} must be {what}, got {value!r}")
    return float(out)


def count(value: Any, name: str, minimum: int = 1) -> int:
    """A whole number, at least `minimum`."""
    try:
        whole = not isinstance(value, bool | str) and int(value) == value
    except (TypeError, ValueError, OverflowError):
        whole = False
    if not whole or value < minimum:
        raise ValueError(f"{name} must be a whole number >= {minimum}, got {value!r}")
    return int(value)


def choice(value: str, name: str, allowed: tuple[str, ...]) -> str:
    """One of `allowed`."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")
    return value
