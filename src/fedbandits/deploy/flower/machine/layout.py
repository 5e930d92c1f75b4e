"""The directory of a federation on one machine, all of it for its owner alone.

federation.json, server.db     what the agents were made with, and the server's book
server.log                     what the server has to say
superlink.db                   Flower's own state, if it is to last: who is registered
tls/ keys/                     certificates, and one key pair for each node
agents/agent-0.db ...          the agents
logs/ flower/                  what programs print, and Flower's own settings
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fedbandits.deploy.flower.book.names import BOOK, SETTINGS
from fedbandits.deploy.flower.machine.certificates import make_certificates, make_key
from fedbandits.deploy.flower.machine.ports import LOOPBACK
from fedbandits.deploy.storage.files import private_directory, write_private

if TYPE_CHECKING:
    from fedbandits.deploy.settings import Settings

CONNECTION = "federation"
"""How Flower's own commands are told of it."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything is."""

    directory: Path

    @property
    def book(self) -> Path:
        """The server's."""
        return self.directory / BOOK

    @property
    def superlink_state(self) -> Path:
        """Flower's."""
        return self.directory / "superlink.db"

    @property
    def tls(self) -> Path:
        """Certificates."""
        return self.directory / "tls"

    @property
    def authority(self) -> Path:
        """What everybody trusts."""
        return self.tls / "ca.crt"

    @property
    def logs(self) -> Path:
        """What programs print."""
        return self.directory / "logs"

    @property
    def flower(self) -> Path:
        """Flower's home."""
        return self.directory / "flower"

    def agent(self, identity: int) -> Path:
        """The file of an agent."""
        return self.directory / "agents" / f"agent-{identity}.db"

    def key(self, identity: int) -> Path:
        """The private key of an agent's node."""
        return self.directory / "keys" / f"agent-{identity}"

    def prepare_transport(self, control: str) -> None:
        """Make certificates if there are none; Flower's own commands are pointed at `control`, the SuperLink's
        address.
        """
        for each in (self.directory, self.agent(0).parent, self.key(0).parent, self.logs, self.flower):
            private_directory(each)
        if not (self.tls / "server.crt").exists():
            make_certificates(self.tls, [LOOPBACK])
        write_private(
            self.flower / "config.toml",
            f'[superlink]\ndefault = "{CONNECTION}"\n\n[superlink.{CONNECTION}]\n'
            f"address = {json.dumps(control)}\n"
            f"root-certificates = {json.dumps(str(self.authority))}\n",
        )

    def prepare_agents(self, settings: Settings) -> None:
        """Make the agents and keys that are missing, and write down what the server has to know of them."""
        write_private(self.directory / SETTINGS, replace(settings, identity=0).text())
        for identity in range(settings.agents):
            if not self.key(identity).exists():
                make_key(self.key(identity))
            make_agent(self.agent(identity), settings, identity)


def make_agent(path: Path, settings: Settings, identity: int) -> None:
    """An agent with `settings` in a new file; one that is there is left alone, if it was made with the same."""
    from fedbandits.deploy.embedded.agent import Agent  # with all algorithms, which takes seconds

    given = {item.name: getattr(settings, item.name) for item in fields(settings)} | {"identity": identity}
    Agent.open(path, **given, warm=False).close()
