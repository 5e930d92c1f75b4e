"""The service among clients that would hold it up: they are cut off, and others are served meanwhile."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

pytest.importorskip("fastapi", reason="needs the extra 'deploy'")
pytest.importorskip("uvicorn", reason="needs the extra 'deploy'")
pytest.importorskip("prometheus_client", reason="needs the extra 'deploy'")

from http_service import CONFIGURATION, TOKEN, Client, Service

HEADER_SECONDS = 1.5
MOST_CONNECTIONS = 40
GUARDED = f"""{CONFIGURATION}
durable = false
[service]
most_connections = {MOST_CONNECTIONS}
header_seconds = {HEADER_SECONDS}
idle_seconds = 1
largest_body = 10_000
"""
HELD_BY_THE_SYSTEM = 16_000_000
"""More than what two sockets of loopback hold of bytes that nobody reads."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("guarded"), GUARDED) as running:
        yield running
        assert running.stop() == 0
        assert "Traceback" not in running.said


def connected(service: Service, text: str = "") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", service.port), timeout=10)
    connection.sendall(text.encode())
    return connection


def is_closed(connection: socket.socket) -> bool:
    connection.settimeout(0.0)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def until(reached, seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def test_headers_that_never_end_hold_nobody_up(service):
    dribbling = [connected(service, "GET /status HTTP/1.1\r\nHost: localhost\r\nX-Slow: a") for _ in range(200)]
    began = time.monotonic()
    while time.monotonic() < began + 1.0:
        for connection in dribbling:
            try:
                connection.sendall(b"a")
            except OSError:
                continue  # it was cut off
        honest = service.client()
        asked = time.monotonic()
        assert honest.get("/status")[0] == 200
        assert time.monotonic() < asked + 1.0
        honest.close()
    assert sum(not is_closed(connection) for connection in dribbling) <= MOST_CONNECTIONS
    until(lambda: all(is_closed(connection) for connection in dribbling), HEADER_SECONDS + 5.0)
    for connection in dribbling:
        connection.close()


def test_a_second_request_has_no_more_time_for_its_headers(service):
    connection = connected(service, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /health HTTP/1.1\r\nX: ")
    assert b"200 OK" in connection.recv(4096)
    began = time.monotonic()
    while not is_closed(connection):
        assert time.monotonic() < began + HEADER_SECONDS + 5.0
        try:
            connection.sendall(b"a")
        except OSError:
            break
        time.sleep(0.05)
    connection.close()


def test_silence_between_requests_ends(service):
    client = service.client()
    assert client.get("/health")[0] == 200
    until(lambda: is_closed(client.connection.sock))
    client.close()


@pytest.mark.parametrize(
    ("status", "head"),
    [
        (401, "POST /decisions HTTP/1.1\r\nAuthorization: Bearer wrong"),
        (413, "POST /decisions HTTP/1.1\r\nAuthorization: Bearer TOKEN\r\nContent-Type: application/json"),
        (415, "POST /decisions HTTP/1.1\r\nAuthorization: Bearer TOKEN\r\nContent-Type: text/plain"),
        (404, "POST /elsewhere HTTP/1.1\r\nAuthorization: Bearer TOKEN"),
        (200, "GET /health HTTP/1.1"),
    ],
)
@pytest.mark.parametrize("announced", [True, False], ids=["announced", "chunked"])
def test_the_body_of_an_answered_request_is_not_read(service, status, head, announced):
    """The answer arrives all the same; whoever goes on sending talks to nobody."""
    length = "Content-Length: 1000000000" if announced else "Transfer-Encoding: chunked"
    connection = connected(service, f"{head}\r\nHost: localhost\r\n{length}\r\n\r\n".replace("TOKEN", TOKEN))
    piece = b"x" * 65_536 if announced else b"10000\r\n" + b"x" * 65_536 + b"\r\n"
    if status == 413 and not announced:
        connection.sendall(piece)  # too large once it has arrived
    answer = connection.recv(4096)
    assert int(answer.split()[1]) == status
    sent = 0
    connection.settimeout(5.0)
    with suppress(OSError), connection:
        while sent < 2 * HELD_BY_THE_SYSTEM:
            connection.sendall(piece)
            sent += len(piece)
    assert sent < HELD_BY_THE_SYSTEM


def test_a_refused_client_of_a_large_body_sees_why(service):
    """As an honest one would be, which sends all before it listens."""
    client = Client(service.port, token=None)
    status, _, content = client.send("POST", "/decisions", b"x" * 60_000)
    assert (status, json.loads(content)["error"]["code"]) == (401, "unauthorized")
    client.close()


def test_a_connection_survives_the_refusal_of_a_small_body(service):
    """Also one that arrives after the answer: what follows on the connection is not mistaken for it."""
    connection = connected(service, "POST /decisions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n")
    answer = b""
    while not answer.endswith(b"}}"):
        answer += connection.recv(4096)
    assert b" 401 " in answer
    connection.sendall(b"12345GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert b"200 OK" in connection.recv(4096)
    connection.close()


def test_nonsense_does_not_fill_the_log(service):
    before = len(service.printed)
    for _ in range(300):
        with connected(service, "nonsense\r\n\r\n") as connection:
            assert b"400" in connection.recv(4096)
        with connected(
            service, "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n"
        ) as connection:
            assert b"401" in connection.recv(4096)
    time.sleep(0.2)
    assert len(service.printed) - before <= 20
