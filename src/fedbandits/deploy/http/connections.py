"""Connections that cannot be held for nothing: what uvicorn's own protocol lacks against those who would.

uvicorn bounds how large headers are and how long a connection may be silent between requests. It does not bound how
long the first headers may take, nor how many connections there are, and it goes on reading the body of a request that
was answered already. Here

- headers have to be complete within `header_seconds`, of the first request as of every later one;
- beyond `most_connections`, the connection that has waited longest without a request in work makes room for the new
  one. Honest clients send their headers at once, so that those go who dribble;
- once a request is answered whose body has not arrived, the rest has to come within `LINGER_SECONDS` and
  `LINGER_BYTES`, and is thrown away; otherwise the connection is closed. Clients with a small body can go on.

Not bounded: connections per second, and how many are in the middle of a TLS handshake (see `listening`).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

LINGER_SECONDS, LINGER_BYTES = 1.0, 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What connections may take."""

    most_connections: int
    header_seconds: float
    idle_seconds: int
    """How long a connection may stay silent after an answer."""


def guarded_by(bounds: Bounds) -> type[H11Protocol]:
    """The protocol of one server, whose connections share `bounds`."""
    waiting: dict[Guarded, None] = {}
    """Those without a request in work, the longest waiting first."""

    class Guarded(H11Protocol):
        _deadline: asyncio.TimerHandle | None = None
        _left: int | None = None
        """How many bytes of an answered request may still come; None where none are awaited."""
        _end: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._watch()
            if len(self.connections) > bounds.most_connections:
                longest = next(iter(waiting))  # at worst the new one itself
                longest._stop_watching()
                longest.transport.abort()

        def data_received(self, data: bytes) -> None:
            if self._left is not None:
                self._left -= len(data)
                if self._left < 0:
                    self.transport.abort()
                    return
            super().data_received(data)
            if self.conn.their_state is not h11.SEND_BODY:
                self._stop_lingering()
            self._watch()

        def on_response_complete(self) -> None:
            if self.conn.their_state is h11.SEND_BODY and not self.transport.is_closing():
                self._left = LINGER_BYTES
                self._end = self.loop.call_later(LINGER_SECONDS, self.transport.abort)
            super().on_response_complete()
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_watching()
            self._stop_lingering()
            super().connection_lost(exc)
            self._unset_keepalive_if_required()

        def _watch(self) -> None:
            """Wait for headers if there are none, and not longer than allowed."""
            if self.conn.their_state is not h11.IDLE or self.transport.is_closing():
                self._stop_watching()
            elif self._deadline is None:
                waiting[self] = None
                self._deadline = self.loop.call_later(bounds.header_seconds, self.transport.abort)

        def _stop_watching(self) -> None:
            waiting.pop(self, None)
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

        def _stop_lingering(self) -> None:
            self._left = None
            if self._end is not None:
                self._end.cancel()
                self._end = None

    return Guarded
