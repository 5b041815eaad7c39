r"""How fast something goes to zero: the slope of a log-log fit, with its interval.

A rate is never read off a picture. :func:`fit_rate` regresses :math:`\log e` on :math:`\log h`
and gives the 95 % interval of the slope from Student's t, which a check then asks to lie wholly
within its tolerance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from attnflow import validate
from attnflow.validate import Array

#: Logarithms that differ by no more than this share are one, to rounding.
IDENTICAL = 1e-13


class Rate(NamedTuple):
    r"""A fitted law :math:`e \approx c\,h^{s}`.

    >>> Rate(slope=2.0, interval=(1.9, 2.1), constant=3.0).interval
    (1.9, 2.1)
    """

    slope: float  #: s
    interval: tuple[float, float]  #: where s lies, at the level of the fit
    constant: float  #: c


def fit_rate(h: ArrayLike, error: ArrayLike, *, level: float = 0.95) -> Rate:
    r"""Fit :math:`e \approx c\,h^{s}` to at least three positive points.

    The slope s is that of the regression of :math:`\log e` on :math:`\log h`; with m points its
    interval is :math:`s \pm t_{m-2}\,\mathrm{se}(s)`, Student's t at the asked level.

    >>> fit = fit_rate([0.1, 0.2, 0.4], [0.03, 0.12, 0.48])
    >>> round(fit.slope, 6), round(fit.constant, 6)
    (2.0, 3.0)
    >>> low, high = fit_rate([0.1, 0.2, 0.4], [0.03, 0.11, 0.48]).interval
    >>> low < 2 < high
    True
    """
    h_, e = points(h, error, ("h", "error"), 3)
    validate.all_positive(h_, "h")
    validate.all_positive(e, "error")
    level = validate.between_zero_and_one(level, "level")
    x = np.log(h_)
    if np.ptp(x) <= IDENTICAL * np.abs(x).max():
        raise ValueError(f"h must have values that differ, got {h_.min():g} to {h_.max():g}")
    middle = x.mean()
    (height, slope), (_, half) = least_squares([np.ones(len(x)), x - middle], np.log(e), level)
    constant = float(np.exp(height - slope * middle))
    return Rate(float(slope), (float(slope - half), float(slope + half)), constant)


def fit_decay(
    times: ArrayLike, values: ArrayLike, *, faster: ArrayLike = (), level: float = 0.95
) -> Rate:
    r"""Fit :math:`v(t) \approx c\,e^{-st}` to positive values, beside transients of known decay.

    With :math:`f_k` in `faster` the model is :math:`\log v = \log c - st + \sum_k a_k e^{-f_kt}`,
    to first order :math:`v = c\,e^{-st}(1+\sum_k a_k e^{-f_kt})`: modes that die by
    :math:`e^{-f_kt}` faster than the slowest one. Least squares, and Student's t for the interval.

    >>> t = np.arange(0.0, 9.0)
    >>> fit = fit_decay(t, 3 * np.exp(-0.5 * t + 0.1 * np.exp(-0.25 * t)), faster=[0.25])
    >>> round(fit.slope, 6), round(fit.constant, 6)
    (0.5, 3.0)
    """
    f = validate.array(faster, "faster", 1) if np.size(faster) else np.zeros(0)
    t_, v = points(times, values, ("times", "values"), 3 + len(f))
    validate.all_positive(v, "values")
    validate.all_positive(f, "faster")
    level = validate.between_zero_and_one(level, "level")
    elapsed = t_ - t_[0]
    model = [np.ones(len(t_)), -elapsed, *(np.exp(-k * elapsed) for k in f)]
    found, widths = least_squares(model, np.log(v), level)
    slope, half = float(found[1]), float(widths[1])
    return Rate(slope, (slope - half, slope + half), float(np.exp(found[0] + slope * t_[0])))


def points(x: ArrayLike, y: ArrayLike, names: tuple[str, str], least: int) -> tuple[Array, Array]:
    """Two lists of as many numbers, at least so many.

    >>> points([1.0], [2.0], ("x", "y"), 3)
    Traceback (most recent call last):
    ValueError: x and y must be at least 3 points each, got 1 and 1
    """
    a, b = (validate.array(values, name, 1) for values, name in zip((x, y), names, strict=True))
    if len(a) != len(b) or len(a) < least:
        raise ValueError(
            f"{' and '.join(names)} must be at least {least} points each, got {len(a)} and {len(b)}"
        )
    return a, b


def least_squares(columns: Sequence[Array], y: Array, level: float = 0.95) -> tuple[Array, Array]:
    r"""The coefficients c of the least :math:`|y - Ac|`, and the half-widths of their intervals.

    With m rows, k columns and the residual r, c has the covariance
    :math:`(A^\top A)^{-1}|r|^2/(m-k)`, and Student's :math:`t_{m-k}` gives the widths.

    >>> found, widths = least_squares([np.ones(3), np.arange(3.0)], np.array([1.0, 3.0, 5.0]))
    >>> found.round(9), bool(widths.max() < 1e-9)
    (array([1., 2.]), True)
    """
    A = np.column_stack(columns)
    found = np.linalg.lstsq(A, y, rcond=None)[0]
    left, spare = y - A @ found, len(y) - A.shape[1]
    spread = np.diag(np.linalg.pinv(A.T @ A)) * (left @ left) / spare
    return np.asarray(found, float), np.asarray(stdtrit(spare, (1 + level) / 2) * np.sqrt(spread))
