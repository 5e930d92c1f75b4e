"""What every request passes before its body is read: who asks, how much is going on, and how long it takes."""

from __future__ import annotations

import time
from collections.abc import Collection

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fedbandits.deploy.http.access import Token, names_loopback
from fedbandits.deploy.http.metrics import Meter
from fedbandits.deploy.http.refusals import RefusedError

_ELSEWHERE = "other"


class Door:
    """Admits requests to `paths` with the right token; those to `public` paths, which tell nothing, without.

    A path that does not exist is refused for want of a token like one that does. Without any token (on loopback), only
    requests that address this machine by one of its own names are admitted. All but those to public paths count
    towards `most_requests` at the same time.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        token: Token | None,
        most_requests: int,
        paths: Collection[str],
        public: Collection[str],
        meter: Meter,
    ) -> None:
        self._app = app
        self._token = token
        self._most_requests = most_requests
        self._paths = frozenset(paths)
        self._public = frozenset(public)
        self._meter = meter
        self._inside = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = time.perf_counter()
        status = 500  # what is sent further out if nothing is sent here

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._admit(scope, receive, noting)
        finally:
            path = scope["path"] if scope["path"] in self._paths else _ELSEWHERE
            self._meter.took(path, status, time.perf_counter() - begun)

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in self._public:
            await self._app(scope, receive, send)
            return
        refused = self._reason_to_refuse(scope)
        if refused is not None:
            await refused.response()(scope, receive, send)
            return
        self._inside += 1  # on the event loop alone: no lock is needed
        try:
            await self._app(scope, receive, send)
        finally:
            self._inside -= 1

    def _reason_to_refuse(self, scope: Scope) -> RefusedError | None:
        if self._token is not None:
            given = _header(scope, b"authorization")
            if len(given) != 1 or not self._token.admits(given[0]):
                return RefusedError(
                    "unauthorized", "send the header Authorization: Bearer TOKEN with the service's token"
                )
        elif not all(names_loopback(host.decode("latin-1")) for host in _header(scope, b"host")):
            return RefusedError("forbidden_host", "without a token, the service answers to localhost alone")
        if self._inside >= self._most_requests:
            return RefusedError("overloaded", f"{self._most_requests} requests are in work; call again")
        return None


def _header(scope: Scope, name: bytes) -> list[bytes]:
    return [value for key, value in scope["headers"] if key == name]
