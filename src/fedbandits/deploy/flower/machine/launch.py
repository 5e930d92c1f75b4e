"""A whole federation on one machine, started and stopped as one.

    nodes ══ TLS ══▸ gate ══ TLS ══▸ SuperLink ◂── server
                                         ▴
                        launcher, operators (control interface)

Nodes know the gate's address alone; see `gate` for why. The directory is described in `layout`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fedbandits.deploy.embedded.agent import Agent
from fedbandits.deploy.flower.book.book import Book
from fedbandits.deploy.flower.conversation.carrier import Patience
from fedbandits.deploy.flower.machine.commands import (
    EXECUTOR,
    NODE,
    NODE_LOADS,
    executor_options,
    flowers,
    node_options,
)
from fedbandits.deploy.flower.machine.layout import make_agent
from fedbandits.deploy.flower.machine.ports import LOOPBACK, free_ports, listens
from fedbandits.deploy.flower.machine.switchboard import Switchboard
from fedbandits.deploy.settings import Settings

__all__ = ["LOOPBACK", "Federation", "free_ports", "listens", "make_agent"]

NODES = "nodes"
"""The programs that are loaded together."""
_LOOK_SECONDS = 0.2
_LONGEST_START = 900.0
"""Seconds that a program may take to start while it lives: a machine that is busy with something else is no failure."""


def _tell_nobody(_: str) -> None:
    pass


class Federation:
    """The federation in `directory`, which is prepared if it is new.

    `with Federation(...) as federation:` starts the SuperLink, its gate, the nodes and the server, and stops all of
    them at the end, whatever the reason. `interval` is the time between two rings of the server; below zero the server
    has the floor only when `floor` gives it. `poll` is how often nodes look for messages, in seconds. `tell` is called
    with a few words whenever a part has started. The `switchboard` may have been started before; without one it is
    made, `lasting` or not.
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
        tell: Callable[[str], None] = _tell_nobody,
        switchboard: Switchboard | None = None,
    ) -> None:
        self.directory = directory.resolve()
        self.settings = settings
        self._interval = interval
        self._poll = poll
        self._patience = patience or Patience()
        self._tell = tell
        self._switchboard = switchboard or Switchboard(directory, settings.agents, lasting=lasting)
        self._layout = self._switchboard.layout
        self.processes = self._switchboard.processes
        self.port = self._switchboard.port
        self.control, self.control_port = self._switchboard.control, self._switchboard.control_port
        self._layout.prepare_agents(settings)
        self.book = Book(self._layout.book)

    def agent_path(self, identity: int) -> Path:
        """The file of an agent."""
        return self._layout.agent(identity)

    def key_path(self, identity: int) -> Path:
        """The private key of an agent's node."""
        return self._layout.key(identity)

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

    def start(self, beside: Mapping[str, Sequence[str]] | None = None) -> None:
        """Start everything, and return when all nodes are in and the server has begun to ring.

        Programs `beside` (module and arguments, by name) are started with the nodes.
        Everything loads at the same time. Nodes are let loose when their keys are registered: one that is refused
        takes its time to come again.
        """
        everybody = range(self.settings.agents)
        beside = beside or {}
        self._switchboard.start()
        if not self.processes.alive(NODES):
            self.processes.load(NODES, [*NODE_LOADS, *sorted({module for module, *_ in beside.values()})])
        import fedbandits.deploy.flower.machine.control
        import fedbandits.deploy.flower.machine.runs  # noqa: F401  (they take seconds, and are needed when the SuperLink listens)

        self._await_superlink()
        # Flower takes seconds to start a server, in which nodes come in; one that is there at once would ring for few
        began = self._launch_server() if self._switchboard.executes else None
        self.register(*(self.key_path(identity).with_suffix(".pub") for identity in everybody))
        self._tell("the nodes' keys are registered")
        nodes = {
            f"node-{identity}": (
                NODE,
                "--poll",
                str(self._poll),
                *self._node(identity, self._switchboard.node_ports[identity]),
            )
            for identity in everybody
        }
        executor = (EXECUTOR, *executor_options(self.control, self._layout.authority))
        servers = {} if self._switchboard.executes else {"executor": executor}
        self.processes.start_together(NODES, {**servers, **nodes, **beside})
        self._await_gate()
        self._await_nodes()
        self._await_server(self._launch_server() if began is None else began)

    def stop(self) -> None:
        """Stop everything that was started."""
        self.processes.stop()
        self.book.close()

    def start_superlink(self) -> None:
        """Flower's switchboard, on loopback, with TLS and authentication of nodes, and the gate in front of it."""
        self._switchboard.start()
        self._await_superlink()
        self._await_gate()

    def register(self, *public_keys: Path) -> None:
        """Let the nodes with these keys in."""
        from fedbandits.deploy.flower.machine.control import register

        register(self.control, self._layout.authority, public_keys)

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
        port = self._switchboard.node_ports[identity] if name is None else free_ports(1)[0]
        poll = ("--poll", str(self._poll)) if program is None else ()
        options = self._node(identity, port, key)
        self.processes.start(name or f"node-{identity}", [sys.executable, *(program or ("-m", NODE)), *poll, *options])

    def _node(self, identity: int, port: int, key: Path | None = None) -> list[str]:
        address = f"{LOOPBACK}:{self.port}"
        private_key = key or self.key_path(identity)
        return node_options(address, self._layout.authority, private_key, port, self.agent_path(identity), identity)

    def start_server(self) -> None:
        """The run that drives the federation; returns when it rings."""
        self._await_server(self._launch_server())

    def kill_server(self) -> None:
        """Kill the server's process, as a failure would; the SuperLink lives on."""
        pid = int(self.book.fact("pid"))
        self.processes.kill_descendant("superlink", pid)

    def _launch_server(self) -> float:
        """Start the run; when that was."""
        from fedbandits.deploy.flower.machine.runs import Runs, run_config

        began = time.time()
        with Runs(self.control, self._layout.authority.read_bytes()) as runs:
            runs.start(run_config(self.directory, self._interval, self._patience))
        return began

    def _await_server(self, began: float) -> None:
        self._until("superlink", lambda: self.book.fact("serving_since") >= began)
        self._tell("the server rings")

    def _await_superlink(self) -> None:
        self._until("superlink", lambda: listens(self.control_port))
        self._tell("the SuperLink listens")

    def _await_gate(self) -> None:
        self._until("gate", lambda: listens(self.port))
        self._tell("the gate is open")

    def _await_nodes(self) -> None:
        from fedbandits.deploy.flower.machine.control import online

        every_node = [f"node-{identity}" for identity in range(self.settings.agents)]

        def are_in() -> bool:
            for name in every_node:
                self._check_alive(name)
            time.sleep(_LOOK_SECONDS)  # each look costs the SuperLink something
            return online(self.control, self._layout.authority) >= len(every_node)

        self._until("superlink", are_in)
        self._tell("all nodes are connected")

    # looking and driving

    def floor(self, seconds: float = 120.0) -> None:
        """Give the server the floor once, and wait until it is done."""
        granted = self.book.grant()
        self._until("superlink", lambda: self.book.fact("taken") >= granted, seconds)

    def flwr(self, *arguments: str) -> str:
        """Run Flower's own command, connected to this federation."""
        return self.processes.run(f"flwr {arguments[0]}", [flowers("flwr"), *arguments])

    def _until(self, name: str, reached: Callable[[], bool], seconds: float = _LONGEST_START) -> None:
        """Wait as long as a program lives."""
        until = time.monotonic() + seconds
        while not reached():
            self._check_alive(name)
            if time.monotonic() > until:
                raise TimeoutError(f"waited {seconds:g} seconds for {name}:\n{self.processes.last_words(name)}")
            time.sleep(0.02)

    def _check_alive(self, name: str) -> None:
        if not self.processes.alive(name):
            raise RuntimeError(f"{name} has ended:\n{self.processes.last_words(name)}")
