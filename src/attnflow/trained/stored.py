"""Local constants of every layer of two trained networks, which take too long for a chapter.

``benchmarks/real_text.py`` writes them; the chapter `sinks` reads them here, and computes a smaller
part itself beside them. The local constant is that of :cite:t:`castin2024`.
"""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from attnflow.validate import Array

_FILE = "real_text.json"


class Depth(NamedTuple):
    """Norms of derivatives at passages of n tokens."""

    n: int
    layers: Array  #: (passages, layers), of every layer
    stops: tuple[int, ...]  #: numbers of layers
    ends: Array  #: (passages, stops), of so many layers together


class RealText(NamedTuple):
    """What the run found, by the name of the model, and what it recorded of itself.

    >>> real_text().made["command"]
    'python benchmarks/real_text.py --passages 3 --seed 0'
    """

    lengths: tuple[int, ...]
    constants: dict[str, Array]  #: (layers, passages, lengths)
    sinkless: dict[str, Array]  #: the same with a null key in the place of the first token
    depth: dict[str, Depth]
    sentence: dict[str, Any]
    made: dict[str, Any]


def real_text(path: str | Path = "") -> RealText:
    """The stored run, or another file of the same form.

    >>> {name: values.shape[0] for name, values in real_text().constants.items()}
    {'minilm': 6, 'smollm2': 30}
    """
    source = Path(path) if path else files("attnflow.trained") / "data" / _FILE
    data = json.loads(source.read_text(encoding="utf-8"))
    models = [name for name in data if isinstance(data[name], dict) and "constants" in data[name]]
    return RealText(
        tuple(data["lengths"]),
        {name: np.array(data[name]["constants"]) for name in models},
        {name: np.array(data[name]["sinkless"]) for name in models if "sinkless" in data[name]},
        {name: _depth(data[name]["depth"]) for name in models},
        data["sentence"],
        data["made"],
    )


def _depth(found: dict[str, Any]) -> Depth:
    return Depth(
        found["n"], np.array(found["layers"]), tuple(found["stops"]), np.array(found["ends"])
    )
