"""The repository itself: what must agree agrees, and nothing private is in it."""

from __future__ import annotations

import re
import subprocess
import tomllib
from importlib import import_module
from inspect import isfunction
from pathlib import Path
from typing import Any

import pytest
import yaml

import attnflow
from attnflow.book.chapters.project import find_project
from attnflow.book.pages.api import modules, public
from attnflow.book.pages.layers import drawing, imports

ROOT = find_project().root
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def _spec(text: str) -> tuple[str, str]:
    name = re.match(r"[A-Za-z0-9._-]+", text)
    assert name is not None
    return name[0].lower(), text[name.end() :].replace(" ", "")


def _declared() -> dict[str, str]:
    project = PYPROJECT["project"]
    extras = project["optional-dependencies"]
    return dict(_spec(t) for t in [*project["dependencies"], *extras["book"], *extras["test"]])


def test_environment_yml_and_pyproject_ask_for_the_same() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    conda = [d for d in environment["dependencies"] if isinstance(d, str)]
    pip = next(d["pip"] for d in environment["dependencies"] if isinstance(d, dict))
    listed = dict(_spec(d) for d in conda + [d for d in pip if not d.startswith("-")])
    assert listed.pop("python") == PYPROJECT["project"]["requires-python"]
    assert (listed.pop("pip"), listed.pop("make")) == ("", "")
    assert listed == _declared()


def test_the_lock_holds_every_dependency_with_hashes_and_no_host() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    locked = set(re.findall(r"^([a-z0-9._-]+)==", lock, flags=re.MULTILINE))
    assert set(_declared()) <= locked
    blocks = re.split(r"\n(?=[a-z0-9._-]+==)", lock)[1:]
    assert all("--hash=sha256:" in block for block in blocks)
    assert "://" not in lock
    assert "torch" not in locked


def test_the_version_is_the_same_everywhere() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    intro = (ROOT / "book" / "intro.md").read_text(encoding="utf-8")
    assert PYPROJECT["project"]["version"] == attnflow.__version__ == citation["version"]
    assert f"Version {attnflow.__version__}" in intro


def test_contributing_draws_the_layers_that_the_imports_make() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert f"```text\n{drawing(imports(ROOT / 'src' / 'attnflow'))}\n```" in text


def test_contributing_maps_formulas_to_files_and_names_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| .* \| (`.*) \|$", text, flags=re.MULTILINE)
    named = [found for row in rows for found in re.findall(r"`([^`]+)`", row)]
    places = [found for found in named if found.endswith((".py", "/"))]
    names = [found for found in named if found not in places]
    assert len(places) > 10
    assert len(names) > 20
    assert [place for place in places if not (ROOT / "src" / "attnflow" / place).exists()] == []
    shown = {f"{module}.{name.name}" for module in modules() for name in public(module)}
    assert [name for name in names if f"attnflow.{name}" not in shown] == []


def test_every_name_of_the_package_is_on_one_page_of_the_reference() -> None:
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "book" / "api").glob("*.md")]
    listed = [
        name for page in pages for line in re.findall(r"{api} (.*)", page) for name in line.split()
    ]
    assert sorted(listed) == modules()


def test_every_public_function_has_an_example_that_the_doctests_run() -> None:
    names = [name for module in modules() for name in public(module)]
    values = {name.path: getattr(import_module(name.home), name.name) for name in names}
    functions = {path: value for path, value in values.items() if isfunction(value)}
    assert len(functions) > 100
    assert [path for path, value in functions.items() if ">>>" not in value.__doc__] == []


@pytest.mark.parametrize("folder", ["src", "tests", "benchmarks"])
def test_no_module_is_longer_than_four_hundred_lines(folder: str) -> None:
    paths = list((ROOT / folder).rglob("*.py"))
    assert paths
    for path in paths:
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 400, path.name


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs a git checkout")
def test_no_tracked_file_names_a_machine_path_or_a_registry() -> None:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    hosts = re.compile("|".join(["py" + r"pi\.org", "pythonhos" + "ted", "npm" + r"js\.org"]))
    for name in filter(None, listed):
        path = ROOT / name
        if not path.is_file() or path.suffix in (".png", ".gz", ".npz"):
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        assert not re.search(r"/(root|work|home)/[A-Za-z_.]", text), name
        assert not hosts.search(text), name


def test_the_readme_begins_with_the_two_commands() -> None:
    first_screen = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:30]
    text = "\n".join(first_screen)
    assert "make book" in text
    assert "make test" in text
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert pictures
    assert all((ROOT / Path(p)).is_file() for p in pictures)


def test_what_the_readme_imports_does_what_it_says() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    space: dict[str, Any] = {}
    exec(blocks[0], space)
    last = blocks[0].rstrip().splitlines()[-1]
    assert "# True" in last
    assert eval(last.partition("#")[0], space)
    assert space["bridge"].iterations <= 25


def test_jupyterlab_is_an_extra_that_the_commands_in_the_readme_install() -> None:
    extras = PYPROJECT["project"]["optional-dependencies"]
    assert {"jupyterlab", "jupytext"} <= {_spec(text)[0] for text in extras["lab"]}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = makefile.partition("\nlab:")[2].partition("\n\n")[0]
    assert "--constraint requirements.lock --editable '.[lab]'" in recipe
    assert "$(BIN)/jupyter lab book" in recipe
    for name in ("README.md", "book/rerun.md", "CONTRIBUTING.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert "make lab" in text
        assert "jupyter lab" not in text
