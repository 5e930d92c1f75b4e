"""What nodes and operators connect to: Flower's SuperLink on loopback, and the gate in front of it.

Neither knows what is decided in the federation: they are started before the library's algorithms are imported, and load
while that goes on.
"""

from __future__ import annotations

from pathlib import Path

from fedbandits.deploy.flower.machine.commands import environment, gate, superlink
from fedbandits.deploy.flower.machine.layout import Layout
from fedbandits.deploy.flower.machine.ports import LOOPBACK, free_ports
from fedbandits.deploy.flower.machine.processes import Programs
from fedbandits.deploy.storage.files import claim


class Switchboard:
    """SuperLink and gate of the federation of so many `agents` in `directory`, certificates made if it is new.

    A `lasting` SuperLink keeps its own state on disk, so that it can be restarted alone; messages then take longer.
    One that `executes` no runs leaves that to an `executor`.
    """

    def __init__(self, directory: Path, agents: int, *, lasting: bool = False, executes: bool = True) -> None:
        self.layout = Layout(directory.resolve())
        self.port, self.control_port, *self.node_ports = free_ports(2 + agents)
        self.processes = Programs("federation", environment(self.layout.flower), self.layout.logs)
        self.executes = executes
        self._lasting = lasting
        self.layout.prepare_transport(self.control)

    @property
    def control(self) -> str:
        """The address of the SuperLink itself, where operators reach its control interface."""
        return f"{LOOPBACK}:{self.control_port}"

    def start(self) -> None:
        """Start what does not run, and do not wait for it."""
        if not self.processes.alive("superlink"):
            state = self.layout.superlink_state if self._lasting else None
            if state is not None:
                claim(state)
            self.processes.start(
                "superlink", superlink(self.control_port, self.layout.tls, state, executes=self.executes)
            )
        if not self.processes.alive("gate"):
            self.processes.start("gate", gate(self.port, self.layout.tls, self.control))
