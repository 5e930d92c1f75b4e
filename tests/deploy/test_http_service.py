"""The service as a process with real sockets: many clients at once, slow and endless ones, stopping, and kill -9."""

from __future__ import annotations

import json
import queue
import re
import signal
import socket
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPException
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra 'deploy'")
pytest.importorskip("uvicorn", reason="needs the extra 'deploy'")
pytest.importorskip("prometheus_client", reason="needs the extra 'deploy'")

from http_service import ARMS, CONFIGURATION, TOKEN, Client, Service

from fedbandits.deploy import Agent
from fedbandits.deploy.http.access import resolve
from fedbandits.deploy.http.service import listen

# a process that ends loses nothing in either case; waiting for the disk is for the machine that ends
HASTY = CONFIGURATION + "durable = false\n"
LIMITED = (
    HASTY
    + """
[service]
largest_body = 20_000
body_seconds = 0.5
most_requests = 12
stop_seconds = 5
"""
)
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLE_ID = "12-4c6f0d7be5a98a13"
PAGE = Path(__file__).parents[2] / "docs" / "deploy" / "http.md"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("service"), LIMITED) as running:
        yield running
        assert running.stop(signal.SIGINT) == 0
        assert "Traceback" not in running.said
        assert TOKEN not in running.said


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    client = service.client()
    yield client
    client.close()


def raw(service: Service, head: str, body: bytes = b"") -> socket.socket:
    """A connection on which the head of a request (its lines) and something of its body were sent."""
    connection = socket.create_connection(("127.0.0.1", service.port), timeout=30)
    lines = [*head.strip().splitlines(), "Host: localhost", f"Authorization: Bearer {TOKEN}"]
    connection.sendall("\r\n".join([*lines, "Content-Type: application/json", "", ""]).encode() + body)
    return connection


def answered(connection: socket.socket) -> tuple[int, Any]:
    """Status and JSON of the first answer on a connection."""
    with connection, connection.makefile("rb") as lines:
        status = int(lines.readline().split()[1])
        size = 0
        while (line := lines.readline().strip()) != b"":
            if line.lower().startswith(b"content-length:"):
                size = int(line.split(b":")[1])
        return status, json.loads(lines.read(size))


def decisions(service: Service) -> int:
    status: int = Client(service.port).get("/status")[1]["decisions"]
    return status


# bodies while they arrive


def test_a_body_without_length_is_cut_off_at_the_limit(service: Service, client: Client) -> None:
    before = decisions(service)
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        for _ in range(1000):  # 1 MB, fifty times the limit
            sent += 1000
            yield b" " * 1000

    head = "POST /decisions HTTP/1.1\nTransfer-Encoding: chunked"
    connection = raw(service, head)
    for chunk in endless():
        connection.sendall(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        if sent > 20_000:
            break
    # the answer comes although the body has no end yet
    status, content = answered(connection)
    assert (status, content["error"]["code"]) == (413, "body_too_large")
    assert client.post("/decisions", iter([json.dumps({"arms": ARMS}).encode()]))[0] == 200
    assert decisions(service) == before + 1


def test_an_announced_body_is_refused_before_it_is_sent(service: Service) -> None:
    status, content = answered(raw(service, "POST /rewards HTTP/1.1\nContent-Length: 20001"))
    assert (status, content["error"]["code"]) == (413, "body_too_large")
    status, content = answered(raw(service, f"POST /rewards HTTP/1.1\nContent-Length: {'9' * 19}"))
    assert (status, content["error"]["code"]) == (413, "body_too_large")


def test_a_body_that_does_not_come(service: Service) -> None:
    status, content = answered(raw(service, "POST /decisions HTTP/1.1\nContent-Length: 100", b'{"arms": '))
    assert (status, content["error"]["code"]) == (408, "body_too_slow")


def test_a_client_that_leaves_changes_nothing(service: Service) -> None:
    before = decisions(service)
    raw(service, "POST /decisions HTTP/1.1\nContent-Length: 100", b'{"arms": ').close()
    assert decisions(service) == before


def test_too_much_at_once_is_refused_and_the_service_stays_well(service: Service) -> None:
    half = [raw(service, "POST /decisions HTTP/1.1\nContent-Length: 100", b"{") for _ in range(12)]
    wait_for(lambda: Client(service.port).get("/status")[0] == 503)
    answer = service.client().send("GET", "/status")
    assert answer[0] == 503
    assert answer[1]["retry-after"] == "1"
    assert json.loads(answer[2])["error"]["code"] == "overloaded"
    assert service.client().get("/health") == (200, {"status": "ok"})
    for connection in half:
        assert answered(connection)[0] == 408
    assert service.client().get("/status")[0] == 200


def wait_for(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# many at once


def test_many_clients_at_once(service: Service) -> None:
    """Ids are unique, and each reward counts once although three clients tell it, late and in different orders."""
    clients, each = 8, 15
    before = service.client().get("/status")[1]

    def decide(_: int) -> list[str]:
        client = service.client()
        return [client.decide() for _ in range(each)]

    with ThreadPoolExecutor(clients) as pool:
        names = [name for found in pool.map(decide, range(clients)) for name in found]
        assert len(set(names)) == clients * each

        def reward(order: int) -> list[str]:
            client = service.client()
            told = [{"decision": name, "value": 1.0} for name in (names, names[::-1], names[::2] + names[1::2])[order]]
            if order == 2:
                status, content = client.post("/rewards", {"rewards": told})
                assert status == 200
                return [item["outcome"] for item in content["results"]]
            return [client.post("/rewards", item)[1]["outcome"] for item in told]

        outcomes = [outcome for found in pool.map(reward, range(3)) for outcome in found]
    assert outcomes.count("counted") == len(names)
    assert outcomes.count("duplicate") == 2 * len(names)
    after = service.client().get("/status")[1]
    assert after["decisions"] - before["decisions"] == len(names)
    assert after["rewards"] - before["rewards"] == len(names)


def test_a_busy_file_does_not_stop_the_loop(service: Service) -> None:
    """While another program holds the agent's file, the service answers what does not need it; then goes on."""
    holder = sqlite3.connect(service.db, isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN IMMEDIATE")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: service.client().post("/decisions", {"arms": ARMS}))
        for _ in range(20):
            assert service.client().get("/health")[0] == 200
        assert not waiting.done()
        holder.execute("ROLLBACK")
        assert waiting.result()[0] == 200
    holder.close()


def test_answers_do_not_wait_for_acknowledgements() -> None:
    """asyncio switches off Nagle's algorithm on sockets alone that name their protocol."""
    with listen(resolve("127.0.0.1", 0)) as listener:
        assert listener.proto == socket.IPPROTO_TCP


# stopping


@pytest.mark.slow
def test_requests_in_work_are_finished_before_it_stops(tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        client = service.client()
        name = client.decide()
        holder = sqlite3.connect(service.db, isolation_level=None, check_same_thread=False)
        holder.execute("BEGIN IMMEDIATE")
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(lambda: service.client().post("/rewards", {"decision": name, "value": 1.0}))
            time.sleep(0.3)
            service.process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            assert service.process.poll() is None
            holder.execute("ROLLBACK")
            holder.close()
            assert waiting.result() == (200, {"decision": name, "outcome": "counted"})
        assert service.process.wait(timeout=30) == 0
        assert not list(tmp_path.glob("agent.db-*"))  # a database that was closed leaves no log behind
    assert "Traceback" not in service.said
    assert "stopped; the agent is closed" in service.said
    with Agent.open(tmp_path / "agent.db") as agent:
        assert agent.status().rewards == 1


@pytest.mark.slow
@pytest.mark.parametrize("lives", [1, 5])
def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path: Path, lives: int) -> None:
    decided: queue.SimpleQueue[str] = queue.SimpleQueue()
    rewarded: queue.SimpleQueue[str] = queue.SimpleQueue()
    for _ in range(lives):
        with Service(tmp_path, HASTY) as service:
            workers = [threading.Thread(target=work_until_killed, args=(service, decided, rewarded)) for _ in range(4)]
            for worker in workers:
                worker.start()
            wanted = rewarded.qsize() + 40
            wait_for(lambda wanted=wanted: rewarded.qsize() >= wanted, 60.0)
            service.process.kill()
            for worker in workers:
                worker.join()
            assert service.process.wait() == -signal.SIGKILL
    names, known = drained(decided), set(drained(rewarded))
    assert len(set(names)) == len(names) > len(known)
    with Service(tmp_path, HASTY) as service:
        client = service.client()
        status = client.get("/status")[1]
        assert status["decisions"] >= len(names)
        assert status["rewards"] >= len(known)
        for name in names:
            # whatever was acknowledged is there; a reward whose answer got lost may be there too
            code, content = client.post("/rewards", {"decision": name, "value": 1.0})
            assert code == 200, (name, content)
            assert content["outcome"] == "duplicate" or name not in known
        assert service.stop() == 0


def work_until_killed(service: Service, decided: queue.SimpleQueue[str], rewarded: queue.SimpleQueue[str]) -> None:
    """Decide, and reward every other decision; note what was acknowledged."""
    client = service.client()
    with suppress(OSError, HTTPException):
        for number in count():
            name = client.decide()
            decided.put(name)
            if number % 2:
                assert client.post("/rewards", {"decision": name, "value": 1.0})[1]["outcome"] == "counted"
                rewarded.put(name)


def drained(held: queue.SimpleQueue[str]) -> list[str]:
    return [held.get() for _ in range(held.qsize())]


# the documentation


def test_the_commands_of_the_documentation_do_what_it_says(tmp_path: Path) -> None:
    """Each request of the page that has its answer below it, to a service with the page's configuration."""
    fences = FENCE.findall(PAGE.read_text(encoding="utf-8"))
    configuration = next(content for kind, content in fences if kind == "toml")
    examples = [
        (asked, told) for (kind, asked), (then, told) in pairwise(fences) if (kind, then) == ("console", "text")
    ]
    assert len(examples) >= 6
    # a page also shows what to install and to start: nothing but requests is run from here
    assert all(re.fullmatch(r"\$ (ask|curl -s) \$URL/[^\n;&`]*\n", asked) for asked, _ in examples)
    (tmp_path / "token").write_text(TOKEN + "\n")
    identity = ""
    with Service(tmp_path, configuration) as service:
        begin = f'URL={service.url}\nask() {{ curl -s -H "Authorization: Bearer $(cat token)" "$@"; }}\n'
        for asked, told in examples:
            script = begin + asked.removeprefix("$ ").replace(EXAMPLE_ID, identity)
            done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
            if found := re.search(r'"id":"([^"]+)"', done.stdout):
                identity = found[1]
            assert json_or_text(done.stdout) == json_or_text(told.replace(EXAMPLE_ID, identity)), asked


def json_or_text(text: str) -> Any:
    try:
        return json.loads(text, parse_float=lambda number: round(float(number), 9))
    except ValueError:
        return text.strip()
