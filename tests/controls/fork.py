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
from typing import Any, ClassVar, NoReturn, TypeVar, cast

T = TypeVar("T")
AVAILABLE = hasattr(os, "fork")
#: A child may be on its way for so many times the seconds that it may compute: machines are shared.
SLACK = 10


class NoAnswer(Exception):
    """A child ended without a result."""


class Child:
    """A copy of this process that waits for a word, and then works for `limit` seconds at most."""

    #: The ends of pipes that this process holds: a child that kept those of another would keep it waiting.
    _ours: ClassVar[set[int]] = set()

    def __init__(self, work: Callable[[], object], limit: int) -> None:
        told, tell = os.pipe()
        self._read, write = os.pipe()
        self._tell, self.limit = tell, limit
        with warnings.catch_warnings():
            # Python 3.12 warns of the test runner's threads. They wait for messages, hold no lock
            # that the child takes, and a child that should hang in spite of that is ended.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            for end in (tell, self._read, *Child._ours):
                os.close(end)
            Child._ours.clear()
            if not os.read(told, 1):  # whoever made it is gone
                os._exit(1)
            os.close(told)
            _answer(work, write, limit)
        os.close(told)
        os.close(write)
        Child._ours |= {self._tell, self._read}

    def answer(self) -> Any:
        """What the work returned, once it is done."""
        os.write(self._tell, b"!")
        with os.fdopen(self._read, "rb") as pipe:
            sent = pipe.read()
        os.close(self._tell)
        Child._ours -= {self._tell, self._read}
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        if code == -signal.SIGXCPU:
            raise NoAnswer(f"it had no answer after {self.limit} seconds of computing")
        if code == -signal.SIGALRM:
            raise NoAnswer(
                f"it had no answer after {SLACK * self.limit} seconds, most of them idle"
            )
        if code != 0 or not sent:
            raise NoAnswer(f"its process ended with status {code} and no answer")
        good, answer = pickle.loads(sent)
        if not good:
            raise NoAnswer(answer)
        return answer


def forked(work: Callable[[], T], limit: int) -> T:
    """What `work` returns in a copy of this process, which may compute for `limit` seconds."""
    return cast(T, Child(work, limit).answer())


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
