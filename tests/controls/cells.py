"""The code cells of a chapter on which its checks depend, each under its heading."""

from __future__ import annotations

import re
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


def span(cells: list[Cell], claim: str, since: str) -> range:
    """The cells to run for a claim: from where `since` says, to the last that names the claim.

    `since` is the heading of a section, or SECTION for the one in which the claim is first named,
    CELL for the cell that names it, FIRST_CELL for the whole chapter.
    """
    naming = [k for k, cell in enumerate(cells) if cell.names(claim)]
    if not naming:
        raise ValueError(f"no cell of the chapter names {claim}")
    if since in (FIRST_CELL, CELL):
        start = 0 if since == FIRST_CELL else naming[0]
    else:
        heading = cells[naming[0]].section if since == SECTION else since
        under = [k for k, cell in enumerate(cells) if cell.section == heading]
        if not under:
            raise ValueError(f"{claim} is to be run since {heading!r}, which is no heading")
        start = under[0]
    if start > naming[-1]:
        raise ValueError(f"{claim} is to be run since {since!r}, and is not checked after that")
    return range(start, naming[-1] + 1)
