"""Pages and answers: the built book, the pages of reruns, and a small interface for the forms."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from attnflow.book.chapters.parameters import BookError
from attnflow.book.chapters.project import Project
from attnflow.book.serve.desk import Desk, Full, Order
from attnflow.book.serve.guard import Guard, Refused, body

#: Said with every answer.
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
}
Answer = Callable[[Request], Awaitable[Response]]


class Site:
    """The answers of one server."""

    def __init__(self, project: Project, guard: Guard, desk: Desk) -> None:
        self.project, self.guard, self.desk = project, guard, desk
        self.html = project.build / "html"
        self.chapters = project.chapters()

    def application(self) -> Starlette:
        """All routes."""
        site = self

        @asynccontextmanager
        async def open_for_business(app: Starlette) -> Any:
            yield
            await run_in_threadpool(site.desk.close)

        return Starlette(
            routes=[
                Route("/", self._safely(self.first)),
                Route("/api/runs", self._safely(self.runs), methods=["GET"]),
                Route("/api/runs", self._safely(self.ask, changes=True), methods=["POST"]),
                Route("/api/runs/{name}", self._safely(self.told), methods=["GET"]),
                Route(
                    "/api/runs/{name}", self._safely(self.cancel, changes=True), methods=["DELETE"]
                ),
                Route("/runs/{name}/book/{chapter}.html", self._safely(self.rerun)),
                Route("/runs/{name}/{path:path}", self._safely(self.beside)),
                Route("/book/{chapter}.html", self._safely(self.chapter)),
                Mount("/", self._files(self.html)),
            ],
            lifespan=open_for_business,
        )

    def _safely(self, answer: Answer, *, changes: bool = False) -> Answer:
        """The answer, for those who may have it; a refusal is a sentence."""

        async def guarded(request: Request) -> Response:
            try:
                (self.guard.admit_change if changes else self.guard.admit)(request)
                response = await answer(request)
            except Refused as error:
                response = JSONResponse({"error": error.reason}, error.status)
            except Full as error:
                response = JSONResponse({"error": str(error)}, 429)
            except BookError as error:
                response = JSONResponse({"error": str(error)}, 422)
            response.headers.update(HEADERS)
            return response

        return guarded

    def _files(self, folder: Path) -> Any:
        files = StaticFiles(directory=folder, html=True)
        guard = self.guard

        async def served(scope: Any, receive: Any, send: Any) -> None:
            try:
                guard.admit(Request(scope))
            except Refused as error:
                await JSONResponse({"error": error.reason}, error.status, HEADERS)(
                    scope, receive, send
                )
                return
            await files(scope, receive, send)

        return served

    async def first(self, request: Request) -> Response:
        """The front page."""
        return RedirectResponse("/book/intro.html")

    async def chapter(self, request: Request) -> Response:
        """A page of the book; a chapter is given the token."""
        name = request.path_params["chapter"]
        path = self.html / "book" / f"{name}.html"
        if "/" in name or name.startswith(".") or not path.is_file():
            raise Refused(404, "there is no such page")
        return HTMLResponse(self._with_token(path) if name in self.chapters else path.read_bytes())

    async def rerun(self, request: Request) -> Response:
        """The page of a run."""
        order = self._order(request)
        if request.path_params["chapter"] != order.chapter:
            return await self.beside(request)
        path = self.desk.page(order.name) / "book" / f"{order.chapter}.html"
        if not path.is_file():
            raise Refused(404, "this run has no page yet")
        return HTMLResponse(self._with_token(path))

    async def beside(self, request: Request) -> Response:
        """Styles, scripts and references of the page of a run."""
        order = self._order(request)
        within = request.url.path.removeprefix(f"/runs/{order.name}/")
        files = StaticFiles(directory=self.desk.page(order.name), check_dir=False)
        return await files.get_response(within, request.scope)

    def _with_token(self, path: Path) -> bytes:
        mark = f'<meta name="attnflow-token" content="{self.guard.token}">'
        return path.read_bytes().replace(b"</head>", f"{mark}</head>".encode(), 1)

    async def runs(self, request: Request) -> Response:
        """Every run, with what a list needs."""
        told = [order.told() | {"rows": []} for order in self.desk.all()]
        return JSONResponse({"runs": told})

    async def told(self, request: Request) -> Response:
        """One run: how far it is, or what came of it."""
        return JSONResponse(self._order(request).told())

    async def ask(self, request: Request) -> Response:
        """Order a run: {"chapter": NAME, "parameters": {NAME: VALUE}}."""
        try:
            wish = json.loads(await body(request))
            chapter, given = wish["chapter"], wish.get("parameters", {})
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise Refused(400, "a wish is a chapter and its parameters, as JSON") from None
        if not isinstance(chapter, str) or chapter not in self.chapters:
            raise Refused(422, "there is no such chapter")
        if not isinstance(given, dict):
            raise Refused(422, "parameters are given by name")
        order = await run_in_threadpool(self.desk.ask, chapter, given)
        return JSONResponse(order.told(), 202)

    async def cancel(self, request: Request) -> Response:
        """Stop a run."""
        order = self._order(request)
        await run_in_threadpool(self.desk.cancel, order)
        return JSONResponse(order.told())

    def _order(self, request: Request) -> Order:
        order = self.desk.find(request.path_params["name"])
        if order is None:
            raise Refused(404, "there is no such run")
        return order
