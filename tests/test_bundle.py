"""Bundles: all of a chapter, the same bytes every time, and nothing believed that was changed."""

from __future__ import annotations

import functools
import hashlib
import io
import os
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import make_project

from attnflow.book.chapters.parameters import BookError
from attnflow.book.chapters.project import Project, Recipe, code, find_project, recipe
from attnflow.book.chapters.reach import as_python
from attnflow.book.runs import bundle
from attnflow.book.runs.bundle import Bundle, differences, pack, to_text, unpack, versions

BOOK = find_project()
NAMES = list(BOOK.chapters())


@functools.cache
def prepared(name: str) -> Recipe:
    """A chapter of the book; to be read, not changed."""
    return recipe(BOOK, name)


@pytest.fixture(scope="module")
def mini(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """To be read, not changed."""
    return make_project(tmp_path_factory.mktemp("bundle") / "mini")


def zipped(**files: str) -> Bundle:
    """A bundle with any paths at all, and the digest that belongs to it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return Bundle(hashlib.sha256(buffer.getvalue()).hexdigest(), buffer.getvalue())


@pytest.mark.parametrize("name", NAMES)
def test_a_run_has_the_same_key_in_the_unpacked_bundle(name: str, tmp_path: Path) -> None:
    here = prepared(name)
    there = recipe(unpack(pack(here), tmp_path), name)
    assert there.basis == here.basis
    assert there.source.cells == there.chapter.read().cells
    defaults = here.chapter.default_parameters
    assert there.chapter.default_parameters == defaults
    assert there.key(defaults) == here.key(defaults)


#: Third-party packages are imported once; each chapter then in a copy of the process.
IMPORTS = """
import ast, contextlib, importlib, os, sys, warnings
warnings.simplefilter("ignore")
def imports(source):
    return [n for n in ast.parse(source).body if isinstance(n, ast.Import | ast.ImportFrom)]
for node in (n for folder, sources in CHAPTERS.values() for s in sources for n in imports(s)):
    name = getattr(node, "module", None) or node.names[0].name
    if name.split(".")[0] != "attnflow":
        importlib.import_module(name)
import matplotlib.pyplot, numba, scipy.integrate, scipy.optimize, scipy.sparse.linalg, scipy.stats
assert "attnflow" not in sys.modules
for chapter, (folder, sources) in CHAPTERS.items():
    if os.fork() == 0:
        with contextlib.ExitStack() as stack:
            stack.callback(os._exit, 1)
            sys.path.insert(0, folder)
            for node in (n for source in sources for n in imports(source)):
                exec(compile(ast.Module([node], []), "cell", "exec"))
            own = [m for name, m in sys.modules.items() if name.split(".")[0] == "attnflow"]
            assert own and all(m.__file__.startswith(folder) for m in own), own
            os._exit(0)
    if os.wait()[1] != 0:
        sys.exit(f"{chapter} cannot import what it needs from its bundle")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="copies its process")
def test_every_chapter_imports_what_it_needs_from_its_bundle_alone(tmp_path: Path) -> None:
    """A package is looked for in one place: a module that the bundle lacks is not found elsewhere."""
    chapters = {}
    for name in NAMES:
        here = prepared(name)
        folder = unpack(pack(here), tmp_path).root / "src"
        chapters[name] = (str(folder), [as_python(source) for source in code(here.source)])
    done = subprocess.run(
        [sys.executable, "-P", "-"], input=f"CHAPTERS = {chapters!r}\n{IMPORTS}",
        cwd=tmp_path, capture_output=True, text=True, env={"MPLBACKEND": "agg", **_places()},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def _places() -> dict[str, str]:
    """Where Python and matplotlib find what is theirs, and nothing about attnflow."""
    wanted = ("PATH", "HOME", "TMPDIR", "SYSTEMROOT", "MPLCONFIGDIR")
    return {name: os.environ[name] for name in wanted if name in os.environ}


@pytest.mark.parametrize("name", NAMES)
def test_data_that_a_chapter_names_travels_with_it(name: str) -> None:
    held = pack(prepared(name))
    with zipfile.ZipFile(io.BytesIO(held.content)) as archive:
        data = {p.rpartition("/")[2] for p in archive.namelist() if p.endswith(".npz")}
    expected = {
        "phase_diagram": {"figure3.npz"},
        "beyond_heat": {"fashion-mnist-2000.npz"},
    }
    assert data == expected.get(name, set())


def test_the_same_chapter_gives_the_same_bytes(mini: Project, tmp_path: Path) -> None:
    first = pack(recipe(mini, "distance"))
    again = pack(recipe(make_project(tmp_path / "elsewhere"), "distance"))
    assert first == again
    assert first.digest == hashlib.sha256(first.content).hexdigest()
    assert pack(recipe(mini, "slope")).digest != first.digest


def test_a_bundle_holds_the_chapter_its_modules_and_the_locks_digest_and_no_more(
    mini: Project,
) -> None:
    with zipfile.ZipFile(io.BytesIO(pack(recipe(mini, "slope")).content)) as archive:
        names = set(archive.namelist())
        lock = archive.read("requirements.sha256").decode()
    assert {n for n in names if not n.startswith("src/")} == {
        "_toc.yml",
        "book/slope.ipynb",
        "requirements.sha256",
    }
    assert {
        "src/attnflow/__init__.py",
        "src/attnflow/rates.py",
        "src/attnflow/claims/rows.py",
    } <= names
    assert not any("book" in n for n in names if n.startswith("src/"))
    assert lock == hashlib.sha256((mini.root / "requirements.lock").read_bytes()).hexdigest()


@pytest.mark.parametrize("name", NAMES)
def test_outputs_stay_at_home(name: str) -> None:
    here = prepared(name)
    before = [cell.get("outputs") for cell in here.source.cells]
    content = pack(here).content
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        text = archive.read(f"book/{name}.ipynb").decode()
    assert "output_type" not in text
    assert len(content) <= 2**20
    assert [cell.get("outputs") for cell in here.source.cells] == before
    assert any(before)


def test_a_bundle_is_laid_out_once_however_many_ask(mini: Project, tmp_path: Path) -> None:
    packed = pack(recipe(mini, "slope"))
    with ThreadPoolExecutor(8) as pool:
        projects = list(pool.map(lambda _: unpack(packed, tmp_path), range(16)))
    assert {p.root for p in projects} == {tmp_path / packed.digest}
    assert [p.name for p in tmp_path.iterdir()] == [packed.digest]
    marker = projects[0].root / "marker"
    marker.touch()
    assert unpack(packed, tmp_path).root == projects[0].root
    assert marker.is_file()


@pytest.mark.parametrize("place", [0, 100, -30])
def test_a_bundle_with_one_wrong_byte_is_refused(mini: Project, tmp_path: Path, place: int) -> None:
    digest, content = pack(recipe(mini, "slope"))
    damaged = bytearray(content)
    damaged[place] ^= 1
    with pytest.raises(BookError, match=f"arrived damaged: expected sha256 {digest}, got "):
        unpack(Bundle(digest, bytes(damaged)), tmp_path / "there")
    assert not (tmp_path / "there").exists()


def test_a_bundle_under_a_digest_of_something_else_is_refused(
    mini: Project, tmp_path: Path
) -> None:
    slope, distance = (pack(recipe(mini, name)) for name in ("slope", "distance"))
    unpack(slope, tmp_path)
    with pytest.raises(BookError, match="arrived damaged"):
        unpack(Bundle(slope.digest, distance.content), tmp_path)


@pytest.mark.parametrize(
    "path",
    [
        "../outside", "a/../../outside", "/outside", "a//b", "a\\..\\b", "C:/x", "..", "a/..", "a\nb", "a/", "./..//x", "~/x y",
    ],
)  # fmt: skip
def test_paths_that_lead_elsewhere_are_refused(path: str, tmp_path: Path) -> None:
    with pytest.raises(BookError, match="a bundle holds the strange path"):
        unpack(zipped(**{"good": "x", path: "bad"}), tmp_path / "deep" / "there")
    assert list((tmp_path / "deep" / "there").iterdir()) == []
    assert not list(tmp_path.rglob("outside"))


@pytest.mark.parametrize("content", [b"", b"PK", b"no archive at all" * 100])
def test_what_is_no_archive_is_refused(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(BookError, match="a bundle cannot be opened"):
        unpack(Bundle(hashlib.sha256(content).hexdigest(), content), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_archive_that_swells_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "LARGEST", 1000)
    with pytest.raises(BookError, match="a bundle would fill 1001 bytes"):
        unpack(zipped(a="x" * 600, b="x" * 401), tmp_path)
    assert list(tmp_path.iterdir()) == []
    unpack(zipped(a="x" * 600, b="x" * 400), tmp_path)


def test_the_packages_of_a_run_are_the_books_and_what_they_need() -> None:
    found = versions()
    assert {"attnflow", "numpy", "scipy", "numba", "ipykernel", "nbclient"} <= set(found)
    assert not {"pytest", "ruff", "distributed", "playwright"} & set(found)
    assert differences(found) == []


def test_differences_name_every_package_that_is_not_as_wanted() -> None:
    wanted = {**versions(), "numpy": "0.1", "no-such-package": "3"}
    (first, second) = sorted(differences(wanted))
    assert first == "no-such-package missing, not 3"
    assert second.startswith("numpy 2")
    assert second.endswith(", not 0.1")


def test_a_long_list_of_differences_is_cut() -> None:
    assert to_text(["a", "b"]) == "a; b"
    assert to_text(map(str, range(10))) == "0; 1; 2; 3; 4; 5; 6; 7 and 2 more"
