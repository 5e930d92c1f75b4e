"""Listening, and stopping in good order."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import uvicorn

from fedbandits.contract.catalogue import ConfigError
from fedbandits.deploy.http.app import create_app

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fedbandits.deploy.agent import Agent
    from fedbandits.deploy.http.access import Address, Token
    from fedbandits.deploy.http.configuration import Limits

_BACKLOG = 128


def listen(address: Address) -> socket.socket:
    """A socket that is bound, so that an address in use is noticed before the agent is opened."""
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


def serve(
    agent: Agent, limits: Limits, token: Token | None, listener: socket.socket, ready: Callable[[], None]
) -> None:
    """Serve `agent` until SIGTERM or SIGINT; requests in work are finished. `ready` is called when it listens."""
    server = _Server(
        uvicorn.Config(
            create_app(agent, limits, token),
            http="h11",  # strict, with a bound on the size of headers; the same whatever else is installed
            ws="none",
            loop="asyncio",
            lifespan="off",
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,  # where a request came from does not matter here
            timeout_graceful_shutdown=limits.stop_seconds,
        ),
        ready,
    )
    with _stopped_by_signals():
        server.run(sockets=[listener])


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self._ready()


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
