"""A miniature book that is served: its pages, the server in a thread, a way to ask it anything."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from conftest import make_project, write_chapter
from drivers import wait_until

from attnflow.book.chapters.project import Project
from attnflow.book.pages.forms import form
from attnflow.book.serve import desk
from attnflow.book.serve.desk import Desk
from attnflow.book.serve.guard import Guard
from attnflow.book.serve.site import Site

STATIC = Path(__file__).parents[1] / "book" / "_static"
NAMED = (
    "# Named",
    'folder: str = ""  # of weights\nwait: float = 0.0  # seconds, in [0, 60]',
    "import time\nfrom attnflow.claims import check\ntime.sleep(wait)",
    "check('mini.named', predicted=1, measured=1, tol=0.5)",
)


def build(project: Project, name: str, notebook: Any, out: Path) -> Path:
    """In place of Jupyter Book, which takes ten seconds: a page that says what ran."""
    page = out / "html" / "book" / f"{name}.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    (out / "html" / "style.css").write_text("p { color: red }", "utf-8")
    page.write_text(f"<html><head></head><body>run of {name}</body></html>", "utf-8")
    return page


def make_site(root: Path) -> Project:
    """A project with pages, as `attnflow book` would have left them."""
    project = make_project(root)
    write_chapter(project, "named", *NAMED)
    toc = project.root / "_toc.yml"
    toc.write_text(toc.read_text("utf-8") + "  - file: book/named\n", encoding="utf-8")
    pages = project.build / "html" / "book"
    pages.mkdir(parents=True)
    script = (STATIC / "rerun.js").read_text("utf-8")
    for name, chapter in project.chapters().items():
        cell = next(c for c in chapter.read().cells if "parameters" in c.metadata.get("tags", []))
        (pages / f"{name}.html").write_text(
            f"<html><head><script>{script}</script></head><body>{form(name, cell.source)}</body></html>",
            encoding="utf-8",
        )
    (pages / "intro.html").write_text("<html><head></head><body>first</body></html>", "utf-8")
    (project.build / "html" / "index.html").write_text("<html></html>", "utf-8")
    return project


class Served:
    """A server in a thread, and a way to ask it anything."""

    def __init__(self, project: Project) -> None:
        self.project, self.desk = project, Desk(project)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.guard = Guard(self.port)
        self.site = Site(project, self.guard, self.desk)
        config = uvicorn.Config(self.site.application(), log_level="warning", lifespan="on")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(
            target=self.server.run, kwargs={"sockets": [self.socket]}, daemon=True
        )
        self.thread.start()
        wait_until(lambda: self.server.started, 20)

    def close(self) -> None:
        self.server.should_exit = True
        self.thread.join(timeout=20)
        self.socket.close()

    def ask(
        self, method: str, path: str, content: Any = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and content of an answer; `_` in a header's name is `-`."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        data = content if isinstance(content, bytes | None) else json.dumps(content).encode()
        connection.request(method, path, data, given)
        answer = connection.getresponse()
        out = answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        connection.close()
        return out

    def order(self, chapter: str, **parameters: Any) -> tuple[int, dict[str, Any]]:
        wish = {"chapter": chapter, "parameters": parameters}
        status, _, content = self.ask("POST", "/api/runs", wish, X_Attnflow_Token=self.guard.token)
        return status, json.loads(content)

    def told(self, name: str) -> dict[str, Any]:
        return json.loads(self.ask("GET", f"/api/runs/{name}")[2])

    def ended(self, name: str, timeout: float = 60) -> dict[str, Any]:
        wait_until(lambda: self.told(name)["state"] in ("done", "failed", "cancelled"), timeout)
        return self.told(name)


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr(desk, "build_page", build)
    made = Served(make_site(tmp_path / "mini"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """For requests after which nothing must have been ordered."""
    made = Served(make_site(tmp_path_factory.mktemp("idle") / "mini"))
    yield made
    made.close()
