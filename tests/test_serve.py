"""``attnflow serve``: what runs, waits, stops and is kept, and the form in a real browser."""

from __future__ import annotations

import http.client
import json
import shutil
import signal
import socket
import threading
import time
from pathlib import Path

import pytest
from browsers import chromium
from conftest import edit_cell, make_project
from drivers import Driver, wait_until
from served_books import Served, build, make_site

from attnflow.book.chapters.parameters import BookError
from attnflow.book.serve import desk
from attnflow.book.serve.desk import Desk, Full


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
    from playwright.sync_api import expect

    with chromium() as app:
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
    assert time.time() - max(o.asked for o in served.desk.all()) < 120
