r"""One integration, from a state to the last time asked for or to where it stops.

It begins with DOP853, an explicit method of order 8 (:cite:t:`hairer1993`). Where one direction is
held down much faster than the others move, no explicit method can take steps longer than that
direction allows: the flow is *stiff*, and is handed to LSODA, whose implicit formulas (backward
differences) have no such limit. Every leg counts time from its own beginning, so that steps shorter
than the rounding of the elapsed time can still be taken.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.integrate import DOP853, LSODA

from attnflow.errors import FlowStopped
from attnflow.gaussian.system import System
from attnflow.validate import Array

#: Errors of entries of F are also measured against this part of their size at the start.
SMALL = 1e-6
#: Velocities after which an explicit method is asked whether it could do better, again and again:
#: ten times what most flows need in all.
PATIENCE = 2_000
#: DOP853 is stable up to a step of about 6 in units of the fastest decay. Where accuracy limits
#: its steps they are shorter than 1; where stability does, they lie between 3 and 6.
STABILITY = 2.5
#: A flow that needs more velocities than this is given up: it would take minutes.
MOST_VELOCITIES = 100_000

METHODS = {"DOP853": DOP853, "LSODA": LSODA}
#: Why a leg ended, beside what its watch says.
END, STIFF, FAILED = "end", "stiff", "failed"


class Leg(NamedTuple):
    """Where a leg ended and why, and the states at the times asked for up to there."""

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
    >>> leg = follow(system, "DOP853", 0.0, system.start, np.array([0.375]), lambda y: "", rtol=1e-9)
    >>> leg.stop, leg.y[:1].round(6)
    ('end', array([2.]))
    """
    local, states = times - elapsed, [np.empty((0, len(y)))]
    done, look = 0, system.velocities + PATIENCE
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="lsoda", category=UserWarning)
        solver = METHODS[method](
            lambda s, y: system.velocity(elapsed + s, y), 0.0, y, local[-1],
            rtol=rtol, atol=rtol * SMALL * system.width,
        )  # fmt: skip
        while solver.status == "running":
            before = float(solver.t), solver.y
            solver.step()
            if solver.status == "failed" or not np.isfinite(solver.y).all():
                return Leg(elapsed + before[0], before[1], FAILED, np.concatenate(states))
            reached = int(np.searchsorted(times, elapsed + solver.t, side="right"))
            if solver.status == "finished":
                reached = len(times)
            if reached > done:
                at = np.minimum(local[done:reached], solver.t)
                states.append(solver.dense_output()(at).T)
                done = reached
            stop = watch(solver.y)
            if not stop and system.velocities > look and solver.status == "running":
                look = system.velocities + PATIENCE
                stop = _hopeless(system, method, elapsed, solver)
            if stop:
                return Leg(elapsed + float(solver.t), solver.y, stop, np.concatenate(states))
    return Leg(float(times[-1]), states[-1][-1], END, np.concatenate(states))


def _hopeless(system: System, method: str, elapsed: float, solver: DOP853 | LSODA) -> str:
    """STIFF if an implicit method would get further; an error if the velocities are used up."""
    if method == "DOP853":
        steps_left = (solver.t_bound - solver.t) / solver.step_size
        if steps_left * solver.n_stages > PATIENCE and _is_stiff(system, elapsed, solver):
            return STIFF
    if system.velocities > MOST_VELOCITIES:
        raise FlowStopped(
            f"the flow stopped at t = {system.clock + elapsed + solver.t:.8g}, after "
            f"{MOST_VELOCITIES} velocities: shorten the times, raise rtol, or scale the layer down"
        )
    return ""


def _is_stiff(system: System, elapsed: float, solver: DOP853) -> bool:
    """Are steps limited by how fast some direction is held down?"""
    J = system.jacobian(elapsed + solver.t, solver.y)
    if not np.isfinite(J).all():
        return False
    fastest = float(-np.linalg.eigvals(J).real.min())
    return fastest * float(solver.step_size) > STABILITY
