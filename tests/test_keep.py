"""Kept runs are believed only if they are what was kept."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Fake

from attnflow.book.chapters.parameters import BookError
from attnflow.book.chapters.project import Project
from attnflow.book.runs.keep import CHECKS, NOTEBOOK, Shelf
from attnflow.book.runs.run import Run, execute

FORMS = [NOTEBOOK, CHECKS]


def made(project: Project, what: str, **given: Any) -> tuple[Run, Path]:
    """A run of `ending` and the file that it is kept in."""
    run = execute(project, "ending", given, what=what, runner=Fake())
    return run, next((project.build / "runs").glob(f"ending-{run.key}.*"))


def change(path: Path, edit: Callable[[Any], None]) -> None:
    """Edit a kept file as JSON."""
    content = json.loads(path.read_text(encoding="utf-8"))
    edit(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def stated(content: Any) -> Any:
    """Where a kept file states its key and digest."""
    return content["metadata"]["attnflow"] if "metadata" in content else content


def first_row(content: Any) -> Any:
    """The unrounded numbers of the first check."""
    if "checks" in content:
        return content["checks"][0]
    outputs = (o for cell in content["cells"] for o in cell.get("outputs", []))
    return next(iter(next(outputs)["metadata"].values()))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def garbled(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\0" + path.read_bytes()[3:])


def other_json(path: Path) -> None:
    path.write_text("[1, 2, 3]", encoding="utf-8")


def deep(path: Path) -> None:
    path.write_text("[" * 200_000, encoding="utf-8")


def number_changed(path: Path) -> None:
    change(path, lambda content: first_row(content).update(measured=99.0))


def verdict_changed(path: Path) -> None:
    change(path, lambda content: first_row(content).update(verdict="fails"))


def digest_removed(path: Path) -> None:
    change(path, lambda content: stated(content).pop("digest"))


def digest_emptied(path: Path) -> None:
    change(path, lambda content: stated(content).update(digest=None))


def key_removed(path: Path) -> None:
    change(path, lambda content: stated(content).pop("key"))


def seconds_removed(path: Path) -> None:
    change(path, lambda content: stated(content).pop("seconds"))


DAMAGE = [
    cut, empty, garbled, other_json, deep, number_changed, verdict_changed,
    digest_removed, digest_emptied, key_removed, seconds_removed,
]  # fmt: skip


@pytest.mark.parametrize("what", FORMS)
def test_the_honest_file_is_read_back(
    project: Project, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    run, _ = made(project, what, size=3)
    again = execute(project, "ending", {"size": 3}, what=what, runner=Fake(before=pytest.fail))
    assert again == run._replace(cached=True)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("what", FORMS)
@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_a_damaged_file_is_noticed_named_and_computed_again(
    project: Project,
    capsys: pytest.CaptureFixture[str],
    what: str,
    damage: Callable[[Path], None],
) -> None:
    run, path = made(project, what, size=3)
    honest = path.read_bytes()
    damage(path)
    assert path.read_bytes() != honest
    fake = Fake()
    again = execute(project, "ending", {"size": 3}, what=what, runner=fake)
    assert len(fake.ran) == 1
    assert not again.cached
    assert again.checks == run.checks
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith(f"attnflow: {path.name} ")
    assert said.endswith("it is computed again\n")
    assert execute(project, "ending", {"size": 3}, what=what, runner=Fake(before=pytest.fail))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("what", FORMS)
def test_the_file_of_another_run_is_not_believed(
    project: Project, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    run, path = made(project, what, size=3)
    other, strange = made(project, what, size=4)
    path.write_bytes(strange.read_bytes())
    again = execute(project, "ending", {"size": 3}, what=what, runner=Fake())
    assert again.checks == run.checks
    assert f"it says that it is the run {other.key}" in capsys.readouterr().err


def test_a_folder_in_the_place_of_a_run_is_a_sentence(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    _, path = made(project, CHECKS, size=3)
    path.unlink()
    (path / "inside").mkdir(parents=True)
    with pytest.raises(BookError, match=r"cannot be kept in .*: Is a directory"):
        execute(project, "ending", {"size": 3}, what=CHECKS, runner=Fake())
    assert f"{path.name} cannot be read" in capsys.readouterr().err
    assert list(path.parent.iterdir()) == [path]


def test_a_damaged_notebook_gives_way_to_honest_checks(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    run, _ = made(project, CHECKS, size=3)
    execute(project, "ending", {"size": 3}, runner=Fake())
    notebook = next((project.build / "runs").glob("*.ipynb"))
    number_changed(notebook)
    again = execute(project, "ending", {"size": 3}, what=CHECKS, runner=Fake(before=pytest.fail))
    assert again == run._replace(cached=True)


@pytest.mark.parametrize("what", FORMS)
def test_a_full_disk_is_a_sentence_and_leaves_nothing_half(
    project: Project, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def full(self: Path, text: str, **kwargs: Any) -> int:
        self.write_bytes(text.encode()[:100])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full)
        with pytest.raises(BookError, match=r"the run ending-\w+ cannot be kept in .*: No space"):
            execute(project, "ending", what=what, runner=Fake())
    assert list((project.build / "runs").iterdir()) == []


def test_a_build_folder_that_is_a_file_is_a_sentence_before_any_run(project: Project) -> None:
    project.build.write_text("", encoding="utf-8")
    with pytest.raises(BookError, match=r"cannot write in .*_build/runs: \w"):
        execute(project, "ending", runner=Fake(before=pytest.fail))


@pytest.mark.parametrize("now", [0.0, 1e9, 4e9])
def test_a_clock_that_was_set_changes_nothing(
    project: Project, monkeypatch: pytest.MonkeyPatch, now: float
) -> None:
    run, path = made(project, NOTEBOOK, size=3)
    later = time.time() + 10 * 365 * 86400
    os.utime(path, (later, later))
    os.utime(project.book / "ending.ipynb", (later, later))
    monkeypatch.setattr(time, "time", lambda: now)
    again = execute(project, "ending", {"size": 3}, runner=Fake(before=pytest.fail))
    assert again == run._replace(cached=True)
    fresh = execute(project, "ending", {"size": 4}, runner=Fake())
    assert not fresh.cached
    assert fresh.seconds >= 0
    assert execute(project, "ending", {"size": 4}, runner=Fake(before=pytest.fail)).cached


def test_times_are_read_from_all_kept_runs_but_damaged_ones(project: Project) -> None:
    shelf = Shelf(project.build / "runs")
    assert shelf.seconds("ending") == []
    run, _ = made(project, NOTEBOOK, size=1)
    other, _ = made(project, CHECKS, size=2)
    for damage in (cut, empty, garbled, other_json, deep):
        damage(made(project, CHECKS, size=3)[1])
        assert sorted(shelf.seconds("ending")) == sorted([run.seconds, other.seconds])


def test_times_of_a_chapter_are_not_those_of_one_whose_name_goes_on(project: Project) -> None:
    shelf = Shelf(project.build / "runs")
    _, path = made(project, CHECKS, size=1)
    path.rename(path.with_name(path.name.replace("ending-", "ending-field-")))
    assert shelf.seconds("ending") == []
    assert len(shelf.seconds("ending-field")) == 1
