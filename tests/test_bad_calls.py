"""Whatever is typed after `attnflow`: an answer or a sentence, and the exit code that goes with it."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from conftest import make_project
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from test_cli import call

from attnflow.book.chapters.parameters import BookError
from attnflow.book.chapters.project import Project
from attnflow.book.commands import cli as module
from attnflow.book.runs.kernels import KernelDied

VALUES = [
    "", " ", "nan", "inf", "-inf", "1e400", "-1", "0", "65", "2.5", "1_0", "２４", "٣", "0x10", "1,",
    ",", ",,", "[", "]", "[1,2", "[[1]]", "None", "True", "1;2", "$(id)", "'", '"', "\\", "%s", "{0}",
    "\0", "\ud800", "\udcff", "\u202e", "😀", "e\u0301", "\x1b[31m", "\n", "1\n2", "x" * 10_000,
    "9" * 400, "9" * 5000, "1e-9999", "--", "-p", "=", "==", "holds", "nowhere", "..", "../slope",
]  # fmt: skip
NAMES = ["distance", "slope", "ending"]
PARAMETERS = ["n", "gap", "power", "mode", "size", "N", "n ", "", "__class__", "x" * 3000]
COMMANDS = ["list", "run", "sweep", "pair", "store", "claims", "assets", "jump", ""]
OPTIONS = ["-j", "--jobs", "--format", "--keep", "--dry-run", "--no-html", "--fresh", "-p", "--all"]
EXIT_CODES = (0, 1, 2)

words = st.sampled_from(VALUES) | st.text(max_size=12)
pairs = st.builds(lambda n, v: f"{n}={v}", st.sampled_from(PARAMETERS) | words, words)
options = st.one_of(
    st.tuples(st.just("-p"), pairs | words),
    st.tuples(st.sampled_from(OPTIONS), words),
    st.tuples(st.sampled_from(OPTIONS)),
    st.tuples(words),
)


@st.composite
def typed(draw: st.DrawFn) -> list[str]:
    """A command line with something wrong in it, as a rule."""
    command = draw(st.sampled_from(COMMANDS))
    rest = [word for part in draw(st.lists(options, max_size=4)) for word in part]
    if command in ("run", "sweep", "pair", "store") and draw(st.integers(0, 4)):
        rest.insert(0, draw(st.sampled_from(NAMES)))
    return [command, *rest]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project that is found from the current folder, in which no kernel starts."""
    project = make_project(tmp_path_factory.mktemp("calls") / "mini")

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise KernelDied("there are no kernels here")

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project.root)
        patch.setenv("ATTNFLOW_ROOT", str(project.root))
        patch.setenv("ATTNFLOW_ASSETS", str(project.root / "assets"))
        patch.setattr("attnflow.book.runs.kernels.Kernels.run", refuse)
        patch.setattr("attnflow.assets.fetching.download", refuse)
        yield project


def answer(args: list[str]) -> tuple[int, str, str]:
    """Exit code, output and errors of main() in this process."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["attnflow", *args])
        try:
            module.main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(bool(ended.code))
    return code, out.getvalue(), err.getvalue()


def assert_well_behaved(args: list[str], code: int, out: str, err: str) -> None:
    assert code in EXIT_CODES, args
    assert "Traceback" not in out + err, (args, err)
    if code == 2:
        assert err.strip(), args
        assert out == "", args
    if err.startswith("attnflow: "):  # our own sentence; click quotes a word as long as it is
        assert len(err.splitlines()[0]) <= 600, args


@settings(
    max_examples=600, deadline=timedelta(seconds=10), derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(args=typed())
@example(args=["run", "ending", "-p", "mode=\ud800"])
@example(args=["run", "\0"])
@example(args=["sweep", "distance", "-p", "gap=" + ",".join(map(str, range(1, 2000))), "--dry-run"])
@example(args=["run", "ending", "-o", "x" * 300])
def test_whatever_is_typed_is_answered_in_a_sentence(place: Project, args: list[str]) -> None:
    assert_well_behaved(args, *answer(args))
    assert {path.name for path in place.book.iterdir()} - {"text"} == {
        "claims.yml", "distance.ipynb", "ending.ipynb", "slope.ipynb",
    }  # fmt: skip


@settings(max_examples=400, deadline=timedelta(seconds=10), derandomize=True, database=None)
@given(name=st.sampled_from(["n", "gap", "power", "mode", "size"]), value=st.one_of(
    words, st.floats(), st.integers(), st.booleans(), st.none(), st.binary(max_size=4),
    st.lists(st.integers(), max_size=2), st.complex_numbers(),
))  # fmt: skip
def test_a_parameter_is_taken_as_it_is_meant_or_refused(
    place: Project, name: str, value: Any
) -> None:
    owner = {"n": "distance", "gap": "distance", "power": "slope"}.get(name, "ending")
    chapter = place.chapter(owner)
    (parameter,) = [p for p in chapter.parameters if p.name == name]
    found, refusal = None, ""
    try:
        found = chapter.resolve({name: value})[name]
    except BookError as error:
        refusal = str(error)
    if refusal:
        assert refusal.startswith(f"{name} must be {parameter.allowed}, got ")
        assert len(refusal) < 300
        return
    assert type(found) is type(parameter.default)
    assert parameter.parse(found) == found
    if isinstance(value, str) and not isinstance(found, str):
        assert float(value) == found
        assert value.isascii()
        assert "_" not in value


REAL = [
    ["run", "distance", "-p", f"n={value}"]
    for value in ("nan", "２４", "1_0", "0x10", "9" * 5000, "\udcff", "-1", "1e400", "2.5", "$(id)")
] + [
    ["run", "x" * 10_000], ["run", "\udcff"], ["run", "..."], ["run", "distance", "-p", "\udcff=1"],
    ["sweep", "distance", "-p", "n=3,,4"], ["sweep", "distance", "-p", "n=[3"],
    ["sweep", "slope", "-p", "power=inf"], ["sweep", "distance", "-p", "n=3", "-j", "-1"],
    ["sweep", "distance", "-p", "n=3", "-o", "/dev/null/x"], ["store", "nowhere"],
    ["assets", "😀"], ["claims", "now"], ["list", "--all"], ["\x1b[31m"], [],
    ["run", "distance", "-o", "x" * 300], ["book", "--fresh", "--jobs", "none"],
]  # fmt: skip


def test_real_processes_refuse_with_exit_2_and_without_a_traceback(tmp_path: Path) -> None:
    project = make_project(tmp_path / "mini")
    with ThreadPoolExecutor(2) as pool:
        calls = list(pool.map(lambda args: call(project, *args), REAL))
    assert len(calls) > 24
    for args, done in zip(REAL, calls, strict=True):
        assert done.returncode == 2, (args, done.stderr)
        assert_well_behaved(args, done.returncode, done.stdout, done.stderr)
    assert not project.build.exists()
    assert os.listdir(project.book) != []
