"""`attnflow sweep --workers` and `--scheduler` as a user calls them, TLS included."""

from __future__ import annotations

import csv
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import write_chapter
from dask_programs import SLOW, Farm, Programs, until

from attnflow.book.chapters.project import Project

#: The command; a scheduler that is away for four seconds is taken for gone. Where the tests were
#: started in the background, the shell has them ignore Ctrl-C.
COMMAND = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
import attnflow.book.runs.cluster as cluster
from attnflow.book.commands.cli import main
cluster.PATIENCE = 4.0
if __name__ == "__main__":
    main()
"""


@pytest.fixture(scope="module")
def programs(programs: Programs) -> Programs:
    (programs.folder / "command.py").write_text(COMMAND, encoding="utf-8")
    return programs


@pytest.fixture
def project(project: Project) -> Project:
    write_chapter(project, "slow", *SLOW)
    return project


@contextmanager
def started(
    programs: Programs, project: Project, *words: str, **more: str
) -> Iterator[subprocess.Popen[str]]:
    """The command in a process of its own, in the project's folder."""
    with subprocess.Popen(
        [sys.executable, str(programs.folder / "command.py"), *words],
        cwd=project.root, env=programs.environment(**more), text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def called(programs: Programs, project: Project, *words: str, **more: str) -> tuple[int, str, str]:
    """The exit code of the command and what it said, without the progress."""
    with started(programs, project, *words, **more) as process:
        said, errors = process.communicate(timeout=120)
    return process.returncode, said, _words(errors)


def _words(errors: str) -> str:
    lines = errors.replace("\r", "\n").splitlines()
    progress = ("%|", "has no worker yet; waiting for one")
    return "\n".join(
        line for line in lines if line.strip() and not any(p in line for p in progress)
    )


def table(project: Project) -> list[str]:
    path = project.build / "sweeps" / "slow" / "slow.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return [row["measured"] for row in csv.DictReader(file)]


def kept(project: Project) -> int:
    return len(list((project.build / "runs").glob("*.json")))


def test_a_local_cluster_does_a_sweep_and_leaves_no_process(
    programs: Programs, project: Project
) -> None:
    before = {process.pid for process in programs.left()}
    code, said, errors = called(programs, project, "sweep", "slow", "-p", "size=1,2", "--workers=2")
    assert (code, errors) == (0, "")
    assert "2 runs, 0 known before; 2 rows in _build/sweeps/slow/slow.csv" in said
    assert table(project) == ["1.0", "2.0"]
    until(lambda: {p.pid for p in programs.left()} <= before, "its processes end", 10)
    code, said, _ = called(
        programs, project, "sweep", "slow", "-p", "size=1,2,3", "--workers=2", "--dry-run"
    )
    assert code == 0
    assert said.splitlines()[0] == "3 runs, 2 known before"
    assert "hours on one core" in said
    assert kept(project) == 2


def test_an_interruption_keeps_what_is_done_and_ends_what_is_not(
    farm: Farm, project: Project
) -> None:
    words = ("sweep", "slow", "-p", "wait=0,60", "--scheduler", farm.address)
    with started(farm.programs, project, *words) as process:
        until(lambda: kept(project) == 1 and farm.kernels(), "one run done, one begun")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert _words(errors) == (
        "stopped; what was finished is kept: the same command goes on from there"
    )
    assert kept(project) == 1
    until(lambda: not farm.kernels(), "the kernels end", 20)


def test_a_killed_scheduler_is_one_sentence_on_the_terminal(
    programs: Programs, project: Project
) -> None:
    address, scheduler = programs.scheduler()
    worker = programs.worker(address)
    words = ("sweep", "slow", "-p", "wait=50,60", "--scheduler", address)
    with started(programs, project, *words) as process:
        until(lambda: programs.kernels(worker), "a run is under way")
        scheduler.kill()
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert _words(errors) == (
        f"attnflow: the scheduler at {address} is gone; what was finished is kept: the same "
        "command, with a scheduler that answers, goes on from there"
    )


@pytest.mark.parametrize("more", [("--scheduler", "tcp://127.0.0.1:9"), ("-j", "2")])
def test_only_one_option_says_where_runs_happen(
    programs: Programs, project: Project, more: tuple[str, ...]
) -> None:
    words = ("sweep", "slow", "-p", "size=1,2", "--workers", "2", *more)
    code, _, errors = called(programs, project, *words)
    assert code == 2
    assert "one of --jobs, --workers and --scheduler says where runs happen" in errors


# TLS


def certificates(folder: Path) -> dict[str, str]:
    """An authority, and one certificate that it signed for everybody; as Dask's settings."""
    folder.mkdir()

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    key = ("-newkey", "rsa:2048", "-nodes")
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority")
    openssl("req", *key, "-keyout", "node.key", "-out", "node.csr", "-subj", "/CN=node")
    signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial")
    openssl("x509", "-req", "-in", "node.csr", *signed, "-out", "node.pem")
    settings = {"CA_FILE": str(folder / "ca.pem")}
    for role in ("SCHEDULER", "WORKER", "CLIENT"):
        settings |= {f"{role}__CERT": str(folder / "node.pem")}
        settings |= {f"{role}__KEY": str(folder / "node.key")}
    return {f"DASK_DISTRIBUTED__COMM__TLS__{name}": value for name, value in settings.items()}


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes certificates with openssl")
def test_tls_is_dasks_own_configuration(
    programs: Programs, project: Project, tmp_path: Path
) -> None:
    tls = certificates(tmp_path / "certificates")
    required = {**tls, "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True"}
    address, _ = programs.scheduler("--protocol", "tls", **required)
    programs.worker(address, "--protocol", "tls", **required)
    assert address.startswith("tls://127.0.0.1:")
    sweep = ("sweep", "slow", "-p", "size=1", "--scheduler")

    code, _, errors = called(programs, project, *sweep, address)
    assert code == 1
    assert errors.startswith(f"attnflow: no scheduler answers at {address}: ")
    assert "Traceback" not in errors
    plain = address.replace("tls", "tcp")
    code, _, errors = called(programs, project, *sweep, plain)
    assert code == 1
    assert errors.startswith(f"attnflow: no scheduler answers at {plain}: ")
    assert not kept(project)

    folder = tmp_path / "configuration"
    folder.mkdir()
    (folder / "distributed.yaml").write_text(_as_file(tls), encoding="utf-8")
    code, _, errors = called(programs, project, *sweep, address, DASK_CONFIG=str(folder))
    assert code == 0, errors
    assert table(project) == ["1.0"]


def _as_file(settings: dict[str, str]) -> str:
    """The same settings as a file of Dask's configuration."""
    lines = ["distributed:", "  comm:", "    require-encryption: true", "    tls:"]
    role = ""
    for name, value in settings.items():
        words = name.removeprefix("DASK_DISTRIBUTED__COMM__TLS__").lower().split("__")
        if len(words) == 2 and words[0] != role:
            role = words[0]
            lines.append(f"      {role}:")
        indent = "      " if len(words) == 1 else "        "
        lines.append(f"{indent}{words[-1].replace('_', '-')}: {value}")
    return "\n".join(lines) + "\n"
