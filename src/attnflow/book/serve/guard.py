"""Who may ask: this machine, this page, and for anything that runs the token of this server.

A server on the loopback can be reached by every page that a browser shows. So the Host must be ours
(a name that somebody points at 127.0.0.1 is not), the Origin of whatever changes something must be
ours, and such a request carries the token that only pages served by us are given.
"""

from __future__ import annotations

import hmac
import secrets

from starlette.requests import Request

#: Bytes of a request that are read at most.
MOST = 64 * 1024


class Refused(Exception):
    """A request that is not answered, with the status and the reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


class Guard:
    """The rules of one server."""

    def __init__(self, port: int) -> None:
        self.token = secrets.token_urlsafe(32)
        self.hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}

    def admit(self, request: Request) -> None:
        """Refuse whoever does not name this machine."""
        if request.headers.get("host", "") not in self.hosts:
            raise Refused(421, "this server answers on localhost only")
        if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise Refused(403, "this server answers its own pages only")

    def admit_change(self, request: Request) -> None:
        """Refuse whatever would run or stop something without being asked by a page of ours."""
        self.admit(request)
        origin = request.headers.get("origin")
        if origin is not None and origin not in {f"http://{host}" for host in self.hosts}:
            raise Refused(403, "this server answers its own pages only")
        given = request.headers.get("x-attnflow-token", "")
        if not hmac.compare_digest(given.encode(), self.token.encode()):
            raise Refused(403, "the token is missing or wrong: reload the page")


async def body(request: Request) -> bytes:
    """The content of a request, if it is small."""
    out = b""
    async for chunk in request.stream():
        out += chunk
        if len(out) > MOST:
            raise Refused(413, f"a request has at most {MOST} bytes")
    return out
