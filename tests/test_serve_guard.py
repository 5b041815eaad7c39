"""``attnflow serve``: who is answered, what is refused, and what of the disk is shown."""

from __future__ import annotations

import json
from typing import Any

import pytest
from served_books import Served

from attnflow.book.serve.guard import MOST


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
