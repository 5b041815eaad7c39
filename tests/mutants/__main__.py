"""The campaign: ``python -m mutants --number 500``. Resumable; see ``make mutants``.

Writes benchmarks/results/mutants.json after every mutant. Mutants that change nothing that could be
noticed are listed in tests/mutants/equivalent.yml with the reason.
"""

from __future__ import annotations

import argparse
import json
import os
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import yaml

from mutants import covering, trying
from mutants.drawing import ROOT, Mutant, draw

RESULTS = ROOT / "benchmarks" / "results" / "mutants.json"
EQUIVALENT = Path(__file__).with_name("equivalent.yml")


def main() -> None:
    """Draw, try, count."""
    asked = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    asked.add_argument("--number", type=int, default=500)
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    asked.add_argument("--again", action="store_true", help="try those that survived once more")
    given = asked.parse_args()
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    rows: dict[str, Any] = found.get("mutants", {}) if found.get("seed") == given.seed else {}
    cover = covering.load(given.workers)
    trying.preload()
    drawn = draw(given.number, given.seed)
    keys = {mutant.key for mutant in drawn}
    rows = {key: row for key, row in rows.items() if key in keys}
    again = {key for key, row in rows.items() if given.again and _noticeable(row)}
    todo = [mutant for mutant in drawn if mutant.key not in rows or mutant.key in again]
    with get_context("fork").Pool(given.workers) as pool:  # each forks a child a mutant
        for key, row in pool.imap_unordered(partial(_try, cover), todo):
            rows[key] = row
            _save(given.seed, rows)
            print(f"{len(rows)}/{len(drawn)} {row['verdict']} {row['change']}", flush=True)
    print(summary(rows))


def _try(cover: covering.Cover, mutant: Mutant) -> tuple[str, dict[str, Any]]:
    tests = trying.plan(cover.quickest(mutant.path, mutant.line, chapters=False), cover.seconds)
    chapters = cover.quickest(mutant.path, mutant.line, chapters=True)
    expected = sum(cover.seconds.get(name, 0.0) for name in tests)
    before, after = mutant.change()
    outcome = trying.attempt(mutant, tests, chapters, expected)
    change = f"{mutant.path}: {before} -> {after}"  # lines move, changes do not
    return mutant.key, {**outcome._asdict(), "change": change, "tests": len(tests)}


def _alive(row: dict[str, Any]) -> bool:
    return bool(row["verdict"] == trying.SURVIVED)


def _noticeable(row: dict[str, Any]) -> bool:
    return _alive(row) and row["change"] not in equivalents()


def equivalents() -> dict[str, str]:
    """The changes that nobody can notice, by "path: before -> after", with the reason."""
    if not EQUIVALENT.exists():
        return {}
    return {row["change"]: row["reason"] for row in yaml.safe_load(EQUIVALENT.read_text()) or ()}


def counts(rows: dict[str, Any]) -> dict[str, Any]:
    """How many were drawn, noticed, could not be noticed, and survived."""
    same = equivalents()
    alive = [row["change"] for row in rows.values() if _alive(row)]
    listed = sum(change in same for change in alive)
    killed = len(rows) - len(alive)
    return {
        "mutants": len(rows),
        "killed": killed,
        "equivalent": listed,
        "survived": len(alive) - listed,
        "killed of those that could be noticed": f"{killed / max(len(rows) - listed, 1):.1%}",
    }


def summary(rows: dict[str, Any]) -> str:
    """The counts in one line."""
    return ", ".join(f"{value} {name}" for name, value in counts(rows).items())


def _save(seed: int, rows: dict[str, Any]) -> None:
    command = f"make mutants NUMBER={len(rows)} SEED={seed}"
    found = {"command": command, "seed": seed, "counts": counts(rows), "mutants": rows}
    text = json.dumps(found, indent=0, sort_keys=True)
    draft = RESULTS.with_suffix(".draft")
    draft.write_text(text + "\n", "utf-8")
    draft.replace(RESULTS)


if __name__ == "__main__":
    main()
