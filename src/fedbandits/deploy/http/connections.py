"""Connections that cannot be held for nothing: what uvicorn's own protocol lacks against those who would.

uvicorn bounds how large headers are and how long a connection may be silent between requests. It does not bound how
long the first headers may take, nor how many connections there are, and it goes on reading the body of a request that
was answered already. Here

- headers have to be complete within `header_seconds`, of the first request as of every later one;
- beyond `most_connections`, the connection that has waited longest without a request in work makes room for the new
  one. Honest clients send their headers at once, so that those go who dribble;
- once a request is answered whose body has not arrived, no more of it is read than `LINGER_BYTES`, within
  `LINGER_SECONDS`, so that the client gets to see the answer; then the connection is closed.

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
        _lingered: int | None = None
        """Bytes that were read and thrown away since the answer; None where there is no need to."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._watch()
            if len(self.connections) > bounds.most_connections:
                longest = next(iter(waiting))  # at worst the new one itself
                longest._stop_watching()
                longest.transport.abort()

        def data_received(self, data: bytes) -> None:
            if self._lingered is None:
                super().data_received(data)
                self._watch()
                return
            self._lingered += len(data)
            if self._lingered > LINGER_BYTES:
                self.transport.abort()

        def on_response_complete(self) -> None:
            if self.conn.their_state is h11.SEND_BODY and not self.transport.is_closing():
                self._linger()
            super().on_response_complete()
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_watching()
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

        def _linger(self) -> None:
            self._lingered = 0
            if self.transport.can_write_eof():
                self.transport.write_eof()
            self.loop.call_later(LINGER_SECONDS, self.transport.abort)

    return Guarded
