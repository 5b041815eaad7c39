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
