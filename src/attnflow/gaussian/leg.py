r"""One integration, from a state to the last time asked for or to where it stops.

It begins with DOP853, an explicit method of order 8 (:cite:t:`hairer1993`). Where one direction is
held down much faster than the others move, no explicit method can take steps longer than that
direction allows: the flow is *stiff*. It then goes on with BDF, scipy's backward differences, which
are implicit and have no such limit. Every leg counts time from its own beginning, so that steps
shorter than the rounding of the elapsed time can still be taken.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.integrate import BDF, DOP853
from scipy.linalg import LinAlgWarning

from attnflow.errors import FlowStopped
from attnflow.gaussian.system import System
from attnflow.validate import Array

#: Errors of entries of F are also measured against this part of the width at the start.
SMALL = 1e-6
#: Rounding leaves this part of a column of F as noise, which an implicit method must not try to
#: resolve. Its columns are made orthogonal again when F has grown by REALIGN.
NOISE, REALIGN = 1e-14, 4.0
#: Velocities after which the explicit method is asked whether it is stiff, again and again. A flow
#: that converges needs some hundred in all, one that blows up some thousand.
PATIENCE = 2_000
#: DOP853 is stable up to a step of about 6 in units of the fastest decay. Where accuracy limits
#: its steps they are shorter than 1; where stability does, they lie between 3 and 6. More than
#: twice that cannot be: then the rate is an artefact of rounding.
STABILITY = (2.5, 12.0)
#: The clock of a leg starts at this part of the time there is, not at 0: a step is never shorter
#: than the spacing of numbers there, so that a place that cannot be passed is soon known as one.
TICK = 1e-40
#: A flow that needs more velocities than this is given up: it would take minutes.
MOST_VELOCITIES = 100_000
#: Entries of a Jacobian beyond this are a trial step that went too far.
TOO_STEEP = 1e150

EXPLICIT, IMPLICIT = "DOP853", "BDF"
#: Why a leg ended, beside what its watch says.
END, STIFF, REALIGNED, FAILED = "end", "stiff", "realigned", "failed"


class Leg(NamedTuple):
    """Where a leg ended and why, and the states at the times asked for up to there.

    >>> Leg(1.0, np.ones(2), END, np.ones((1, 2))).stop
    'end'
    """

    elapsed: float  #: since the start of the flow
    y: Array
    stop: str
    states: Array  #: (times reached, len(y))


def follow(
    system: System, method: str, elapsed: float, y: Array, times: Array,
    watch: Callable[[Array], str], *, rtol: float,
) -> Leg:  # fmt: skip
    """From y at `elapsed` through `times` (both since the start), until `watch` names a reason.

    >>> from attnflow.attention import SoftmaxAttention
    >>> I = np.eye(1)
    >>> system = System(SoftmaxAttention(I, I, I), I, np.zeros(1), clock=0.0)
    >>> leg = follow(system, "BDF", 0.0, system.start, np.array([0.375]), lambda y: "", rtol=1e-9)
    >>> leg.stop, leg.y[:1].round(6)
    ('end', array([2.]))
    """
    local, states, done, now = times - elapsed, [np.empty((0, len(y)))], 0, elapsed
    widest = REALIGN * float(np.abs(y).max())
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", LinAlgWarning)  # BDF shortens a step it cannot solve for
        if not np.isfinite(system.velocity(elapsed, y)).all():
            return Leg(elapsed, y, FAILED, states[0])
        solver = _solver(system, method, elapsed, y, float(local[-1]), rtol)
        began = float(solver.t)
        while solver.status == "running":
            before, used = (now, solver.y), system.velocities
            _refuse_beyond(MOST_VELOCITIES, system, now)
            solver.step()
            if solver.status == "failed" or not np.isfinite(solver.y).all():
                return Leg(*before, FAILED, np.concatenate(states))
            now, finished = elapsed + float(solver.t) - began, solver.status == "finished"
            reached = len(times) if finished else int(np.searchsorted(times, now, side="right"))
            if reached > done:
                at = np.minimum(local[done:reached], solver.t)
                states.append(solver.dense_output()(at).T)
                done = reached
            stop = "" if finished else watch(solver.y)
            if method == EXPLICIT and not (stop or finished):
                due = system.velocities // PATIENCE > used // PATIENCE
                stop = STIFF if due and _is_stiff(system, now, solver) else ""
            elif not (stop or finished) and np.abs(solver.y).max() > widest:
                stop = REALIGNED
            if stop:
                return Leg(now, solver.y, stop, np.concatenate(states))
    return Leg(float(times[-1]), states[-1][-1], END, np.concatenate(states))


def _refuse_beyond(most: int, system: System, elapsed: float) -> None:
    if system.velocities > most:
        raise FlowStopped(
            f"the flow stopped at t = {system.clock + elapsed:.8g}, after {most} velocities: "
            "shorten the times, raise rtol, or scale the layer down"
        )


def _solver(
    system: System, method: str, elapsed: float, y: Array, end: float, rtol: float
) -> DOP853 | BDF:
    def velocity(s: float, y: Array) -> Array:
        return system.velocity(elapsed + s, y)

    def jacobian(s: float, y: Array) -> Array:
        J = system.jacobian(elapsed + s, y)
        return J if np.abs(J).max() < TOO_STEEP else np.zeros_like(J)

    atol = rtol * SMALL * system.width
    if method == EXPLICIT:
        return DOP853(velocity, TICK * end, y, end, rtol=rtol, atol=atol)
    y = system.aligned(y)
    noise = NOISE * system.scales(y)
    return BDF(
        velocity, TICK * end, y, end, rtol=rtol, atol=np.maximum(atol, noise), jac=jacobian
    )  # fmt: skip


def _is_stiff(system: System, elapsed: float, solver: DOP853) -> bool:
    """Are many steps left, and limited by how fast some direction is held down?"""
    step = float(solver.step_size)
    if solver.n_stages * (solver.t_bound - solver.t) / step < PATIENCE:
        return False
    J = system.jacobian(elapsed, system.aligned(solver.y))
    if not np.abs(J).max() < TOO_STEEP:
        return False
    return STABILITY[0] < -step * float(np.linalg.eigvals(J).real.min()) < STABILITY[1]
