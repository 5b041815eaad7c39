"""Executed chapters -> an HTML book.

The pages are staged in _build/source: the book as committed, with the notebooks of the runs in
place of the committed ones. A file that did not change is not written again, so Sphinx renders
only what is new. Rendering the committed outputs needs no stage: Jupyter Book builds the root.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import nbformat
import yaml

from attnflow.book.chapters.parameters import BookError
from attnflow.book.chapters.project import Project
from attnflow.files import write_text

LOG = "render.log"  #: what the renderer said


def stage(project: Project, notebooks: Mapping[str, nbformat.NotebookNode], folder: Path) -> None:
    """Lay out in `folder` a book whose chapters are these notebooks."""
    wanted = {}
    for name in ("_config.yml", "_toc.yml"):
        wanted[Path(name)] = (project.root / name).read_bytes()
    for path in sorted(project.book.rglob("*")):
        if path.is_file() and not any(part.startswith(".") for part in path.parts[-2:]):
            wanted[path.relative_to(project.root)] = path.read_bytes()
    for name, notebook in notebooks.items():
        wanted[Path("book") / f"{name}.ipynb"] = (nbformat.writes(notebook) + "\n").encode()
    for relative, content in wanted.items():
        target = folder / relative
        if not target.is_file() or target.read_bytes() != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    for path in folder.rglob("*"):
        if path.is_file() and path.relative_to(folder) not in wanted:
            path.unlink()


def build(project: Project, source: Path, *, strict: bool = False) -> Path:
    """Render the book at `source` into _build/html of the project; returns its first page.

    Nothing is done where these very pages were rendered last; `strict` looks at all anew.
    """
    page, mark = project.build / "html" / "index.html", project.build / "html" / ".rendered"
    wanted = _ingredients(project, source)
    known = mark.read_text(encoding="utf-8") if mark.is_file() and page.is_file() else ""
    if strict or known != wanted:
        mark.unlink(missing_ok=True)
        _jupyter_book(source, project.root, strict)
        write_text(wanted, mark)
    return page


def _ingredients(project: Project, source: Path) -> str:
    """A digest of all that pages are made of: the book, the code, benchmarks, locked versions."""
    files = [source / "_config.yml", source / "_toc.yml", project.root / "requirements.lock"]
    for folder, pattern in (
        (source / "book", "*"),
        (project.package, "*.py"),
        (project.root / "benchmarks" / "results", "*"),
    ):
        files += sorted(folder.rglob(pattern))
    digest = hashlib.sha256(str(source).encode())
    for path in files:
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(f"\0{path.name}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def build_page(project: Project, name: str, notebook: nbformat.NotebookNode, out: Path) -> Path:
    """Render one run as a page of its own in `out`; returns the page."""
    folder, target = out / ".source", out / "html"
    try:
        stage(project, {name: notebook}, folder)
        toc = {
            "format": "jb-book",
            "root": f"book/{name}",
            "chapters": [{"file": "book/references"}],
        }
        write_text(yaml.safe_dump(toc), folder / "_toc.yml")
        html = _jupyter_book(folder, folder, strict=False)
        if target.exists():
            shutil.rmtree(target)
        shutil.move(html, target)
    except BookError:
        with suppress(OSError):  # the message names it
            shutil.move(folder / "_build" / LOG, out / LOG)
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return target / "book" / f"{name}.html"


def _jupyter_book(source: Path, output: Path, strict: bool) -> Path:
    start = "from jupyter_book.cli.main import main; main()"
    command = [sys.executable, "-c", start, "build", str(source), "--path-output", str(output)]
    if strict:
        command += ["-W", "-n", "--keep-going", "--all"]
    settings = {**os.environ, "PYTHONWARNINGS": "ignore", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=settings, check=False)
    html = output / "_build" / "html"
    log = output / "_build" / LOG
    write_text(done.stdout + done.stderr, log)
    if done.returncode != 0 or not (html / "index.html").is_file():
        lines = [
            s for s in done.stderr.splitlines() if "WARNING" in s or "ERROR" in s or "rror:" in s
        ]
        tail = "\n".join(lines[-12:] or done.stderr.splitlines()[-12:])
        raise BookError(
            f"Jupyter Book could not render the book (all of it in {log.name}):\n{tail}"
        )
    return html
