"""Listening on an address within bounds, plain or with TLS, and stopping in good order."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import uvicorn

from fedbandits.contract.errors import ConfigError
from fedbandits.deploy.http.connections import Bounds, guarded_by
from fedbandits.deploy.repetition import Sparing

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from fedbandits.deploy.http.access import Address

_BACKLOG = 128
_HANDSHAKE_SECONDS = 5.0
"""How long TLS may take to begin; asyncio allows for a minute, in which a connection is not counted."""


def listen(address: Address) -> socket.socket:
    """A socket that is bound, so that an address in use is noticed before anything else is done."""
    # with its protocol named: otherwise asyncio does not switch off Nagle's algorithm, and answers wait 40 ms
    listener = socket.socket(address.family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if address.family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((address.host, address.port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(f"cannot listen on {address.host} port {address.port}: {error.strerror}") from None
    return listener


def run(
    app: ASGIApp,
    listener: socket.socket,
    bounds: Bounds,
    *,
    stop_seconds: int,
    ready: Callable[[], None],
    log: logging.Logger,
    tls: ssl.SSLContext | None = None,
) -> None:
    """Serve `app` until SIGTERM or SIGINT; requests in work are finished. `ready` is called when it listens.

    What clients can cause to be written to `log`, that of the app, or to uvicorn's own is summed up meanwhile.
    """
    config = uvicorn.Config(
        app,
        http=guarded_by(bounds),  # h11: strict, with a bound on the size of headers
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # where a request came from does not matter here
        timeout_keep_alive=bounds.idle_seconds,
        timeout_graceful_shutdown=stop_seconds,
    )
    with _stopped_by_signals(), _sparing(log, logging.getLogger("uvicorn.error")):
        _Server(config, tls, ready).run(sockets=[listener])


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, tls: ssl.SSLContext | None, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._tls = tls
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])
        loop = asyncio.get_running_loop()
        patience = None if self._tls is None else _HANDSHAKE_SECONDS
        for each in sockets or ():
            self.servers.append(
                await loop.create_server(
                    self._connection, sock=each, ssl=self._tls, backlog=_BACKLOG, ssl_handshake_timeout=patience
                )
            )
        self._ready()

    def _connection(self) -> asyncio.Protocol:
        made: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return made


@contextmanager
def _sparing(*logs: logging.Logger) -> Iterator[None]:
    sparing = Sparing()
    for log in logs:
        log.addFilter(sparing)
    try:
        yield
    finally:
        for log in logs:
            log.removeFilter(sparing)


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """While the server runs, signals are its own; it raises them again when it has stopped, to no effect."""

    def nothing_left(*_: Any) -> None:
        pass

    before = {number: signal.signal(number, nothing_left) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
