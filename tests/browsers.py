"""A headless browser for tests: one that asks for nothing outside."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


@contextmanager
def chromium() -> Iterator[Any]:
    """The machine's Chromium; skips the test where there is none."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("no chromium on this machine: install it to test the pages in a browser")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        app = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield app
        app.close()
