"""Non-uniform Fourier transforms between tokens and the modes of a box around them.

Tokens are sorted once by where they are: the transforms then read and write memory that is near,
which takes almost half their time away.
"""

from __future__ import annotations

import math
from functools import reduce
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.errors import MissingPackage
from attnflow.validate import Array

#: Images, missing modes and both transforms: each may use this share of the accuracy.
SHARE = 0.25
#: Tokens and modes below which threads cost more than they save.
SERIAL = 200_000
#: Accuracies that single precision reaches.
SINGLE = 1e-5
#: Cells along a side of the box by which tokens are sorted, in one, two and three dimensions.
CELLS = (2**16, 512, 64)


def box(x: Array, eps: float, accuracy: float) -> tuple[Array, list[float]]:
    """Sides of the box in units of sqrt(eps), (d,), and modes along them: odd, possibly infinite.

    Both the kernel and its spectrum are Gaussians of variance one in these units, so one
    `reach` says where either has fallen below its share of the accuracy (the 8 is for the
    displacement, whose kernel has another factor r).
    """
    reach = np.sqrt(2 * np.log(8 / (SHARE * accuracy)))
    with np.errstate(over="ignore"):
        length = np.diff(sides(x), axis=0)[0] / np.sqrt(eps) + reach
        shape = 2 * np.ceil(reach * length / (2 * np.pi)) + 1
    return length, shape.tolist()


def sides(x: Array) -> Array:
    """The least and the largest coordinates of tokens, (2, d).

    A coordinate at a time: along rows as short as these numpy takes ten times as long.
    """
    return np.array([[line.min() for line in x.T], [line.max() for line in x.T]])


def modes_needed(x: Array, eps: float, accuracy: float = 1e-12) -> float:
    """How many modes a box around these tokens has."""
    return math.prod(box(x, eps, accuracy)[1])


class Modes:
    """The modes of a box: their frequencies in units of 1/sqrt(eps), and the kernel's coefficients."""

    def __init__(self, length: Array, shape: list[float]) -> None:
        self.shape = tuple(int(m) for m in shape)
        self.step = 2 * np.pi / length  # (d,), between frequencies
        axes = np.ogrid[tuple(slice(-(m // 2), m // 2 + 1) for m in self.shape)]
        self.frequencies = [h * k for h, k in zip(self.step, axes, strict=True)]  # (m_1, 1, ..), ..
        lines = [np.exp(-(xi**2) / 2) for xi in self.frequencies]
        self.spectrum: Array = reduce(np.multiply, lines, math.prod(self.step / np.sqrt(2 * np.pi)))


class Places:
    """Tokens in a box, and the transforms between them and its modes."""

    def __init__(
        self, y: Array, modes: Modes, accuracy: float, order: NDArray[np.intp] | None = None
    ) -> None:
        """`y` are tokens less the middle of the box, in units of sqrt(eps), (n, d).

        If an `order` is given, they are in it already.
        """
        single = accuracy >= SINGLE
        self.dtype = np.dtype(np.complex64 if single else np.complex128)
        angles = (y * modes.step).T  # (d, n), in [-pi, pi]
        self.order = _sorted(angles) if order is None else order
        near = angles if order is not None else angles[:, self.order]
        near = np.ascontiguousarray(near, np.float32 if single else np.float64)
        n = len(y)
        self._to_modes, self._to_tokens = (
            _finufft().Plan(
                kind,
                modes.shape,
                eps=max(SHARE * accuracy, 1e-15),
                isign=sign,
                dtype=self.dtype,
                nthreads=int(n + math.prod(modes.shape) < SERIAL),  # 0: all there are
            )
            for kind, sign in ((1, -1), (2, 1))
        )
        self._to_modes.setpts(*near)
        self._to_tokens.setpts(*near)

    def to_modes(self, v: NDArray[Any]) -> NDArray[Any]:
        """Coefficients of sum_j v_j delta_j, for v in the order of the places."""
        out: NDArray[Any] = self._to_modes.execute(v.astype(self.dtype))
        return out

    def to_tokens(self, coefficients: NDArray[Any]) -> NDArray[Any]:
        """The series at the tokens, in the order of the places."""
        out: NDArray[Any] = self._to_tokens.execute(coefficients.astype(self.dtype, copy=False))
        return out

    def unsorted(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values in the order of the places, in that of the tokens."""
        out = np.empty_like(values)
        out[self.order] = values
        return out


def _sorted(angles: Array) -> NDArray[np.intp]:
    """An order in which neighbours are near."""
    d = len(angles)
    cells = CELLS[d - 1]
    key = np.zeros(angles.shape[1], np.int32)
    for line in angles[::-1]:
        key *= cells
        key += ((line + np.pi) * ((cells - 1) / (2 * np.pi))).astype(np.int32)
    return np.argsort(key, kind="stable")


def available() -> bool:
    """Whether the transforms can be had."""
    try:
        _finufft()
    except MissingPackage:
        return False
    return True


def _finufft() -> ModuleType:
    """The library, imported where it is first needed."""
    try:
        import finufft
    except ImportError:
        raise MissingPackage.named("finufft", "the fast kernel", "fast") from None
    return finufft
