"""Work in a child process that is gone afterwards, with all that it changed and allocated.

A child that does not answer is an error, whatever the reason: it raised, it crashed, it was
killed, or it took too long.
"""

from __future__ import annotations

import os
import pickle
import signal
import traceback
import warnings
from collections.abc import Callable
from typing import NoReturn, TypeVar

T = TypeVar("T")
AVAILABLE = hasattr(os, "fork")
#: A child may be on its way for so many times the seconds that it may compute: machines are shared.
SLACK = 10


class NoAnswer(Exception):
    """A child ended without a result."""


def forked(work: Callable[[], T], limit: int) -> T:
    """What `work` returns in a copy of this process, which may compute for `limit` seconds."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 warns of the test runner's threads. They wait for messages, hold no lock that
        # the child takes, and a child that should hang in spite of that is ended.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        os.close(read)
        _answer(work, write, limit)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        sent = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code == -signal.SIGXCPU:
        raise NoAnswer(f"it had no answer after {limit} seconds of computing")
    if code == -signal.SIGALRM:
        raise NoAnswer(f"it had no answer after {SLACK * limit} seconds, most of them idle")
    if code != 0 or not sent:
        raise NoAnswer(f"its process ended with status {code} and no answer")
    good, answer = pickle.loads(sent)
    if not good:
        raise NoAnswer(answer)
    return answer


def _answer(work: Callable[[], object], write: int, limit: int) -> NoReturn:
    """The child's part: it leaves by os._exit, so that nothing of the test runner runs twice.

    The system ends it at its limit, in compiled loops too, and also if its parent is gone.
    """
    import resource  # where there is os.fork

    status = 1
    try:
        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, most))
        for end in (signal.SIGXCPU, signal.SIGALRM):
            signal.signal(end, signal.SIG_DFL)
        signal.alarm(SLACK * limit)
        try:
            answer: tuple[bool, object] = (True, work())
        except BaseException:
            answer = (False, traceback.format_exc())
        with os.fdopen(write, "wb") as pipe:
            pickle.dump(answer, pipe)
        status = 0
    finally:
        os._exit(status)
