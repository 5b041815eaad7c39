"""What a run does to a notebook: parameters in, machine's traces out, outputs over the chapter."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat

from attnflow import provenance
from attnflow.claims import MIME, Check, from_json
from attnflow.files import write_text

#: Cells with this tag draw, or say where and when a run was made. What they show is not compared,
#: and no later cell needs what they compute.
SHOWN_ONLY = "nbval-ignore-output"
INJECTED = "injected-parameters"
#: What a notebook of this repository says of itself; the lexer is the one that JupyterLab writes.
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python", "pygments_lexer": "ipython3"},
}

#: The folders of a file named in a warning.
_FOLDERS = re.compile(r"(?:/[^\s/:]+)*/(?=[^\s/:]+\.py\b)")


def parametrised(
    source: nbformat.NotebookNode, changed: Mapping[str, Any]
) -> nbformat.NotebookNode:
    """A copy without outputs in which papermill's cell of new values follows the parameters."""
    from papermill.parameterize import parameterize_notebook

    notebook = copy.deepcopy(source)
    notebook.metadata.setdefault("papermill", {})
    for cell in notebook.cells:
        cell.metadata.setdefault("tags", [])
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    if changed:
        notebook = parameterize_notebook(
            notebook, dict(changed), kernel_name="python3", language="python"
        )
    return notebook


def tidy(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Drop what tools and the machine left: timings, paths, bookkeeping, pieces of text."""
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        cell.metadata = nbformat.from_dict({"tags": tags} if tags else {})
        if cell.cell_type == "code":
            cell.outputs = _joined(cell.outputs)
    return notebook


def _joined(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """Text that arrived in pieces, whole: where it was cut is an accident of time."""
    out: list[nbformat.NotebookNode] = []
    for output in outputs:
        if output.get("name") == "stderr":
            output["text"] = _FOLDERS.sub("", output["text"])
        streams = output.output_type == "stream" and out and out[-1].output_type == "stream"
        if streams and out[-1].name == output.name:
            out[-1].text += output.text
        else:
            out.append(output)
    return out


def overlaid(
    source: nbformat.NotebookNode, done: nbformat.NotebookNode, defaults: bool
) -> nbformat.NotebookNode:
    """The chapter as it stands, with the outputs (and injected parameters) of a finished run."""
    notebook = copy.deepcopy(source)
    injected = [c for c in done.cells if INJECTED in c.metadata.get("tags", [])]
    finished = iter([c for c in done.cells if c.cell_type == "code" and c not in injected])
    cells = []
    for cell in notebook.cells:
        cells.append(cell)
        if cell.cell_type != "code":
            continue
        ran = next(finished)
        cell.outputs, cell.execution_count = ran.outputs, ran.execution_count
        if "parameters" in cell.metadata.get("tags", []) and not defaults:
            cells += injected
    notebook.cells = cells
    notebook.metadata = done.metadata
    return notebook


def stamp(notebook: nbformat.NotebookNode, run_key: str, seconds: float) -> None:
    """Say in the footer which run this is, and how long it took."""
    rows = {"run key": run_key, "run time": f"{seconds:.0f} s"}
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if provenance.MIME in output.get("data", {}):
                output["data"] = nbformat.from_dict(provenance.stamped(output["data"], **rows))


def checks(notebook: nbformat.NotebookNode) -> tuple[Check, ...]:
    """Every check and control in a notebook's outputs."""
    return tuple(
        from_json(output["metadata"][MIME])
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if MIME in output.get("data", {})
    )


def on_stderr(notebook: nbformat.NotebookNode) -> tuple[int, str] | None:
    """The first code cell that wrote to stderr, and what it wrote."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.get("name") == "stderr":
                return int(cell.execution_count), str(output["text"]).strip()
    return None


def write_notebook(notebook: nbformat.NotebookNode, path: Path) -> None:
    """A notebook, atomically, in the one layout the repository uses."""
    write_text(nbformat.writes(notebook) + "\n", path)
