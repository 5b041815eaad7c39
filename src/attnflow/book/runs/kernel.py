"""A kernel that does not outlive whoever started it. Run as a script: ``python -P kernel.py -f FILE``.

ipykernel looks once a second whether its parent is still there, which a cell busy in compiled
code can hold up. Linux is asked to end the kernel itself, and a guard beside it ends what its
cells started. Nothing of attnflow is imported here: the kernel's own path says which copy the
chapter uses.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def _when_parent_ends(sent: signal.Signals) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, sent)


def end_with_parent() -> None:
    """Have the kernel killed when its parent ends, however it ends."""
    if sys.platform != "linux":
        return
    _when_parent_ends(signal.SIGKILL)
    if os.getppid() != int(os.environ.get("JPY_PARENT_PID", os.getppid())):
        os._exit(1)  # it ended before we asked


def guard_children() -> None:
    """Leave a process that kills the kernel's group when the kernel ends: what cells started."""
    kernel = os.getpid()
    if sys.platform != "linux" or os.getpgrp() != kernel or os.fork():
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGUSR1})
    _when_parent_ends(signal.SIGUSR1)
    if os.getppid() == kernel:
        signal.sigwait({signal.SIGUSR1})
    os.killpg(kernel, signal.SIGKILL)


if __name__ == "__main__":
    end_with_parent()
    guard_children()
    from ipykernel.kernelapp import launch_new_instance

    launch_new_instance()
