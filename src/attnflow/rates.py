r"""How fast something goes to zero: the slope of a log-log fit, with its interval.

A rate is never read off a picture. :func:`fit_rate` regresses :math:`\log e` on :math:`\log h`
and gives the 95 % interval of the slope from Student's t, which a check then asks to lie wholly
within its tolerance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import linregress, t

from attnflow import validate


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
    h_, e = validate.array(h, "h", 1), validate.array(error, "error", 1)
    if h_.shape != e.shape or len(h_) < 3:
        raise ValueError(
            f"h and error must be at least three points each, got {len(h_)} and {len(e)}"
        )
    if min(h_.min(), e.min()) <= 0:
        raise ValueError(f"h and error must be > 0, got {min(h_.min(), e.min())}")
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level}")
    line = linregress(np.log(h_), np.log(e))
    half = t.ppf((1 + level) / 2, len(h_) - 2) * line.stderr
    slope = float(line.slope)
    return Rate(slope, (float(slope - half), float(slope + half)), float(np.exp(line.intercept)))


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
    t_, v = validate.array(times, "times", 1), validate.array(values, "values", 1)
    f = validate.array(faster, "faster", 1) if np.size(faster) else np.zeros(0)
    spare = len(t_) - 2 - len(f)
    if t_.shape != v.shape or spare < 1:
        raise ValueError(
            f"times and values must be at least {3 + len(f)} points each, got {len(t_)} and {len(v)}"
        )
    if v.min() <= 0 or (f <= 0).any():
        raise ValueError(f"values and faster must be > 0, got {min([v.min(), *f])}")
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level}")
    elapsed = t_ - t_[0]
    model = np.column_stack([np.ones(len(t_)), -elapsed, *(np.exp(-k * elapsed) for k in f)])
    found, *_ = np.linalg.lstsq(model, np.log(v), rcond=None)
    rest = np.log(v) - model @ found
    spread = np.linalg.pinv(model.T @ model) * (rest @ rest) / spare
    half = float(t.ppf((1 + level) / 2, spare) * np.sqrt(spread[1, 1]))
    slope = float(found[1])
    return Rate(slope, (slope - half, slope + half), float(np.exp(found[0] + slope * t_[0])))
