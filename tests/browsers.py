"""A headless browser for tests, one that asks for nothing outside, and a server of plain files."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from attnflow.book.render.pdf import browser

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


@contextmanager
def chromium() -> Iterator[Any]:
    """The machine's Chromium; skips the test where there is none."""
    found = browser()
    if found is None:
        pytest.skip("no chromium on this machine: install it to test the pages in a browser")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        app = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield app
        app.close()


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder on this machine."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{httpd.server_port}"
        httpd.shutdown()
