"""The command line: what it prints, what it writes, and its exit codes."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
import pytest
from click.testing import CliRunner, Result
from conftest import METADATA, Fake, append, edit_cell

from attnflow.book.chapters.notebooks import checks
from attnflow.book.chapters.pairs import load
from attnflow.book.chapters.project import Project
from attnflow.book.commands import asked
from attnflow.book.commands import cli as module
from attnflow.book.runs.kernels import KernelDied


def invoke(project: Project, *args: str) -> Result:
    """A call that may exit, but may not end in an exception."""
    environment = {"ATTNFLOW_ROOT": str(project.root)}
    result = CliRunner().invoke(module.cli, args, env=environment)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def call(
    project: Project, *args: str, stdout: Any = subprocess.PIPE, **environment: str
) -> subprocess.CompletedProcess[str]:
    """The command as a user starts it."""
    return subprocess.run(
        [sys.executable, "-c", "from attnflow.book.commands.cli import main; main()", *args],
        env={**os.environ, "ATTNFLOW_ROOT": str(project.root), **environment},
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("command", [None, *module.cli.commands])
def test_every_command_has_help(command: str | None) -> None:
    result = CliRunner().invoke(module.cli, [command, "--help"] if command else ["--help"])
    assert result.exit_code == 0
    assert result.output.startswith("Usage:")
    listed = module.cli.commands if command is None else ["--help"]
    assert all(word in result.output for word in listed)


def test_list_shows_chapters_in_order_with_their_parameters(project: Project) -> None:
    result = invoke(project, "list")
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == [
        "slope",
        "distance",
        "ending",
    ]
    assert "distance  How far apart" in lines
    row = next(line for line in lines if line.strip().startswith("gap"))
    assert row.split() == ["gap", "1.0", "float", "in", "(0,", "inf)", "between", "neighbours"]


def test_run_writes_the_notebook_and_prints_the_checks(known: Project, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = invoke(known, "run", "ending", "-p", "size=2", "--no-html", "-o", str(out))
    assert result.exit_code == 0
    assert "ran in" in result.output
    assert list(out.iterdir()) == [out / "ending.ipynb"]
    rows = checks(nbformat.read(out / "ending.ipynb", as_version=4))
    assert [row.measured for row in rows] == [2.0, 3.0]
    lines = [line.split() for line in result.output.splitlines()]
    assert ["check", "mini.ending"] in [line[:2] for line in lines]
    assert ["control", "mini.ending"] in [line[:2] for line in lines]
    again = invoke(known, "run", "ending", "-p", "size=2", "--no-html")
    assert again.exit_code == 0
    assert "known in" in again.output
    assert len(list((known.build / "out").glob("ending-*/ending.ipynb"))) == 1


@pytest.mark.parametrize(
    ("mode", "code", "label", "verdict"),
    [
        ("fails", 1, "check", "fails"),
        ("tame", 1, "control", "holds"),
        ("outside", 0, "check", "outside hypotheses (inside)"),
    ],
)
def test_the_exit_code_tells_whether_checks_and_controls_are_as_they_must(
    project: Project, mode: str, code: int, label: str, verdict: str
) -> None:
    result = invoke(project, "run", "ending", "-p", f"mode={mode}", "--no-html")
    assert result.exit_code == code
    (row,) = [line for line in result.output.splitlines() if line.startswith(label)]
    assert row.endswith(verdict)


def test_a_chapter_that_stops_is_exit_1_and_a_sentence(project: Project) -> None:
    done = call(project, "run", "ending", "-p", "mode=raises", "--no-html")
    assert done.returncode == 1
    (sentence,) = [line for line in done.stderr.splitlines() if line.startswith("attnflow: ")]
    assert sentence.startswith("attnflow: ending, code cell")
    assert sentence.endswith("ValueError: the chapter stops here")
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ("run nowhere", "no chapter 'nowhere'; there are slope, distance, ending"),
        ("run distance -p m=1", "distance has no parameter 'm'"),
        ("run distance -p n=1", "n must be int in [2, 64], got '1'"),
        ("run distance -p n", "a parameter is NAME=VALUE, got 'n'"),
        ("run distance -p n=3 -p n=4", "n is given twice"),
        ("sweep distance -p n=3,400", "n must be int in [2, 64], got '400'"),
        ("jump", "No such command 'jump'"),
    ],
)
def test_a_wrong_call_is_exit_2_and_one_sentence(
    project: Project,
    args: str,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ATTNFLOW_ROOT", str(project.root))
    monkeypatch.setattr(sys, "argv", ["attnflow", *args.split()])
    with pytest.raises(SystemExit) as end:
        module.main()
    assert end.value.code == 2
    out, err = capsys.readouterr()
    assert says in err
    assert "Traceback" not in out + err
    assert out == ""
    assert not project.build.exists()


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ("run", "Missing argument 'CHAPTER'"),
        ("run --all", "No such option"),
        ("run distance -p n=", "a parameter is NAME=VALUE"),
        ("run distance -p =3", "a parameter is NAME=VALUE"),
        ("run distance --store -p n=3", "No such option"),
        ("store distance -p n=3", "No such option"),
        ("sweep distance -p n=3 --keep all", "'all' is not one of"),
        ("sweep distance -p n=3 -j 1 --workers 2", "says where runs happen"),
        ("sweep distance -p n=3 --workers 2 --scheduler tcp://host:1", "says where runs happen"),
        ("sweep distance", "at least one parameter"),
        ("sweep distance -p n=3,4 -p n=5", "n is given twice"),
        ("sweep distance -p n=3 --format xls", "'xls' is not one of"),
        ("sweep distance -p n=3 -j 0", "-j"),
    ],
)
@pytest.mark.usefixtures("no_kernel")
def test_options_that_do_not_fit_are_usage_errors(project: Project, args: str, says: str) -> None:
    result = invoke(project, *args.split())
    assert result.exit_code == 2
    assert says in result.stderr
    assert not project.build.exists()


def test_outside_a_checkout_the_error_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ATTNFLOW_ROOT", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["attnflow", "list"])
    with pytest.raises(SystemExit) as stopped:
        module.main()
    assert stopped.value.code == 2
    assert "set ATTNFLOW_ROOT" in capsys.readouterr().err


def test_an_interruption_is_exit_130_and_a_sentence(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setenv("ATTNFLOW_ROOT", str(project.root))
    monkeypatch.setattr("attnflow.book.runs.kernels.Kernels.run", interrupt)
    monkeypatch.setattr(sys, "argv", ["attnflow", "run", "slope"])
    with pytest.raises(SystemExit) as stopped:
        module.main()
    assert stopped.value.code == 130
    said = capsys.readouterr().err
    assert "what was finished is kept" in said
    assert "the same command goes on" in said


def test_main_without_mistakes_is_exit_0(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ATTNFLOW_ROOT", str(project.root))
    monkeypatch.setattr(sys, "argv", ["attnflow", "list"])
    module.main()
    assert "How steep" in capsys.readouterr().out


def test_sweep_writes_table_and_plot_and_tells_what_stopped(known: Project, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = invoke(known, "sweep", "ending", "-p", "size=1,9", "-j", "1", "-o", str(out))
    assert result.exit_code == 1
    assert "2 runs, 1 known before; 3 rows in" in result.output
    assert "ending, code cell" in result.stderr
    assert {path.name for path in out.iterdir()} == {"ending.csv", "ending.png"}
    with (out / "ending.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["size"], row["verdict"]) for row in rows] == [
        ("1", "holds"),
        ("1", "fails"),
        ("9", "error"),
    ]


def test_a_dry_run_says_how_many_runs_and_hours_and_writes_nothing(
    known: Project, no_kernel: None
) -> None:
    before = sorted(known.build.rglob("*"))
    result = invoke(known, "sweep", "ending", "-p", "size=1,2,3", "-j", "2", "--dry-run")
    assert result.exit_code == 0
    assert "3 runs, 1 known before" in result.output
    assert re.search(r"\d\.\d s a run: \d\.\d\d hours on one core, .* on 2", result.output)
    assert sorted(known.build.rglob("*")) == before


def test_a_dry_run_of_what_never_ran_says_that_the_time_is_unknown(
    project: Project, no_kernel: None
) -> None:
    result = invoke(project, "sweep", "ending", "-p", "size=1,2", "--dry-run")
    assert result.exit_code == 0
    assert "2 runs, 0 known before" in result.output
    assert "the time is unknown" in result.output
    assert not project.build.exists()


@pytest.mark.parametrize(("keep", "suffix"), [("checks", ".json"), ("notebooks", ".ipynb")])
def test_a_sweep_keeps_what_it_is_told_to(
    project: Project, monkeypatch: pytest.MonkeyPatch, keep: str, suffix: str
) -> None:
    monkeypatch.setattr(asked, "local", lambda jobs: Fake())
    result = invoke(project, "sweep", "ending", "-p", "size=1,2", "--keep", keep)
    assert result.exit_code == 0
    assert {path.suffix for path in (project.build / "runs").iterdir()} == {suffix}


def test_many_runs_that_stop_are_told_in_a_few_lines(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(point: Mapping[str, Any]) -> None:
        raise KernelDied("gone")

    edit_cell(project, "ending", "parameters", 'mode: str = "holds"  # how\nsize: int = 1  # what')
    monkeypatch.setattr(asked, "local", lambda jobs: Fake(before=die))
    sizes = ",".join(map(str, range(25)))
    result = invoke(project, "sweep", "ending", "-p", f"size={sizes}")
    assert result.exit_code == 1
    assert result.stderr.count("its kernel died 2 times") == 20
    assert "and 5 more that stopped; the table has them" in result.stderr


def test_a_sweep_of_known_points_is_exit_0(known: Project) -> None:
    result = invoke(known, "sweep", "slope", "-p", "power=2,2.0", "-j", "1")
    assert result.exit_code == 0
    assert "1 runs, 1 known before; 1 rows in" in result.output
    assert (known.build / "sweeps" / "slope" / "slope.csv").is_file()


def test_lists_are_swept_at_their_outer_commas() -> None:
    assert asked.split("1, 2,4") == ["1", "2", "4"]
    assert asked.split("[1,2],[3]") == ["[1,2]", "[3]"]


def test_stored_outputs_are_clean_and_the_ledger_reads_them(known: Project) -> None:
    before = invoke(known, "claims")
    assert before.exit_code == 1
    assert before.output.count("not run") == 3
    assert "0 of 3 claims stand" in before.output

    assert invoke(known, "store", "-j", "1").exit_code == 0
    for name, chapter in known.chapters().items():
        notebook = chapter.read()
        assert len(checks(notebook)) >= 1
        assert set(notebook.metadata) == {*METADATA, "attnflow", "jupytext"}
        assert set(notebook.metadata.attnflow) == {"cells", "text"}
        text = chapter.path.read_text(encoding="utf-8")
        assert "papermill" not in text
        assert str(known.root) not in text
        assert load(chapter.path).edited() == "", name

    after = invoke(known, "claims")
    assert after.exit_code == 0
    assert "3 of 3 claims stand" in after.output
    assert "1 checks, 1 controls" in after.output
    assert "note:" not in after.output

    append(known.package / "rates.py", "\nCHANGED = True\n")
    stale = invoke(known, "claims")
    assert stale.exit_code == 0
    assert [line.split()[1] for line in stale.output.splitlines() if "note:" in line] == ["slope"]


def test_storing_twice_changes_no_byte(known: Project) -> None:
    assert invoke(known, "store", "slope").exit_code == 0
    first = (known.book / "slope.ipynb").read_bytes()
    assert invoke(known, "store", "slope").exit_code == 0
    assert (known.book / "slope.ipynb").read_bytes() == first


def test_a_chapter_that_stops_is_not_stored_and_the_others_are(known: Project) -> None:
    source = 'mode: str = "raises"  # how\nsize: int = 1  # what is measured'
    edit_cell(known, "ending", "parameters", source)
    before = (known.book / "ending.ipynb").read_bytes()
    result = invoke(known, "store", "-j", "1")
    assert result.exit_code == 1
    assert "ending, code cell 3: ValueError" in result.stderr
    assert (known.book / "ending.ipynb").read_bytes() == before
    for name in ("slope", "distance"):
        assert checks(known.chapter(name).read())


def test_the_ledger_fails_with_a_check_that_fails(known: Project) -> None:
    assert invoke(known, "store", "-j", "1").exit_code == 0
    path = known.book / "slope.ipynb"
    text = path.read_text(encoding="utf-8").replace('"verdict": "holds"', '"verdict": "fails"')
    path.write_text(text, encoding="utf-8")
    result = invoke(known, "claims")
    assert result.exit_code == 1
    assert "2 of 3 claims stand" in result.output
