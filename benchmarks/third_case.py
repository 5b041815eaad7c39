"""What random layers do to a Gaussian cloud, counted by dimension.

    python benchmarks/third_case.py                    writes src/attnflow/gaussian/data/third_case.json
    python benchmarks/third_case.py --draws 50 --out third_case.json

Entries of Q, K and V are N(0, 1/d), the cloud starts as N(0, I), attention is softmax. Where the cloud
grows without blow-up its exponent is measured, and compared with that of the cone. The chapter
`third_case` shows the counts beside its own, smaller run.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path

import numpy as np
from tqdm import tqdm

from attnflow.attention import SoftmaxAttention
from attnflow.errors import FlowStopped
from attnflow.files import draft
from attnflow.gaussian import cone, fate, growth

DIMENSIONS = (2, 3, 4, 5)
TARGET = Path(__file__).parents[1] / "src" / "attnflow" / "gaussian" / "data" / "third_case.json"


def one(d: int, seed: int, k: int) -> dict[str, object]:
    """The fate of one random layer."""
    Q, K, V = np.random.default_rng([seed, d, k]).normal(size=(3, d, d)) / np.sqrt(d)
    layer, start = SoftmaxAttention(Q, K, V), np.eye(d)
    found = fate(layer, start)
    row: dict[str, object] = {"outcome": found.outcome, "rank": found.rank}
    if found.outcome != "growth":
        return row
    try:
        grown = growth(layer, start, found.time, rtol=1e-6)
    except (
        FlowStopped,
        ValueError,
    ):  # too fast, or too stiff, for an exponent: counted all the same
        return row
    shape = cone(K.T @ Q, V, grown.cov)
    numbers = {"rate": grown.rate, "first": shape.first, "second": shape.second}
    numbers |= {"exponent": shape.exponent, "size": float(np.linalg.eigvalsh(grown.cov)[-1])}
    return row | {name: float(f"{value:.6g}") for name, value in numbers.items()}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--draws", type=int, default=200)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--out", type=Path, default=TARGET)
    given = arguments.parse_args()
    began, layers = time.process_time(), {}
    for d in DIMENSIONS:
        layers[str(d)] = [one(d, given.seed, k) for k in tqdm(range(given.draws), desc=f"d = {d}")]
        made = {
            "command": f"python benchmarks/third_case.py --draws {given.draws} --seed {given.seed}",
            "draws": given.draws, "seed": given.seed, "python": platform.python_version(),
            "numpy": np.__version__, "cpu seconds": round(time.process_time() - began),
        }  # fmt: skip
        with draft(given.out) as out:
            out.write_text(json.dumps({"made": made, "layers": layers}, indent=0), encoding="utf-8")


if __name__ == "__main__":
    main()
