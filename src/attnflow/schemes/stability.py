r"""Which waves a layer damps, and when explicit Euler breaks down.

A wave :math:`1 + \delta\cos kx` on a uniform density is multiplied in one step, to first order in
:math:`\delta` and with :math:`s = \varepsilon k^2`, by

.. math:: e^{-s/2} \ \text{(heat)}, \qquad 1 - \frac{s}{1 + e^{s/2}} \ \text{(bridge)}, \qquad
          1 - \frac s2 \ \text{(explicit Euler)}.

The second lies between 0.443 and 1 for every s: the bridge is stable at every temperature, but it
leaves short waves as they are. The third is below -1 for s > 4: explicit Euler amplifies short
waves without bound, and an analytic density has all of them, though only a little.

:func:`euler_stretches` follows explicit Euler exactly, by Taylor series about one point, with no grid
that would filter short waves away. This is the book's own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from attnflow import validate
from attnflow.densities import GaussianMixture
from attnflow.rates import Rate, least_squares, points
from attnflow.validate import Array

#: :math:`\nu = \min_\kappa \kappa/\log(\kappa^2/2-1)`, attained at :math:`\kappa = 4.5136`.
BREAKDOWN = 2.0352503547365
#: The largest symbol of the differences of order eight, over the grid's step.
SYMBOL = 1.7305984209
#: Rounding is amplified like everything else: after a hundred steps or so it folds the map by itself.
MOST_STEPS = 80


def bridge_amplification(s: ArrayLike) -> Array:
    r""":math:`1 - s/(1 + e^{s/2})`: what a layer does to a wave with :math:`\varepsilon k^2 = s \ge 0`.

    >>> bridge_amplification([0.0, 1.0, 2.557, 100.0]).round(4)
    array([1.    , 0.6225, 0.4431, 1.    ])
    """
    s = _waves(s)
    return 1 - s * np.exp(-s / 2) / (1 + np.exp(-s / 2))


def euler_amplification(s: ArrayLike) -> Array:
    r""":math:`1 - s/2`, the same for explicit Euler: beyond -1 for s > 4.

    >>> euler_amplification([0.0, 1.0, 4.0, 10.0])
    array([ 1. ,  0.5, -1. , -4. ])
    """
    return 1 - _waves(s) / 2


def _waves(s: ArrayLike) -> Array:
    s = validate.real(s, "s")
    if s.size and s.min() < 0:
        raise ValueError(f"s must be >= 0, got {s.min():g}")
    return validate.finite(s, "s")


def euler_breakdown(r: float, eps: float) -> float:
    r"""The time :math:`\nu r\sqrt\varepsilon`, :math:`\nu = 2.0353`, at which explicit Euler breaks down.

    r is the distance of the nearest complex zero of the density from the real axis. Its waves start
    at :math:`e^{-rk}`, and n steps multiply them by :math:`(\varepsilon k^2/2-1)^n`. With
    :math:`\kappa = k\sqrt\varepsilon` the largest product passes one after
    :math:`n = \nu r/\sqrt\varepsilon` steps, :math:`\nu = \min_\kappa \kappa/\log(\kappa^2/2-1)`.

    >>> round(euler_breakdown(np.pi / 4, 0.01), 6)
    0.159848
    """
    r, eps = validate.positive(r, "r"), validate.positive(eps, "eps")
    return float(BREAKDOWN * r * np.sqrt(eps))


class Breakdown(NamedTuple):
    """The law of breakdown, fitted.

    >>> Breakdown(Rate(0.5, (0.4, 0.6), 2.0), 2.0, (1.9, 2.1)).order.slope
    0.5
    """

    order: Rate  #: of the time in eps, with the constant free
    constant: float  #: of sqrt(eps), where the order is one half
    interval: tuple[float, float]  #: of that constant, at 95 %


def fit_breakdown(eps: ArrayLike, times: ArrayLike) -> Breakdown:
    r"""Fit :math:`t^\star = c\,\varepsilon^s` to at least four times of breakdown, next order included.

    Near the complex zero the iterates are not linear. At step k the stretch differs from one by a
    multiple of 1/k where the wave is that breaks the map, so its height gains a power of the number
    of steps :math:`n = t^\star/\varepsilon`, and the breakdown comes a multiple of :math:`\log n` steps
    earlier. The model is :math:`\log t^\star = \log c + s\log\varepsilon + a\,n^{-1}\log n`; intervals are
    Student's t at 95 %.

    >>> eps = 0.01 / 2.0 ** np.arange(6)
    >>> found = fit_breakdown(eps, 1.5 * np.sqrt(eps))
    >>> round(found.order.slope, 9), round(found.constant, 9)
    (0.5, 1.5)
    """
    e, at = points(eps, times, ("eps", "times"), 4)
    validate.all_positive(e, "eps")
    validate.all_positive(at, "times")
    ones, next_order = np.ones(len(e)), np.log(at / e) * e / at
    (log_c, s, _), half = least_squares([ones, np.log(e), next_order], np.log(at))
    (fixed, _), off = least_squares([ones, next_order], np.log(at) - np.log(e) / 2)
    return Breakdown(
        Rate(float(s), (float(s - half[1]), float(s + half[1])), float(np.exp(log_c))),
        float(np.exp(fixed)),
        (float(np.exp(fixed - off[0])), float(np.exp(fixed + off[0]))),
    )


def filtered_stretch(spacing: float) -> float:
    r"""How far a moving grid may contract before explicit Euler is unstable on it.

    Nodes that start `spacing` :math:`\cdot\sqrt\varepsilon` apart and contract by :math:`\lambda` see no
    wave with :math:`s = \varepsilon k^2` above :math:`(\sigma/(\lambda\,\text{spacing}))^2`, where
    :math:`\sigma = 1.7306` is the largest symbol of differences of order eight. That is below 4, the
    limit of :func:`euler_amplification`, as long as :math:`\lambda \ge \sigma/(2\,\text{spacing})`.

    >>> round(filtered_stretch(2.0), 4)
    0.4326
    """
    return SYMBOL / (2 * validate.positive(spacing, "spacing"))


def euler_stretches(density: GaussianMixture, eps: float, depth: int, at: float = 0.0) -> Array:
    r"""The stretch dx/dx_0 at one point after 0, 1, ... steps of *exact* explicit Euler, (m,).

    With labels :math:`x_0`, stretch :math:`\lambda = dx/dx_0` and :math:`\ell = \log\rho_0`, a step is
    :math:`\lambda \mapsto \lambda - \tfrac\varepsilon2 \frac{d}{dx_0}\bigl[(\ell' - \lambda'/\lambda)/\lambda\bigr]`,
    here on Taylor coefficients about `at`, which a step shortens by two. The list ends after
    `depth` steps, or with the first stretch that is not positive: there the map has folded, and the
    density that the next step would need does not exist.

    >>> mix = GaussianMixture([0.5, 0.5], [-2.0, 2.0], [1.0, 1.0])
    >>> euler_stretches(mix, 0.1, 20).round(3)
    array([ 1.   ,  0.85 ,  0.784,  0.567,  3.778, -1.218])
    """
    validate.instance(density, "density", GaussianMixture)
    if density.dimension != 1:
        raise ValueError(f"this needs a density in one dimension, got {density.dimension}")
    eps = validate.positive(eps, "eps")
    depth = validate.count(depth, "depth", maximum=MOST_STEPS)
    # In the variable x / sqrt(eps) a step has no eps, and coefficients no overflow.
    rho = _taylor(density, validate.number(at, "at"), 2 * depth + 3, float(np.sqrt(eps)))
    slope = _quotient(_derivative(rho), rho)  # of log rho_0
    stretch = np.zeros(2 * depth + 2)
    stretch[0] = 1.0
    out = [1.0]
    while len(out) <= depth and out[-1] > 0:
        score = _quotient(
            slope[: len(stretch) - 1] - _quotient(_derivative(stretch), stretch), stretch
        )
        bend = _derivative(score)
        stretch = stretch[: len(bend)] - bend / 2
        out.append(float(stretch[0]))
    return np.array(out)


def _taylor(density: GaussianMixture, at: float, order: int, unit: float) -> Array:
    """Taylor coefficients of the density about a point, in a unit of length: f' = -(x - m) f / v."""
    v = density.covs[:, 0, 0] / unit**2
    off = (at - density.means[:, 0]) / unit
    c = np.zeros((order + 1, len(v)))
    c[0] = density.weights * np.exp(-(off**2) / (2 * v)) / np.sqrt(2 * np.pi * v)
    for n in range(order):
        c[n + 1] = -(off * c[n] + (c[n - 1] if n else 0.0)) / (v * (n + 1))
    return np.asarray(c.sum(axis=1))


def _derivative(a: Array) -> Array:
    return a[1:] * np.arange(1, len(a))


def _quotient(a: Array, b: Array) -> Array:
    """The Taylor coefficients of a / b, as many as both have."""
    n = min(len(a), len(b))
    out = np.zeros(n)
    for k in range(n):
        out[k] = (a[k] - out[:k] @ b[k:0:-1]) / b[0]
    return out
