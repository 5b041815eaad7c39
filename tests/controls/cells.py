"""The code cells of a chapter on which its checks depend, each under its heading."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import nbformat

#: Ways to say where a chapter is run again, besides the words of a heading.
FIRST_CELL, SECTION, CELL = "first cell", "section", "cell"


class Cell(NamedTuple):
    """One code cell."""

    source: str
    section: str = ""  #: the heading it stands under
    parameters: bool = False  #: whether it is the cell that sets them

    def names(self, claim: str) -> bool:
        """Whether the claim is written in this cell, as a string."""
        return re.search(rf"""["']{re.escape(claim)}["']""", self.source) is not None


def read_cells(notebook: nbformat.NotebookNode) -> list[Cell]:
    """The code, without figures, up to the exercises: no claim is checked from there on."""
    found, section = [], ""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            for heading in re.findall(r"^##+ +(.+)$", cell.source, flags=re.MULTILINE):
                section = heading.strip()
        if section == "Exercises":
            break
        tags = cell.metadata.get("tags", [])
        if cell.cell_type == "code" and "nbval-ignore-output" not in tags:
            found.append(Cell(cell.source, section, "parameters" in tags))
    return found


def span(cells: list[Cell], claims: Iterable[str], since: str) -> range:
    """The cells to run for claims: from where `since` says, to the last that names one of them.

    `since` is the heading of a section, or SECTION for the one in which a claim is first named,
    CELL for the cell that names it, FIRST_CELL for the whole chapter.
    """
    naming = []
    for claim in claims:
        found = [k for k, cell in enumerate(cells) if cell.names(claim)]
        if not found:
            raise ValueError(f"no cell of the chapter names {claim}")
        naming += found
    first, last = min(naming), max(naming)
    if since in (FIRST_CELL, CELL):
        return range(0 if since == FIRST_CELL else first, last + 1)
    heading = cells[first].section if since == SECTION else since
    under = [k for k, cell in enumerate(cells) if cell.section == heading]
    if not under:
        raise ValueError(f"since={heading!r} is no heading of the chapter")
    if under[0] > last:
        raise ValueError(f"nothing is checked since {heading!r}")
    return range(under[0], last + 1)
