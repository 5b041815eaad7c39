r"""When equiangular tokens meet, under four normalisations: one orbit, four clocks.

The orbit is that of :mod:`attnflow.norms.orbit`. A normalisation only says how fast it is run
through: :math:`dt = d\tau` (*post*), :math:`r\,d\tau` (*pre*), :math:`rq\,d\tau` (*peri*),
:math:`q\,d\tau` (*nGPT*), with the norm r and the size q of the mean. The factor is what
:cite:t:`karagodin2025` call speed regulation.

Integrals run over :math:`\ell = \log\frac{1+(n-1)\gamma}{1-\gamma}`, twice the time at
:math:`\beta = 0`, in which :math:`d\tau = \frac{e^{\beta(1-\gamma)}+n-1}{2n}\,d\ell` is smooth for
every n. Times that are no numbers any more, like those of *pre* beyond the critical temperature, are
kept as logarithms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import PchipInterpolator

from attnflow import validate
from attnflow.flows import Flow, integrate
from attnflow.norms.orbit import MOST_TOKENS, read, sphere_time, valid_gap
from attnflow.norms.tokens import ON_SPHERE, UNIT_MEAN, valid_norm, valid_radius
from attnflow.validate import Array

#: Panels of the quadrature, and its nodes in each.
_PANELS = 400
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
#: The last gap of diagrams and of last phases; 1 - gap is 1 beyond it.
_LAST_GAP = 1e-15


class Curve(NamedTuple):
    """The common cosine and the common norm along time.

    >>> Curve(np.zeros(1), np.zeros(1), np.ones(1)).cosines
    array([0.])
    """

    times: Array  #: (m,)
    cosines: Array  #: (m,)
    sizes: Array  #: (m,), the norms divided by the first; 1 on the sphere
    gaps: Array = np.zeros(0)  #: (m,), 1 - cosines with all their digits
    iterations: int = 0  #: how often the speed was computed, or layers
    rtol: float = 0.0  #: the relative error allowed in every step; 0 for layers, which are exact

    @property
    def converged(self) -> bool:
        """True: a flow that does not reach its last time raises `FlowStopped` instead."""
        return True


def meeting_time(
    norm: str, beta: float, n: int, delta: float, *, start: float = 0.0, radius: float = 1.0
) -> float:
    r"""When the common cosine is 1 - delta, from `start` at time 0, with norms `radius`.

    .. math:: T = \int \{1,\ r,\ rq,\ q\}\,d\tau \quad\text{(post, pre, peri, nGPT)}

    along the orbit of :func:`attnflow.norms.sphere_time` (this book). On the sphere the norm
    is 1, whatever `radius` is.

    >>> round(meeting_time("post", 4.0, 32, 1e-3), 8)
    6.95350185
    >>> round(meeting_time("peri", 0.0, 4, 0.5), 6)  # sqrt((n - (n-1) delta)/(n delta)) - 1/sqrt(n)
    0.618034
    """
    found = log_meeting_time(norm, beta, n, delta, start=start, radius=radius)
    with np.errstate(over="ignore"):
        out = float(np.exp(found))
    if not np.isfinite(out):
        raise ValueError(
            f"the meeting time must be a finite number, got exp({found:.6g}); "
            "log_meeting_time gives its logarithm"
        )
    return out


def log_meeting_time(
    norm: str, beta: float, n: int, delta: float, *, start: float = 0.0, radius: float = 1.0
) -> float:
    """The logarithm of :func:`meeting_time`, which exists where the time is no number any more.

    >>> log_meeting_time("pre", 1.5 * np.log(1e6), 10**6, 0.01) > 5000
    True
    """
    logs = _table(norm, beta, n, delta, start, _PANELS)[1]
    return float(logs[-1] + (0.0 if norm in ON_SPHERE else np.log(valid_radius(radius))))


def curve(
    norm: str, beta: float, n: int, times: ArrayLike, *, start: float = 0.0, radius: float = 1.0
) -> Curve:
    r"""Cosine and norm at increasing times from 0 on, by integration of two equations.

    .. math:: \dot u = -2(s-\lambda)u/\kappa, \qquad \frac{d}{dt}\log r = s/\kappa, \qquad
        \kappa = 1,\ r,\ rq,\ q

    (this book), solved for :math:`\log(u/(n-(n-1)u))`, so that small gaps u keep their digits.

    >>> t = 1.0
    >>> bool(np.isclose(curve("post", 0.0, 32, [t]).cosines[0], np.expm1(2) / (np.exp(2) + 31)))
    True
    """
    valid_norm(norm)
    beta, n = validate.beta(beta), validate.count(n, "n", 2, MOST_TOKENS)
    t = validate.array(times, "times", 1)
    if not len(t) or t[0] < 0 or (np.diff(t) <= 0).any() or t[-1] > 1e300:
        raise ValueError(f"times must increase from 0 or later, got {validate.said(t)}")
    first = _level(np.asarray(1 - _cosine(start)), n)
    log_r0 = np.log(valid_radius(radius))

    def speed(_: float, y: Array) -> Array:
        r = read(_gap(y[:1], n), beta, n)
        pace = 1.0 if norm in ON_SPHERE else np.exp(-y[1:] - log_r0)
        pace = pace / r.size if norm in UNIT_MEAN else pace
        grown = 0.0 * r.along if norm in ON_SPHERE else pace * r.along
        return np.concatenate([2 * n * r.other * pace, grown])

    knots = np.unique(np.concatenate([[0.0], t]))
    if len(knots) == 1:
        found = Flow(knots, np.array([[first, 0.0]]))
    else:
        found = integrate(speed, np.array([first, 0.0]), knots, rtol=1e-12, scale=1.0)
    level, log_r = found.states[np.searchsorted(knots, t)].T
    gaps = _gap(level, n)
    return Curve(t, 1 - gaps, np.exp(log_r), gaps, found.iterations, found.rtol)


def diagram(norm: str, n: int, betas: ArrayLike, times: ArrayLike) -> Array:
    """The common cosine over inverse temperatures and times > 0, shape (betas, times).

    From orthonormal tokens, by :func:`log_meeting_time` at many cosines, with cubics between them.

    >>> diagram("nGPT", 32, [0.0, 8.0], [1.0, 3.0]).round(3)
    array([[0.674, 0.993],
           [0.001, 0.002]])
    """
    b, t = validate.array(betas, "betas", 1), validate.array(times, "times", 1)
    if not len(t) or t.min() <= 0:
        raise ValueError(f"times must be positive numbers, got {validate.said(t)}")
    n, asked, rows = validate.count(n, "n", 2, MOST_TOKENS), np.log(t), []
    for beta in b:
        edges, logs = _table(norm, float(beta), n, _LAST_GAP, 0.0, _PANELS)
        # log(level) against log(time) is nearly straight at the start, where both vanish
        found = PchipInterpolator(logs, np.log(edges[1:]), extrapolate=False)(asked)
        early = np.log(edges[1]) + asked - logs[0]
        level = np.exp(np.where(asked < logs[0], early, found))
        rows.append(
            np.where(asked > logs[-1], 1.0, -np.expm1(-level) / (1 + (n - 1) * np.exp(-level)))
        )
    return np.array(rows)


def last_phase(norm: str, beta: float, n: int, *, radius: float = 1.0) -> float:
    r"""The constant of the last phase, from orthonormal tokens times `radius`.

    .. math:: \lim_{t\to\infty} e^{2t}(1-\gamma)\ \text{(post, nGPT)}, \qquad
        \lim_{t\to\infty} t^2(1-\gamma)\ \text{(pre, peri)}

    (this book). With :math:`\kappa = \lim e^{2\tau}(1-\gamma)` they are :math:`\kappa`,
    :math:`\kappa e^{-2\int(1-q)d\tau}` and :math:`r_0^2\kappa/n`, the last one for *pre* and *peri*.

    >>> [round(last_phase(norm, 0.0, 32), 6) for norm in ("post", "pre", "peri")]
    [32.0, 1.0, 1.0]
    """
    valid_norm(norm)
    first = valid_radius(radius)
    if norm == "nGPT":
        late = float(np.exp(_table(norm, beta, n, _LAST_GAP, 0.0, _PANELS)[1][-1]))
    else:
        late = float(sphere_time(beta, n, _LAST_GAP))
    ahead = max(2 * late - 700, 0.0)  # the exponential may be no number where its product is one
    with np.errstate(over="ignore"):
        kappa = float(np.exp(2 * late - ahead) * _LAST_GAP * np.exp(ahead))
        found = kappa if norm in ON_SPHERE else first**2 * kappa / n
    if not np.isfinite(found):
        raise ValueError(
            f"the constant of the last phase must be a finite number, got about exp({2 * late:.6g}): "
            "lower beta"
        )
    return found


def _table(
    norm: str, beta: float, n: int, delta: float, start: float, panels: int
) -> tuple[Array, Array]:
    """Levels l at edges of panels, and the logarithms of the times at all edges but the first."""
    valid_norm(norm)
    beta, n = validate.beta(beta), validate.count(n, "n", 2, MOST_TOKENS)
    delta, start = valid_gap(delta), _cosine(start)
    if delta >= 1 - start:
        raise ValueError(f"delta must be below 1 - start, got {delta} and {start}")
    ends = _level(np.array([1 - start, delta]), n)
    edges = np.linspace(ends[0], ends[1], panels + 1)
    half = (edges[1] - edges[0]) / 2
    level = (edges[:-1, None] + half * (_NODES + 1)).ravel()  # (panels * nodes,)
    u = _gap(level, n)
    r = read(u, beta, n)
    log_pace = -np.log(2 * n * r.other)
    if norm in UNIT_MEAN:
        log_pace = log_pace + np.log(r.size)
    if norm not in ON_SPHERE:
        tau = sphere_time(beta, n, np.minimum(u, 1 - start), start=start)
        log_pace = (
            log_pace + tau - (np.log(n - (n - 1) * u) - np.log(n - (n - 1) * (1 - start))) / 2
        )
    terms = log_pace.reshape(panels, -1) + np.log(half * _WEIGHTS)
    return edges, np.asarray(np.logaddexp.accumulate(np.logaddexp.reduce(terms, axis=1)))


def _level(u: Array, n: int) -> Array:
    """l = log((1 + (n-1) gamma) / (1 - gamma)) for a gap u = 1 - gamma."""
    return np.asarray(np.log((n - (n - 1) * u) / u))


def _gap(level: Array, n: int) -> Array:
    """The inverse of :func:`_level`."""
    small = np.exp(-level)
    return np.asarray(n * small / (1 + (n - 1) * small))


def _cosine(start: float) -> float:
    out = validate.number(start, "start")
    if not 0 <= out < 1:
        raise ValueError(f"start must lie in [0, 1), got {start}")
    return out
