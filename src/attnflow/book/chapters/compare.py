"""Does an output say again what is stored? Each kind is compared as what it is.

A check by its verdict and its unrounded numbers (:meth:`attnflow.claims.Check.agrees`), a number
of a sentence at the precision that the sentence prints (:meth:`attnflow.prose.Said.agrees`), all
else as text. A stored row must also show what its own numbers say: a digit edited by hand is
found although the numbers behind it are right.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import nbformat

from attnflow import claims, prose, provenance


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
                a if typed(a) and typed(b) and not disagreement(a, b) else b
                for a, b in zip(before, cell.outputs, strict=True)
            ]
        for output in cell.outputs:
            if provenance.MIME in output.get("data", {}):
                output["data"] = nbformat.from_dict(provenance.unstamped(output["data"]))
    return fresh
