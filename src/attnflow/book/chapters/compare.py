"""Does an output say again what is stored? Each kind is compared as what it is.

A check by its verdict and its unrounded numbers (:meth:`attnflow.claims.Check.agrees`), a number
of a sentence at the precision that the sentence prints (:meth:`attnflow.prose.Said.agrees`), all
else as text. A stored row must also show what its own numbers say: a digit edited by hand is
found although the numbers behind it are right.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import nbformat

from attnflow import claims, prose, provenance

#: Places in a drawing are one if they are as near as this, in points.
FINER = 0.01
_NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")


def typed(output: Mapping[str, Any]) -> bool:
    """Whether an output carries numbers that say how they are to be compared."""
    metadata = output.get("metadata", {})
    return claims.MIME in metadata or prose.FIELD in metadata


def disagreement(stored: Mapping[str, Any], fresh: Mapping[str, Any]) -> str:
    """Why two typed outputs do not say the same, or "" where they do."""
    for label, output in (("the stored output", stored), ("the new output", fresh)):
        try:
            shown, words = _shown(output)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            return f"{label} carries no readable numbers: {type(error).__name__}: {error}"
        if shown != words:
            return f"{label} shows {words!r}, but its numbers say {shown!r}"
    if claims.MIME in stored["metadata"]:
        a, b = (claims.from_json(o["metadata"][claims.MIME]) for o in (stored, fresh))
        return "" if a.agrees(b) else f"stored {a.exact()}\nnow    {b.exact()}"
    names = [o["metadata"]["scrapbook"]["name"] for o in (stored, fresh)]
    c, d = (prose.from_metadata(o["metadata"]) for o in (stored, fresh))
    if names[0] == names[1] and c.agrees(d):
        return ""
    return f"stored {names[0]}: {c.text!r} {c.values}\nnow    {names[1]}: {d.text!r} {d.values}"


def _says_again(stored: Mapping[str, Any], fresh: Mapping[str, Any]) -> bool:
    if typed(stored) or typed(fresh):
        return typed(stored) and typed(fresh) and not disagreement(stored, fresh)
    shown = [str(output.get("data", {}).get("text/html", "")) for output in (stored, fresh)]
    still = "<svg" in shown[0] and "<script" not in shown[0]  # numbers of a script are no places
    return still and same_drawing(*shown)


def same_drawing(a: str, b: str) -> bool:
    """Whether two drawings are one to a hundredth of a point, which is finer than any screen.

    >>> same_drawing('<svg x="1.000001"/>', '<svg x="1.000002"/>')
    True
    >>> same_drawing('<svg x="1.00"/>', '<svg x="1.02"/>')
    False
    """
    (words, one), (others, other) = ((_NUMBER.sub("#", t), _NUMBER.findall(t)) for t in (a, b))
    return words == others and all(
        abs(float(u) - float(v)) <= FINER for u, v in zip(one, other, strict=True)
    )


def _shown(output: Mapping[str, Any]) -> tuple[Any, Any]:
    """What an output should show by its numbers, and what it shows."""
    metadata, data = output["metadata"], dict(output["data"])
    if claims.MIME in metadata:
        return claims.from_json(metadata[claims.MIME])._repr_mimebundle_()[0], data
    return {prose.MIME: repr(prose.from_metadata(metadata).text)}, data


def merge(stored: nbformat.NotebookNode, fresh: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """`fresh` as it is to be committed: an output that says what is stored stays as it is stored.

    So storing anew, perhaps on another processor, changes nothing where nothing changed. Footers
    lose what only this run knows, its key and duration.
    """
    known = {c.id: c.outputs for c in stored.cells if c.cell_type == "code"}
    for cell in fresh.cells:
        if cell.cell_type != "code":
            continue
        before = known.get(cell.id, [])
        if len(before) == len(cell.outputs):
            cell.outputs = [
                a if _says_again(a, b) else b for a, b in zip(before, cell.outputs, strict=True)
            ]
        for output in cell.outputs:
            if provenance.MIME in output.get("data", {}):
                output["data"] = nbformat.from_dict(provenance.unstamped(output["data"]))
    return fresh
