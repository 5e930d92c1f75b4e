"""The gate as a process, between strangers and a SuperLink that writes down every byte that reaches it."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import subprocess
import sys
import threading
from contextlib import suppress

import httpx
import pytest

pytest.importorskip("flwr", reason="needs the extra fedbandits[deploy]")

from fedbandits.deploy.flower.gate import HEADERS, PATHS, Gate, Sizes
from fedbandits.deploy.flower.machine.certificates import make_certificates
from fedbandits.deploy.flower.machine.ports import free_ports

PULL = "/v1/fleet/pull-messages"
CONTROL = "/v1/control/start-run"
ELSEWHERE = [
    "/v1/control/register-node",
    "/v1/control/start-run",
    "/v1/control/list-runs",
    "/v1/control/stop-run",
    "/v1/control/stream-logs",
    "/v1/runtime/acquire-task",
    "/v1/runtime/push-messages",
    "/v1/runtime/responses",
    "/v1/fleet/register-node",
    "/v1/fleet/unregister-node",
    "/v1/fleet",
    "/v1/fleet/",
    "/health",
    "/docs",
    "/openapi.json",
    "/",
    "*",
]
TRICKS = [
    "//v1/control/start-run",
    "/v1//control/start-run",
    "/v1/fleet/../control/start-run",
    "/v1/fleet/%2e%2e/control/start-run",
    "/v1/fleet/..%2fcontrol/start-run",
    "/v1/fleet/pull-messages/../../control/start-run",
    "/v1/fleet/pull-messages;/../../control/start-run",
    "/v1/fleet\\..\\control/start-run",
    "/V1/CONTROL/START-RUN",
    "/v1/control%2fstart-run",
    "/v1/%63ontrol/start-run",
    "/v1/fleet/pull-messages%00",
    "/v1/fleet/pull-messages%0d%0aX:1",
    "/v1/fleet/pull-messages?x=/v1/control/start-run",
    "/v1/fleet/pull-messages#/v1/control/start-run",
    "/v1/fleet/pull-messages/",
    "/v1/fleet/Pull-Messages",
    "http://127.0.0.1/v1/control/start-run",
    "http://127.0.0.1/v1/fleet/pull-messages",
    "https://superlink/v1/control/start-run",
    "127.0.0.1:80",
]


class SuperLink:
    """Answers everything with 200, and remembers the bytes of every request."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        self.heard: list[bytes] = []
        self.port = free_ports(1)[0]
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(asyncio.start_server(self._answer, "127.0.0.1", self.port, ssl=tls))
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(re.search(rb"(?i)content-length: (\d+)", head)[1])
                self.heard.append(head + await reader.readexactly(length))
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/protobuf\r\nServer: secret\r\n")
                writer.write(b"Content-Length: 2\r\n\r\nok")
        except (asyncio.IncompleteReadError, OSError):
            writer.close()


class World:
    def __init__(self, directory) -> None:
        make_certificates(directory, ["127.0.0.1"])
        inside = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        inside.load_cert_chain(directory / "server.crt", directory / "server.key")
        self.superlink = SuperLink(inside)
        self.port = free_ports(1)[0]
        self.trust = ssl.create_default_context(cafile=directory / "ca.crt")
        command = [sys.executable, "-m", "fedbandits", "federation", "gate", str(directory), "--host", "127.0.0.1"]
        self.gate = subprocess.Popen(
            [*command, "--port", str(self.port), "--superlink", f"127.0.0.1:{self.superlink.port}"],
            stderr=subprocess.PIPE,
            text=True,
        )
        self.first = self.gate.stderr.readline()
        self.client = httpx.Client(base_url=f"https://127.0.0.1:{self.port}", verify=self.trust, trust_env=False)

    def say(self, text: bytes) -> bytes:
        """Bytes over TLS as they are, and all that is answered until the gate closes or falls silent."""
        answer = b""
        with suppress(OSError), self.connected(self.trust) as wrapped:
            wrapped.sendall(text)
            wrapped.settimeout(0.2)
            while piece := wrapped.recv(65536):
                answer += piece
        return answer

    def connected(self, trust: ssl.SSLContext) -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        return trust.wrap_socket(plain, server_hostname="127.0.0.1")

    def forget(self) -> None:
        self.superlink.heard.clear()

    @property
    def passed(self) -> list[bytes]:
        """The request lines that have reached the SuperLink."""
        return [heard.split(b"\r\n")[0] for heard in self.superlink.heard]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    world = World(tmp_path_factory.mktemp("gate"))
    assert "nodes may come to" in world.first
    yield world
    world.client.close()
    world.gate.terminate()
    assert world.gate.wait(30) == 0
    assert "Traceback" not in world.gate.stderr.read()
    world.gate.stderr.close()


@pytest.fixture(autouse=True)
def nothing_heard(request):
    if "world" in request.fixturenames:
        request.getfixturevalue("world").forget()


def test_what_nodes_ask_for_is_what_flower_has_for_nodes_with_keys():
    from flwr.superlink.routers.fleet.router import router

    unneeded = {"/v1/fleet/register-node", "/v1/fleet/unregister-node"}
    assert {path.decode() for path in PATHS} == {route.path for route in router.routes} - unneeded


def test_nodes_get_through_with_their_bytes_and_nothing_that_they_do_not_need(world):
    given = {name.decode(): "given" for name in HEADERS}
    others = {"Authorization": "Bearer x", "X-Forwarded-For": "1.2.3.4", "flwr-task-token": "x", "Cookie": "x"}
    answer = world.client.post(PULL, content=b"\x00\xff" * 5000, headers=given | others)
    assert (answer.status_code, answer.content) == (200, b"ok")
    assert answer.headers["content-type"] == "application/protobuf"
    assert "server" not in answer.headers
    (heard,) = world.superlink.heard
    head, _, body = heard.partition(b"\r\n\r\n")
    assert body == b"\x00\xff" * 5000
    assert all(name + b": given" in head.lower() for name in HEADERS)
    for name in others:
        assert name.lower().encode() not in head.lower()


def test_nobody_gets_anywhere_else(world):
    others = [(method, path) for method in ("GET", "PUT", "OPTIONS", "CONNECT", "post") for path in (PULL, CONTROL)]
    for method, path in [("POST", path) for path in ELSEWHERE + TRICKS] + others:
        head = f"{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        assert world.say(head.encode()).split(b" ")[1] in (b"404", b"400"), path
    assert world.superlink.heard == []


ALLOWED = f"POST {PULL} HTTP/1.1\r\nHost: a\r\n".encode()
HIDDEN = f"POST {CONTROL} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n".encode()


@pytest.mark.parametrize(
    "text",
    {
        "pipelined": ALLOWED + b"Content-Length: 0\r\n\r\n" + HIDDEN,
        "length and chunks": ALLOWED + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + HIDDEN,
        "two lengths": ALLOWED + b"Content-Length: 0\r\nContent-Length: %d\r\n\r\n" % len(HIDDEN) + HIDDEN,
        "list of lengths": ALLOWED + b"Content-Length: 0, %d\r\n\r\n" % len(HIDDEN) + HIDDEN,
        "signed length": ALLOWED + b"Content-Length: +0\r\n\r\n" + HIDDEN,
        "in the body": ALLOWED + b"Content-Length: %d\r\n\r\n" % len(HIDDEN) + HIDDEN,
        "in a chunk": ALLOWED + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(HIDDEN), HIDDEN),
        "in an extension": ALLOWED + b"Transfer-Encoding: chunked\r\n\r\n0;a=\n" + HIDDEN + b"\r\n\r\n",
        "after bare line feeds": ALLOWED.replace(b"\r\n", b"\n") + b"Content-Length: 0\n\n" + HIDDEN,
        "unknown encoding": ALLOWED + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + HIDDEN,
        "hidden encoding": ALLOWED + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + HIDDEN,
        "folded header": ALLOWED + b"Content-Length: 0\r\nX: a\r\n b\r\n\r\n" + HIDDEN,
        "upgrade": ALLOWED + b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 0\r\n\r\n" + HIDDEN,
        "expectation": ALLOWED + b"Expect: 100-continue\r\nContent-Length: 0\r\n\r\n" + HIDDEN,
        "http/0.9": b"POST " + CONTROL.encode() + b"\r\n\r\n",
        "http/1.0": HIDDEN.replace(b"HTTP/1.1", b"HTTP/1.0"),
        "http/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00" + HIDDEN,
        "in a header": ALLOWED + b"flwr-timestamp: a\rPOST /x\r\nContent-Length: 0\r\n\r\n",
        "header twice": ALLOWED + b"flwr-public-key: a\r\nflwr-public-key: b\r\nContent-Length: 0\r\n\r\n",
        "huge header": ALLOWED + b"X: " + b"a" * 1_000_000 + b"\r\nContent-Length: 0\r\n\r\n" + HIDDEN,
        "many headers": ALLOWED + b"".join(b"X-%d: a\r\n" % i for i in range(50_000)) + b"\r\n" + HIDDEN,
    }.items(),
    ids=lambda pair: pair[0],
)
def test_no_request_hides_in_another(world, text):
    world.say(text[1])
    assert set(world.passed) <= {f"POST {PULL} HTTP/1.1".encode()}
    assert len(world.passed) <= 1
    for heard in world.superlink.heard:
        head = heard.partition(b"\r\n\r\n")[0].lower()
        assert b"transfer-encoding" not in head
        assert head.count(b"content-length") == 1


def test_no_second_protocol_is_offered(world):
    offering = ssl.create_default_context(cadata=world.trust.get_ca_certs(binary_form=True)[0])
    offering.set_alpn_protocols(["h2", "http/1.1"])
    with world.connected(offering) as wrapped:
        assert wrapped.selected_alpn_protocol() in (None, "http/1.1")


def test_plain_text_is_not_spoken(world):
    with socket.create_connection(("127.0.0.1", world.port), timeout=10) as plain:
        plain.sendall(ALLOWED + b"Content-Length: 0\r\n\r\n")
        assert b"HTTP" not in plain.recv(4096)
    assert world.superlink.heard == []


def test_nodes_are_served_among_connections_that_are_held_for_nothing(world):
    held = [socket.create_connection(("127.0.0.1", world.port), timeout=10) for _ in range(200)]
    assert world.client.post(PULL, content=b"x").status_code == 200
    for each in held:
        each.close()


# the application alone


def asked(gate: Gate, pieces: list[bytes], headers: list[tuple[bytes, bytes]] = (), pause: float = 0.0) -> int:
    """The status of a request whose body arrives in `pieces`; beyond them nothing comes."""
    answers = []
    left = list(pieces)

    async def receive():
        await asyncio.sleep(pause if left else 3600)
        return {"type": "http.request", "body": left.pop(0), "more_body": True}

    async def send(message):
        answers.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "raw_path": PULL.encode(),
        "query_string": b"",
        "headers": list(headers),
        "client": ("127.0.0.1", 1),
    }
    asyncio.run(gate(scope, receive, send))
    return answers[0]["status"]


def behind(handler, **sizes) -> Gate:
    inside = httpx.AsyncClient(base_url="https://127.0.0.1", transport=httpx.MockTransport(handler))
    return Gate(inside, Sizes(**({"stall_seconds": 0.05} | sizes)))


def unreachable(request):
    raise AssertionError("nothing should get here")


def test_bodies_are_bounded():
    gate = behind(unreachable, largest_body=100, most_bytes=150)
    assert asked(gate, [], [(b"content-length", b"101")]) == 413
    assert asked(gate, [b"x" * 60, b"x" * 60]) == 413
    assert asked(gate, [b"x"]) == 408  # and then nothing
    assert asked(behind(unreachable, body_seconds=0.1, stall_seconds=0.08), [b"x"] * 100, pause=0.05) == 408
    assert asked(behind(unreachable, most_bytes=50), [b"x" * 60]) == 503
    assert gate._held == 0


@pytest.mark.parametrize(("error", "status"), [(httpx.ConnectError("no"), 502), (httpx.ReadTimeout("slow"), 504)])
def test_a_superlink_that_does_not_answer_is_told_in_a_way_that_nodes_try_again(error, status):
    def handler(request):
        raise error

    gate = behind(handler)
    scope = {"type": "http", "method": "POST", "raw_path": PULL.encode(), "query_string": b"", "headers": []}
    answers = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        answers.append(message)

    asyncio.run(gate(scope | {"client": None}, receive, send))
    assert answers[0]["status"] == status
