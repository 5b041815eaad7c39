"""Numbers that a sentence of the book prints, carried with the precision at which it prints them.

``say`` stores a value under a name, where ``{glue:text}`` in a sentence finds it. It is shown
rounded; the unrounded numbers travel in the output's metadata, so that two runs are compared as
numbers, to half a unit of the last printed digit, and not as text on the edge of a digit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from string import Formatter
from typing import Any, NamedTuple

PREFIX = "application/papermill.record/"  #: what {glue:text} looks for
MIME = f"{PREFIX}text/plain"
FIELD = "attnflow.said"  #: in the metadata of an output: template and unrounded numbers

_SPEC = re.compile(r"(?P<comma>,?)(?:\.(?P<digits>\d+))?(?P<kind>[efg%]?)")
_POWER = re.compile(r"(?:1|(?P<mantissa>\d(?:\.\d+)?))e(?P<exponent>[+-]\d+)")
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class Said(NamedTuple):
    """Words with numbers in them: a format string and what goes into it.

    >>> Said("{:.0e}", (2.04e9,)).text
    '2×10⁹'
    """

    template: str
    values: tuple[Any, ...]

    @property
    def text(self) -> str:
        """What the sentence prints; powers of ten are set as such."""
        return _POWER.sub(_power, self.template.format(*self.values))

    def agrees(self, other: Said) -> bool:
        """Whether both print the same, up to half a unit of the last digit of each number."""
        if self.template != other.template or len(self.values) != len(other.values):
            return False
        specs = [spec for _, name, spec, _ in Formatter().parse(self.template) if name is not None]
        return all(
            _alike(a, b, spec or "")
            for a, b, spec in zip(self.values, other.values, specs, strict=True)
        )


def said(template: str, *values: Any) -> Said:
    """Words with numbers, refused where a number has no stated precision.

    >>> said("{:.2f} (95 %: {:.2f} to {:.2f})", 0.2712, 0.234, 0.316).text
    '0.27 (95 %: 0.23 to 0.32)'
    >>> said("{:.0e}", 2.04e9).text, said("{}", 64).text
    ('2×10⁹', '64')
    >>> said("{:.2f}", 2.2049999).agrees(said("{:.2f}", 2.2050001))
    True
    >>> said("{:.2f}", 2.204).agrees(said("{:.2f}", 2.214))
    False
    """
    plain = tuple(v.item() if hasattr(v, "item") else v for v in values)
    fields = [(name, spec) for _, name, spec, _ in Formatter().parse(template) if name is not None]
    if any(name for name, _ in fields) or len(fields) != len(plain):
        raise ValueError(
            f"template must have one unnamed field a value, got {template!r} for {len(plain)}"
        )
    for value, (_, spec) in zip(plain, fields, strict=True):
        if not _SPEC.fullmatch(spec or ""):
            raise ValueError(f"a field is {{}} or like {{:.2f}}, {{:,.0f}}, {{:.3g}}, got {spec!r}")
        if isinstance(value, float) and not spec:
            raise ValueError(f"a float needs a precision, as in {{:.2f}}, got {{}} for {value!r}")
        if not isinstance(value, (int | float) if spec else (int | str)):
            raise ValueError(f"values must be numbers, or text in {{}}, got {value!r}")
    return Said(template, plain)


def say(name: str, template: str | Said, *values: Any) -> None:
    """Store words under `name`, where ``{glue:text}`` in a sentence of this notebook finds them.

    >>> say("slope", "{:.2f}", 2.204)
    {'application/papermill.record/text/plain': "'2.20'"}
    """
    from IPython.display import display

    words = template if isinstance(template, Said) else said(template, *values)
    metadata = {
        "scrapbook": {"name": name, "mime_prefix": PREFIX},
        FIELD: {"template": words.template, "values": [_to_json(v) for v in words.values]},
    }
    display({MIME: repr(words.text)}, metadata=metadata, raw=True)


def from_metadata(metadata: Mapping[str, Any]) -> Said:
    """What :func:`say` stored, read back from an output's metadata.

    >>> from_metadata({FIELD: {"template": "{:.1f}", "values": [0.25]}}).text
    '0.2'
    """
    fields = metadata[FIELD]
    return Said(str(fields["template"]), tuple(_from_json(v) for v in fields["values"]))


def _alike(a: Any, b: Any, spec: str) -> bool:
    if spec and math.isfinite(a) and math.isfinite(b):
        return abs(a - b) <= 0.5 * unit(max(abs(a), abs(b)), spec)
    return bool(a == b or (a != a and b != b))


def unit(value: float, spec: str) -> float:
    """One of the last digit that `spec` prints of `value`.

    >>> unit(2.2, ".2f"), unit(0.31, ".0%"), unit(1099438.0, ".3g")
    (0.01, 0.01, 10000.0)
    """
    found = _SPEC.fullmatch(spec)
    if found is None:
        raise ValueError(f"a field is like {{:.2f}}, {{:,.0f}} or {{:.3g}}, got {spec!r}")
    digits, kind = int(found["digits"] or 6), found["kind"] or "g"
    if kind in "f%":
        return 10.0 ** -(digits + 2 * (kind == "%"))
    leading = math.floor(math.log10(value)) if value > 0 else 0
    return 10.0 ** (leading - digits + (kind == "g"))


def _power(found: re.Match[str]) -> str:
    raised = str(int(found["exponent"])).translate(_RAISED)
    return f"{found['mantissa']}×10{raised}" if found["mantissa"] else f"10{raised}"


def _to_json(value: Any) -> Any:
    finite = not isinstance(value, float) or math.isfinite(value)
    return value if finite else {"float": str(value)}


def _from_json(value: Any) -> Any:
    return float(value["float"]) if isinstance(value, Mapping) else value
