"""A kernel that does not outlive whoever started it. Run as a script: ``python -P kernel.py -f FILE``.

ipykernel looks once a second whether its parent is still there, which a cell busy in compiled
code can hold up. Linux is asked to end the kernel itself. Nothing of attnflow is imported here:
the kernel's own path says which copy the chapter uses.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Have the kernel killed when its parent ends, however it ends."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(os.environ.get("JPY_PARENT_PID", os.getppid())):
        os._exit(1)  # it ended before we asked


if __name__ == "__main__":
    end_with_parent()
    from ipykernel.kernelapp import launch_new_instance

    launch_new_instance()
