"""The gate of a federation: lets nodes through to the SuperLink, and nobody to anything else.

Flower 1.41 serves its control interface (`/v1/control`: register keys, start runs, which is to run code on its host),
that of the programs it starts (`/v1/runtime`) and that of nodes (`/v1/fleet`) on one port, and accounts for the former
exist in its commercial edition alone. So the SuperLink listens on loopback, where operators reach it, and the gate on
the address that nodes know:

    nodes ══ TLS ══▸ gate, 0.0.0.0:9092 ── POST /v1/fleet/... alone ══ TLS ══▸ SuperLink, 127.0.0.1:9093 ◂── operators

What is let through is a list of ten paths, compared byte by byte as they were sent; nothing is decoded, joined or
normalised. A request is read whole, within bounds, and written anew with the headers that nodes need, so that the
SuperLink never parses a byte that was not written here: what two parsers read differently (pipelining, chunks, lengths
that contradict each other) ends at the gate. Whether a node is who it says is decided by the SuperLink, from the
signature that it sends along.

Not protected: users of the SuperLink's own host can reach its loopback. Who has a registered key can do what nodes do.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx
from starlette.types import Receive, Scope, Send

from fedbandits.contract.errors import ConfigError
from fedbandits.deploy.http.access import resolve
from fedbandits.deploy.http.connections import Bounds
from fedbandits.deploy.http.listening import listen, run
from fedbandits.deploy.text import shown

log = logging.getLogger(__name__)

PATHS = frozenset(
    f"/v1/fleet/{name}".encode("ascii")
    for name in (
        "activate-node",
        "confirm-message-received",
        "deactivate-node",
        "get-fab",
        "get-run",
        "pull-messages",
        "pull-object",
        "push-messages",
        "push-object",
        "send-node-heartbeat",
    )
)
"""What nodes with a key ask for. `register-node` and `unregister-node`, which need none, stay with the operator."""
HEADERS = frozenset(
    (
        b"accept",
        b"content-type",
        b"flwr-component-name",
        b"flwr-package-name",
        b"flwr-package-version",
        b"flwr-public-key",
        b"flwr-signature",
        b"flwr-timestamp",
    )
)
"""What the SuperLink reads of a node's request; each at most once."""
_ANSWERED = ("content-type", "flwr-version-incompatibility-message")
_BOUNDS = Bounds(most_connections=2000, header_seconds=10.0, idle_seconds=15)
_STOP_SECONDS = 5
_UPSTREAM_SECONDS = 60.0
_KEEP_SECONDS = 2.0
"""How long a connection to the SuperLink is kept for the next request: less than it keeps one itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is let through. A letter of p parameters takes about 8 p bytes; Flower cuts arrays into 5 MiB."""

    largest_body: int = 67_108_864
    """Bytes of one request."""
    most_bytes: int = 268_435_456
    """Bytes of all requests that are being read or answered. Beyond it, nodes are told to come again."""
    stall_seconds: float = 20.0
    """How long a body may pause."""
    body_seconds: float = 300.0
    """How long a body may take in all."""


class _RefusedError(Exception):
    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Gate:
    """An ASGI application in front of `superlink`, a client that is connected to it and to nothing else."""

    def __init__(self, superlink: httpx.AsyncClient, sizes: Sizes) -> None:
        self._superlink = superlink
        self._sizes = sizes
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request through, or not."""
        body = bytearray()
        try:
            headers = _admitted(scope)
            await self._read(scope, receive, body)
            status, told, content = await self._forwarded(scope["raw_path"].decode("ascii"), headers, bytes(body))
        except _RefusedError as error:
            status, told, content = error.status, {"content-type": "text/plain"}, str(error).encode()
            log.warning("%s from %s: %s", status, scope["client"], error)
        finally:
            self._held -= len(body)
        lines = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in told.items()]
        lines.append((b"content-length", str(len(content)).encode("ascii")))
        await send({"type": "http.response.start", "status": status, "headers": lines})
        await send({"type": "http.response.body", "body": content})

    async def _read(self, scope: Scope, receive: Receive, body: bytearray) -> None:
        """The request's body, into `body`; what arrives is counted before it is kept."""
        sizes = self._sizes
        announced = int(dict(scope["headers"]).get(b"content-length", b"0")[:20])  # h11 has checked that it is a number
        if announced > sizes.largest_body:
            raise _RefusedError(413, f"a request has at most {sizes.largest_body} bytes")
        try:
            async with asyncio.timeout(sizes.body_seconds):
                more = True
                while more:
                    async with asyncio.timeout(sizes.stall_seconds):
                        message = await receive()
                    if message["type"] != "http.request":
                        raise _RefusedError(400, "the body ended early")
                    piece = message.get("body", b"")
                    if len(body) + len(piece) > sizes.largest_body:
                        raise _RefusedError(413, f"a request has at most {sizes.largest_body} bytes")
                    if self._held + len(piece) > sizes.most_bytes:
                        raise _RefusedError(503, "too much arrives at once; come again")
                    self._held += len(piece)
                    body += piece
                    more = message.get("more_body", False)
        except TimeoutError:
            raise _RefusedError(408, "the body did not arrive in time") from None

    async def _forwarded(
        self, path: str, headers: list[tuple[bytes, bytes]], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        try:
            answer = await self._superlink.post(path, content=body, headers=headers)
        except httpx.TimeoutException:
            raise _RefusedError(504, "the SuperLink does not answer") from None
        except httpx.HTTPError as error:
            log.warning("the SuperLink cannot be reached: %s", shown(error))
            raise _RefusedError(502, "the SuperLink cannot be reached") from None
        return answer.status_code, {n: answer.headers[n] for n in _ANSWERED if n in answer.headers}, answer.content


def _admitted(scope: Scope) -> list[tuple[bytes, bytes]]:
    """The headers to pass on, if the request is for nodes to make."""
    if scope["method"] != "POST" or scope["raw_path"] not in PATHS or scope["query_string"]:
        raise _RefusedError(
            404, f"not for nodes: {shown(scope['method'])} {shown(scope['raw_path'].decode('latin-1'))}"
        )
    found = [(name, value) for name, value in scope["headers"] if name in HEADERS]
    if len(found) != len({name for name, _ in found}):
        raise _RefusedError(400, "a header is given twice")
    return found


def serve(
    host: str, port: int, superlink: str, certificates: Path, *, sizes: Sizes | None = None, ready: Callable[[], None]
) -> None:
    """Let nodes through from `host` and `port` to the SuperLink at `superlink`, until SIGTERM or SIGINT.

    `certificates` is a directory as `fedbandits federation certificates` makes it: server.crt is shown to nodes, the
    SuperLink has to show a certificate by ca.crt.
    """
    try:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(certificates / "server.crt", certificates / "server.key")
        authority = ssl.create_default_context(cafile=str(certificates / "ca.crt"))
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"{certificates}: needs server.crt, server.key and ca.crt ({error})") from None
    inside = httpx.AsyncClient(
        base_url=f"https://{superlink}",
        verify=authority,
        timeout=_UPSTREAM_SECONDS,
        limits=httpx.Limits(keepalive_expiry=_KEEP_SECONDS),
        trust_env=False,  # never through somebody's proxy
    )
    with listen(resolve(host, port)) as listener:
        run(
            Gate(inside, sizes or Sizes()),
            listener,
            _BOUNDS,
            stop_seconds=_STOP_SECONDS,
            ready=ready,
            log=log,
            tls=tls,
        )
