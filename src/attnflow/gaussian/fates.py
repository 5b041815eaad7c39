r"""What becomes of a covariance in the long run: blow-up, growth without blow-up, or a limit and its rank.

The decision is read from the flow (:func:`~attnflow.gaussian.gaussian_flow`), when time doubles:
an eigenvalue that stays does not change, one that dies like :math:`1/t` is halved, and a largest one that goes
on growing has neither blown up nor found a limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from attnflow import validate
from attnflow.attention.layer import Layer
from attnflow.errors import FlowStopped
from attnflow.gaussian.diagnosis import BLOW_UP
from attnflow.gaussian.flow import gaussian_flow
from attnflow.validate import Array

GROWTH, LIMIT, UNDECIDED = "growth", "limit", "undecided"
#: Factors of an eigenvalue when time doubles: one that stays, dies like 1/t, or goes on growing.
STAYS, DIES, GROWS = 0.9, 0.7, 1.1
#: Growth of the largest eigenvalue that counts as growing for ever, where nothing else decides.
FAR = 1e3
#: A blow-up does most of its growing in the last part of its time, exponential growth a little.
LAST_PART, MOST = 0.01, 0.5
#: Eigenvalues below this part of the largest at the start are gone.
GONE = 1e-8


class Fate(NamedTuple):
    """What a flow does up to its last horizon.

    >>> from attnflow.attention import SoftmaxAttention
    >>> I = np.eye(2)
    >>> fate(SoftmaxAttention(I, -I, I), I).rank
    0
    """

    outcome: str  #: "blow-up", "growth", "limit" or "undecided"
    rank: int  #: of the limit; -1 where there is none
    time: float  #: up to which the flow was followed
    cov: Array  #: the covariance there, (d, d)


def fate(
    attention: Layer, cov0: ArrayLike, *, horizons: Sequence[float] = (3.0, 30.0, 300.0),
    rtol: float = 1e-6,
) -> Fate:  # fmt: skip
    """Follow a covariance through growing horizons and say what it does.

    "growth" is what leaves every bound that doubles resolve without blowing up, or has a largest
    eigenvalue that has grown by FAR and still grows at the last horizon. Where the long axis turns
    while it grows, the rate is no guide; then a blow-up is told by when most of the growth was. A limit is decided at the last horizon alone,
    and only if every eigenvalue stays or dies; else the answer is "undecided". Low rank is what
    :cite:t:`castin2025` observe.

    >>> from attnflow.attention import SoftmaxAttention
    >>> I = np.eye(2)
    >>> fate(SoftmaxAttention(I, I, I), I).outcome
    'blow-up'
    >>> half = SoftmaxAttention(-np.diag([1.0, 0.0]), I, I)
    >>> fate(half, [[1.0, 0.3], [0.3, 0.5]])[:2]
    ('limit', 1)
    """
    ends = validate.array(horizons, "horizons", 1)
    if not len(ends) or ends[0] <= 0 or (np.diff(ends) <= 0).any():
        raise ValueError(f"horizons must be positive and increasing, got {ends}")
    seen = None
    for end in ends:
        try:
            flow = gaussian_flow(attention, cov0, [0.0, end / 2, end], rtol=rtol)
        except FlowStopped:
            break
        if flow.stopped:
            sudden = flow.stopped == BLOW_UP or _is_sudden(attention, cov0, *flow.last, rtol)
            return Fate(BLOW_UP if sudden else GROWTH, -1, *flow.last)
        seen = flow
    if seen is None:
        return Fate(UNDECIDED, -1, 0.0, np.atleast_2d(np.asarray(cov0, np.float64)))
    floor = GONE * seen.eigenvalues[0, -1]
    half, last = np.maximum(seen.eigenvalues[1:], floor / 10)
    if last[-1] > GROWS * half[-1]:
        far = last[-1] > FAR * seen.eigenvalues[0, -1]
        return Fate(GROWTH if far else UNDECIDED, -1, *seen.last)
    stays, dies = last > STAYS * half, (last < DIES * half) | (last < floor)
    if seen.times[-1] < ends[-1] or not (stays | dies).all():
        return Fate(UNDECIDED, -1, *seen.last)
    return Fate(LIMIT, int((stays & ~dies).sum()), *seen.last)


def _is_sudden(
    attention: Layer, cov0: ArrayLike, time: float, cov: Array, rtol: float
) -> bool:  # fmt: skip
    """Was most of the growth, in logarithms, in the last part of the time?"""
    try:
        before = gaussian_flow(attention, cov0, [0.0, (1 - LAST_PART) * time], rtol=rtol)
    except FlowStopped:
        return False
    if before.stopped:
        return False
    first, late = np.log(before.eigenvalues[:, -1])
    final = np.log(np.linalg.eigvalsh(cov)[-1])
    return bool(final - late > MOST * (final - first))
