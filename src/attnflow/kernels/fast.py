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
from functools import reduce
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from attnflow import validate
from attnflow.errors import MissingPackage
from attnflow.validate import Array

#: The transforms exist in one, two and three dimensions.
MAX_DIMENSION = 3
#: A larger grid is refused: 2^26 modes are one gigabyte, the transforms' own grids four to eight.
MAX_MODES = 2**26
#: Double precision gives no more than this, and nobody needs less than a digit.
ACCURACIES = (1e-14, 0.1)
#: Images, missing modes and both transforms: each may use this share of the accuracy.
SHARE = 0.25
#: A dense matrix, 8 n^2 bytes, must not exceed this.
DENSE_BYTES = 1.5e9
#: Nanoseconds, measured on one core: a dense entry over a balancing and its map; both plans; a
#: transform's fixed part, and per token and per mode in one, two, three dimensions.
DENSE_ENTRY, PLANS, CALL = 10.0, 4e6, 3e4
TOKEN, MODE = (45.0, 150.0, 1100.0), (30.0, 60.0, 250.0)
#: Products in a balancing, two transforms each.
PRODUCTS = 13
#: Tokens and modes below which threads cost more than they save.
SERIAL = 200_000


class FastKernel:
    """The kernel as a diagonal matrix between two non-uniform Fourier transforms.

    >>> k = FastKernel(np.array([[0.0], [1.0]]), eps=0.5)
    >>> k.apply(np.array([1.0, 0.0])).round(6)
    array([1.      , 0.367879])
    """

    def __init__(self, x: Array, eps: float, accuracy: float = 1e-10) -> None:
        x = validate.tokens(x)
        self.accuracy = validate.positive(accuracy, "accuracy")
        if not ACCURACIES[0] <= self.accuracy <= ACCURACIES[1]:
            raise ValueError(f"accuracy must lie in {ACCURACIES}, got {accuracy!r}")
        if x.shape[1] > MAX_DIMENSION:
            raise ValueError(f"the fast kernel needs d <= 3, got d = {x.shape[1]}: use dense")
        self.length_scale = np.sqrt(validate.positive(eps, "eps"))
        finufft = _finufft()
        length, shape = box(x, eps, self.accuracy)
        if not math.prod(shape) <= MAX_MODES:
            raise ValueError(
                f"the fast kernel needs at most {MAX_MODES:.1e} modes, but these tokens at "
                f"eps = {eps:g} take {math.prod(shape):.1e}: use dense"
            )
        self.n, self.modes = len(x), tuple(int(m) for m in shape)
        step = 2 * np.pi / length  # (d,), between frequencies in units of 1/sqrt(eps)
        axes = np.ogrid[tuple(slice(-(m // 2), m // 2 + 1) for m in self.modes)]
        self.frequencies = [h * k for h, k in zip(step, axes, strict=True)]  # (m_1, 1, ..), ..
        lines = [np.exp(-(xi**2) / 2) for xi in self.frequencies]
        self.spectrum: Array = reduce(np.multiply, lines, math.prod(step / np.sqrt(2 * np.pi)))
        middle = x.min(axis=0) + np.ptp(x, axis=0) / 2
        y = x - middle
        self.hot = y if np.ptp(y, axis=0).max() < self.length_scale else None
        angles = (y / self.length_scale * step).T.copy()  # (d, n), in [-pi, pi]
        self._to_modes, self._to_tokens = (
            finufft.Plan(
                kind,
                self.modes,
                eps=max(SHARE * self.accuracy, 1e-15),
                isign=sign,
                nthreads=int(self.n + math.prod(self.modes) < SERIAL),  # 0: all there are
            )
            for kind, sign in ((1, -1), (2, 1))
        )
        self._to_modes.setpts(*angles)
        self._to_tokens.setpts(*angles)

    def apply(self, v: Array) -> Array:
        return self._to_tokens.execute(self._smooth(v)).real.copy()

    def displacement(self, v: Array) -> Array:
        """Two real components travel as one complex transform.

        Tokens closer together than sqrt(eps) have nothing to cancel: there the difference of two
        products is the more accurate form.
        """
        if self.hot is not None:
            moments = np.stack([self.apply(v * y) for y in self.hot.T], axis=1)
            return moments - self.hot * self.apply(v)[:, None]
        smooth = self._smooth(v)  # the modes of K v
        smooth *= 1j * self.length_scale
        d = len(self.modes)
        out = np.empty((self.n, d))
        for k in range(0, d, 2):
            second = 1j * self.frequencies[k + 1] if k + 1 < d else 0.0
            pair = self._to_tokens.execute(smooth * (self.frequencies[k] + second))
            out[:, k] = pair.real
            if k + 1 < d:
                out[:, k + 1] = pair.imag
        return out

    def _smooth(self, v: Array) -> NDArray[np.complex128]:
        modes: NDArray[np.complex128] = self._to_modes.execute(v.astype(np.complex128))
        modes *= self.spectrum
        return modes


def box(x: Array, eps: float, accuracy: float) -> tuple[Array, list[float]]:
    """Sides of the box in units of sqrt(eps), (d,), and modes along them: odd, possibly infinite.

    Both the kernel and its spectrum are Gaussians of variance one in these units, so one
    `reach` says where either has fallen below its share of the accuracy (the 8 is for the
    displacement, whose kernel has another factor r).
    """
    reach = np.sqrt(2 * np.log(8 / (SHARE * accuracy)))
    with np.errstate(over="ignore"):
        length = np.ptp(x, axis=0) / np.sqrt(eps) + reach
        shape = 2 * np.ceil(reach * length / (2 * np.pi)) + 1
    return length, shape.tolist()


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
    return (fast < DENSE_ENTRY * n**2 or 8 * n**2 > DENSE_BYTES) and _available()


def _available() -> bool:
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
