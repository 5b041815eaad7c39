"""Every chapter with randomness at many seeds: does each check hold for all of them?

export OMP_NUM_THREADS=1                         as every kernel of the book
python benchmarks/seeds.py                       seeds 0 to 99 of every chapter
python benchmarks/seeds.py --seeds 20 attention one_step
"""

from __future__ import annotations

import argparse
from pathlib import Path

from surveys import survey, write

from attnflow.book.chapters.project import find_project

RESULTS = Path(__file__).parent / "results" / "seeds.json"


def main() -> None:
    """Measure, and write the file."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("chapters", nargs="*")
    asked.add_argument("--seeds", type=int, default=100)
    asked.add_argument("--jobs", type=int)
    given = asked.parse_args()
    project = find_project()
    random = [n for n, c in project.chapters().items() if "seed" in c.default_parameters]
    if calm := [name for name in given.chapters if name not in random]:
        asked.error(f"no seed in {', '.join(calm)}; chapters with one: {', '.join(random)}")
    for name in given.chapters or random:
        places = [{"seed": seed} for seed in range(given.seeds)]
        command = f"python benchmarks/seeds.py --seeds {given.seeds} {name}"
        measured = survey(project, name, places, given.jobs)
        write(RESULTS, random, name, {"command": command, "seeds": given.seeds, **measured})


if __name__ == "__main__":
    main()
