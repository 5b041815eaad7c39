"""Reads files in processes of their own, and tells what was said and what it cost.

Started as a program it imports the package once. Then, for every line of its input, it starts a copy
of itself that reads one file under limits of time and memory, and prints a line: what came of it, the
seconds of processor time and the megabytes it took beyond those of a copy that reads nothing.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

SECONDS = 2  #: that a file may take to be refused
MEGABYTES = 200
IDS = (3, 14, 15, 9, 26, 5)


class Answer(NamedTuple):
    kind: str  #: the class of what was raised, "read" if nothing was, "killed" at a limit
    said: str
    seconds: float
    megabytes: float


class Reader:
    """The program below, to be asked for one file after another."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __call__(self, ask: str, path: Path) -> Answer:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([ask, str(path)]) + "\n")
        self.process.stdin.flush()
        return Answer(*json.loads(self.process.stdout.readline()))

    def close(self) -> None:
        self.process.communicate(timeout=30)


def _weights(path: str) -> None:
    """Open a file of weights, and read every tensor."""
    from attnflow.trained.checkpoints import open_weights

    found = open_weights(path)
    for name in found:
        found[name]


def _model(path: str) -> None:
    """Load a model, and run it."""
    from attnflow.trained import load

    load(path).forward(IDS)


def _text(path: str) -> None:
    """Load a model, and let it read a text."""
    from attnflow.trained import load

    load(path).encode("a" * 40 + "b")


def _burn(path: str) -> None:
    """Never end."""
    while path:
        pass


def _hold(path: str) -> None:
    """Take more memory than a file may."""
    assert len(bytearray(5 * MEGABYTES // 4 * 10**6)) > len(path)


ASKED: dict[str, Callable[[str], None]] = {
    "weights": _weights,
    "model": _model,
    "text": _text,
    "nothing": len,
    "burn": _burn,
    "hold": _hold,
}


def _tried(ask: str, path: str) -> tuple[str, str]:
    try:
        ASKED[ask](path)
    except BaseException as error:
        family = [c.__name__ for c in type(error).__mro__]
        return "CheckpointError" if "CheckpointError" in family else family[0], str(error)[:2000]
    return "read", ""


def _limited() -> None:
    """Limits for this process; memory beyond them is refused by the system."""
    with open("/proc/self/statm", encoding="utf-8") as file:
        held = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + 2**30, held + 2**30))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    signal.alarm(60)  # one that waits takes no processor time


def _answer(ask: str, path: str) -> tuple[str, str, float, float]:
    out, into = os.pipe()
    if (pid := os.fork()) == 0:
        if sys.platform == "linux":
            _limited()
        os.write(into, json.dumps(_tried(ask, path)).encode())
        os._exit(0)
    os.close(into)
    with open(out, "rb") as pipe:
        said = pipe.read()
    _, _, usage = os.wait4(pid, 0)
    kind, text = json.loads(said) if said else ("killed", "")
    unit = 1e6 if sys.platform == "darwin" else 1e3  # of ru_maxrss, in one MB
    return kind, text, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / unit


def main() -> None:
    import attnflow.trained  # noqa: F401

    *_, seconds, megabytes = _answer("nothing", "")
    for line in sys.stdin:
        ask, path = json.loads(line)
        kind, said, took, held = _answer(ask, path)
        found: Any = [kind, said, took - seconds, held - megabytes]
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
