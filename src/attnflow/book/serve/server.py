"""The server itself: uvicorn on the loopback."""

from __future__ import annotations

import socket
from collections.abc import Callable

import uvicorn

from attnflow.book.chapters.parameters import BookError
from attnflow.book.chapters.project import Project
from attnflow.book.serve.desk import Desk
from attnflow.book.serve.guard import Guard
from attnflow.book.serve.site import Site

LOOPBACK = "127.0.0.1"


def serve_book(project: Project, port: int, say: Callable[[str], None]) -> None:
    """Serve until Ctrl-C."""
    if not (project.build / "html" / "index.html").is_file():
        raise BookError("nothing is built yet: run `attnflow book` (or `make book`) first")
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, port))
        listening.listen()
    except OSError as error:
        raise BookError(f"port {port} cannot be used: {error.strerror}; try --port") from None
    with listening:
        port = listening.getsockname()[1]  # asked for 0: the one that was free
        site = Site(project, Guard(port), Desk(project))
        say(f"the book is at http://localhost:{port}/  (Ctrl-C ends it)")
        config = uvicorn.Config(site.application(), log_level="warning", lifespan="on")
        uvicorn.Server(config).run(sockets=[listening])
