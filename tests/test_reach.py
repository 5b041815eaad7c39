"""What a chapter reaches: a folder's `__init__` is looked through, name by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import append

from attnflow.book.chapters.project import Project, code, find_project, recipe
from attnflow.book.chapters.reach import needed, reach, shown_again

#: A package with a folder of three files; `far` is reached by nothing else.
FILES = {
    "__init__.py": '"""A package."""\n\n__version__ = "1"\n',
    "low.py": "ZERO = 0\n",
    "far.py": "FAR = 1\n",
    "folder/__init__.py": '"""Two stories."""\n\nfrom attnflow.folder.one import first as first\n'
    "from attnflow.folder.two import second as second\nfrom attnflow.folder.three import three as three\n",
    "folder/one.py": "from attnflow.low import ZERO\n\ndef first():\n    return ZERO\n",
    "folder/two.py": "from attnflow import far\n\ndef second():\n    return far.FAR\n",
    "folder/three.py": "def three():\n    return 3\n",
    "busy/__init__.py": "from attnflow.busy.one import a\nSET = a + 1\n",
    "busy/one.py": "a = 1\n",
    "busy/two.py": "b = 2\n",
    "through/__init__.py": "from attnflow.folder import first as first\n",
}
ALL = {"attnflow", "attnflow.far", "attnflow.low"}
ONE, TWO = {"attnflow", "attnflow.folder.one", "attnflow.low"}, {
    "attnflow", "attnflow.folder.two", "attnflow.far",
}  # fmt: skip
THREE = {"attnflow", "attnflow.folder.three"}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "attnflow" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "attnflow"


@pytest.mark.parametrize(
    ("source", "modules"),
    [
        ("from attnflow.folder import first", ONE),
        ("from attnflow.folder import second as other", TWO),
        ("from attnflow.folder import first, second", ONE | TWO),
        ("from attnflow.through import first", ONE),
        ("from attnflow.folder.one import first", ONE),
        ("from attnflow.folder import one", ONE),
        ("from attnflow import folder\nfolder.first()", ONE),
        ("from attnflow import folder as f\nf.second()", TWO),
        ("from attnflow import folder\nfolder.one.first()", ONE),
        ("from attnflow import folder\nfolder.three()", THREE),
        ("from attnflow.folder import three", THREE),
        ("def f():\n    from attnflow import folder\n    return folder.first", ONE),
        # whoever hands the folder on may use all of it
        ("from attnflow import folder\nprint(folder)", ONE | TWO | THREE),
        ("from attnflow import folder\nfolder.first()\ng = folder", ONE | TWO | THREE),
        ("from attnflow.folder import *", ONE | TWO | THREE),
        ("import attnflow.folder", ONE | TWO | THREE),
        ("import attnflow.folder as f", ONE | TWO | THREE),
        # an __init__ that computes is a module like others
        ("from attnflow.busy import SET", {"attnflow", "attnflow.busy", "attnflow.busy.one"}),
        (
            "from attnflow.busy.two import b",
            {"attnflow", "attnflow.busy", "attnflow.busy.one", "attnflow.busy.two"},
        ),
        ("import attnflow", {"attnflow"}),
        ("from attnflow import __version__", {"attnflow"}),
        ("import numpy, attnflowers\nfrom other.attnflow import x", set()),
    ],
)
def test_a_cell_reaches_what_it_uses(package: Path, source: str, modules: set[str]) -> None:
    assert set(reach(package, [source])) == modules


@pytest.mark.parametrize(
    "cell",
    [
        "%matplotlib inline\nfrom attnflow import far",
        "%%time\nfrom attnflow import far",
        "def f():\n    %timeit 1 + 1\n    from attnflow import far",
        "!ls\nfrom attnflow import far",
        "text = ('%d of %d'\n        % (1, 2))\nfrom attnflow import far",
    ],
)
def test_magics_hide_no_import(package: Path, cell: str) -> None:
    assert set(reach(package, [cell])) == {"attnflow", "attnflow.far"}


def test_a_cell_of_another_language_reaches_nothing(package: Path) -> None:
    assert reach(package, ["%%bash\nfor f in *; do echo $f; done"]) == {}


def test_the_files_are_named_and_cells_add_up(package: Path) -> None:
    found = reach(package, ["import numpy as np", "from attnflow.folder import first", ""])
    assert found["attnflow.folder.one"] == package / "folder" / "one.py"
    assert found["attnflow"] == package / "__init__.py"
    assert set(found) == ONE


def test_relative_imports_and_circles_are_followed(package: Path) -> None:
    (package / "left.py").write_text("from .right import f\n", encoding="utf-8")
    (package / "right.py").write_text("from . import left\n", encoding="utf-8")
    found = set(reach(package, ["import attnflow.left"]))
    assert found == {"attnflow", "attnflow.left", "attnflow.right"}


def test_what_is_needed_to_import_is_all_that_runs(package: Path) -> None:
    found = set(needed(package, ["from attnflow.folder import three"]))
    assert found == ONE | TWO | THREE | {"attnflow.folder"}


def test_an_init_is_looked_through_only_if_it_does_nothing_else(package: Path) -> None:
    assert shown_again(package / "folder" / "__init__.py") == {
        "first": "attnflow.folder.one",
        "second": "attnflow.folder.two",
        "three": "attnflow.folder.three",
    }
    for name in ("__init__.py", "busy/__init__.py"):
        assert shown_again(package / name) is None


# the package itself


def test_every_folder_of_the_mathematics_does_nothing_but_show_its_names() -> None:
    package = find_project().package
    folders = [p for p in package.glob("*/__init__.py") if p.parent.name != "book"]
    assert len(folders) >= 3
    for path in folders:
        assert shown_again(path), f"{path.parent.name}/__init__.py does more than show names"


@pytest.mark.parametrize(
    "name", ["one_step", "bridge_langevin", "optimal_transport", "uniform_convergence"]
)
def test_the_heat_chapters_do_not_run_again_for_the_flow_of_covariances(name: str) -> None:
    book = find_project()
    found = reach(book.package, code(book.chapter(name).read()))
    assert {"attnflow.gaussian.closed_forms", "attnflow.gaussian.recursions"} & set(found)
    assert not {"attnflow.gaussian.flow", "attnflow.gaussian.system"} & set(found)


@pytest.mark.parametrize("change", ["transport/bridge.py", "kernels/fast.py", "claims/rows.py"])
def test_a_key_changes_with_what_is_reached_and_with_nothing_else(
    project: Project, change: str
) -> None:
    def key() -> str:
        found = recipe(project, "distance")
        return found.key(found.chapter.default_parameters)

    before = key()
    append(project.package / change, "\nCHANGED = True\n")
    assert (key() != before) == (change == "claims/rows.py")


def test_what_travels_to_a_worker_can_be_imported(project: Project) -> None:
    found = recipe(project, "distance").files
    assert {"attnflow/kernels/__init__.py", "attnflow/kernels/fast.py"} <= set(found)
