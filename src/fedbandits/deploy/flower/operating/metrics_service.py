"""The metrics of a server over HTTP: a small service that reads the book, and lives when the server does not."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fedbandits.deploy.flower.operating.server_metrics import page
from fedbandits.deploy.http.access import Token
from fedbandits.deploy.http.connections import Bounds
from fedbandits.deploy.http.door import Door
from fedbandits.deploy.http.listening import run
from fedbandits.deploy.http.metrics import MEDIA_TYPE, Meter

log = logging.getLogger(__name__)
METRICS, HEALTH = "/metrics", "/health"
_BOUNDS = Bounds(most_connections=100, header_seconds=10.0, idle_seconds=75)
_MOST_REQUESTS, _STOP_SECONDS = 8, 5


def create_metrics_app(directory: Path, token: Token | None) -> Door:
    """`/metrics` of the server in `directory`, and `/health`, which says that this service answers and no more."""

    def metrics(_: Request) -> Response:
        return Response(page(directory), headers={"Content-Type": MEDIA_TYPE})

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    return Door(
        Starlette(routes=[Route(METRICS, metrics), Route(HEALTH, health)]),
        token=token,
        most_requests=_MOST_REQUESTS,
        paths=(METRICS, HEALTH),
        public=(HEALTH,),
        meter=Meter(),
    )


def serve_metrics(directory: Path, token: Token | None, listener: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until SIGTERM or SIGINT; `ready` is called when it listens."""
    run(create_metrics_app(directory, token), listener, _BOUNDS, stop_seconds=_STOP_SECONDS, ready=ready, log=log)
