"""The parameters of a chapter: typed, documented, with the values they allow.

Each parameter stands on a line of its own in the cell tagged ``parameters``, annotated and
documented, with its range in interval notation where some values make no sense::

    beta: float = 4.0  # inverse temperature, in (0, 50]
    kind: str = "softmax"  # which attention, one of softmax | l2

That line is the only place a parameter is declared: the page shows it, papermill overrides it,
and this module reads and enforces it.
"""

from __future__ import annotations

import ast
import io
import math
import re
import tokenize
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

TYPES: dict[str, type] = {"int": int, "float": float, "str": str, "bool": bool}
LISTS: dict[str, type] = {"list[int]": int, "list[float]": float}
_INTERVAL = re.compile(r",?\s*in\s*([\[(])\s*([^,\s]+)\s*,\s*([^,\s]+)\s*([\])])\s*$")
#: Numbers as people write them; Python would also take 1_0, ２４ and what only it can read.
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*", re.ASCII | re.IGNORECASE)
_INFINITE = re.compile(r"\s*[+-]?inf(inity)?\s*", re.IGNORECASE)
_WHOLE = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)
_CHOICES = re.compile(r",?\s*one of\s+(\S+(?:\s*\|\s*\S+)+)\s*$")


class BookError(Exception):
    """A mistake a user can mend; shown without a traceback."""

    fatal = False  #: whether it ends a sweep, not one run
    code = 2  #: the exit code of a command that it ends


class DiskError(BookError):
    """The disk does not take what was made."""

    code = 1


class Parameter(NamedTuple):
    """One line of a parameter cell."""

    name: str
    type: str
    default: Any
    help: str
    interval: tuple[str, float, float, str] | None = None
    choices: tuple[Any, ...] = ()

    @property
    def allowed(self) -> str:
        """The rule in words."""
        if self.choices:
            return f"{self.type}, one of {' | '.join(map(str, self.choices))}"
        if self.interval:
            left, low, high, right = self.interval
            return f"{self.type} in {left}{low:g}, {high:g}{right}"
        return self.type

    @property
    def is_free(self) -> bool:
        """Whether it is any text at all, such as the name of a folder."""
        return self.type == "str" and not self.choices

    def parse(self, value: Any) -> Any:
        """`value`, perhaps text from a command line, as this parameter's type and in its range."""
        try:
            out = self._convert(value.tolist() if hasattr(value, "tolist") else value)
        except (ValueError, SyntaxError, TypeError, LookupError, OverflowError):
            raise BookError(f"{self.name} must be {self.allowed}, got {value!r:.80}") from None
        for entry in out if isinstance(out, list) else [out]:
            if not self._admits(entry):
                raise BookError(f"{self.name} must be {self.allowed}, got {value!r:.80}")
        return out

    def _convert(self, value: Any) -> Any:
        if self.type in LISTS:
            entries = _listed(value) if isinstance(value, str) else value
            if not isinstance(entries, list | tuple):
                raise ValueError
            return [_scalar(entry, LISTS[self.type]) for entry in entries]
        return _scalar(value, TYPES[self.type])

    def _admits(self, value: Any) -> bool:
        if self.choices and value not in self.choices:
            return False
        if isinstance(value, float) and math.isnan(value):
            return False
        if not self.interval:
            return True
        left, low, high, right = self.interval
        above = value >= low if left == "[" else value > low
        below = value <= high if right == "]" else value < high
        return above and below


def _listed(text: str) -> list[str]:
    """The entries of "[1, 2, 3]" or "(1, 2, 3)"."""
    inner = text.strip()
    if (inner[:1], inner[-1:]) not in (("[", "]"), ("(", ")")) or len(inner) < 2:
        raise ValueError
    entries = [entry.strip() for entry in inner[1:-1].split(",")]
    return entries[:-1] if entries[-1] == "" else entries


def _scalar(value: Any, kind: type) -> Any:
    if kind is bool:
        if isinstance(value, bool):
            return value
        return {"true": True, "false": False, "1": True, "0": False}[str(value).lower()]
    if isinstance(value, bool):
        raise ValueError
    if isinstance(value, str) and kind is not str:
        if not (_NUMBER.fullmatch(value) or (kind is float and _INFINITE.fullmatch(value))):
            raise ValueError
        if len(value) > 400:
            raise ValueError
    if kind is int:
        if isinstance(value, str) and _WHOLE.fullmatch(value):
            return int(value)  # exact, however long
        number = float(value) if isinstance(value, str) else value  # "6.0", "1e3"
        if int(number) != number:
            raise ValueError
        return int(number)
    out = kind(value)
    if kind is str:
        out.encode()  # text that a file cannot hold is a ValueError
    return out


def parse_parameters(source: str, where: str = "parameters") -> tuple[Parameter, ...]:
    """Read a parameter cell.

    >>> [p.allowed for p in parse_parameters("n: int = 8  # tokens, in [2, 64]")]
    ['int in [2, 64]']
    """
    try:
        body = ast.parse(source).body
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (SyntaxError, tokenize.TokenError) as error:
        raise BookError(f"{where}: the parameter cell is not valid Python: {error}") from None
    comments = {t.start[0]: t.string.lstrip("# ") for t in tokens if t.type == tokenize.COMMENT}
    out = []
    for node in body:
        if not isinstance(node, ast.AnnAssign) or node.value is None:
            raise BookError(f"{where}: every parameter is `name: type = value  # help`")
        try:
            out.append(_declaration(node, comments.get(node.end_lineno or 0, "").strip()))
        except BookError as error:
            raise BookError(f"{where}: {error}") from None
        except (ValueError, TypeError, LookupError) as error:
            raise BookError(f"{where}: {ast.unparse(node.target)}: {error}") from None
    return tuple(out)


def _declaration(node: ast.AnnAssign, text: str) -> Parameter:
    name, kind = ast.unparse(node.target), ast.unparse(node.annotation)
    if kind not in TYPES and kind not in LISTS:
        types = ", ".join([*TYPES, *LISTS])
        raise BookError(f"{name} must have one of the types {types}, got {kind}")
    if not text:
        raise BookError(f"{name} has no comment that says what it is")
    plain = Parameter(name, kind, None, text)
    if found := _INTERVAL.search(text):
        if kind in ("str", "bool"):
            raise BookError(f"{name} is a {kind}, for which an interval makes no sense")
        interval = (found[1], float(found[2]), float(found[3]), found[4])
        plain = plain._replace(help=text[: found.start()], interval=interval)
    elif found := _CHOICES.search(text):
        options = tuple(_scalar(part.strip(), TYPES[kind]) for part in found[1].split("|"))
        plain = plain._replace(help=text[: found.start()], choices=options)
    assert node.value is not None
    return plain._replace(default=plain.parse(ast.literal_eval(node.value)))


def require_writable(folder: Path) -> None:
    """Refuse a folder in which nothing can be written, before any work is done for it."""
    probe = folder / f".{uuid.uuid4().hex[:8]}.probe"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"x" * 4096)
    except (OSError, ValueError) as error:  # a name with a null byte is a ValueError
        why = getattr(error, "strerror", None) or error
        raise BookError(f"cannot write in {folder}: {why}") from None
    finally:
        with suppress(OSError, ValueError):
            probe.unlink(missing_ok=True)
