r"""Gaussian tokens stay Gaussian: their covariance and mean along time.

Attention moves Gaussian tokens by affine maps, and affine maps send Gaussians to Gaussians. So the flow of
infinitely many tokens is an equation for a mean and a covariance (:cite:t:`castin2025`),
:math:`\dot S = BS + SB^\top` and :math:`\dot\alpha = c` with B and c of :mod:`attnflow.gaussian.affine`.
The parts of its solution have files of their own: :mod:`attnflow.gaussian.system` is what is
integrated, :mod:`attnflow.gaussian.leg` integrates up to where something happens, and
:mod:`attnflow.gaussian.diagnosis` says what that means. Here they are put together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from attnflow import validate
from attnflow.attention import L2Attention, SinkhornAttention, SoftmaxAttention
from attnflow.attention.layer import Layer
from attnflow.errors import FlowStopped
from attnflow.gaussian import diagnosis
from attnflow.gaussian.affine import read_mean
from attnflow.gaussian.leg import END, EXPLICIT, FAILED, IMPLICIT, REALIGNED, STIFF, follow
from attnflow.gaussian.system import System
from attnflow.matrices import covariance
from attnflow.validate import Array

KINDS = {"softmax": SoftmaxAttention, "L2": L2Attention, "sinkhorn": SinkhornAttention}


class GaussianFlow(NamedTuple):
    """Covariances and means along time, up to the end or to where the flow stopped.

    >>> I = np.eye(1)
    >>> flow = gaussian_flow(SoftmaxAttention(I, I, I), 1.0, [0.0, 0.25, 1.0])
    >>> flow.stopped, flow.times.tolist(), flow.converged, flow.methods
    ('blow-up', [0.0, 0.25], True, ('DOP853',))
    """

    times: Array  #: (m,)
    covs: Array  #: (m, d, d)
    means: Array  #: (m, d)
    stopped: str  #: "" at the end; "blow-up"; "divergence": grown too far, not in finite time
    blow_up: float  #: the time of blow-up, inf where there is none within the horizon
    last: tuple[float, Array]  #: the last time reached and the covariance there
    iterations: int  #: how often the velocity was computed
    rtol: float  #: the relative error that was allowed in every step
    methods: tuple[str, ...]  #: of integration, in the order in which they were used

    @property
    def converged(self) -> bool:
        """Is it known what the flow does up to the last time: does it get there, or blow up?"""
        return self.stopped != diagnosis.DIVERGENCE

    @property
    def eigenvalues(self) -> Array:
        """Of the covariances, ascending, shape (m, d)."""
        return np.asarray(np.linalg.eigvalsh(self.covs), np.float64)


def gaussian_flow(
    attention: Layer | Callable[[float], Layer], cov0: ArrayLike, times: ArrayLike,
    mean0: ArrayLike | None = None, *, rtol: float = 1e-10,
) -> GaussianFlow:  # fmt: skip
    """The Gaussian at increasing times from N(mean0, cov0) at times[0] (:cite:t:`castin2025`).

    `attention` is a layer, or a function that gives the layer of every time. A flow that blows up
    within the horizon, or diverges beyond what doubles resolve, stops there: later times are left
    out, and `last` is where it got to. A flow that cannot be followed raises
    :class:`~attnflow.errors.FlowStopped`.

    >>> I = np.eye(1)
    >>> flow = gaussian_flow(SoftmaxAttention(I, I, I), 1.0, [0.0, 0.25, 1.0])
    >>> flow.covs.ravel().round(6), round(flow.blow_up, 6)
    (array([1., 2.]), 0.5)
    """
    S0 = covariance(cov0, "cov0")
    mean = np.zeros(len(S0)) if mean0 is None else read_mean(mean0, len(S0), "mean0")
    t, rtol = validate.times(times), validate.positive(rtol, "rtol")
    system = System(attention, S0, mean, clock=float(t[0]))
    path = _travel(system, t[1:] - t[0], rtol)
    states = np.concatenate([system.start[None], *path.states])  # (m, d^2 + d)
    F = states[:, : system.d**2].reshape(-1, system.d, system.d)
    last = system.factor(path.y)
    with np.errstate(over="ignore", invalid="ignore"):  # where it diverged, beyond all numbers
        covs, final = F @ F.transpose(0, 2, 1), last @ last.T
    return GaussianFlow(
        times=t[: len(states)], covs=covs, means=states[:, system.d**2 :], stopped=path.stopped,
        blow_up=system.clock + path.blow_up, last=(system.clock + path.elapsed, final),
        iterations=system.velocities, rtol=rtol, methods=path.methods,
    )  # fmt: skip


class _Path(NamedTuple):
    """All legs of a flow."""

    states: list[Array]
    elapsed: float
    y: Array
    stopped: str
    blow_up: float  #: the elapsed time
    methods: tuple[str, ...]


def _travel(system: System, times: Array, rtol: float) -> _Path:
    """Leg after leg, until the last of the elapsed times or to where the flow ends before it."""
    elapsed, y, done = 0.0, system.start, 0
    states: list[Array] = []
    methods, asked = [EXPLICIT], False

    def watch(y: Array) -> str:
        if diagnosis.is_beyond(system, y):
            return "beyond"
        return "large" if not asked and diagnosis.is_large(system, y) else ""

    while True:
        leg = follow(system, methods[-1], elapsed, y, times[done:], watch, rtol=rtol)
        stuck = leg.elapsed == elapsed
        elapsed, y, done = leg.elapsed, leg.y, done + len(leg.states)
        states.append(leg.states)
        if leg.stop == END:
            return _Path(states, elapsed, y, "", np.inf, tuple(methods))
        if leg.stop == STIFF:
            methods.append(IMPLICIT)
        elif leg.stop == FAILED and stuck:
            raise FlowStopped(
                f"the flow stopped at t = {system.clock + elapsed:.8g}, where no step is short "
                "enough: shorten the times, raise rtol, or scale the layer down"
            )
        elif leg.stop not in (FAILED, REALIGNED):
            beyond, asked = leg.stop == "beyond", True
            left = diagnosis.time_left(system, elapsed, y, last_word=beyond)
            if beyond or left < np.inf:
                stopped = diagnosis.BLOW_UP if left < np.inf else diagnosis.DIVERGENCE
                return _Path(states, elapsed, y, stopped, elapsed + left, tuple(methods))


def covariance_flow(
    kind: str, Q: ArrayLike, K: ArrayLike, V: ArrayLike, cov0: ArrayLike, t: float,
    mean0: ArrayLike | None = None, eps: float = 1.0,
) -> tuple[Array, Array]:  # fmt: skip
    """Covariance and mean at time t for "softmax", "L2" or "sinkhorn" (with `eps`).

    The end of :func:`gaussian_flow` from N(mean0, cov0) at time 0, which takes any layer. The flag `kind`
    stays for the code that calls it by name.

    >>> covariance_flow("L2", 1.0, 1.0, 1.0, 1.0, 1.0)[0].round(7)
    array([[4.9573005]])
    """
    validate.choice(kind, "kind", tuple(KINDS))
    Q, K, V = (np.atleast_2d(validate.real(m, name)) for m, name in ((Q, "Q"), (K, "K"), (V, "V")))
    layer = SinkhornAttention(Q, K, V, eps=eps) if kind == "sinkhorn" else KINDS[kind](Q, K, V)
    t = validate.positive(t, "t")
    if t > validate.LONGEST:
        raise ValueError(f"t must be at most {validate.LONGEST:g}, got {t:g}")
    flow = gaussian_flow(layer, cov0, [0.0, t], mean0)
    if flow.stopped:
        at = flow.blow_up if flow.stopped == diagnosis.BLOW_UP else flow.last[0]
        raise FlowStopped(
            f"{flow.stopped} of the covariance at t = {at:.8g}, before t = {t}: ask for an earlier t"
        )
    return flow.covs[-1], flow.means[-1]
