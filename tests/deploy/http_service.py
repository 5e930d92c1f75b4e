"""A service that really runs: its own process, real sockets, a file of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Self

TOKEN = "a-token-that-is-only-used-in-tests"
DIM = 3
CONFIGURATION = """
[agent]
dim = 3
algorithm = { name = "dislinucb", threshold = 2.0 }
"""
ARMS = {"reminder": [1.0, 0.2, 0.0], "call": [1.0, 0.0, 0.7]}


class Service:
    """`fedbandits agent serve` on a free port; killed at the end unless it was stopped."""

    def __init__(self, directory: Path, configuration: str = CONFIGURATION, *options: str, token: str = TOKEN) -> None:
        self.db = directory / "agent.db"
        (directory / "agent.toml").write_text(configuration)
        command = [sys.executable, "-m", "fedbandits", "agent", "serve", "--db", str(self.db), "--port", "0"]
        self.process = subprocess.Popen(
            [*command, "--config", str(directory / "agent.toml"), *options],
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"FEDBANDITS_AGENT_TOKEN": token},
        )
        assert self.process.stderr is not None
        self.printed: list[str] = []
        found = None
        while found is None:
            line = self.process.stderr.readline()
            self.printed.append(line)
            assert line, "".join(self.printed)
            found = re.search(r"on (http://[^ ]+:([0-9]+))$", line.strip())
        self.url, self.port = found[1], int(found[2])
        self._reader = threading.Thread(target=lambda: self.printed.extend(self.process.stderr or ()), daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stderr is not None
        self.process.stderr.close()

    @property
    def said(self) -> str:
        """What it has printed; complete once it has ended."""
        return "".join(self.printed)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ask it to stop; its exit code."""
        self.process.send_signal(number)
        code = self.process.wait(timeout=30)
        self._reader.join()
        return code

    def client(self) -> Client:
        """A connection of its own."""
        return Client(self.port)


class Client:
    """One kept-alive connection, with nothing between the test and the wire but the standard library."""

    def __init__(self, port: int, token: str | None = TOKEN) -> None:
        self.connection = HTTPConnection("127.0.0.1", port, timeout=30)
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def send(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the answer; what is not bytes (or an iterator of them) is sent as JSON."""
        given = self._headers | (headers or {})
        if body is not None:
            given = {"Content-Type": "application/json"} | given
            body = json.dumps(body) if isinstance(body, dict | list) else body
        self.connection.request(method, path, body=body, headers=given)
        answer = self.connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()

    def post(self, path: str, body: Any, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        """Status and JSON of the answer."""
        status, _, content = self.send("POST", path, body, headers)
        return status, json.loads(content)

    def get(self, path: str, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        """Status and JSON of the answer."""
        status, _, content = self.send("GET", path, headers=headers)
        return status, json.loads(content)

    def decide(self) -> str:
        """The id of a new decision."""
        status, decided = self.post("/decisions", {"arms": ARMS})
        assert status == 200, decided
        return decided["id"]

    def close(self) -> None:
        """Let go of the connection."""
        self.connection.close()
