"""A miniature checkout: three tiny chapters, their claims, and a copy of the package they call."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import nbformat
import pytest
from dask_programs import Farm, Programs, running
from lanes import (  # noqa: F401  (hooks: pytest finds them here)
    pytest_collection_modifyitems,
    pytest_xdist_make_scheduler,
)
from memory import (  # noqa: F401
    pytest_runtest_protocol,
    pytest_sessionfinish,
    pytest_terminal_summary,
    pytest_testnodedown,
)
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from rendering import pytest_runtest_setup  # noqa: F401

import attnflow
from attnflow.book.chapters.notebooks import parametrised, tidy
from attnflow.book.chapters.parameters import BookError
from attnflow.book.chapters.project import Project, Recipe
from attnflow.book.runs.kernels import Executed, Runner
from attnflow.book.runs.run import Job, Run, execute, execute_all
from attnflow.claims import Check, check

#: Helpers whose fixtures serve several files.
pytest_plugins = ("served_books", "shelves", "toy_assets", "trained_models")

mpl.use("agg")

DISTANCE = (
    "# How far apart\n\nPoints on a line.",
    "n: int = 3  # points, in [2, 64]\ngap: float = 1.0  # between neighbours, in (0, inf)",
    "import numpy as np\n"
    "from attnflow.claims import check, control\n"
    "from attnflow.kernels import squared_distances\n"
    "x = gap * np.arange(n, dtype=float)[:, None]\n"
    "largest = float(squared_distances(x, x).max())\n"
    "print('largest', largest)",
    "check('mini.distance', predicted=(gap * (n - 1)) ** 2, measured=largest, tol=1e-9)",
    "control('mini.distance', removes='the square', predicted=gap * (n - 1),\n"
    "        measured=largest, tol=1e-9)",
    "from attnflow.provenance import provenance\nprovenance(n=n, gap=gap)",
)
SLOPE = (
    "# How steep\n\nA power law.",
    "power: float = 2.0  # of the power law, in [-4, 4]",
    "import attnflow.rates as rates\n"
    "from attnflow.claims import check\n"
    "h = [0.1, 0.2, 0.4]\n"
    "check('mini.slope', predicted=power, measured=rates.fit_rate(h, [v**power for v in h]).slope,\n"
    "      tol=1e-6)",
)
# Every way a run can end, by one parameter; it calls only attnflow.claims, so it starts fast.
ENDING = (
    "# How it ends",
    'mode: str = "holds"  # how, one of holds | fails | tame | outside | raises | warns\n'
    "size: int = 1  # what is measured, in [1, 9]",
    "import sys\nfrom attnflow.claims import check, control",
    "if mode == 'raises' or size == 9:\n    raise ValueError('the chapter stops here')",
    "if mode == 'warns':\n    print('careful', file=sys.stderr)",
    "check('mini.ending', predicted=size, measured=size + (mode == 'fails'), tol=0.5,\n"
    "      hypotheses={'inside': mode != 'outside'})",
    "control('mini.ending', removes='the end', predicted=size, measured=size + (mode != 'tame'),\n"
    "        tol=0.5)",
)
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python", "pygments_lexer": "ipython3"},
}
TOC = """format: jb-book
root: book/intro
chapters:
  - file: book/slope
  - file: book/distance
  - file: book/ending
"""
CLAIMS = """- {id: mini.distance, chapter: distance, kind: identity}
- {id: mini.slope, chapter: slope, kind: rate}
- {id: mini.ending, chapter: ending, kind: illustration}
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--replay",
        action="store_true",
        help="run every negative control from its chapter's first cell (slow)",
    )


def write_chapter(project: Project, name: str, *sources: str) -> Path:
    """A chapter of a heading, a parameter cell, and code cells."""
    heading, parameters, *rest = sources
    cells = [
        new_markdown_cell(heading, id="heading"),
        new_code_cell(parameters, id="parameters", metadata={"tags": ["parameters"]}),
        *(new_code_cell(source, id=f"code-{k}") for k, source in enumerate(rest)),
    ]
    path = project.book / f"{name}.ipynb"
    nbformat.write(new_notebook(cells=cells, metadata=METADATA), path)
    return path


def make_project(root: Path) -> Project:
    project = Project(root)
    project.book.mkdir(parents=True)
    (root / "_toc.yml").write_text(TOC, encoding="utf-8")
    (root / "requirements.lock").write_text("numpy==2\n", encoding="utf-8")
    (project.book / "claims.yml").write_text(CLAIMS, encoding="utf-8")
    write_chapter(project, "distance", *DISTANCE)
    write_chapter(project, "slope", *SLOPE)
    write_chapter(project, "ending", *ENDING)
    source = Path(attnflow.__file__).parent
    shutil.copytree(source, project.package, ignore=shutil.ignore_patterns("__pycache__"))
    return project


def _as_large(point: Mapping[str, Any]) -> Check:
    return check("mini.ending", predicted=point["size"], measured=point["size"], tol=0.5)


class Fake:
    """A runner without kernels: one check a run, and what a test wants to happen happens."""

    def __init__(
        self,
        slots: int = 1,
        before: Callable[[Mapping[str, Any]], None] = lambda point: None,
        row: Callable[[Mapping[str, Any]], Check] = _as_large,
    ) -> None:
        self._slots, self.before, self.row = slots, before, row
        self.ran: list[dict[str, Any]] = []
        self.stopped = False

    @property
    def slots(self) -> int:
        return self._slots

    def run(self, recipe: Recipe, parameters: Mapping[str, Any], what: str) -> Executed:
        self.before(parameters)
        self.ran.append(dict(parameters))
        notebook = parametrised(recipe.source, recipe.chapter.changed(parameters))
        data, metadata = self.row(parameters)._repr_mimebundle_()
        cell = next(c for c in notebook.cells if c.cell_type == "code" and "check(" in c.source)
        cell.outputs = [new_output("display_data", data=data, metadata=metadata)]
        return Executed(tidy(notebook), 0.0)

    def stop(self) -> None:
        self.stopped = True


def run_all(
    project: Project, jobs: Iterable[Job], runner: Runner, **options: Any
) -> list[Run | BookError]:
    """The results of execute_all, in the order of `jobs`."""
    done = dict(execute_all(project, jobs, runner, **options))
    return [done[index] for index in sorted(done)]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A miniature project in which nothing has run."""
    return make_project(tmp_path / "mini")


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    """What starts Dask programs; they end with the tests of a file."""
    with running(tmp_path_factory.mktemp("dask")) as made:
        yield made


@pytest.fixture(scope="module")
def farm(programs: Programs) -> Farm:
    return Farm(programs)


class Finished:
    """A miniature project whose chapters have run at their defaults, and what came of them."""

    def __init__(self, project: Project, runs: dict[str, Run]) -> None:
        self.project, self.runs = project, runs


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Shared between tests: to be read, not changed."""
    project = make_project(tmp_path_factory.mktemp("finished") / "mini")
    return Finished(project, {name: execute(project, name) for name in project.chapters()})


@pytest.fixture
def known(finished: Finished, tmp_path: Path) -> Project:
    """A copy of the finished project, free to change."""
    root = tmp_path / "known"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(finished.project.root, root, ignore=ignore)
    return Project(root)


@pytest.fixture
def no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting a kernel fails the test."""

    def explode(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a kernel was started")

    monkeypatch.setattr("attnflow.book.runs.kernels.Kernels.run", explode)


def edit_cell(project: Project, chapter: str, cell_id: str, source: str) -> None:
    """Write new text into one cell of a chapter."""
    path = project.book / f"{chapter}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    next(cell for cell in notebook.cells if cell.id == cell_id).source = source
    nbformat.write(notebook, path)


def append(path: Path, text: str) -> None:
    """Add `text` at the end of a file."""
    path.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")
