r"""Products with the Gaussian kernel in linear time, for tokens in at most three dimensions.

On a box that holds the tokens and a margin, the periodised kernel is a Fourier series whose
coefficients :math:`\hat K(\xi) = \prod_k \sqrt{2\pi\varepsilon}\, L_k^{-1} e^{-\varepsilon
\xi_k^2/2}` fall off as fast as the kernel itself. So ``K v`` is three steps: a non-uniform FFT
from tokens to modes, a multiplication, a non-uniform FFT back. The displacement
:math:`\sum_j K_{ij} v_j (x_j - x_i)` is :math:`\varepsilon \nabla (K v)` at :math:`x_i`, that is
coefficients :math:`i \varepsilon \xi \hat K(\xi)`: no difference of large numbers is taken.

One requested `accuracy` sets the margin, the number of modes and the transforms: the largest
error of ``K v`` in units of :math:`|v|_1`, and of a displacement in units of
:math:`\sqrt\varepsilon\, |v|_1` or, at high temperature, of the tokens' spread times
:math:`|v|_1`. It is absolute: digits of products much smaller than that are lost, where the dense
kernel has them all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow import validate
from attnflow.kernels.transforms import Modes, Places, available, box, sides
from attnflow.validate import Array

#: The transforms exist in one, two and three dimensions.
MAX_DIMENSION = 3
#: A larger grid is refused: 2^26 modes are one gigabyte, the transforms' own grids four to eight.
MAX_MODES = 2**26
#: Double precision gives no more than this, and nobody needs less than a digit.
ACCURACIES = (1e-14, 0.1)
#: A dense matrix, 8 n^2 bytes, must not exceed this.
DENSE_BYTES = 1.5e9
#: Nanoseconds, measured on one core: a dense entry over a balancing and its map; both plans; a
#: transform's fixed part, and per token and per mode in one, two, three dimensions.
DENSE_ENTRY, PLANS, CALL = 10.0, 4e6, 3e4
TOKEN, MODE = (45.0, 150.0, 1100.0), (30.0, 60.0, 250.0)
#: Products in a balancing, two transforms each.
PRODUCTS = 13


class FastKernel:
    """The kernel as a diagonal matrix between two non-uniform Fourier transforms.

    >>> k = FastKernel(np.array([[0.0], [1.0]]), eps=0.5)
    >>> k.apply(np.array([1.0, 0.0])).round(6)
    array([1.      , 0.367879])
    """

    def __init__(self, x: Array, eps: float, accuracy: float = 1e-10) -> None:
        x = validate.tokens(x)
        self.accuracy, self.length_scale = _checked(x, eps, accuracy)
        self._modes = _box(x, eps, self.accuracy)
        self.n, self.modes = len(x), self._modes.shape
        y = x - _middle(x)
        self.hot = y if np.diff(sides(y), axis=0).max() < self.length_scale else None
        self._y = y / self.length_scale
        self._places = Places(self._y, self._modes, self.accuracy)

    @property
    def order(self) -> NDArray[np.intp]:
        """The order of tokens in which :meth:`apply_sorted` takes and gives numbers."""
        return self._places.order

    def apply(self, v: Array) -> Array:
        return self._places.unsorted(self.apply_sorted(v[self.order]))

    def apply_sorted(self, v: Array) -> Array:
        """K v for tokens in the kernel's own order, which is quicker."""
        return self._places.to_tokens(self._smooth(v)).real.astype(np.float64)

    def rough(self, accuracy: float) -> Callable[[Array], Array]:
        """What is :meth:`apply_sorted` to another accuracy."""
        y = self._y[self.order]
        modes = _box(y, 1.0, accuracy)
        places = Places(y, modes, accuracy, self.order)

        def apply(v: Array) -> Array:
            smooth = places.to_modes(v)
            smooth *= modes.spectrum
            return places.to_tokens(smooth).real.astype(np.float64)

        return apply

    def apply_columns(self, v: Array) -> Array:
        """K v for every column of v, (n, p): two of them travel as one complex transform."""
        return _columns(self._places, self._places, self._modes, v)

    def displacement(self, v: Array) -> Array:
        """Two real components travel as one complex transform.

        Tokens closer together than sqrt(eps) have nothing to cancel: there the difference of two
        products is the more accurate form.
        """
        if self.hot is not None:
            columns = np.concatenate([self.hot, np.ones((self.n, 1))], axis=1)
            moments = self.apply_columns(v[:, None] * columns)
            return moments[:, :-1] - self.hot * moments[:, -1:]
        smooth = self._smooth(v[self.order])  # the modes of K v
        smooth *= 1j * self.length_scale
        d, frequencies = len(self.modes), self._modes.frequencies
        out = np.empty((self.n, d))
        for k in range(0, d, 2):
            second = 1j * frequencies[k + 1] if k + 1 < d else 0.0
            pair = self._places.to_tokens(smooth * (frequencies[k] + second))
            out[self.order, k] = pair.real
            if k + 1 < d:
                out[self.order, k + 1] = pair.imag
        return out

    def _smooth(self, v: NDArray[Any]) -> NDArray[Any]:
        modes = self._places.to_modes(v)
        modes *= self._modes.spectrum
        return modes


class FastPair:
    r"""The kernel :math:`e^{-|x_i - y_j|^2/2\varepsilon}` between two sets of tokens, as fast.

    >>> k = FastPair(np.array([[0.0]]), np.array([[0.0], [1.0]]), eps=0.5)
    >>> k.times(np.array([[0.0], [1.0]])).round(6), k.transposed(np.array([[1.0]])).round(6)
    (array([[0.367879]]), array([[1.      ],
           [0.367879]]))
    """

    def __init__(self, x: Array, y: Array, eps: float, accuracy: float = 1e-10) -> None:
        x, y = validate.tokens(x), validate.tokens(y, "y")
        both = np.concatenate([x, y])
        self.accuracy, length_scale = _checked(both, eps, accuracy)
        self._modes, middle = _box(both, eps, self.accuracy), _middle(both)
        self.modes = self._modes.shape
        self._x, self._y = (
            Places((z - middle) / length_scale, self._modes, self.accuracy) for z in (x, y)
        )

    def times(self, v: Array) -> Array:
        """Sums over y at x, for every column of v, (m, p): (n, p)."""
        return _columns(self._y, self._x, self._modes, v)

    def transposed(self, u: Array) -> Array:
        """Sums over x at y, for every column of u, (n, p): (m, p)."""
        return _columns(self._x, self._y, self._modes, u)


def _columns(start: Places, end: Places, modes: Modes, v: Array) -> Array:
    p = v.shape[1]
    out = np.empty((len(end.order), p))
    v = v[start.order]
    for k in range(0, p, 2):
        packed = v[:, k] + 1j * v[:, k + 1] if k + 1 < p else v[:, k]
        smooth = start.to_modes(packed)
        smooth *= modes.spectrum
        pair = end.to_tokens(smooth)
        out[end.order, k] = pair.real
        if k + 1 < p:
            out[end.order, k + 1] = pair.imag
    return out


def _checked(x: Array, eps: float, accuracy: float) -> tuple[float, float]:
    accuracy = validate.positive(accuracy, "accuracy")
    if not ACCURACIES[0] <= accuracy <= ACCURACIES[1]:
        raise ValueError(f"accuracy must lie in {ACCURACIES}, got {accuracy!r}")
    if x.shape[1] > MAX_DIMENSION:
        raise ValueError(f"the fast kernel needs d <= 3, got d = {x.shape[1]}: use dense")
    return accuracy, math.sqrt(validate.positive(eps, "eps"))


def _box(x: Array, eps: float, accuracy: float) -> Modes:
    length, shape = box(x, eps, accuracy)
    if not math.prod(shape) <= MAX_MODES:
        raise ValueError(
            f"the fast kernel needs at most {MAX_MODES:.1e} modes, but these tokens at "
            f"eps = {eps:g} take {math.prod(shape):.1e}: use dense"
        )
    return Modes(length, shape)


def _middle(x: Array) -> Array:
    low, high = sides(x)
    middle: Array = low + (high - low) / 2
    return middle


def cheaper(x: Array, eps: float, accuracy: float = 1e-10, *, products: int = PRODUCTS) -> bool:
    """Whether so many products are possible with the fast kernel, and cheaper than with the dense one.

    Unless given, they are those of a balancing.

    >>> x = np.random.default_rng(0).normal(size=(20_000, 2))
    >>> cheaper(x, 0.1), cheaper(x[:20], 0.1), cheaper(np.tile(x, 2), 0.1)
    (True, False, False)
    """
    n, d = x.shape
    if d > MAX_DIMENSION:
        return False
    modes = math.prod(box(x, eps, accuracy)[1])
    if not modes <= MAX_MODES:
        return False
    transform = CALL + TOKEN[d - 1] * n + MODE[d - 1] * modes
    fast = PLANS + 2 * products * transform
    return (fast < DENSE_ENTRY * n**2 or 8 * n**2 > DENSE_BYTES) and available()
