"""An agent's service: what is served, and within which bounds."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from fedbandits.deploy.http.app import create_app
from fedbandits.deploy.http.connections import Bounds
from fedbandits.deploy.http.listening import listen, run
from fedbandits.deploy.http.refusals import log

if TYPE_CHECKING:
    from fedbandits.deploy.embedded.agent import Agent
    from fedbandits.deploy.http.access import Token
    from fedbandits.deploy.http.configuration import Limits

__all__ = ["listen", "serve"]


def serve(
    agent: Agent, limits: Limits, token: Token | None, listener: socket.socket, ready: Callable[[], None]
) -> None:
    """Serve `agent` until SIGTERM or SIGINT; requests in work are finished. `ready` is called when it listens."""
    bounds = Bounds(
        most_connections=limits.most_connections,
        header_seconds=limits.header_seconds,
        idle_seconds=limits.idle_seconds,
    )
    run(create_app(agent, limits, token), listener, bounds, stop_seconds=limits.stop_seconds, ready=ready, log=log)
