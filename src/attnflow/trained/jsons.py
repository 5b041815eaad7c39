"""JSON that others wrote: read whole or refused, at a bounded cost.

A file has a limited size, a name stands for one thing, and a number has at most twenty digits and is
finite. The parser of the standard library allows more in each of these, and so would two readers of
one file see two things.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from attnflow.trained.weights import CheckpointError, blame, describe

#: Bytes. An object in memory needs up to thirty times its text.
LIMIT = 2**22
DIGITS = 20  #: of 2^64


def read_small(path: Path, limit: int = LIMIT) -> bytes:
    """The bytes of a file that has to be small."""
    with blame(path), open(path, "rb") as file:
        found = file.read(limit + 1)
        if len(found) > limit:
            raise CheckpointError(f"must have at most {limit} bytes, and has more")
    return found


def read_json(path: Path, limit: int = LIMIT) -> dict[str, Any]:
    """The object that a small file holds."""
    raw = read_small(path, limit)
    with blame(path, "is no JSON"):
        return parse(raw)


def parse(raw: bytes) -> dict[str, Any]:
    """The object that a text holds.

    >>> parse(b'{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    >>> parse(b'{"a": 1, "a": 2}')
    Traceback (most recent call last):
        ...
    attnflow.trained.weights.CheckpointError: must hold every name once in an object, got 'a' twice
    """
    found = json.loads(
        str(raw, "utf-8"),
        object_pairs_hook=_once,
        parse_int=_whole,
        parse_float=_number,
        parse_constant=_number,
    )
    if not isinstance(found, dict):
        raise CheckpointError(f"must hold a JSON object, got {type(found).__name__}")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise CheckpointError(
                f"must hold every name once in an object, got {describe(name)} twice"
            )
        found[name] = value
    return found


def _whole(text: str) -> int:
    if len(text) > DIGITS:
        raise CheckpointError(
            f"must hold numbers of at most {DIGITS} digits, got one of {len(text)}"
        )
    return int(text)


def _number(text: str) -> float:
    value = float(text) if len(text) <= 4 * DIGITS else math.inf
    if not math.isfinite(value):
        raise CheckpointError(f"must hold finite numbers, got {describe(text)}")
    return value
