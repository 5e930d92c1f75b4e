"""A whole federation on one machine: SuperLink with TLS, authenticated nodes, the server, started and stopped as one.

The directory of a federation:

    federation.json, server.db     what the agents were made with, and the server's book
    server.log                     what the server has to say
    superlink.db                   Flower's own state, if it is to last: who is registered
    tls/ keys/                     certificates, and one key pair for each node
    agents/agent-0.db ...          the agents
    logs/ flower/                  what programs print, and Flower's own settings
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fedbandits.deploy.agent import Agent
from fedbandits.deploy.flower.book import BOOK, SETTINGS, Book
from fedbandits.deploy.flower.carrier import Patience
from fedbandits.deploy.flower.certificates import make_certificates, make_key
from fedbandits.deploy.flower.processes import Programs
from fedbandits.deploy.settings import Settings

LOOPBACK = "127.0.0.1"
_CONNECTION = "federation"
_PROGRAMS = Path(sys.executable).parent
_ENVIRONMENT = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
    "OPENBLAS_NUM_THREADS": "1",
    "no_proxy": LOOPBACK,
    "NO_PROXY": LOOPBACK,
}


class Federation:
    """The federation in `directory`, which is prepared if it is new.

    `with Federation(...) as federation:` starts the SuperLink, the nodes and the server, and stops all of them at the
    end, whatever the reason. `interval` is the time between two rings of the server; below zero the server has the
    floor only when `floor` gives it. `poll` is how often nodes look for messages, in seconds. A `lasting` SuperLink
    keeps its own state on disk too, so that it can be restarted alone; messages then take longer.
    """

    def __init__(
        self,
        directory: Path,
        settings: Settings,
        *,
        interval: float = 1.0,
        poll: float = 0.1,
        patience: Patience | None = None,
        lasting: bool = False,
    ) -> None:
        self.directory = directory.resolve()
        self.settings = settings
        self.port, *self._node_ports = free_ports(1 + settings.agents)
        self._interval = interval
        self._poll = poll
        self._lasting = lasting
        self._patience = patience or Patience()
        home = self.directory / "flower"
        path = f"{_PROGRAMS}:{os.environ.get('PATH', '')}"
        environment = _ENVIRONMENT | {"FLWR_HOME": str(home), "PATH": path}
        self.processes = Programs("federation", environment, self.directory / "logs")
        self._prepare()
        self.book = Book(self.directory / BOOK)

    def agent_path(self, identity: int) -> Path:
        """The file of an agent."""
        return self.directory / "agents" / f"agent-{identity}.db"

    def key_path(self, identity: int) -> Path:
        """The private key of an agent's node."""
        return self.directory / "keys" / f"agent-{identity}"

    def open_agent(self, identity: int, **opening: Any) -> Agent:
        """The agent itself, as the product on that node would open it."""
        return Agent.open(self.agent_path(identity), **opening)

    # starting and stopping

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start everything, and return when the server has begun to ring."""
        self.start_superlink()
        everybody = range(self.settings.agents)
        self.register(*(self.key_path(identity).with_suffix(".pub") for identity in everybody))
        for identity in everybody:
            self.start_node(identity)
        self.start_server()

    def stop(self) -> None:
        """Stop everything that was started."""
        self.processes.stop()
        self.book.close()

    def start_superlink(self) -> None:
        """Flower's switchboard, on loopback, with TLS and authentication of nodes."""
        tls = self.directory / "tls"
        self.processes.start(
            "superlink",
            [
                str(_PROGRAMS / "flower-superlink"),
                *("--host", LOOPBACK, "--port", str(self.port)),
                *("--ssl-ca-certfile", str(tls / "ca.crt")),
                *("--ssl-certfile", str(tls / "server.crt")),
                *("--ssl-keyfile", str(tls / "server.key")),
                *(("--database", str(self.directory / "superlink.db")) if self._lasting else ()),
                "--enable-supernode-auth",
                "--disable-runtime-dependency-installation",
            ],
        )
        self._until("superlink", lambda: listens(self.port), 60.0)

    def register(self, *public_keys: Path) -> None:
        """Let the nodes with these keys in."""
        from fedbandits.deploy.flower.control import register

        register(f"{LOOPBACK}:{self.port}", self.directory / "tls" / "ca.crt", public_keys)

    def start_node(
        self,
        identity: int,
        *,
        key: Path | None = None,
        name: str | None = None,
        program: Sequence[str] | None = None,
    ) -> None:
        """The node of an agent. With another `key` it is refused; `program`, what Python runs, may be another node than
        the resident one.
        """
        resident = ("-m", "fedbandits.deploy.flower.node", "--poll", str(self._poll))
        self.processes.start(
            name or f"node-{identity}",
            [
                *(sys.executable, *(program or resident)),
                *("--superlink", f"{LOOPBACK}:{self.port}"),
                *("--root-certificates", str(self.directory / "tls" / "ca.crt")),
                *("--auth-supernode-private-key", str(key or self.key_path(identity))),
                *("--port", str(self._node_ports[identity] if name is None else free_ports(1)[0])),
                *("--node-config", f'agent="{self.agent_path(identity)}" identity={identity}'),
            ],
        )

    def start_server(self) -> None:
        """The run that drives the federation; returns when it rings."""
        began = time.time()
        patience = self._patience
        config = {
            "directory": json.dumps(str(self.directory)),
            "interval": float(self._interval),
            "wait-for-rings": float(patience.ring),
            "wait-for-answers": float(patience.answer),
            "wait-for-everybody": -1.0 if patience.everybody is None else float(patience.everybody),
            "repeat-after": float(patience.repeat),
        }
        told = " ".join(f"{name}={value}" for name, value in config.items())
        self.flwr("run", str(Path(__file__).parent / "project"), _CONNECTION, "--run-config", told)
        self._until("superlink", lambda: self.book.fact("serving_since") >= began, 90.0)

    def kill_server(self) -> None:
        """Kill the server's process, as a failure would; the SuperLink lives on."""
        pid = int(self.book.fact("pid"))
        self.processes.kill_descendant("superlink", pid)

    # looking and driving

    def floor(self, seconds: float = 120.0) -> None:
        """Give the server the floor once, and wait until it is done."""
        granted = self.book.grant()
        self._until("superlink", lambda: self.book.fact("taken") >= granted, seconds)

    def flwr(self, *arguments: str) -> str:
        """Run Flower's own command, connected to this federation."""
        return self.processes.run(f"flwr {arguments[0]}", [str(_PROGRAMS / "flwr"), *arguments])

    def _until(self, name: str, reached: Callable[[], bool], seconds: float) -> None:
        until = time.monotonic() + seconds
        while not reached():
            if not self.processes.alive(name):
                raise RuntimeError(f"{name} has ended:\n{self.processes.last_words(name)}")
            if time.monotonic() > until:
                raise TimeoutError(f"waited {seconds:g} seconds for {name}:\n{self.processes.last_words(name)}")
            time.sleep(0.02)

    def _prepare(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        shared = replace(self.settings, identity=0)
        (self.directory / SETTINGS).write_text(shared.text())
        if not (self.directory / "tls" / "server.crt").exists():
            make_certificates(self.directory / "tls", [LOOPBACK, "localhost"])
        for identity in range(self.settings.agents):
            if not self.key_path(identity).exists():
                make_key(self.key_path(identity))
            self.agent_path(identity).parent.mkdir(exist_ok=True)
            make_agent(self.agent_path(identity), self.settings, identity)
        home = self.directory / "flower"
        home.mkdir(exist_ok=True)
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "{_CONNECTION}"\n\n[superlink.{_CONNECTION}]\n'
            f'address = "{LOOPBACK}:{self.port}"\n'
            f"root-certificates = {json.dumps(str(self.directory / 'tls' / 'ca.crt'))}\n"
        )


def make_agent(path: Path, settings: Settings, identity: int) -> None:
    """An agent with `settings` in a new file; one that is there is left alone, if it was made with the same."""
    given = {item.name: getattr(settings, item.name) for item in fields(settings)} | {"identity": identity}
    Agent.open(path, **given, warm=False).close()


def free_ports(count: int) -> Sequence[int]:
    """Ports of loopback that nobody listens on at the moment."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()


def listens(port: int) -> bool:
    """Whether anybody listens on a port of loopback."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((LOOPBACK, port)) == 0
