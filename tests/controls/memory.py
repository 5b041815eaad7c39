"""What the honest pass has computed, its sabotaged children need not compute again.

A few functions are pure and take seconds. While the honest pass runs, their answers are written
down under a digest of what they were given; a child that gives one of them the same is handed the
answer. A mistake that acts inside such a function is hidden by this, so that the check does not
fail: the child then tries again and computes everything afresh. Answers that are remembered are
honest ones, so a memory can hide a mistake and never make one up.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import io
import os
import pickle
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

#: Module, and the function or method, that is worth remembering.
SLOW = (
    ("attnflow.gaussian.fates", "fate"),
    ("attnflow.gaussian.flow", "gaussian_flow"),
    ("attnflow.lipschitz.lanczos", "local_constant"),
    ("attnflow.trained.model", "Model.forward"),
    ("attnflow.trained.derivative", "Derivative.norm"),
)
#: Classes whose objects are too large to be read: they are told apart as objects.
LARGE = (("attnflow.trained.model", "Model"),)


class Memory:
    """Answers of slow functions, a file each. The process that made it writes, its children read."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.writer, self.used = folder, os.getpid(), True
        self.known: dict[int, Any] = {}  #: large objects, kept so that no other takes their place

    def acquaint(self, objects: Iterable[Any]) -> None:
        """From here on the large ones among these are known, here and in children to come."""
        kinds = tuple(
            getattr(sys.modules[module], name) for module, name in LARGE if module in sys.modules
        )
        self.known |= {id(value): value for value in objects if isinstance(value, kinds)}

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Let the slow functions remember, wherever the package shows them."""
        for home, name in SLOW:
            module = importlib.import_module(home)
            owner, _, method = name.rpartition(".")
            if owner:
                kind = getattr(module, owner)
                patch.setattr(kind, method, self.remembering(getattr(kind, method), name))
                continue
            honest = getattr(module, name)
            wrapped = self.remembering(honest, name)
            for at, shown in list(sys.modules.items()):
                if at.partition(".")[0] in ("attnflow", home) and vars(shown).get(name) is honest:
                    patch.setattr(shown, name, wrapped)

    def remembering(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        """The function, which looks before it computes."""

        @functools.wraps(function)
        def looks(*args: Any, **options: Any) -> Any:
            path = self._place((name, args, options)) if self.used else None
            if path is not None and path.is_file():
                return pickle.loads(path.read_bytes())
            answer = function(*args, **options)
            if path is not None and os.getpid() == self.writer:
                path.write_bytes(pickle.dumps(answer, pickle.HIGHEST_PROTOCOL))
            return answer

        return looks

    def _place(self, given: object) -> Path | None:
        """The file of an answer, or None where what was given cannot be told from other things."""
        stream = io.BytesIO()
        try:
            _Reader(stream, self.known).dump(given)
        except Exception:  # a function of the chapter, an unknown network: nothing is remembered
            return None
        return self.folder / hashlib.blake2b(stream.getbuffer(), digest_size=20).hexdigest()


class _Reader(pickle.Pickler):
    """Writes what is to be digested: large objects that are known by their place, others not at all."""

    def __init__(self, stream: io.BytesIO, known: dict[int, Any]) -> None:
        super().__init__(stream, pickle.HIGHEST_PROTOCOL)
        self.known = known

    def persistent_id(self, value: Any) -> int | None:
        if id(value) in self.known:
            return id(value)
        kind = type(value)
        if (kind.__module__, kind.__qualname__) in LARGE:
            raise pickle.PicklingError(f"{value!r} is not known")
        return None
