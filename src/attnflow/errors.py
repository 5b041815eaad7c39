"""What can go wrong in the mathematics, as one family: every member says what to do about it.

A wrong argument is a ``ValueError`` or ``TypeError`` (see :mod:`attnflow.validate`). The members
here arise while computing; files that cannot be had or read have theirs beside what reads them, in
:mod:`attnflow.assets` and :mod:`attnflow.trained`. All are kinds of :class:`Trouble`, so that one line
silences, records or raises them: ``warnings.filterwarnings("error", category=Trouble)``.
"""

from __future__ import annotations


class Trouble(Exception):
    """Something that this package warns of or raises while it computes."""


class NotConverged(Trouble, RuntimeWarning):
    """An iteration stopped at its limit; the result carries its residual."""

    @classmethod
    def after(
        cls, who: str, iterations: int, residual: float, tol: float, advice: str
    ) -> NotConverged:
        """The warning of a solver, with what its caller can do.

        >>> print(NotConverged.after("sinkhorn", 9, 1e-3, 1e-9, "increase max_iter, or eps"))
        sinkhorn stopped after 9 iterations with residual 1.0e-03 > tol 1.0e-09: increase max_iter, or eps
        """
        return cls(
            f"{who} stopped after {iterations} iterations with residual {residual:.1e} > tol "
            f"{tol:.1e}: {advice}"
        )


class Frozen(Trouble, UserWarning):
    """Too few tokens for this temperature: the layer hardly moves them."""


class GridTooSmall(Trouble, UserWarning):
    """The grid does not hold the measure, or does not resolve it."""


class FlowStopped(Trouble, ArithmeticError):
    """A flow that could not be followed to its last time."""


class SolverFailed(Trouble, ArithmeticError):
    """A library's solver gave up."""


class MissingPackage(Trouble, ImportError):
    """An optional package is not installed."""

    @classmethod
    def named(cls, package: str, purpose: str, extra: str) -> MissingPackage:
        """What needs it, and the extra that brings it.

        >>> print(MissingPackage.named("finufft", "the fast kernel", "fast"))
        the fast kernel needs finufft, which is not installed: pip install 'attnflow[fast]'
        """
        return cls(
            f"{purpose} needs {package}, which is not installed: pip install 'attnflow[{extra}]'"
        )
