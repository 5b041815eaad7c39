"""``attnflow serve``: who is answered, what runs, what is refused, and the form in a real browser."""

from __future__ import annotations

import http.client
import json
import shutil
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from conftest import edit_cell, make_project, write_chapter
from drivers import Driver, wait_until

from attnflow.book.chapters.parameters import BookError
from attnflow.book.chapters.project import Project
from attnflow.book.pages.forms import form
from attnflow.book.serve import desk
from attnflow.book.serve.desk import Desk, Full
from attnflow.book.serve.guard import MOST, Guard
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


def test_a_run_is_ordered_watched_and_read(served: Served) -> None:
    status, told = served.order("distance", n=5)
    assert status == 202
    assert told["parameters"] == {"n": 5, "gap": 1.0}
    done = served.ended(told["name"])
    assert done["state"] == "done"
    assert done["cell"] > 0
    rows = {(row["claim"], row["control"]): row for row in done["rows"]}
    assert rows["mini.distance", False]["verdict"] == "holds"
    assert rows["mini.distance", True]["verdict"] == "fails"
    assert all(row["sound"] for row in done["rows"])
    status, headers, page = served.ask("GET", done["page"])
    assert (status, headers["x-content-type-options"]) == (200, "nosniff")
    assert b"run of distance" in page
    assert served.ask("GET", f"/runs/{done['name']}/style.css")[2] == b"p { color: red }"
    again = served.order("distance", n="5")[1]
    assert (again["name"], again["state"]) == (done["name"], "done")


def test_what_was_run_is_known_to_the_next_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk, "build_page", build)
    project = make_site(tmp_path / "mini")
    first = Desk(project)
    order = first.ask("distance", {"n": 4})
    wait_until(lambda: order.state == "done", 60)
    first.close()
    for name, text in (("distance-0", "{"), ("distance-1", '{"chapter": "distance"}')):
        (project.build / "served" / name).mkdir()
        (project.build / "served" / name / "run.json").write_text(text, "utf-8")
    second = Desk(project)
    known = second.all()
    second.close()
    assert [o.told() for o in known] == [order.told() | {"cell": 0, "cells": 0}]


def test_at_defaults_rows_stand_beside_what_is_stored(served: Served) -> None:
    path = served.project.book / "distance.ipynb"
    status, told = served.order("distance")
    done = served.ended(told["name"])
    assert status == 202
    assert {row["verdict_at_defaults"] for row in done["rows"]} == {""}  # nothing is stored yet
    run = served.project.build / "served" / told["name"] / "distance.ipynb"
    shutil.copyfile(run, path)
    told = served.ended(served.order("distance", n=4)[1]["name"])
    assert {row["verdict_at_defaults"] for row in told["rows"]} == {"holds", "fails"}


@pytest.mark.parametrize(
    ("chapter", "parameters", "sentence"),
    [
        ("distance", {"n": 1}, "n must be int in [2, 64], got 1"),
        ("distance", {"n": "２４"}, "n must be int in [2, 64]"),
        ("distance", {"n": [3]}, "n must be int in [2, 64]"),
        ("distance", {"n": None}, "n must be int in [2, 64]"),
        ("distance", {"m": 3}, "distance has no parameter 'm'"),
        ("ending", {"mode": "__import__('os')"}, "mode must be str, one of"),
        ("named", {"folder": "/etc"}, "folder names a file: give it to `attnflow run named`"),
        ("intro", {}, "there is no such chapter"),
        ("../distance", {}, "there is no such chapter"),
        (["distance"], {}, "there is no such chapter"),
    ],
)
def test_a_wish_that_cannot_be_met_gets_a_sentence(
    idle: Served, chapter: Any, parameters: dict[str, Any], sentence: str
) -> None:
    wish = {"chapter": chapter, "parameters": parameters}
    status, _, content = idle.ask("POST", "/api/runs", wish, X_Attnflow_Token=idle.guard.token)
    assert status == 422
    assert sentence in json.loads(content)["error"]
    assert idle.desk.all() == []


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"", 400),
        (b"chapter=distance", 400),
        (b"[]", 400),
        (b"{}", 400),
        (b"\xff", 400),
        (b"[" * 50_000, 400),
        (b'{"chapter": "distance", "parameters": [1]}', 422),
        (b'{"chapter": "distance"' + b" " * MOST + b"}", 413),
    ],
)
def test_what_is_no_wish_is_refused(idle: Served, content: bytes, status: int) -> None:
    found, _, said = idle.ask("POST", "/api/runs", content, X_Attnflow_Token=idle.guard.token)
    assert found == status
    assert json.loads(said)["error"]
    assert idle.desk.all() == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),
        ({"X_Attnflow_Token": "guess"}, 403),
        ({"X_Attnflow_Token": "", "Origin": "http://127.0.0.1:PORT"}, 403),
        ({"X_Attnflow_Token": "TOKEN", "Origin": "http://evil.example"}, 403),
        ({"X_Attnflow_Token": "TOKEN", "Origin": "null"}, 403),
        ({"X_Attnflow_Token": "TOKEN", "Origin": "https://127.0.0.1:PORT"}, 403),
        ({"X_Attnflow_Token": "TOKEN", "Host": "evil.example:PORT"}, 421),
        ({"X_Attnflow_Token": "TOKEN", "Host": "127.0.0.1"}, 421),
        ({"X_Attnflow_Token": "TOKEN", "Host": "localhost.evil.example:PORT"}, 421),
        ({"X_Attnflow_Token": "TOKEN", "Sec_Fetch_Site": "cross-site"}, 403),
        ({"X_Attnflow_Token": "TOKEN", "Sec_Fetch_Site": "same-site"}, 403),
    ],
)
def test_nobody_else_can_run_or_stop_anything(
    idle: Served, headers: dict[str, str], status: int
) -> None:
    filled = {
        name: value.replace("PORT", str(idle.port)).replace("TOKEN", idle.guard.token)
        for name, value in headers.items()
    }
    wish = {"chapter": "distance"}
    assert idle.ask("POST", "/api/runs", wish, **filled)[0] == status
    assert idle.ask("DELETE", "/api/runs/distance-0", **filled)[0] == status
    assert idle.desk.all() == []


@pytest.mark.parametrize("path", ["/", "/book/distance.html", "/index.html", "/api/runs"])
def test_pages_are_shown_to_this_machine_only(idle: Served, path: str) -> None:
    assert idle.ask("GET", path, Host="evil.example")[0] == 421
    assert idle.ask("GET", path, Sec_Fetch_Site="cross-site")[0] == 403
    assert idle.ask("GET", path)[0] in (200, 307)


def test_only_chapters_are_given_the_token(idle: Served) -> None:
    token = idle.guard.token.encode()
    assert token in idle.ask("GET", "/book/distance.html")[2]
    assert token not in idle.ask("GET", "/book/intro.html")[2]


@pytest.mark.parametrize(
    "path",
    [
        "/../_toc.yml",
        "/book/../../../_toc.yml",
        "/book/..%2f..%2f..%2f_toc.html",
        "/%2e%2e/%2e%2e/_toc.yml",
        "/book/.html",
        "/book/nothing.html",
        "/runs/distance-0/book/distance.html",
        "/runs/..%2f..%2fhtml/book/distance.html",
        "/api/runs/nothing",
    ],
)
def test_nothing_else_of_the_disk_is_shown(idle: Served, path: str) -> None:
    status, _, content = idle.ask("GET", path)
    assert status == 404
    assert b"jb-book" not in content


def test_the_pages_of_a_run_show_nothing_beside_them(served: Served) -> None:
    done = served.ended(served.order("distance")[1]["name"])
    assert served.ask("GET", f"/runs/{done['name']}/../run.json")[0] == 404
    assert served.ask("GET", f"/runs/{done['name']}/%2e%2e/run.json")[0] == 404
    assert served.ask("GET", f"/runs/{done['name']}/..%2frun.json")[0] == 404


def test_a_run_is_cancelled_while_it_runs_and_while_it_waits(served: Served) -> None:
    slow, later = (served.order("named", wait=w)[1]["name"] for w in (60, 59))
    wait_until(lambda: served.told(slow)["state"] == "running", 30)
    assert served.told(later)["state"] == "waiting"
    key = served.guard.token
    for name in (later, slow):
        assert served.ask("DELETE", f"/api/runs/{name}", X_Attnflow_Token=key)[0] == 200
    assert served.ended(later, 5)["state"] == "cancelled"
    assert served.ended(slow, 20)["state"] == "cancelled"
    assert served.ended(served.order("ending")[1]["name"])["state"] == "done"  # the desk goes on


def test_a_chapter_that_stops_says_where(served: Served) -> None:
    told = served.ended(served.order("ending", mode="raises")[1]["name"])
    assert told["state"] == "failed"
    assert "the chapter stops here" in told["message"]
    assert told["page"] == ""


def test_the_queue_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hold = threading.Event()
    monkeypatch.setattr(Desk, "_make", lambda self, order: hold.wait(30))
    clerk = Desk(make_site(tmp_path / "mini"))
    first = clerk.ask("ending", {"size": 1})
    wait_until(lambda: clerk._queue.empty(), 5)
    first.state = "running"
    for size in range(2, 2 + desk.LIMIT):
        clerk.ask("distance", {"n": size})
    with pytest.raises(Full, match=f"{desk.LIMIT} runs are waiting already"):
        clerk.ask("distance", {"n": 60})
    assert clerk.ask("distance", {"n": 2}).parameters["n"] == 2  # known: no place is needed
    hold.set()
    clerk.close()


def test_an_edited_chapter_is_another_run(served: Served) -> None:
    before = served.order("ending")[1]
    served.ended(before["name"])
    edit_cell(served.project, "ending", "code-0", "import sys\nfrom attnflow.claims import *")
    assert served.order("ending")[1]["key"] != before["key"]


def test_nothing_built_is_said_before_anything_starts(tmp_path: Path) -> None:
    from attnflow.book.serve.server import serve_book

    with pytest.raises(BookError, match="nothing is built yet"):
        serve_book(make_project(tmp_path / "mini"), 0, print)


def test_a_port_in_use_is_a_sentence(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as other,
        Driver(make_site(tmp_path / "mini"), "serve", "--port", str(other.getsockname()[1])) as run,
    ):
        assert run.finish() == 2
        assert "cannot be used" in run.err
        assert "Traceback" not in run.err


def test_ctrl_c_ends_the_server_and_what_it_runs(tmp_path: Path) -> None:
    project = make_site(tmp_path / "mini")
    with Driver(project, "serve", "--port", "0") as run:
        wait_until(lambda: "http://localhost:" in run.out, 60)
        port = int(run.out.split("http://localhost:")[1].split("/")[0])
        page = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        page.request("GET", "/book/named.html")
        text = page.getresponse().read().decode()
        token = text.split('name="attnflow-token" content="')[1].split('"')[0]
        wish = json.dumps({"chapter": "named", "parameters": {"wait": 60}})
        page.request("POST", "/api/runs", wish, {"X-Attnflow-Token": token})
        name = json.loads(page.getresponse().read())["name"]

        def running() -> bool:
            page.request("GET", f"/api/runs/{name}")
            return json.loads(page.getresponse().read())["state"] == "running"

        wait_until(running, 30)
        page.close()
        run.process.send_signal(signal.SIGINT)
        run.finish(20)
        wait_until(lambda: run.left() == [], 5)
        assert "Traceback" not in run.err


@pytest.mark.browser
def test_the_form_runs_a_chapter_in_a_browser(served: Served) -> None:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("no chromium on this machine: install it to test the pages in a browser")
    from playwright.sync_api import expect, sync_playwright

    with sync_playwright() as playwright:
        app = playwright.chromium.launch(
            executable_path=found, args=["--no-sandbox", "--disable-gpu"]
        )
        page = app.new_page()
        page.goto(f"http://localhost:{served.port}/book/distance.html")
        page.locator("summary").click()
        command = page.locator(".af-command code")
        page.locator("[name=n]").fill("1")
        expect(command).to_have_text("attnflow run distance -p n=1")
        page.get_by_role("button", name="run").click()
        expect(page.locator("output")).to_contain_text("n must be int in [2, 64]")
        page.locator("[name=n]").fill("6")
        page.get_by_role("button", name="run").click()
        expect(page.locator("output a").first).to_have_text("the page of this run", timeout=60_000)
        expect(page.locator("output")).to_contain_text("all 2 rows are as they must")
        expect(page.locator(".af-runs a")).to_have_text("n=6")
        page.locator("output a").first.click()
        expect(page.locator("body")).to_contain_text("run of distance")
        page.goto(f"http://localhost:{served.port}/book/named.html")
        page.locator("summary").click()
        assert page.locator("[name=folder]").is_disabled()
        page.locator("[name=wait]").fill("60")
        page.get_by_role("button", name="run").click()
        page.get_by_role("button", name="cancel").click()
        expect(page.locator("output")).to_contain_text("cancelled", timeout=20_000)
        page.goto((served.project.build / "html" / "book" / "distance.html").as_uri())
        page.locator("summary").click()
        assert not page.get_by_role("button", name="run").is_visible()  # a plain file: to copy
        app.close()
    assert time.time() - max(o.asked for o in served.desk.all()) < 120
