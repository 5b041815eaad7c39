"""Runs that a page asked for: one queue with a limit, watched cell by cell, and what came of them.

A run goes through :func:`attnflow.book.runs.run.perform` like every other: the same key, the same shelf,
the same refusals. Its page is rendered beside it. One run is under way at a time.
"""

from __future__ import annotations

import json
import queue
import shutil
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from attnflow.book.chapters.notebooks import checks, write_notebook
from attnflow.book.chapters.parameters import BookError
from attnflow.book.chapters.project import Chapter, Project, recipe
from attnflow.book.render.html import build_page
from attnflow.book.runs.kernels import Kernels, Stopped
from attnflow.book.runs.run import Run, perform
from attnflow.claims import Check
from attnflow.files import write_text

#: Runs that may wait.
LIMIT = 8
WAITING, RUNNING, RENDERING = "waiting", "running", "rendering"
DONE, FAILED, CANCELLED = "done", "failed", "cancelled"


class Full(BookError):
    """The queue takes no more."""


class Order:
    """One run that was asked for, and how far it is."""

    def __init__(self, chapter: Chapter, parameters: dict[str, Any], key: str, cells: int) -> None:
        self.chapter, self.parameters, self.key, self.cells = chapter.name, parameters, key, cells
        self.changed = chapter.changed(parameters)
        self.state, self.cell, self.message = WAITING, 0, ""
        self.rows: list[dict[str, Any]] = []
        self.seconds = 0.0
        self.asked = time.time()
        self.unwanted = threading.Event()
        self.kernels: Kernels | None = None

    @property
    def name(self) -> str:
        """The chapter and the key: the run's address."""
        return f"{self.chapter}-{self.key}"

    def told(self) -> dict[str, Any]:
        """What a page may know of it."""
        return {
            "name": self.name, "chapter": self.chapter, "parameters": self.parameters,
            "changed": self.changed, "key": self.key, "state": self.state, "cell": self.cell, "cells": self.cells,
            "message": self.message, "rows": self.rows, "seconds": self.seconds,
            "asked": self.asked,
            "page": f"/runs/{self.name}/book/{self.chapter}.html" if self.state == DONE else "",
        }  # fmt: skip


class Desk:
    """Takes orders, and works through them in a thread of its own."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.folder = project.build / "served"
        self._orders: dict[str, Order] = {}
        self._queue: queue.Queue[Order | None] = queue.Queue()
        self._guard = threading.Lock()
        self._remember()
        self._worker = threading.Thread(target=self._work, name="attnflow-serve", daemon=True)
        self._worker.start()

    def ask(self, chapter: str, given: dict[str, Any]) -> Order:
        """A run, new or known; what is wrong with the wish is said at once."""
        prepared = recipe(self.project, chapter)
        parameters = prepared.chapter.resolve(given)
        for rule in prepared.chapter.parameters:
            if rule.is_free and parameters[rule.name] != rule.default:
                raise BookError(f"{rule.name} names a file: give it to `attnflow run {chapter}`")
        cells = len(prepared.source.cells)
        order = Order(prepared.chapter, parameters, prepared.key(parameters), cells)
        with self._guard:
            known = self._orders.get(order.name)
            if known is not None and known.state not in (FAILED, CANCELLED):
                return known
            if sum(o.state == WAITING for o in self._orders.values()) >= LIMIT:
                raise Full(f"{LIMIT} runs are waiting already: let one finish, or cancel it")
            self._orders[order.name] = order
        self._queue.put(order)
        return order

    def find(self, name: str) -> Order | None:
        """The run of this name, if it was asked for here."""
        with self._guard:
            return self._orders.get(name)

    def all(self) -> list[Order]:
        """Every run, the latest first."""
        with self._guard:
            return sorted(self._orders.values(), key=lambda order: -order.asked)

    def cancel(self, order: Order) -> None:
        """Stop a run that waits or is under way; one that is done stays."""
        order.unwanted.set()
        with self._guard:
            if order.state == WAITING:
                order.state = CANCELLED
            kernels = order.kernels
        if kernels is not None:
            kernels.stop()

    def close(self) -> None:
        """End what is under way."""
        self._queue.put(None)
        for order in self.all():
            self.cancel(order)
        self._worker.join(timeout=10)

    def page(self, name: str) -> Path:
        """Where the rendered pages of a run are."""
        return self.folder / name / "html"

    def _work(self) -> None:
        while (order := self._queue.get()) is not None:
            if order.unwanted.is_set():
                continue
            try:
                self._make(order)
            except BookError as error:
                self._end(order, FAILED, str(error))
            except Stopped:
                self._end(order, CANCELLED, "")
            except Exception as error:  # the next order must not wait for ever
                self._end(order, FAILED, f"{type(error).__name__}: {error}")

    def _make(self, order: Order) -> None:
        def watch(cell: int) -> None:
            order.cell = cell

        kernels = Kernels(1, watch=watch)
        with self._guard:
            if order.unwanted.is_set():
                raise Stopped
            order.kernels, order.state = kernels, RUNNING
        prepared = recipe(self.project, order.chapter)
        run = perform(prepared, order.parameters, kernels, given_up=order.unwanted.is_set)
        order.state = RENDERING
        folder = self.folder / order.name
        folder.mkdir(parents=True, exist_ok=True)
        write_notebook(run.whole, folder / f"{order.chapter}.ipynb")
        build_page(self.project, order.chapter, run.whole, folder)
        order.rows, order.seconds, order.key = self._beside(run), run.seconds, run.key
        if order.unwanted.is_set():
            shutil.rmtree(folder, ignore_errors=True)
            raise Stopped
        self._end(order, DONE, "")
        write_text(json.dumps(order.told(), ensure_ascii=False), folder / "run.json")

    def _end(self, order: Order, state: str, message: str) -> None:
        with self._guard:
            cancelled = order.unwanted.is_set() and state == FAILED
            order.state, order.kernels = CANCELLED if cancelled else state, None
            order.message = "" if cancelled else message

    def _beside(self, run: Run) -> list[dict[str, Any]]:
        """Every row with what it says at the defaults."""
        stored = {r.anchor(): r for r in checks(self.project.chapter(run.chapter).read())}
        return [_compared(row, stored.get(row.anchor())) for row in run.checks]

    def _remember(self) -> None:
        """Runs of earlier servers; a file that does not say what it should is left alone."""
        for path in sorted(self.folder.glob("*/run.json")):
            with suppress(OSError, ValueError, KeyError, TypeError, BookError):
                told = json.loads(path.read_text("utf-8"))
                chapter = self.project.chapter(told["chapter"])
                order = Order(chapter, chapter.resolve(told["parameters"]), str(told["key"]), 0)
                if path.parent.name != order.name:
                    continue
                order.rows, order.seconds = list(told["rows"]), float(told["seconds"])
                order.state, order.asked = DONE, float(told["asked"])
                self._orders[order.name] = order


def _compared(row: Check, before: Check | None) -> dict[str, Any]:
    shown = row.shown()
    return {
        "claim": shown["claim"], "control": row.is_control, "sound": row.sound,
        "predicted": shown["predicted"], "measured": shown["measured"], "verdict": row.verdict,
        "anchor": row.anchor(),
        "measured_at_defaults": before.shown()["measured"] if before else "",
        "verdict_at_defaults": before.verdict if before else "",
    }  # fmt: skip
