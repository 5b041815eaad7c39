r"""Rotations of pairs of coordinates: how many transformers tell queries and keys their position.

Coordinates c and c + k/2 of token i, taken as one complex number, are multiplied by
:math:`e^{i\theta_{ic}}` (:cite:t:`su2024`). Arrays may be stacked, and keep the precision they come in.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

Floats = NDArray[np.floating[Any]]


class Turn(NamedTuple):
    """By how much each pair of each token turns, as cosines and sines of shape (n, k/2)."""

    cos: Floats
    sin: Floats

    @classmethod
    def by(cls, angles: Floats, dtype: DTypeLike = np.float64) -> Turn:
        """The turn by given angles, rounded to `dtype` at the end.

        >>> Turn.by(np.array([[np.pi]])).cos
        array([[-1.]])
        """
        return cls(np.cos(angles).astype(dtype), np.sin(angles).astype(dtype))

    @property
    def back(self) -> Turn:
        """The turn the other way round, which is the transpose of this one."""
        return Turn(self.cos, -self.sin)


def rotate(y: Floats, turn: Turn) -> Floats:
    """Rows with coordinates c and c + k/2 turned together; y is (..., n, k).

    >>> quarter = Turn.by(np.array([[np.pi / 2]]))
    >>> rotate(np.array([[3.0, 4.0]]), quarter).round(12)
    array([[-4.,  3.]])
    >>> rotate(rotate(np.array([[3.0, 4.0]]), quarter), quarter.back).round(12)
    array([[3., 4.]])
    """
    a, b = np.split(y, 2, axis=-1)
    return np.concatenate([a * turn.cos - b * turn.sin, a * turn.sin + b * turn.cos], axis=-1)
