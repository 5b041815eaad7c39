"""Disks that are full, read-only or not there: one sentence, and nothing half-written."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import make_project, write_chapter
from test_cli import call

from attnflow.book.chapters.project import Project

#: A quick chapter whose table and notebook do not fit in a page of memory.
LONG = (
    "# Long",
    "n: int = 1  # nothing, in [1, 9]",
    "from attnflow.claims import check\n"
    "for k in range(60):\n"
    "    display(check('mini.long', case=f'case {k:030}', predicted=n, measured=n, tol=0.5))",
)
Mount = Callable[[Path, str], Path]


@pytest.fixture
def mount() -> Iterator[Mount]:
    """A file system of its own at some folder; only root may."""
    made: list[Path] = []

    def at(folder: Path, options: str) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        if sys.platform != "linux" or os.geteuid() != 0:
            pytest.skip("only root mounts")
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            pytest.skip("mounting is not allowed here")
        made.append(folder)
        return folder

    yield at
    for folder in made:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def long(tmp_path: Path) -> Project:
    project = make_project(tmp_path / "mini")
    write_chapter(project, "long", *LONG)
    return project


def sentence(done: subprocess.CompletedProcess[str]) -> str:
    """The one line of attnflow on stderr; progress bars aside, there is no other."""
    assert "Traceback" not in (done.stdout or "") + done.stderr
    lines = [line for line in done.stderr.splitlines() if line.strip() and "runs " not in line]
    assert len(lines) == 1, done.stderr
    return lines[0]


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_an_output_folder_that_fills_up_is_named_and_holds_nothing_half(
    long: Project, mount: Mount, tmp_path: Path
) -> None:
    small = mount(tmp_path / "small", "size=4k")
    for command in (("run", "long", "--no-html"), ("sweep", "long", "-p", "n=1", "-j", "1")):
        done = call(long, *command, "-o", str(small))
        assert done.returncode == 1
        assert sentence(done).startswith(f"attnflow: {small}/long.")
        assert sentence(done).endswith(": No space left on device")
        assert files(small) == []


@pytest.mark.usefixtures("no_kernel")
def test_an_output_folder_that_is_full_is_refused_before_any_run(
    long: Project, mount: Mount, tmp_path: Path
) -> None:
    full = mount(tmp_path / "full", "size=4k")
    (full / "filler").write_bytes(bytes(4096))
    for command in (("run", "long"), ("sweep", "long", "-p", "n=1")):
        done = call(long, *command, "-o", str(full))
        assert done.returncode == 2
        assert sentence(done) == f"attnflow: cannot write in {full}: No space left on device"
    assert files(full) == ["filler"]
    assert not long.build.exists()


def test_a_build_folder_that_fills_up_is_a_sentence(
    long: Project, mount: Mount, tmp_path: Path
) -> None:
    mount(long.build, "size=4k")
    done = call(long, "run", "long", "--no-html", "-o", str(tmp_path / "out"))
    assert done.returncode in (1, 2)
    assert "cannot be kept in" in sentence(done)
    assert sentence(done).endswith("No space left on device")
    assert files(long.build) == files(tmp_path / "out") == []


def test_a_build_folder_that_is_read_only_is_a_sentence(
    long: Project, mount: Mount, tmp_path: Path
) -> None:
    mount(long.build, "size=64k,ro")
    for command in (("run", "long", "--no-html", "-o", str(tmp_path / "out")), ("run", "long")):
        done = call(long, *command)
        assert done.returncode in (1, 2)
        assert sentence(done).endswith(": Read-only file system")
    done = call(long, "sweep", "long", "-p", "n=1,2", "-o", str(tmp_path / "table"))
    assert done.returncode == 1
    assert done.stderr.count("Read-only file system") == 2
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("kind", ["file", "dangling link"])
def test_a_build_folder_that_is_something_else_is_a_sentence(
    long: Project, tmp_path: Path, kind: str
) -> None:
    if kind == "file":
        long.build.write_text("", encoding="utf-8")
    else:
        long.build.symlink_to(tmp_path / "nowhere")
    done = call(long, "run", "long", "--no-html", "-o", str(tmp_path / "out"))
    assert done.returncode in (1, 2)
    assert sentence(done).startswith(f"attnflow: cannot write in {long.build}/runs: ")
    assert files(tmp_path / "out") == []


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
@pytest.mark.parametrize("where", ["out", "_build"])
def test_a_folder_without_permission_is_a_sentence(
    long: Project, tmp_path: Path, where: str
) -> None:
    closed = tmp_path / "closed" if where == "out" else long.build
    closed.mkdir()
    closed.chmod(0o555)
    out = closed if where == "out" else tmp_path / "out"
    done = call(long, "run", "long", "--no-html", "-o", str(out))
    assert done.returncode in (1, 2)
    assert sentence(done).endswith(": Permission denied")
    assert files(closed) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_output_that_goes_to_a_full_disk_is_a_sentence(long: Project) -> None:
    with open("/dev/full", "w") as full:
        done = call(long, "list", stdout=full)
    assert done.returncode == 1
    assert done.stderr == "attnflow: No space left on device\n"


def test_output_that_nobody_reads_is_no_traceback(long: Project) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as closed:
        done = call(long, "list", stdout=closed)
    assert done.returncode == 1
    assert done.stderr == ""


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_signs_that_a_terminal_lacks_are_escaped(
    long: Project, tmp_path: Path, encoding: str
) -> None:
    strange = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xe2\x86\x92")
    done = call(long, "run", "ending", "--no-html", "-o", strange, PYTHONIOENCODING=encoding)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "notebook" in done.stdout
    assert os.listdir(strange) == ["ending.ipynb"]
