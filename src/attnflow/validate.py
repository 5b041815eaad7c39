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
#: Norms that rounding explains: unit vectors may have been stored in single precision.
NORM_SLACK = 1e-6
#: exp(beta) is formed; beyond this it is no number.
LARGEST_BETA = 700.0
#: Numbers below it have lost digits, and their reciprocals are no numbers.
SMALLEST = float(np.finfo(np.float64).tiny)
#: Counts are whole numbers of 64 bits; what is stored for each of them stays in memory.
LARGEST_COUNT, MOST_STORED = 2**63 - 1, 10**8
#: Flows that have not come to rest by then are not followed: it would take hours.
LONGEST = 1e6


def array(value: ArrayLike, name: str, ndim: int) -> Array:
    """`value` as a finite float64 array with `ndim` axes.

    >>> array([1, 2], "x", 1)
    array([1., 2.])
    """
    out = real(value, name)
    if out.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} axes, got shape {out.shape}")
    if not np.isfinite(out).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(out))[0])
        raise ValueError(f"{name} must be finite, got {out[where]} at index {where}")
    return out


def real(value: Any, name: str, what: str = "an array of real numbers") -> Array:
    """`value` as a float64 array; text, complex numbers and ragged lists are refused.

    >>> real("one", "x")
    Traceback (most recent call last):
    ValueError: x must be an array of real numbers, got 'one'
    """
    try:
        raw = np.asarray(value)
        if raw.dtype.kind in "OSUcMmV" or np.ma.is_masked(value):
            raise ValueError
        with np.errstate(over="ignore"):  # what is too large becomes inf, and is refused as that
            return raw.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be {what}, got {said(value)}") from None


def said(value: Any) -> str:
    """`value` as a message shows it: 80 characters at most, whatever it is.

    >>> len(said("a" * 1000))
    80
    """
    try:
        return f"{value!r:.80}"
    except Exception:  # a whole number of thousands of digits, or an object that cannot be shown
        return f"something of type {type(value).__name__}"


def tokens(x: ArrayLike, name: str = "x") -> Array:
    """Tokens as rows, shape (n, d) with n, d >= 1. A vector is read as n tokens in one dimension.

    >>> tokens([1.0, 2.0]).shape
    (2, 1)
    """
    out = real(x, name)
    out = array(out.reshape(-1, 1) if out.ndim == 1 else out, name, 2)
    if out.size == 0:
        raise ValueError(f"{name} must hold at least one token, got shape {out.shape}")
    return out


def on_sphere(x: ArrayLike, name: str = "x") -> Array:
    """Tokens of norm one, shape (n, d) with d >= 2; rounding in the norms is removed.

    >>> on_sphere([[0.6, 0.8]]).shape
    (1, 2)
    """
    out = tokens(x, name)
    if out.shape[1] < 2:
        raise ValueError(f"{name} must have at least two columns, got shape {out.shape}")
    with np.errstate(over="ignore"):
        norms = np.linalg.norm(out, axis=1, keepdims=True)
    worst = int(np.abs(norms - 1.0).argmax())
    if abs(norms[worst, 0] - 1.0) > NORM_SLACK:
        raise ValueError(
            f"{name} must lie on the unit sphere, got a token of norm {norms[worst, 0]:.6g} "
            f"at row {worst}; divide every row by its norm first"
        )
    return out / norms


def weights(w: ArrayLike | None, n: int, name: str = "weights") -> Array:
    """Masses of n tokens: non-negative, summing to one. ``None`` means 1/n each.

    >>> weights(None, 4)
    array([0.25, 0.25, 0.25, 0.25])
    """
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
    """A finite number > 0 that has all its digits: none below 2.2e-308.

    >>> positive(0, "eps")
    Traceback (most recent call last):
    ValueError: eps must be a finite number > 0, got 0
    """
    out = real(value, name, "a number > 0")
    if out.ndim != 0 or not (np.isfinite(out) and out > 0):
        raise ValueError(f"{name} must be a finite number > 0, got {said(value)}")
    return float(_not_faint(out, name))


def all_positive(values: Array, name: str) -> Array:
    """Numbers that are all larger than zero.

    >>> all_positive(np.array([2.0, -1.0]), "eps")
    Traceback (most recent call last):
    ValueError: eps must be > 0, got -1
    """
    if values.size and values.min() <= 0:
        raise ValueError(f"{name} must be > 0, got {values.min():g}")
    return _not_faint(values, name)


def _not_faint(values: Array, name: str) -> Array:
    """Positive numbers, refused where one has lost digits."""
    if values.size and values.min() < SMALLEST:
        raise ValueError(f"{name} must be at least {SMALLEST:.2g}, got {values.min():.2g}")
    return values


def beta(value: Any, name: str = "beta") -> float:
    """An inverse temperature on the sphere: a number in [0, 700].

    >>> beta(4)
    4.0
    """
    out = number(value, name, "a number >= 0")
    if not 0 <= out <= LARGEST_BETA:
        raise ValueError(f"{name} must lie in [0, {LARGEST_BETA:g}], got {said(value)}")
    return positive(out, name) if out else 0.0


def between_zero_and_one(value: Any, name: str) -> float:
    """A number strictly between 0 and 1.

    >>> between_zero_and_one(1.0, "delta")
    Traceback (most recent call last):
    ValueError: delta must lie between 0 and 1, got 1.0
    """
    out = positive(value, name)
    if out >= 1:
        raise ValueError(f"{name} must lie between 0 and 1, got {said(value)}")
    return out


def times(values: ArrayLike, start: float = -np.inf, longest: float = np.inf) -> Array:
    """At least two increasing times, none before `start`, that span no more than `longest`.

    >>> times([0, 1])
    array([0., 1.])
    """
    out = array(values, "times", 1)
    if len(out) < 2 or (np.diff(out) <= 0).any():
        raise ValueError(f"times must be at least two increasing numbers, got {said(out)}")
    if out[0] < start:
        raise ValueError(f"times must start at {start:g} or later, got {out[0]}")
    if out[-1] > out[0] + longest:
        raise ValueError(f"times must span {longest:g} at most, got {out[0]:g} to {out[-1]:g}")
    return out


def number(value: Any, name: str, what: str = "a finite number") -> float:
    """A finite number.

    >>> number(float("inf"), "t")
    Traceback (most recent call last):
    ValueError: t must be a finite number, got inf
    """
    out = real(value, name, what)
    if out.ndim != 0 or not np.isfinite(out):
        raise ValueError(f"{name} must be {what}, got {said(value)}")
    return float(out)


def count(value: Any, name: str, minimum: int = 1, maximum: int = LARGEST_COUNT) -> int:
    """A whole number, at least `minimum`.

    >>> count(3.0, "n"), count(2.5, "n")
    Traceback (most recent call last):
    ValueError: n must be a whole number >= 1, got 2.5
    """
    try:
        whole = not isinstance(value, bool | str) and bool(int(value) == value)
    except Exception:  # whatever kind of thing it is, it is no number
        whole = False
    if not whole or value < minimum:
        raise ValueError(f"{name} must be a whole number >= {minimum}, got {said(value)}")
    if value > maximum:
        raise ValueError(f"{name} must be at most {maximum}, got {said(value)}")
    return int(value)


def depth(value: Any, size: int = 1) -> int:
    """How many layers there are, at least one; states of `size` numbers are kept for all of them.

    >>> depth(10**12, 8)
    Traceback (most recent call last):
    ValueError: depth must be at most 12500000, got 1000000000000
    """
    return count(value, "depth", maximum=max(MOST_STORED // size, 1))


def choice(value: str, name: str, allowed: tuple[str, ...]) -> str:
    """One of `allowed`.

    >>> choice("slow", "method", ("dense", "fast"))
    Traceback (most recent call last):
    ValueError: method must be one of dense, fast, got 'slow'
    """
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {said(value)}")
    return value


def instance(value: Any, name: str, kinds: type | tuple[type, ...]) -> None:
    """Refuse what is of none of these kinds.

    >>> instance(3, "name", str)
    Traceback (most recent call last):
    TypeError: name must be of type str, got 3
    """
    if not isinstance(value, kinds):
        listed = kinds if isinstance(kinds, tuple) else (kinds,)
        words = " or ".join(kind.__name__ for kind in listed)
        raise TypeError(f"{name} must be of type {words}, got {said(value)}")


def finite(values: ArrayLike, what: str) -> Array:
    """What was computed, refused where numbers overflowed.

    >>> finite([1.0], "norms")
    array([1.])
    """
    out = np.asarray(values, dtype=np.float64)
    if not np.isfinite(out).all():
        raise ValueError(f"{what} must be finite numbers, got some beyond 1e308")
    return out
