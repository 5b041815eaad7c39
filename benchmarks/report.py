"""What the benchmarks share: one core, a measured subprocess, and the results' file.

Import it before numpy: libraries count the cores when they are loaded. On one core nobody waits for
threads that a busy machine does not run, so that ratios repeat; it is the same core for the peers.
"""

from __future__ import annotations

import json
import os
import platform
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

RESULTS = Path(__file__).parent / "results"
PACKAGES = (
    "attnflow", "numpy", "scipy", "finufft", "pot", "geomloss", "pykeops", "jax", "ott-jax", "torch", "transformers",
)  # fmt: skip


def peak_memory() -> int:
    """Bytes this process has held at most; Linux counts in kilobytes, macOS in bytes.

    Linux's rusage begins with what the process that started this one held; /proc does not.
    """
    status = Path("/proc/self/status")
    if status.is_file() and (found := re.search(r"VmHWM:\s*(\d+) kB", status.read_text())):
        return 1024 * int(found[1])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def apart(script: str, *arguments: Any) -> dict[str, Any]:
    """The JSON that `script` prints in a process of its own, so that peaks do not mix."""
    command = [sys.executable, script, *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def least_time(solve: Callable[[], Any], times: int) -> tuple[float, Any]:
    """The least processor time of several calls, and what the last returned."""
    best = float("inf")
    for _ in range(times):
        start = time.process_time()
        out = solve()
        best = min(best, time.process_time() - start)
    return best, out


def surroundings() -> dict[str, Any]:
    """Versions and cores: what a reader needs to compare, and nothing about whose machine it is."""
    return {
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "cores used": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "packages": {name: _version(name) for name in PACKAGES},
    }


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


#: A ratio that is less than this share of what is stored has fallen.
FALLEN = 2 / 3


def store(name: str, tables: dict[str, Any], *, among: bool = False) -> None:
    """Write results/NAME.json, whole or not at all; `among` keeps the tables that are not given.

    What was stored before is compared: ratios to peers that fell by more than a third are said.
    """
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    before = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    for line in fallen(before, tables):
        print(f"slower than stored: {line}")
    kept = before if among else {}
    draft = path.with_suffix(f".{os.getpid()}.tmp")
    draft.write_text(json.dumps(kept | surroundings() | tables, indent=1) + "\n", encoding="utf-8")
    draft.replace(path)
    print(f"written to {path.parent.parent.name}/{path.parent.name}/{path.name}")


def fallen(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Ratios that are less than FALLEN of those stored, a line each."""
    out = []
    for table, rows in now.items():
        old = {_case(row): row for row in _rows(before.get(table))}
        for row in _rows(rows):
            for key, value in row.items():
                known = old.get(_case(row), {}).get(key)
                if not key.startswith("ratio") or not isinstance(value, float) or not known:
                    continue
                if value < FALLEN * known:
                    case = ", ".join(f"{k} = {v}" for k, v in _case(row))
                    out.append(f"{table} ({case}): {key} {value:.1f}, stored {known:.1f}")
    return out


def _rows(table: Any) -> list[dict[str, Any]]:
    rows = table if isinstance(table, list) else [table]
    return [row for row in rows if isinstance(row, dict)]


#: Columns that say which case a row is.
_CASES = ("n", "d", "eps", "kind", "solver", "weights", "precision", "tokens", "problems")


def _case(row: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple((key, row[key]) for key in _CASES if key in row)


def show(rows: list[dict[str, Any]], formats: dict[str, Callable[[Any], str]]) -> None:
    """A table of the named columns; what is missing prints as a dash."""
    cells = [
        ["-" if row.get(key) is None else form(row[key]) for key, form in formats.items()]
        for row in rows
    ]
    widths = [max(len(c) for c in column) for column in zip(formats, *cells, strict=True)]
    for line in [list(formats), *cells]:
        print("  ".join(c.rjust(w) for c, w in zip(line, widths, strict=True)), flush=True)
