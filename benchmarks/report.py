"""What both benchmarks share: one core, a measured subprocess, and the results' file.

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


def store(name: str, tables: dict[str, Any]) -> None:
    """Write results/NAME.json, whole or not at all."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    draft = path.with_suffix(f".{os.getpid()}.tmp")
    draft.write_text(json.dumps(surroundings() | tables, indent=1) + "\n", encoding="utf-8")
    draft.replace(path)
    print(f"written to {path.parent.parent.name}/{path.parent.name}/{path.name}")


def show(rows: list[dict[str, Any]], formats: dict[str, Callable[[Any], str]]) -> None:
    """A table of the named columns; what is missing prints as a dash."""
    cells = [
        ["-" if row.get(key) is None else form(row[key]) for key, form in formats.items()]
        for row in rows
    ]
    widths = [max(len(c) for c in column) for column in zip(formats, *cells, strict=True)]
    for line in [list(formats), *cells]:
        print("  ".join(c.rjust(w) for c, w in zip(line, widths, strict=True)), flush=True)
