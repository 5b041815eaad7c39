"""Every chapter with each parameter at each end of its range: what a range allows must work.

    export OMP_NUM_THREADS=1                           as every kernel of the book
    python benchmarks/corners.py                     every chapter
    python benchmarks/corners.py attention one_step

One parameter at a time, the others at their defaults. An end that the range leaves out is
approached to a thousandth of its width; an infinite end is left to `seeds.py`.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

from surveys import survey, write

from attnflow.book.chapters.parameters import Parameter
from attnflow.book.chapters.project import find_project

RESULTS = Path(__file__).parent / "results" / "corners.json"
NEAR = 1e-3  #: of an interval's width


def main() -> None:
    """Measure, and write the file."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("chapters", nargs="*")
    asked.add_argument("--jobs", type=int)
    given = asked.parse_args()
    project = find_project()
    chapters = project.chapters()
    for name in given.chapters or chapters:
        places = [
            {parameter.name: value}
            for parameter in chapters[name].parameters
            for value in ends(parameter)
        ]
        measured = survey(project, name, places, given.jobs)
        command = f"python benchmarks/corners.py {name}"
        write(RESULTS, list(chapters), name, {"command": command, "corners": places, **measured})


def ends(parameter: Parameter) -> list[Any]:
    """The finite ends of a parameter's range, or its choices; not its default."""
    if parameter.choices:
        values = list(parameter.choices)
    elif parameter.interval and not parameter.type.startswith("list"):
        left, low, high, right = parameter.interval
        width = high - low if math.isfinite(high - low) else 1.0
        step = 1 if parameter.type == "int" else NEAR * width
        values = [low if left == "[" else low + step, high if right == "]" else high - step]
    else:
        values = [True, False] if parameter.type == "bool" else []
    finite = [v for v in values if not (isinstance(v, float) and math.isinf(v))]
    return [v for v in map(parameter.parse, finite) if v != parameter.default]


if __name__ == "__main__":
    main()
